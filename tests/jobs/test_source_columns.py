"""Columns that sources declare, against the plan: refused by the check of the settings as a start refuses them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from jobs.cli import app
from jobs.job_plan import plan_of
from jobs.run import application, source_of
from jobs.settings import parse
from jobs.source_columns import check_sources
from jobs.strict import PlacedError
from streams.spark.input_checks import checked_rules
from streams.spark.source_checks import check_reasons
from streams.spark.sources import unite
from versioned.errors import ConfigurationError, SchemaError, TopologyError

_GOOD = "id STRING, v BIGINT, ts TIMESTAMP, seq BIGINT"
_KAFKA = {"servers": "host:9092", "topic": "orders", "key": "id STRING", "value": "v BIGINT, ts TIMESTAMP"}


def _said(schema: str | None = _GOOD, step: dict[str, Any] | None = None, **source: Any) -> dict[str, Any]:
    """Settings of a job that reads one source."""
    told = {"format": "json", "path": "in", "schema": schema, "sequence_by": "seq", **source}
    read = {"op": "table", "key": "id", "timestamp": "ts", **(step or {})}
    return {
        "application": "shop",
        "root": "tables",
        "sources": {"orders": {name: value for name, value in told.items() if value is not None}},
        "plan": {"orders": read, "all": {"op": "to_changelog", "from": "orders"}},
    }


def _of_kafka(step: dict[str, Any] | None = None, **said: Any) -> dict[str, Any]:
    settings = _said(step=step)
    return settings | {"sources": {"orders": {"kafka": {**_KAFKA, **said}}}}


def _judged(rule: dict[str, Any], policy: str = "reject") -> dict[str, Any]:
    return _said(quality={"policy": policy, "expectations": [rule]})


def _check(said: dict[str, Any], work: Path) -> None:
    (work / "in").mkdir(exist_ok=True)
    settings = parse(said)
    check_sources(settings, plan_of(settings), work)


def _with(kind: str, name: str) -> str:
    return re.sub(rf"\b{name} \w+", f"{name} {kind}", _GOOD)


#: What a start refuses, and the beginning of what it tells.
_WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a key that is not there": (_said(step={"key": "ids"}), "Topic \"orders\" lacks the columns ['ids']"),
    "a time that is not there": (_said(step={"timestamp": "at"}), "Topic \"orders\" lacks the columns ['at']"),
    "a value that is not there": (_said(step={"value": ["w"]}), "Topic \"orders\" lacks the columns ['w']"),
    "a mark that is not there": (_said(step={"deleted": "gone"}), "Topic \"orders\" lacks the columns ['gone']"),
    "a sequence that is not there": (_said(sequence_by="n"), "Topic \"orders\" lacks the columns ['n']"),
    "a further column of the sequence that is not there": (
        _said(sequence_by=["seq", "n"]),
        "Topic \"orders\" lacks the columns ['n']",
    ),
    "a partition that is not there": (_said(partition_by="p"), "Topic \"orders\" lacks the columns ['p']"),
    "a column of CSV that is not there": (
        _said(step={"key": "ids"}, format="csv"),
        "Topic \"orders\" lacks the columns ['ids']",
    ),
    "a column of Parquet that is not there": (
        _said(step={"key": "ids"}, format="parquet"),
        "Topic \"orders\" lacks the columns ['ids'] of node \"orders\"; it has ['id', 'v', 'ts', 'seq'].",
    ),
    "a declared column that is not there": (
        _said(contract={"types": f"{_GOOD}, w BIGINT"}),
        "Topic \"orders\" lacks the declared columns ['w']",
    ),
    "a column of a rule that is not there": (
        _judged({"expect_column_values_to_not_be_null": {"column": "w"}}),
        "Topic \"orders\" lacks the columns ['w'] of its rules",
    ),
    "a column of a rule about a pair that is not there": (
        _judged({"expect_column_pair_values_to_be_equal": {"column_A": "v", "column_B": "w"}}),
        "Topic \"orders\" lacks the columns ['w'] of its rules",
    ),
    "bounds of a text": (
        _judged({"expect_column_values_to_be_between": {"column": "ID", "min_value": 1}}),
        'expect_column_values_to_be_between: column "ID" is string, and bounds are for numbers and times.',
    ),
    "a set of numbers for a text": (
        _judged({"expect_column_values_to_be_in_set": {"column": "ID", "value_set": [1, 2]}}),
        'expect_column_values_to_be_in_set: column "ID" is string, and its value_set has [1, 2]. Give',
    ),
    "a column that is not declared": (
        _said(contract={"types": "id STRING, ts TIMESTAMP", "extra_columns": "fail"}),
        "Topic \"orders\" has the columns ['v']",
    ),
    "a type that cannot be cast": (
        _said(_with("TIMESTAMP", "v"), contract={"types": _GOOD}),
        'Topic "orders": column "v" is timestamp',
    ),
    "a text of a bounded length": (
        _said(contract={"types": _GOOD.replace("STRING", "VARCHAR(3)")}),
        'types: Column "id" is varchar(3)',
    ),
    "a key without exact equality": (_said(_with("DOUBLE", "id")), 'Key column "id" of topic "orders" is double'),
    "a key without order": (
        _said(_GOOD.replace("STRING", "MAP<STRING, BIGINT>")),
        'Key column "id" of topic "orders" is map<string,bigint>',
    ),
    "a number as time": (_said(_with("BIGINT", "ts")), 'The event time "ts" of topic "orders" is bigint: say in its'),
    "a flag as time": (_said(_with("BOOLEAN", "ts")), 'The event time "ts" of topic "orders" is boolean.'),
    "a text as sequence": (_said(_with("STRING", "seq")), 'sequence_by "seq" is string'),
    "a text as partition": (_said(partition_by="id"), 'partition_by "id" of topic "orders" is string'),
    "a number as mark": (_said(step={"deleted": "v"}), 'Column "v" of topic "orders" tells what is deleted'),
    "two columns but for case": (_said(f"{_GOOD}, V STRING"), 'Topic "orders" has columns that differ only by case'),
    "a name of no table": (_said(f"{_GOOD}, `a b` STRING"), 'Topic "orders": Column name "a b" is not allowed'),
}


_SUM = {"op": "sum", "from": "orders", "group_by": ["v"], "value": "value.w"}
#: Steps between source and sink that name a field which no row has, and what a start tells.
_UNREAD: dict[str, tuple[dict[str, Any], str]] = {
    "filter": ({"op": "filter", "from": "orders", "where": "value.w > 1"}, 'step: value has no field "w"'),
    "sum": (_SUM, 'step: value has no field "w"'),
    "its key": ({"op": "filter", "from": "orders", "where": "value.id == 'a'"}, "which is in the key"),
    "its time": ({"op": "filter", "from": "orders", "where": "value.ts > value.v"}, 'step: value has no field "ts"'),
}
#: A join whose sides share the columns of which the plan says nothing.
_WITH_ITSELF = {"op": "join", "from": "orders", "with": "orders", "within": {"difference": "1 minute"}}


def _stepped(step: dict[str, Any], **source: Any) -> dict[str, Any]:
    said = _said(**{"schema": _GOOD, **source})
    read = {"op": "stream", "key": "id", "timestamp": "ts"}
    return said | {"plan": {"orders": read, "step": step, "all": {"op": "to_changelog", "from": "step"}}}


@pytest.mark.parametrize("name", _UNREAD)
def test_a_field_that_the_declared_columns_do_not_have_is_refused_without_spark(name: str, tmp_path: Path) -> None:
    step, told = _UNREAD[name]
    with pytest.raises(TopologyError, match=told):
        _check(_stepped(step), tmp_path)


def test_sides_that_share_a_declared_column_are_refused_with_their_step_in_the_words_of_settings(
    tmp_path: Path,
) -> None:
    told = (
        r"^step: orders and orders both have \['v'\].* in YAML the value: of the join, such as "
        r"\{v: left\.v, right_v: right\.v\}"
    )
    with pytest.raises(TopologyError, match=told):
        _check(_stepped(_WITH_ITSELF), tmp_path)


@pytest.mark.parametrize(
    "said",
    [
        _stepped({**_WITH_ITSELF, "value": {"v": "left.v", "right_v": "right.v"}}),
        _stepped({"op": "filter", "from": "orders", "where": "value.V > 1"}),
        _stepped(_SUM, transform="jobs.run:run"),
        _stepped(_SUM, schema=f"{_GOOD}, length INTERVAL DAY TO SECOND"),
        _stepped(_SUM, schema=f"{_GOOD}, w BIGINT"),
    ],
)
def test_a_field_that_a_row_may_have_is_taken(said: dict[str, Any], tmp_path: Path) -> None:
    _check(said, tmp_path)


def test_a_field_that_a_struct_does_not_have_is_refused(tmp_path: Path) -> None:
    step = {"op": "filter", "from": "orders", "where": "value.st.c > 1"}
    with pytest.raises(TopologyError, match=r'step: value.st has no field "c".* It has: a'):
        _check(_stepped(step, schema=f"{_GOOD}, st STRUCT<a: INT>"), tmp_path)


@pytest.mark.parametrize(
    ("columns", "step", "told"),
    [
        (f"{_GOOD}, tags MAP<STRING, INT>", {"op": "select_key", "key": "tags"}, "step: A key .* would be map<"),
        (
            f"{_GOOD}, f DOUBLE",
            {"op": "count", "from": "orders", "group_by": ["f"],
             "store": {"kind": "versioned", "history_retention": "1 day"}},
            'step: "f" of its key is double',
        ),
    ],
    ids=["a map", "a float with versions"],
)  # fmt: skip
def test_a_key_of_a_step_that_can_be_none_is_refused(
    columns: str, step: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(TopologyError, match=f"^{told}"):
        _check(_stepped({"from": "orders", **step}, schema=columns), tmp_path)


def test_a_field_that_folders_tell_is_taken(tmp_path: Path) -> None:
    (tmp_path / "in" / "w=3").mkdir(parents=True)
    _check(_stepped(_SUM), tmp_path)


def test_folders_of_one_source_hide_no_field_that_another_lacks(tmp_path: Path) -> None:
    (tmp_path / "others" / "w=3").mkdir(parents=True)
    said = _stepped(_SUM)
    other = {**said["sources"]["orders"], "path": "others"}
    said = said | {
        "sources": {**said["sources"], "others": other},
        "plan": {**said["plan"], "others": {"op": "table", "key": "id", "timestamp": "ts"}},
    }
    with pytest.raises(TopologyError, match='step: value has no field "w"'):
        _check(said, tmp_path)


@pytest.mark.parametrize("place", ["elsewhere", "s3a://lake/orders", "file:///lake/orders"])
@pytest.mark.parametrize("said", [_said(step={"value": ["v", "day"]}), _stepped(_SUM)], ids=["column", "field"])
def test_where_nobody_can_look_folders_may_tell_a_column(said: dict[str, Any], place: str, tmp_path: Path) -> None:
    orders = {**said["sources"]["orders"], "path": place}
    _check(said | {"sources": {"orders": orders}}, tmp_path)


@pytest.mark.parametrize("name", _WRONG)
def test_columns_with_which_no_start_is_made_are_refused_without_spark(name: str, tmp_path: Path) -> None:
    said, told = _WRONG[name]
    with pytest.raises(ConfigurationError, match=f"^sources.orders: {re.escape(told)}"):
        _check(said, tmp_path)


def test_the_check_of_settings_tells_the_words_of_the_start(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    unlike = {}
    wrong = {name: said for name, (said, _) in _WRONG.items()}
    steps = {name: step for name, (step, _) in _UNREAD.items()} | {"a join with itself": _WITH_ITSELF}
    for name, said in (wrong | {name: _stepped(step) for name, step in steps.items()}).items():
        with pytest.raises((PlacedError, TopologyError)) as checked:
            _check(said, tmp_path)
        with pytest.raises((SchemaError, ConfigurationError, TopologyError)) as started:
            _start(spark, said, tmp_path)
        told = checked.value.said if isinstance(checked.value, PlacedError) else str(checked.value)
        if told != str(started.value):
            unlike[name] = (told, str(started.value))
    assert unlike == {}


def _start(spark: SparkSession, said: dict[str, Any], work: Path) -> None:
    """As much of a start as looks at columns."""
    settings = parse(said)
    sources = {topic: source_of(topic, source, work) for topic, source in settings.sources.items()}
    united = unite(spark, sources)
    checked_rules(plan_of(settings), sources, settings.order, 0, united.schema)
    check_reasons(united, sources)


_UNANSWERED = 'Topic "orders": its rules of quality cannot be judged'


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"expect_rows_to_satisfy": {"condition": "w > 1"}}, _UNANSWERED),
        ({"expect_rows_to_satisfy": {"condition": "v.w > 1"}}, _UNANSWERED),
        ({"expect_rows_to_satisfy": {"condition": "v + id > ts"}}, _UNANSWERED),
        (
            {"expect_column_values_to_match_regex": {"column": "id", "regex": "^([A-Z]", "name": "sound"}},
            'Topic "orders": rule "sound": "^([A-Z]" is no regular expression of Java',
        ),
    ],
)
def test_a_rule_that_cannot_be_answered_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path, rule: dict[str, Any], told: str
) -> None:
    (tmp_path / "in").mkdir()
    settings = parse(_judged(rule))
    app = application(spark, settings, plan_of(settings), tmp_path)
    with pytest.raises(ConfigurationError, match=f"^{re.escape(told)}"):
        app.run()


@pytest.mark.parametrize(
    "said",
    [
        _said(),
        _said(step={"key": "ID", "timestamp": "TS"}, sequence_by="SEQ"),
        _said(_with("STRING", "ts")),
        _said(_with("BIGINT", "ts"), contract={"ts_unit": "ms"}),
        _said(step={"key": "ids"}, transform="jobs.run:run"),
        _judged({"expect_column_values_to_not_be_null": {"column": "V"}}),
        # A batch tells that it cannot be judged.
        _judged({"expect_column_values_to_not_be_null": {"column": "w"}}, policy="warn"),
        _said(f"{_GOOD}, length INTERVAL DAY TO SECOND", step={"key": "ids"}),
        _said(_GOOD.replace("STRING", "VARCHAR(3)"), step={"key": "ids"}),
        _said(contract={"types": f"{_GOOD}, length INTERVAL DAY TO SECOND"}, step={"key": "ids"}),
        _said(None, step={"key": "ids"}, format="delta"),
        _said(None, step={"key": "ids"}, format="rate", path=None),
        _said(None, step={"key": "ids"}, format=None, path=None, table="main.sales.orders"),
        _of_kafka(),
        _of_kafka(step={"timestamp": "at"}, ts="at"),
        _of_kafka(step={"deleted": "gone"}, deleted="gone"),
        _of_kafka(step={"key": "ids"}, value="length INTERVAL DAY TO SECOND"),
    ],
)
def test_what_a_start_may_take_is_taken(said: dict[str, Any], tmp_path: Path) -> None:
    _check(said, tmp_path)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (_of_kafka(step={"key": "ids"}), "Topic \"orders\" lacks the columns ['ids']"),
        (_of_kafka(step={"deleted": "gone"}), "Topic \"orders\" lacks the columns ['gone']"),
        (_of_kafka(key="id DOUBLE"), 'Key column "id" of topic "orders" is double'),
        (_of_kafka(value="v BIGINT, ts STRING"), '"ts" is string; write TIMESTAMP, or BIGINT with a ts_unit.'),
        (_of_kafka(ts_unit="ms"), 'ts_unit is for whole numbers; "ts" is timestamp.'),
        (_of_kafka(value="v BIGINT, offset BIGINT"), "Fields may not be called ['offset']"),
        (_of_kafka(key_format="text", key="id STRING, lot INT"), "A key of plain text is one field"),
    ],
)
def test_fields_of_a_kafka_topic_are_compared_with_the_plan_too(
    said: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=f"^sources.orders: {re.escape(told)}"):
        _check(said, tmp_path)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"schema": "id STRNG"}, 'schema: there is no type "STRNG"; did you mean "string"?'),
        ({"contract": {"types": "id STRNG"}}, 'contract.types: there is no type "STRNG"; did you mean "string"?'),
        ({"transform": "jobs.run:run", "schema": "id STRNG"}, 'schema: there is no type "STRNG"'),
    ],
)
def test_a_type_that_there_is_not_is_refused_with_its_path(source: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"^sources\.orders\.{re.escape(told)}"):
        _check(_said(**{"schema": _GOOD, **source}), tmp_path)


def test_a_type_of_a_kafka_topic_that_there_is_not_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r'^sources\.orders\.kafka\.value: there is no type "doubel"'):
        _check(_of_kafka(value="v doubel, ts TIMESTAMP"), tmp_path)


@pytest.mark.parametrize(
    "place",
    [
        {"path": "in"},
        {"path": "i*"},
        {"path": None, "options": {"Path": "in"}},
        {"path": "in/region=eu/day=2026-01-31", "options": {"basePath": "in"}},
    ],
)
def test_a_column_that_folders_tell_is_not_missed(place: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "in" / "region=eu" / "day=2026-01-31").mkdir(parents=True)
    _check(_said(step={"value": ["v", "Day"]}, **place), tmp_path)


@pytest.mark.parametrize("folder", ["in", "in/day", "in/days=3", "elsewhere/day=2026-01-31"])
def test_a_column_that_neither_schema_nor_folders_tell_is_refused(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"lacks the columns \['day'\].*also what its folders tell"):
        _check(_said(step={"value": ["v", "day"]}), tmp_path)


@pytest.mark.parametrize("command", [["conf", "check"], ["run", "--dry-run", "-c"]])
def test_the_check_and_a_dry_run_refuse_a_column_that_the_schema_does_not_have(
    command: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(_of_kafka(step={"key": "ids"})), encoding="utf-8")
    ended = CliRunner().invoke(app, [*command, str(file)])
    assert (ended.exit_code, "sources.orders: Topic \"orders\" lacks the columns ['ids']" in ended.stderr) == (2, True)


def test_folders_are_not_walked_through_where_no_column_can_be_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.source_columns.os.walk", Mock(side_effect=AssertionError))
    _check(_said(step={"value": ["v"]}), tmp_path)
