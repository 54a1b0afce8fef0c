"""Kafka Streams' own behaviour as data, on Spark: every operation, many scenarios in few applications.

A fixed sample of each operation, with every kind of node, runs whole; of some operations in the slow tests only. In the
slow tests all scenarios run, whole and cut at random; also ``fuzzed``, where random steps once showed a difference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from trace_rules import RULES
from trace_samples import covering

from streams.testing.trace_engines import Actual, Scenario
from streams.testing.trace_packed_driver import alone, errors_of, run_packed_on_driver
from streams.testing.trace_packing import Cut, pack
from streams.testing.trace_spark import PLANNERS, run_all_on_spark, run_on_spark
from streams.testing.trace_spark_store import run_store_on_spark
from streams.testing.traces import differences

_PROJECT: Final = Path(__file__).parents[3]
_TRACES: Final = _PROJECT / "tests" / "traces"
_STORE: Final = "versioned_store"
_WHOLE: Final = Cut()
_CUTS: Final = (Cut(3, seed=889), Cut(4, seed=914))
#: The sample: at least so many scenarios.
_SCENARIOS: Final = 15
#: The samples that ``make test`` has time for; the others have tests of their own there, and random plans.
_QUICK: Final = ("propagation", "suppress_windowed")
#: How many bytes a sliding window of texts began with is to be seen as it begins: no batch shows it.
_OF_THE_DRIVER: Final = "suppress_time_limit/fuzzed-1"
#: In these a step fails; each needs an application of its own.
_FAILING: Final = {
    "stream_table_join": "stream_table_join/grace-null-key-left-left-v",
    "suppress_windowed": "suppress_windowed/max-bytes-shutdown",
    "suppress_time_limit": "suppress_time_limit/record-shutdown",
}


def _scenarios(operation: str) -> list[Scenario]:
    loaded: list[Scenario] = json.loads((_TRACES / f"{operation}.json").read_text(encoding="utf-8"))
    return loaded


def _sample(operation: str) -> list[Scenario]:
    """The same scenarios in every run: plans with every kind of node, and one that fails."""
    scenarios = _scenarios(operation)
    failing = errors_of(alone(PLANNERS[operation], _asked(scenarios)))
    branches, _ = pack(PLANNERS[operation], [scenario for scenario in scenarios if scenario["id"] not in failing], {})
    ids = {case.id for branch in covering(branches, _SCENARIOS) for case in branch.cases}
    return [scenario for scenario in scenarios if scenario["id"] in {*ids, _FAILING.get(operation)}]


def _asked(scenarios: list[Scenario]) -> list[Scenario]:
    """The scenarios without their answers."""
    return [{name: part for name, part in s.items() if name not in ("expected", "kafka")} for s in scenarios]


def _run(spark: SparkSession, operation: str, scenarios: list[Scenario], cut: Cut) -> dict[str, Actual]:
    if operation == _STORE:
        return run_store_on_spark(spark, _asked(scenarios), cut)
    return run_on_spark(spark, operation, _asked(scenarios), cut)


def _check(scenarios: list[Scenario], outcomes: Mapping[str, Actual]) -> None:
    found = differences(scenarios, outcomes)
    assert not found, "\n".join(f"{name}: {difference}" for name, difference in found.items())


def _operations(names: Iterable[str]) -> list[Any]:
    """Operations with the rules they prove."""
    return [pytest.param(name, marks=pytest.mark.rule(*RULES[name]), id=name) for name in names]


def _samples() -> list[Any]:
    """All operations; those for which ``make test`` has no time are slow."""
    quick, slow = _operations(_QUICK), _operations(name for name in PLANNERS if name not in _QUICK)
    return [*quick, *(pytest.param(*each.values, marks=[*each.marks, pytest.mark.slow], id=each.id) for each in slow)]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, spark: SparkSession) -> Mapping[str, Mapping[str, Actual]]:
    """What Spark makes of the samples that this run of pytest asks for, some of them at the same time."""
    items = [item for item in request.session.items if "answers" in getattr(item, "fixturenames", ())]
    asked = [item.callspec.params["operation"] for item in items if isinstance(item, pytest.Function)]
    return run_all_on_spark(spark, {operation: _asked(_sample(operation)) for operation in asked}, _WHOLE)


@pytest.mark.parametrize("operation", _samples())
def test_a_sample_of_the_traces_gives_what_they_say(
    answers: Mapping[str, Mapping[str, Actual]], operation: str
) -> None:
    scenarios = _sample(operation)
    assert len(scenarios) >= _SCENARIOS
    _check(scenarios, answers[operation])


@pytest.mark.slow
@pytest.mark.parametrize("cut", [_WHOLE, *_CUTS], ids=["whole", "three batches", "four batches"])
@pytest.mark.parametrize("operation", _operations(RULES))
def test_every_trace_gives_what_it_says_however_it_is_cut(spark: SparkSession, operation: str, cut: Cut) -> None:
    scenarios = _scenarios(operation)
    _check(scenarios, _run(spark, operation, scenarios, cut))


@pytest.mark.slow
@pytest.mark.parametrize("cut", [_WHOLE, _CUTS[0]], ids=["whole", "three batches"])
@pytest.mark.parametrize("operation", sorted({scenario["op"] for scenario in _scenarios("fuzzed")}))
def test_random_steps_give_what_the_trace_says(spark: SparkSession, operation: str, cut: Cut) -> None:
    fuzzed = (scenario for scenario in _scenarios("fuzzed") if scenario["op"] == operation)
    scenarios = [scenario for scenario in fuzzed if scenario["id"] != _OF_THE_DRIVER]
    _check(scenarios, _run(spark, operation, scenarios, cut))


@pytest.mark.rule("R94", "R95", "R96", "R97", "R98", "R99", "R100", "R101", "R102", "R103")
def test_with_the_record_timer_the_eviction_tables_give_the_outputs_of_kip_328(spark: SparkSession) -> None:
    by_record = [
        {**scenario, "params": {**scenario["params"], "timer": "record"}}
        for scenario in _scenarios("suppress_time_limit")
        if "kip_outputs" in scenario
    ]
    told = _run(spark, "suppress_time_limit", by_record, _WHOLE)
    assert {name: said["outputs"] for name, said in told.items()} == {s["id"]: s["kip_outputs"] for s in by_record}


@pytest.mark.slow
def test_the_command_needs_no_python_but_its_own(tmp_path: Path) -> None:
    # A buffer's rules run in Python.
    (tmp_path / "some.json").write_text(json.dumps(_scenarios("suppress_time_limit")[:2]))
    others = {name: said for name, said in os.environ.items() if name != "PYSPARK_PYTHON"}
    command = [sys.executable, "-m", "streams.testing.traces", str(tmp_path / "some.json"), "--engine", "spark"]
    ended = subprocess.run(
        command, env=others | {"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=300, cwd=_PROJECT
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3_000:]


@pytest.mark.parametrize("operation", PLANNERS)
def test_packing_changes_nothing(operation: str) -> None:
    scenarios = _scenarios(operation)
    _check(scenarios, run_packed_on_driver(PLANNERS[operation], _asked(scenarios)))
