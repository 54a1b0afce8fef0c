"""Kafka Streams' own behaviour as data: stores, table joins, filters, aggregates and propagation on the test driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trace_rules import cases

from streams.testing.traces import first_difference, main, run_scenario
from versioned.errors import ConfigurationError

TRACES = Path(__file__).parents[2] / "traces"


def scenarios(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((TRACES / f"{name}.json").read_text())
    return loaded


def named(scenario: dict[str, Any]) -> str:
    return str(scenario["id"])


def check(scenario: dict[str, Any]) -> None:
    assert first_difference(scenario["expected"], run_scenario(scenario, "driver")) is None


@pytest.mark.parametrize("scenario", scenarios("fuzzed"), ids=named)
def test_random_steps_give_what_the_trace_says(scenario: dict[str, Any]) -> None:
    check(scenario)


FILES = (
    "versioned_store",
    "stream_table_join",
    "table_table_join",
    "fk_join",
    "table_filter",
    "table_aggregate",
    "propagation",
)


@pytest.mark.parametrize("scenario", cases(*FILES))
def test_an_operation_on_tables_does_what_the_trace_says(scenario: dict[str, Any]) -> None:
    check(scenario)


def test_an_engine_without_adapters_for_an_operation_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r'engine "driver" does not run "juggling"; it runs .*fk_join'):
        run_scenario({"id": "x", "op": "juggling"}, "driver")


def test_the_command_line_says_what_an_engine_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = tmp_path / "unknown.json"
    unknown.write_text(json.dumps([{"id": "x", "op": "juggling", "expected": {}}]))
    assert main([str(unknown)]) == 2
    assert 'does not run "juggling"' in capsys.readouterr().err


def test_a_plan_that_should_have_been_refused_is_a_difference() -> None:
    assert first_difference({"ok": False}, {"ok": True}) == "ok: expected False, got True"


def test_a_scenario_that_cannot_be_run_fails_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = scenarios("topology_errors")[0]
    file = tmp_path / "errors.json"
    file.write_text(json.dumps([{**known, "id": "unknown", "params": {"case": "juggling"}}, known]))
    assert main([str(file)]) == 1
    assert capsys.readouterr().out == "unknown: not run: KeyError: 'juggling'\n1 passed, 1 failed\n"


_LONGEST_MS = 2**63 - 1
_FOR_EVER = {"versioned": True, "history_retention_ms": _LONGEST_MS}
_AT_ONCE = {"mode": "until_time_limit", "time_ms": 0}
_TUMBLING = {"kind": "tumbling", "size_ms": 10}
#: Parameters that the traces' README names and no public trace has.
_UNUSUAL = [
    ("table_table_join", {"type": "inner", "left": _FOR_EVER, "right": {"versioned": False}}),
    ("stream_table_join", {"type": "left", "table": _FOR_EVER, "grace_ms": _LONGEST_MS}),
    ("suppress_time_limit", {"source": "filter", "predicate": {"kind": "all"}, "suppress": _AT_ONCE}),
    ("suppress_time_limit", {"source": "filter", "predicate": {"kind": "none"}, "suppress": _AT_ONCE}),
    ("windowed_aggregate", {"window": _TUMBLING, "agg": "count", "store_retention_ms": _LONGEST_MS}),
]


@pytest.mark.parametrize(("operation", "params"), _UNUSUAL)
def test_parameters_of_any_size_and_kind_make_a_plan(operation: str, params: dict[str, Any]) -> None:
    outcome = run_scenario({"id": "unusual", "op": operation, "params": params, "steps": []}, "driver")
    assert "failure" not in outcome
    assert "error" not in outcome
