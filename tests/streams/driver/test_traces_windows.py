"""Kafka Streams' own behaviour as data: windows, suppression and stream-stream joins on the test driver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from trace_rules import cases

from streams.testing import TopologyTestDriver, traces
from streams.testing.trace_run import shown
from streams.testing.trace_windows import time_limit
from streams.testing.traces import first_difference, main, run_scenario

TRACES = Path(__file__).parents[2] / "traces"
FILES = ("windowed_aggregate", "suppress_windowed", "suppress_time_limit", "stream_stream_join")


def scenarios(*names: str) -> list[dict[str, Any]]:
    return [scenario for name in names for scenario in json.loads((TRACES / f"{name}.json").read_text())]


@pytest.mark.parametrize("scenario", cases(*FILES))
def test_the_driver_does_what_the_trace_says(scenario: dict[str, Any]) -> None:
    assert first_difference(scenario["expected"], run_scenario(scenario, "driver")) is None


EVICTION_TABLES = [scenario for scenario in scenarios("suppress_time_limit") if "kip_outputs" in scenario]


@pytest.mark.rule("R94", "R95", "R96", "R97", "R98", "R99", "R100", "R101", "R102", "R103")
@pytest.mark.parametrize("scenario", EVICTION_TABLES, ids=lambda scenario: scenario["id"])
def test_with_the_record_timer_an_eviction_table_gives_the_outputs_of_kip_328(scenario: dict[str, Any]) -> None:
    by_record = {**scenario, "params": {**scenario["params"], "timer": "record"}}
    assert run_scenario(by_record, "driver")["outputs"] == scenario["kip_outputs"]


#: What stays in the buffer of each eviction table, oldest first.
STAY = {
    "kip-update-keeps-slot": [("A", "y", 1)],
    "kip-update-earlier-ts": [("A", "w", 0)],
    "kip-key-limit-2": [("B", "y", 2), ("C", "z", 3)],
    "kip-byte-limit": [("B", "zz", 2)],
    "kip-emit-after-2ms": [("B", "y", 2), ("C", "z", 3)],
    "kip-emit-after-2ms-late": [],
    "kip-key-limit-late": [("A", "x", 1), ("B", "y", 2)],
    "kip-byte-limit-late": [("A", "yy", 1)],
    "kip-big-record": [("C", "zzz", 2)],
    "kip-too-big-record": [],
}


@pytest.mark.rule("R94", "R95", "R96", "R97", "R98", "R99", "R100", "R101", "R102", "R103")
@pytest.mark.parametrize("scenario", EVICTION_TABLES, ids=lambda scenario: scenario["id"])
def test_with_the_record_timer_the_rows_of_kip_328_stay_in_an_eviction_table(scenario: dict[str, Any]) -> None:
    plan = time_limit({**scenario["params"], "timer": "record"})
    running = TopologyTestDriver(plan.topology)
    for step in scenario["steps"]:
        assert plan.before is not None
        plan.before(step)
        running.pipe_input(step["topic"], step["key"], step["value"], step["ts"] * 1_000)
    running.read_output("out")
    running.drain("sup")
    stay = [shown(record) for record in running.read_output("out")]
    assert [(row["key"], row["value"], row["ts"]) for row in stay] == STAY[scenario["id"].split("/")[1]]


@pytest.mark.parametrize(
    ("downstream", "told"),
    [("outer_join_left", ["(1,null)", "(1,o)"]), ("outer_join_right", ["(null,1)", "(o,1)"])],
)
def test_suppressed_counts_are_joined_as_texts(downstream: str, told: list[str]) -> None:
    limit = {"mode": "until_time_limit", "time_ms": 5, "when_full": "unbounded"}
    sent = [("in", "a", "g", 0), ("in", "b", "h", 7), ("other", "g", "o", 9)]
    scenario = {
        "id": "joined-counts",
        "op": "suppress_time_limit",
        "params": {"source": "count", "suppress": limit, "downstream": downstream},
        "steps": [dict(zip(("topic", "key", "value", "ts"), step, strict=True)) for step in sent],
    }
    outputs = run_scenario(scenario, "driver")["outputs"]
    assert [(row["key"], row["value"], row["ts"]) for row in outputs] == [("g", told[0], 0), ("g", told[1], 9)]


def test_the_command_line_writes_the_outcomes_and_counts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    assert main([str(TRACES / "stream_stream_join.json"), "--engine", "driver", "--out", str(out)]) == 0
    assert capsys.readouterr().out == "58 passed, 0 failed\n"
    assert len(json.loads(out.read_text())) == 58


def test_each_operation_is_told_and_kept_as_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_one(scenarios: Sequence[dict[str, Any]], _: str) -> dict[str, Any]:
        if scenarios[0]["op"] == "windowed_aggregate":
            raise KeyboardInterrupt
        return {scenario["id"]: scenario["expected"] for scenario in scenarios}

    monkeypatch.setattr(traces, "run", run_one)
    out = tmp_path / "out.json"
    files = [str(TRACES / f"{name}.json") for name in ("stream_stream_join", "windowed_aggregate")]
    with pytest.raises(KeyboardInterrupt):
        main([*files, "--out", str(out)])
    assert capsys.readouterr().err == "stream_stream_join: 58 scenarios, 0 failed, 0 s\n"
    assert len(json.loads(out.read_text())) == 58


def test_a_failure_is_reported_with_its_first_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = scenarios("stream_stream_join")[0]
    scenario["expected"]["outputs"][0]["value"] = "(A,other)"
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps([scenario]))
    assert main([str(wrong)]) == 1
    assert f"{scenario['id']}: outputs[0]: expected" in capsys.readouterr().out


def test_expected_results_are_never_shown_to_the_engine() -> None:
    scenario = scenarios("stream_stream_join")[0]
    actual = run_scenario({**scenario, "expected": None}, "driver")
    assert actual["outputs"] == scenario["expected"]["outputs"]
