"""Settings of a job: what is wrong is refused with its path and what is allowed."""

from __future__ import annotations

import copy
import os
import pickle
import re
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from jobs.layers import Layers
from jobs.settings import MetricsSettings, load, parse, read
from jobs.shown import annotated
from jobs.strict import PlacedError
from jobs.yaml_file import read_yaml
from versioned.errors import ConfigurationError

_CONFIG = Path(__file__).parents[2] / "conf" / "quickstart.yaml"
_GOOD: dict[str, Any] = {
    "application": "quickstart",
    "plan": "jobs.quickstart_plan:build",
    "plan_settings": {"grace": "6 hours"},
    "root": "tables",
    "sources": {"flights": {"format": "parquet", "path": "in/flights", "schema": "tailnum STRING"}},
}


def _changed(path: str, value: Any) -> dict[str, Any]:
    said = copy.deepcopy(_GOOD)
    at: Any = said
    *above, last = path.split("/")
    for name in above:
        at = at[name]
    at[last] = value
    return said


def test_the_quickstarts_own_settings_are_right() -> None:
    assert set(load(_CONFIG).sources) == {"flights", "weather", "planes"}


@pytest.mark.parametrize(
    ("written", "expected"),
    [("6 hours", timedelta(hours=6)), ("1 day 2 hours", timedelta(hours=26)), ("90s", timedelta(seconds=90))],
)
def test_durations_are_written_as_people_write_them(written: str, expected: timedelta) -> None:
    assert parse(_changed("plan_settings/grace", written)).plan_settings["grace"] == expected


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("tigger", "available_now", ("tigger", '"trigger"', "Allowed here")),
        ("sources/flights/sequence", "seq", ("sources.flights.sequence", '"sequence_by"', "partition_by")),
        ("application", "no spaces please", ("application: should be a name that begins with a letter",)),
        ("plan", "os:system", ("plan",)),
        ("plan_settings/grace", ["6 hours"], ("plan_settings.grace", "this is a list")),
        ("plan_settings/grace", None, ("plan_settings.grace", "this is nothing")),
        ("trigger", "now and then", ("trigger", "now and then")),
        ("trigger", "0 seconds", ("trigger", "available_now")),
        ("trigger", "999 us", ("trigger", "at least 1 millisecond")),
        *(("trigger", wrong, (f'"{wrong}"', 'write "available_now"')) for wrong in ("availableNow", "once", "10")),
        ("order", "random", ("order", "arrival", "sequence")),
        ("sources", {}, ("sources",)),
        (
            "sources/flights/options",
            {"maxFilesPerTrigger": 1},
            ("sources.flights.options.maxFilesPerTrigger: text should be here", "write it in quotes"),
        ),
        ("max_future_skew", "a day or so", ("max_future_skew", "a day or so")),
        ("max_future_skew", "-1 day", ("max_future_skew", "0 seconds or more")),
        ("sources/flights/max_future_skew", "-1 day", ("sources.flights.max_future_skew", "0 seconds or more")),
        ("order", "sequence", ("order", "sequence_by on each source", "flights")),
        ("metrics", {"levle": "debug"}, ("metrics.levle", '"level"', "prometheus")),
        ("metrics", {"level": "DEBUG"}, ("metrics.level", "info", "debug")),
        ("metrics", {"prometheus": "metrics.txt"}, ("metrics.prometheus: should be a file whose name ends in .prom",)),
        ("metrics", "debug", ("metrics",)),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_its_path(path: str, value: Any, told: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(_changed(path, value))
    assert [part for part in told if part not in str(refused.value)] == []


def test_a_trigger_may_be_as_short_as_a_millisecond() -> None:
    assert parse(_changed("trigger", "1 millisecond")).trigger == "1 millisecond"


def test_a_root_may_be_a_schema_of_a_catalog_if_the_checkpoint_has_a_folder() -> None:
    assert parse(_GOOD | {"root": "catalog:main.shop", "checkpoint": "ck"}).root == "catalog:main.shop"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"root": "catalog:main.shop"}, "checkpoint is missing: a schema of a catalog, as root is one, has no folder"),
        ({"root": "catalog:main/shop", "checkpoint": "ck"}, "root: behind .catalog:. stands the name of a schema"),
        ({"root": "catalog:", "checkpoint": "ck"}, 'root: "" is not a table name'),
        ({"root": "catalog:main..shop", "checkpoint": "ck"}, 'root: "main..shop" is not a table name'),
    ],
)
def test_a_root_that_is_no_schema_or_leaves_no_place_for_the_checkpoint_is_refused(
    said: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{told}"):
        parse(_GOOD | said)


def test_metrics_are_those_of_level_info_in_the_ledger_alone_unless_asked_for() -> None:
    assert parse(_GOOD).metrics == MetricsSettings(level="info", prometheus=None)
    asked = parse(_GOOD | {"metrics": {"level": "debug", "prometheus": "told/metrics.prom"}}).metrics
    assert (asked.level, asked.prometheus) == ("debug", "told/metrics.prom")


@pytest.mark.parametrize("missing", ["application", "plan", "root", "sources"])
def test_a_missing_key_is_named(missing: str) -> None:
    with pytest.raises(ConfigurationError, match=missing):
        parse({name: value for name, value in _GOOD.items() if name != missing})


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)order.*tigger"):
        parse(_GOOD | {"tigger": "x", "order": "random"})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("- a\n- b\n", "list"),
        ("a: [1\n", "YAML"),
        ("", "mapping"),
        ("just text", "this is text"),
        (b"\xff\xfe\x00", "YAML"),
        ("order: arrival\norder: sequence\n", 'the key "order" comes twice'),
        ("plan_settings: {at: 12:30}\n", "to the base 60 or 8; write it in quotes, or without, line 1, column 21"),
        ("plan_settings: {store: 010}\n", "to the base 60 or 8"),
        ("plan_settings: {rate: -1:30.5}\n", "to the base 60 or 8"),
        ("sources: {s: {format: rate}, s: {format: rate}}\n", 'the key "s" comes twice'),
    ],
)
def test_a_file_that_holds_no_settings_is_refused(tmp_path: Path, content: str | bytes, told: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match=told):
        load(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.yaml"):
        load(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("variable", "value", "path"),
    [
        ("VERSIONED_JOB__PLAN_SETTINGS__GRACE", "2 hours", "plan_settings/grace"),
        (
            "VERSIONED_JOB__SOURCES__FLIGHTS__OPTIONS__MAXFILESPERTRIGGER",
            "4",
            "sources/flights/options/maxFilesPerTrigger",
        ),
        ("VERSIONED_JOB__SOURCES__FLIGHTS__SEQUENCE_BY", "seq", "sources/flights/sequence_by"),
        ("VERSIONED_JOB__TRIGGER", "10 seconds", "trigger"),
        ("VERSIONED_JOB__Trigger", "10 seconds", "trigger"),
        ("VERSIONED_JOB__Metrics__Level", "debug", "metrics/level"),
        ("VERSIONED_JOB__PLAN_SETTINGS__historyRetention", "2 days", "plan_settings/historyRetention"),
        (
            "VERSIONED_JOB__SOURCES__FLIGHTS__OPTIONS__KAFKA_SASL_JAAS_CONFIG",
            "x password='tiger'",
            "sources/flights/options/kafka.sasl.jaas.config",
        ),
    ],
)
def test_a_variable_of_the_environment_wins_over_the_file(variable: str, value: str, path: str) -> None:
    said = _changed("sources/flights/options", {"maxFilesPerTrigger": "1", "kafka.sasl.jaas.config": "not here"})
    at: Any = Layers.of(said, {variable: value, "PATH": "/usr/bin"}).merged()
    for name in path.split("/"):
        at = at[name]
    assert at == value


def test_the_environment_of_a_process_is_read_with_its_file() -> None:
    settings = load(_CONFIG, {"VERSIONED_JOB__PLAN_SETTINGS__GRACE": "2 hours"})
    assert settings.plan_settings["grace"] == timedelta(hours=2)


def test_a_misspelt_variable_is_refused_with_the_path_that_it_sets() -> None:
    with pytest.raises(ConfigurationError, match=r'tigger: unknown key; did you mean "trigger"'):
        load(_CONFIG, {"VERSIONED_JOB__TIGGER": "available_now"})


def test_a_variable_below_a_plain_value_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigurationError, match=r"VERSIONED_JOB__TRIGGER__EVERY: goes below") as refused:
        load(_CONFIG, {"VERSIONED_JOB__TRIGGER__EVERY": "10 seconds"})
    # The value might have been a secret.
    assert "available_now" not in str(refused.value)


_STEPS: dict[str, Any] = {
    "plan": {"clicks": {"op": "stream"}, "limited": {"op": "suppress", "buffer": {"max_records": 1}}},
    "sources": {"clicks": {"format": "rate"}},
}


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("VERSIONED_JOB__PLAN__LIMTED__BUFFER__MAX_RECORDS", 'no step "limted"; did you mean "limited"?'),
        ("VERSIONED_JOB__SOURCES__CLIKS__OPTIONS__PATH", 'no source "cliks"; did you mean "clicks"?'),
        ("plan.limted.buffer.max_records", 'no step "limted"; did you mean "limited"?'),
        ("sources.cliks.path", 'no source "cliks"; did you mean "clicks"? Allowed here: clicks'),
    ],
)
def test_a_path_into_a_step_or_source_that_is_not_there_is_refused_with_the_name_meant(
    variable: str, told: str
) -> None:
    is_variable = variable.startswith("VERSIONED")
    with pytest.raises(ConfigurationError) as refused:
        Layers.of(_STEPS, {variable: "5"} if is_variable else {}, {} if is_variable else {variable: "5"})
    assert f"{variable}: there is {told}" in str(refused.value)


@pytest.mark.parametrize(
    "sets",
    [
        {"sources.more.path": "in", "sources.more.format": "json"},
        {"plan.more": "{op: stream}", "plan.more.key": "k"},
        {"plan.limited": "{op: suppress}", "plan.limited.wait": "1 h"},
    ],
    ids=["a source", "a step", "one that is there"],
)
def test_paths_that_make_a_step_or_source_together_are_taken(sets: dict[str, str]) -> None:
    for said in (
        Layers.of(_STEPS, {}, sets),
        Layers.of(_STEPS, {f"VERSIONED_JOB__{path.replace('.', '__')}": value for path, value in sets.items()}, {}),
    ):
        (field, name, key), value = next((path.split("."), sets[path]) for path in sets if path.count(".") == 2)
        assert said.merged()[field][name][key] == value


@pytest.mark.parametrize("of_set", ["path", "format"])
def test_a_variable_and_a_path_may_make_a_source_together(of_set: str) -> None:
    said = {"path": "in", "format": "json"}
    sets = {f"sources.more.{of_set}": said.pop(of_set)}
    ((key, value),) = said.items()
    layers = Layers.of(_STEPS, {f"VERSIONED_JOB__SOURCES__MORE__{key.upper()}": value}, sets)
    assert layers.merged()["sources"]["more"] == {"path": "in", "format": "json"}


@pytest.mark.parametrize(
    ("path", "value", "keys"),
    [
        ("trigger", "10 s", ("trigger",)),
        ("plan_settings.grace", "2 hours", ("plan_settings", "grace")),
        ("suppressed.record.retention.ms", "1500", ("suppressed.record.retention.ms",)),
        (
            "sources.flights.options.kafka.sasl.mechanism",
            "PLAIN",
            ("sources", "flights", "options", "kafka.sasl.mechanism"),
        ),
        ("sources.flights.options.startingOffsets", "a=b", ("sources", "flights", "options", "startingOffsets")),
    ],
)
def test_a_dotted_path_sets_its_key_over_file_and_environment(path: str, value: str, keys: tuple[str, ...]) -> None:
    at: Any = read(
        _CONFIG, {"VERSIONED_JOB__TRIGGER": "5 s", "VERSIONED_JOB__PLAN_SETTINGS__GRACE": "1 h"}, {path: value}
    )
    for key in keys:
        at = at[key]
    assert at == value


_OFFSETS = '{"t": {"0": 23}}'


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sources.p.options.startingOffsets", _OFFSETS),
        ("sources.p.kafka.options.startingOffsets", _OFFSETS),
        ("sources.p.kafka.options.kafka.security.protocol", "SSL"),
        ("kafka.changes.options.kafka.linger.ms", "[5]"),
    ],
)
def test_below_options_a_path_is_one_name_and_its_value_stays_text(path: str, value: str) -> None:
    above, _, name = path.partition(".options.")
    at: Any = Layers.of({}, {}, {path: value}).merged()
    for key in (*above.split("."), "options"):
        at = at[key]
    assert at == {name: value}


def test_an_option_of_the_environment_stays_text_too() -> None:
    file = {"sources": {"p": {"kafka": {"options": {"startingOffsets": "earliest"}}}}}
    said = Layers.of(file, {"VERSIONED_JOB__SOURCES__P__KAFKA__OPTIONS__STARTINGOFFSETS": _OFFSETS}).merged()
    assert said["sources"]["p"]["kafka"]["options"] == {"startingOffsets": _OFFSETS}


def test_a_step_or_source_may_be_called_options() -> None:
    said = Layers.of({}, {}, {"plan.options.wait": "[1]", "sources.options.path": "in"}).merged()
    assert said == {"plan": {"options": {"wait": [1]}}, "sources": {"options": {"path": "in"}}}


@pytest.mark.parametrize(
    "path", ["plan.T2.op", "plan.m.value.ID", "kafka.OUT.topic", "plan_settings.N", "sources.S.path"]
)
def test_a_dotted_path_keeps_the_case_of_the_names_in_it(path: str) -> None:
    said: Any = Layers.of({"plan": {"m": {"value": {}}}}, {}, {path: "x"}).merged()
    for key in path.split("."):
        said = said[key]
    assert said == "x"


def test_a_name_in_capitals_of_a_variable_is_in_small_letters() -> None:
    said = Layers.of({}, {"VERSIONED_JOB__PLAN__CALM__VALUE__ID": "value.n"}, {}).merged()
    assert said == {"plan": {"calm": {"value": {"id": "value.n"}}}}


@pytest.mark.parametrize("of_set", [True, False], ids=["by --set", "by a variable"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("{max_records: 0100}", "to the base 60 or 8"),
        ("{max_records: 1:30}", "to the base 60 or 8"),
        ("{size: 1 h, size: 2 h}", 'the key "size" comes twice, line 1, column 13'),
        ("[&a [*a]]", "an alias stands within what it means"),
    ],
)
def test_a_value_that_a_file_may_not_hold_is_refused_with_its_setting(value: str, told: str, of_set: bool) -> None:
    name = "plan.limited.buffer" if of_set else "VERSIONED_JOB__PLAN__LIMITED__BUFFER"
    with pytest.raises(ConfigurationError) as refused:
        Layers.of(_STEPS, {} if of_set else {name: value}, {name: value} if of_set else {})
    assert str(refused.value).startswith(f"{name}: ")
    assert told in str(refused.value)


@pytest.mark.parametrize("value", ["[2013-99-99]", "{a: !!int x}", "[1"])
def test_a_value_that_is_no_yaml_after_all_stays_text(value: str) -> None:
    assert Layers.of({}, {}, {"plan.c.value": value}).merged() == {"plan": {"c": {"value": value}}}


def test_a_mapping_of_a_higher_layer_is_put_over_that_of_a_lower_one() -> None:
    said = read(_CONFIG, {}, {"sources.flights.options": "{maxFilesPerTrigger: '9', latestFirst: 'true'}"})
    flights = said["sources"]["flights"]
    assert flights["options"] == {"maxFilesPerTrigger": "9", "latestFirst": "true"}
    assert flights["format"] == "parquet"


@pytest.mark.parametrize(
    ("written", "expected"),
    [(90_000, timedelta(seconds=90)), ("90000", timedelta(seconds=90)), ("90 s", timedelta(seconds=90))],
)
@pytest.mark.rule("R116")
def test_the_papers_key_of_record_retention_takes_milliseconds_or_a_duration(
    written: Any, expected: timedelta, tmp_path: Path
) -> None:
    settings = parse(_GOOD | {"suppressed.record.retention.ms": written})
    assert settings.suppressed_record_retention == expected
    variable = {"VERSIONED_JOB__SUPPRESSED_RECORD_RETENTION_MS": str(written)}
    assert parse(Layers.of(_GOOD, variable).merged()) == settings


@pytest.mark.parametrize("written", [0, -5, True, "soon", 10**30, "9" * 5_000])
def test_a_record_retention_that_is_none_is_refused(written: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"suppressed\.record\.retention\.ms"):
        parse(_GOOD | {"suppressed.record.retention.ms": written})


@pytest.mark.parametrize(
    "text",
    [
        "\u2028",
        "a\u2028b",
        "\u2029",
        "\x85",
        "a\x85b",
        "a\nb",
        "a\r\nb",
        " a\u2028 b\n",
        "\ufeff",
        "größe",
        "a\tb",
        "#\x85# c",
    ],
)
def test_settings_that_are_shown_mean_the_same(text: str) -> None:
    said = {"sources": {"c": {"options": {"sep": text, text: "x"}}}, "order": "arrival"}
    told = annotated(said, Layers.of(said))
    assert yaml.safe_load(told) == said
    assert told.count("# file") == 3


def _read(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    return read_yaml(file)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none.yaml", "there is no such file"),
        (".", "this is a folder; name a file"),
        ("x" * 300, "cannot be read: File name too long"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_by_its_name_and_why(name: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(str(tmp_path / name))}: {told}"):
        read_yaml(tmp_path / name)


def test_a_file_without_the_permission_to_read_it_is_told_by_its_name_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def refuse(path: Path, mode: str = "r", *given: Any, **said: Any) -> Any:
        if mode == "rb":
            raise PermissionError(13, "Permission denied")
        return opened(path, mode, *given, **said)

    # Whoever is root may read everything.
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigurationError, match=r"settings.yaml: cannot be read: Permission denied\."):
        _read(tmp_path, "a: 1")


def test_settings_may_come_out_of_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=("a: 1\n",))
    writer.start()
    assert read_yaml(pipe) == {"a": 1}
    writer.join()


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {x: 1, y: 2}\nb: &b {<<: *a, y: 3}\nc: {<<: *b}\nd: {<<: [*b, *a], x: 4}\n",
        "a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: &c {<<: *b, x: 3}\nd: {<<: *c, x: 4}\n",
        "a: &a {x: 1}\nb: {<<: *a, x: 2}\nc: {<<: *a, x: 3}\n",
        # YAML makes the outer mappings first, and merges what lies deeper before it is made itself.
        "a: &a {x: 1, y: 2}\nb: {b: {b: &b {<<: *a, y: 3}}}\nc: {<<: *b}\n",
    ],
)
def test_merged_mappings_are_those_of_yaml(text: str, tmp_path: Path) -> None:
    assert _read(tmp_path, text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text", ["a: &a {x: 1, x: 2}\nb: {<<: *a}\n", "a: &a {x: 1}\nb: {<<: *a, y: 1, y: 2}\n", "- [{x: 1, x: 1}]\n"]
)
def test_a_key_that_comes_twice_is_refused_wherever_it_is_written(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r'the key "[xy]" comes twice, line '):
        _read(tmp_path, text)


@pytest.mark.parametrize(
    ("variables", "sets"),
    [
        ({"VERSIONED_JOB__SOURCES__FLIGHTS__CONTRACT__ON_INVALID__NULL_TS": "drop"}, {}),
        ({"VERSIONED_JOB__SOURCES__FLIGHTS__CONTRACT__ON_INVALID__null_ts": "drop"}, {}),
        ({}, {"sources.flights.contract.on_invalid.NULL_TS": "drop"}),
        ({}, {"sources.flights.contract.on_invalid.null_ts": "drop"}),
        (
            {"VERSIONED_JOB__SOURCES__FLIGHTS__CONTRACT__ON_INVALID__NULL_TS": "fail"},
            {"sources.flights.contract.on_invalid.null_ts": "drop"},
        ),
    ],
)
def test_a_reason_is_meant_whatever_its_case(variables: dict[str, str], sets: dict[str, str]) -> None:
    contract = parse(Layers.of(_GOOD, variables, sets).merged()).sources["flights"].contract
    assert contract is not None
    assert contract.on_invalid == {"NULL_TS": "drop"}


@pytest.mark.parametrize(
    ("variables", "sets"),
    [
        ({"VERSIONED_JOB__SOURCES__FLIGHTS__CONTRACT__MAX_BYTES": "null"}, {}),
        ({}, {"sources.flights.contract.max_bytes": "null"}),
    ],
)
def test_null_is_any_size_where_only_text_can_be_given(variables: dict[str, str], sets: dict[str, str]) -> None:
    contract = parse(Layers.of(_GOOD, variables, sets).merged()).sources["flights"].contract
    assert contract is not None
    assert contract.max_bytes is None


@pytest.mark.parametrize(
    ("path", "word"),
    [("sources", "on"), ("sources", "no"), ("sources/flights/options", "yes"), ("plan", "on"), ("plan", "off")],
)
def test_a_name_that_yaml_takes_for_true_or_false_is_to_be_quoted(path: str, word: str) -> None:
    step = {"op": "stream", "topic": "flights"}
    said = _changed("plan", {}) | {"sources": {"flights": {"format": "rate", "options": {}}}}
    at: Any = said
    for name in path.split("/"):
        at = at[name]
    at[yaml.safe_load(word)] = step if path == "plan" else {"format": "rate"}
    with pytest.raises(ConfigurationError) as refused:
        parse(said)
    assert f"{path.replace('/', '.')}: a key is text" in str(refused.value)
    assert f"YAML reads {'on, yes' if word in ('on', 'yes') else 'off, no'}" in str(refused.value)


@pytest.mark.parametrize("path", ["plan.x", "plan.x.buffer", "sources.flights", "metrics"])
def test_an_option_that_yaml_takes_for_true_is_told_as_any_other_name(path: str) -> None:
    said = _changed("plan", {"x": {"op": "suppress", "until": "window_closes", "buffer": {}, "from": "y"}})
    said |= {"sources": {"flights": {"format": "rate"}}, "metrics": {}}
    at: Any = said
    for name in path.split("."):
        at = at[name]
    at[True] = "k"
    with pytest.raises(ConfigurationError) as refused:
        parse(said)
    assert f"{path}: a key is text, and this one is true or false: YAML reads on, yes" in str(refused.value)


@pytest.mark.parametrize("text", ["1: x\n", "on: x\n", "null: x\n", "2026-01-01: x\n"])
def test_a_key_that_is_no_text_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="a key is text"):
        load(file, {})


def test_a_fault_of_a_setting_comes_out_of_another_process_with_its_path() -> None:
    again = pickle.loads(pickle.dumps(PlacedError("plan.hourly", "Grace must not be negative.")))
    assert (str(again), again.path) == ("plan.hourly: Grace must not be negative.", "plan.hourly")
