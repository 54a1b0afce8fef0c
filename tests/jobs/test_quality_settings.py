"""Rules of sources in settings, and ``versioned validate`` as far as no Spark is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from jobs import source_quality
from jobs.cli import app
from jobs.exit_codes import BAD_DATA, FAILED, WRONG_SETTINGS, exit_code
from jobs.expectations import Verdict
from jobs.quality_settings import QualitySettings
from jobs.settings import parse
from jobs.source_quality import checks_of
from jobs.strict import validated
from streams.reasons import INVALID
from streams.spark.contract import InputContract
from streams.spark.source_checks import SourceChecks, look_at
from streams.spark.sources import SparkSource
from streams.spark.stored_kinds import stored_table
from versioned.errors import ConfigurationError, DataQualityError, ExpectationError

_SATISFY = "expect_rows_to_satisfy"
_NOT_NULL = {"expect_column_values_to_not_be_null": {"column": "amount"}}


def _quality(*expectations: dict[str, Any], **said: Any) -> QualitySettings:
    return validated(QualitySettings, {"expectations": list(expectations), **said})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"expectations": []}, "expectations: List should have at least 1 item"),
        ({"expectations": [{}]}, "expectations.0: Dictionary should have at least 1 item"),
        ({"expectations": [_NOT_NULL], "polcy": "warn"}, 'polcy: unknown key; did you mean "policy"?'),
        ({"expectations": [_NOT_NULL], "every": -1}, "every: Input should be greater than or equal to 0"),
        ({"expectations": [_NOT_NULL, _NOT_NULL]}, "['amount_to_not_be_null'] would name two rules"),
        ({"expectations": [{_SATISFY: {"condition": "a > 1", "name": name}} for name in ("Sure", "sure")]},
         "['Sure', 'sure'] would name two rules"),
        ({"expectations": [{"expect_column_values_to_not_be_nul": {"column": "a"}}]},
         'did you mean "expect_column_values_to_not_be_null"?'),
        ({"expectations": [{"unexpected_rows_expectation": {"unexpected_rows_query": "SELECT 1"}}]},
         'there is no such expectation; did you mean "expect_rows_to_satisfy"?'),
        ({"expectations": [{"expectation": {}}]}, "expectation: there is no such expectation"),
        ({"expectations": [{"expect_column_values_to_be_between": {"column": "a", "min_valu": 1}}]},
         "min_valu extra fields not permitted"),
        ({"expectations": [{"expect_rows_to_satisfy": {"condition": "a > 1", "name": ""}}]},
         "[''] are no names of rules"),
        ({"expectations": [{"expect_rows_to_satisfy": {"condition": "a > 1", "name": "a: b"}}]},
         "['a: b'] are no names of rules"),
        ({"expectations": [{"expect_rows_to_satisfy": {"name": "x"}}]}, "give a condition in Spark SQL"),
        ({"expectations": [{_SATISFY: {"condition": None}}]}, "give a condition in Spark SQL"),
        ({"expectations": [{_SATISFY: {"condition": " "}}]},
         "expectations.rows_to_satisfy.condition: a condition is missing here"),
        ({"expectations": [{_SATISFY: {"condition": ["a > 1"]}}]},
         "expectations.rows_to_satisfy.condition: text should be here, and this is a list"),
        ({"expectations": [{"expect_column_values_to_match_regex": {"column": "a"}}]}, "give a regex, such as"),
        ({"expectations": [_NOT_NULL], "policy": "reject", "every": 2}, "every: 2 with policy reject would take"),
        ({"expectations": [{"expect_table_row_count_to_be_between": {"min_value": 1}}], "policy": "reject"},
         "says nothing about single rows"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_to_write(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        validated(QualitySettings, said)
    assert told in str(refused.value)


#: What an argument may not be, and what is told of it.
_OTHER_KINDS: list[tuple[str, dict[str, Any], str]] = [
    ("expect_column_values_to_not_be_null", {"row_condition": True},
     "row_condition: text should be here, and this is true or false; write it in quotes"),
    ("expect_column_values_to_not_be_null", {"row_condition": ["a > 1"]},
     "row_condition: text should be here, and this is a list"),
    ("expect_column_values_to_be_between", {"min_value": 1, "strict_min": "no"},
     "strict_min: true or false should be here, and this is text"),
    ("expect_column_values_to_be_between", {"max_value": 1, "strict_max": 1},
     "strict_max: true or false should be here, and this is a number"),
    ("expect_column_values_to_match_regex", {"regex": 5},
     "regex: text should be here, and this is a number; write it in quotes"),
    ("expect_column_values_to_be_in_set", {"value_set": {"a": 1}},
     "value_set: a list should be here, and this is a mapping"),
    ("expect_column_values_to_be_in_set", {"value_set": ["a", ["b"]]},
     "value_set: its values are texts, numbers and the like, and one is a list."),
    ("expect_column_values_to_not_be_in_set", {"value_set": [False, "SE", "DK"]},
     "value_set: true or false stands beside other values: YAML reads off, no, false as that. Write it in quotes, such "
     'as "off".'),
    ("expect_column_values_to_not_be_null", {"meta": "x"}, "meta: a mapping should be here, and this is text"),
]  # fmt: skip


@pytest.mark.parametrize("policy", ["warn", "reject"])
@pytest.mark.parametrize(("expectation", "said", "told"), _OTHER_KINDS)
def test_an_argument_of_another_kind_is_refused_with_its_path_whatever_the_policy(
    expectation: str, said: dict[str, Any], told: str, policy: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _quality({expectation: {"column": "a", "name": "r", **said}}, policy=policy)
    assert str(refused.value) == f"expectations.r.{told}"


@pytest.mark.parametrize("name", ["row_condition", "description", "name", "meta"])
def test_an_argument_without_a_value_is_none(name: str) -> None:
    (rule,) = _quality({"expect_column_values_to_not_be_null": {"column": "amount", name: None}}).rules
    assert rule == _quality(_NOT_NULL).rules[0]


@pytest.mark.parametrize(
    ("expectation", "said", "name"),
    [
        ("expect_column_values_to_be_between", {"column": "a", "min_value": 1}, "strict_min"),
        ("expect_column_values_to_be_between", {"column": "a", "min_value": 1}, "strict_max"),
        ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "a", "column_B": "b"}, "or_equal"),
    ],
)
def test_a_flag_in_quotes_is_what_it_says(expectation: str, said: dict[str, Any], name: str) -> None:
    for text, meant in (("false", False), ("True", True)):
        (rule,) = _quality({expectation: {**said, name: text}}, policy="reject").rules
        assert rule.arguments[name] is meant


def test_a_fault_is_told_with_the_path_of_its_source() -> None:
    said = {"application": "a", "plan": "jobs.quickstart_plan:build", "root": "r"}
    source = {"format": "rate", "quality": {"expectations": [{"expect_nothing": {}}]}}
    with pytest.raises(ConfigurationError, match=r"^sources\.s\.quality: expect_nothing: there is no such"):
        parse({**said, "sources": {"s": source}})


def test_rules_have_the_names_they_are_given_or_speaking_ones() -> None:
    between = {"expect_column_values_to_be_between": {"column": "amount", "min_value": 0, "name": "positive"}}
    count = {"expect_table_row_count_to_be_between": {"min_value": 1}}
    assert [rule.name for rule in _quality(_NOT_NULL, between, count).rules] == [
        "amount_to_not_be_null", "positive", "table_row_count_to_be_between",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "rejects", "looks_at"),
    [
        ({"policy": "reject"}, True, []),
        ({"policy": "warn"}, False, [0, 1, 2, 3, 4]),
        ({"policy": "fail", "every": 3}, False, [0, 3]),
        ({"policy": "warn", "every": 0}, False, None),
    ],
)
def test_the_policy_decides_who_sees_a_batch(said: dict[str, Any], rejects: bool, looks_at: list[int] | None) -> None:
    checks = checks_of(_quality(_NOT_NULL, **said))
    if looks_at is None:
        assert checks is None
        return
    assert checks is not None
    assert (checks.reason is not None) == rejects
    assert [batch for batch in range(5) if checks.is_due(batch)] == looks_at


def test_only_topics_that_came_are_looked_at() -> None:
    seen: list[tuple[str, Any, int]] = []
    checks = SourceChecks(look=lambda topic, rows, batch: seen.append((topic, rows, batch)), every=2)
    sources = {name: SparkSource("rate", checks=checks) for name in ("a", "b")} | {"c": SparkSource("rate")}
    for batch in (1, 2):
        look_at(sources, str.upper, {"a", "c"}, batch)  # type: ignore[arg-type]
    assert seen == [("a", "A", 2)]


def test_a_rejected_row_is_an_invalid_record_whatever_its_rule() -> None:
    assert "QUALITY" in INVALID
    contract = InputContract(on_invalid={"QUALITY": "drop"})
    assert (contract.action("QUALITY:positive"), contract.action("NULL_TS")) == ("drop", "reject")


def test_broken_data_and_a_rule_that_cannot_be_judged_end_with_different_codes() -> None:
    assert (exit_code(DataQualityError("x")), exit_code(ExpectationError("x"))) == (BAD_DATA, FAILED)


def _validated(work: Path, said: dict[str, Any], *more: str) -> Any:
    (work / "validate.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    return CliRunner().invoke(app, ["validate", "-c", str(work / "validate.yaml"), "-w", str(work), *more])


def test_a_dry_run_names_tables_and_sources(tmp_path: Path) -> None:
    for table in ("prices", "ledger"):
        (tmp_path / "tables" / table / "_delta_log").mkdir(parents=True)
    source = {"format": "json", "path": "in", "schema": "ts TIMESTAMP, k STRING"}
    job = {
        "application": "a",
        "root": "tables",
        "plan": {"s": {"op": "stream", "key": "k"}},
        "sources": {"s": {**source, "quality": {"expectations": [_NOT_NULL]}}, "t": source},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job), encoding="utf-8")
    ended = _validated(tmp_path, {"root": "tables", "docs": "pages", "job": "job.yaml"}, "--dry-run", "--json")
    told = [json.loads(line)["table"] for line in ended.stdout.splitlines()]
    assert (ended.exit_code, told) == (0, ["ledger", "prices", "sources.s"])


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Verdict("r", "", holds=False, broken=2), DataQualityError),
        (Verdict("r", "", holds=False, error="no column"), ExpectationError),
    ],
    ids=["data that breaks a rule", "a rule that cannot be judged"],
)
def test_a_source_that_fails_says_how_to_go_on(
    verdict: Verdict, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_quality, "judge_batch", lambda *_: [verdict])
    checks = checks_of(_quality(_NOT_NULL, policy="fail"))
    assert checks is not None
    assert checks.look is not None
    with pytest.raises(error, match=r"start again, or let the batch in .*--set sources\.orders\.quality\.policy=warn"):
        checks.look("orders", None, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"root": "tables"}, "docs: is missing"),
        ({"root": "tables", "docs": "d", "job": "gone.yaml"}, "gone.yaml: there is no such file"),
        ({"root": "tables", "docs": "d"}, "there are no tables below"),
        ({"root": "tables", "docs": "validate.yaml"}, "validate.yaml is no folder. Name another one."),
        ({"root": "tables", "docs": "validate.yaml/pages"}, "validate.yaml is no folder. Name another one."),
        ({"root": "tables", "docs": "d", "exampels": 1}, 'did you mean "examples"?'),
    ],
)
def test_wrong_settings_end_with_code_2_and_the_reason(tmp_path: Path, said: dict[str, Any], told: str) -> None:
    ended = _validated(tmp_path, said)
    assert ended.exit_code == WRONG_SETTINGS
    assert told in ended.stderr


@pytest.mark.parametrize(
    ("columns", "kind", "keys"),
    [
        ("a b value ts bufferTime deadline arrivedAt size _firstTime _old _scope", "buffer", ("a", "b")),
        ("a value ts deadline _scope _seq _batch_id", "waiting", ("a",)),
        ("a side left right ts matched padded _arrival _scope", "join", ("a",)),
        ("a value ts found revision _scope _seq", "answers", ("a",)),
        ("a v ts _batch_id _scope _seq", "sink", ()),
        ("a value deadline ts op deleted _batch_id _scope _seq", "sink", ()),
        ("a value found revision ts _batch_id _scope _seq", "sink", ()),
        ("application epoch batch_id clock state ts _batch_id _scope _seq", "sink", ()),
        ("a ts v", "table", ("a",)),
        ("a b c", "other", ()),
    ],
)
def test_the_kind_of_a_table_is_told_by_its_columns(columns: str, kind: str, keys: tuple[str, ...]) -> None:
    told = stored_table("t", columns.split(), {})
    assert (told.kind, told.keys) == (kind, keys)
