"""Packed scenarios on the test driver: a fast and complete test of the packing, and of the counts of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from streams.driver.driver import TopologyTestDriver
from streams.testing.trace_engines import outcome_or_failure
from streams.testing.trace_packing import CASE, KEY, VALUE, Branch, Case, pack, together
from streams.testing.trace_run import Actual, Planner, Scenario, run_plan, shown

_US: Final = 1_000
_TIMES: Final = ("ts", "window_start", "window_end")


class PackedDriver:
    """Runs branches side by side, each step of a scenario between those of all others.

    Args:
        branches: What to run.
    """

    def __init__(self, branches: Sequence[Branch]) -> None:
        self.driver = TopologyTestDriver(together(branches), keys_cross_partitions=False)
        self._sinks: dict[int, list[str]] = {}
        for branch in branches:
            self._sinks.setdefault(branch.origin, []).extend(branch.plan.sinks)
        self.outcomes: dict[str, Actual] = {}
        cases = [(branch, case) for branch in branches for case in branch.cases]
        for branch, case in cases:
            versioned = {} if branch.plan.versioned is None else {"versioned": branch.plan.versioned}
            self.outcomes[case.id] = {"outputs": [], "dropped": [], "unseen": ["buffer"], **versioned}
        for index in range(max((case.length for _, case in cases), default=0)):
            for branch, case in cases:
                for _, step in case.records(index, min(index + 1, case.length)):
                    self._run(branch, case, index, step)

    def _run(self, branch: Branch, case: Case, index: int, step: Mapping[str, Any]) -> None:
        plan, actual = branch.plan, self.outcomes[case.id]
        ts = step["ts"] * case.factor
        if plan.before is not None:
            plan.before({**step, "ts": ts})
        before = plan.dropped(self.driver)
        key = {CASE: case.number, KEY: step["key"]}
        value = None if step["value"] is None else {VALUE: step["value"]}
        self.driver.pipe_input(branch.topic(step["topic"]), key, value, ts * _US, partition=case.number, offset=index)
        read = {sink: self.driver.read_output(sink) for sink in self._sinks[branch.origin]}
        # Outputs of other branches with the same sources do not belong to this scenario.
        for sink, name in plan.sinks.items():
            named = {"sink": name} if len(plan.sinks) > 1 else {}
            told = [_unscaled(shown(record), case.factor) for record in read[sink]]
            actual["outputs"] += [{"input_index": index, **named, **output} for output in told]
        drops = plan.dropped(self.driver) - before
        if drops:
            actual["dropped"].append({"input_index": index, "count": drops})


def run_packed_on_driver(planner: Planner, scenarios: Sequence[Scenario]) -> dict[str, Actual]:
    """Outcomes by id of scenarios of one operation, all in one topology.

    A scenario that fails is run up to the step before; its error comes from a run of its own.
    """
    errors = errors_of(alone(planner, scenarios))
    branches, outcomes = pack(planner, scenarios, {name: error["input_index"] for name, error in errors.items()})
    outcomes.update(PackedDriver(branches).outcomes)
    for name, error in errors.items():
        outcomes[name]["error"] = error
    return outcomes


def alone(planner: Planner, scenarios: Sequence[Scenario]) -> dict[str, Actual]:
    """Outcomes by id of scenarios run one by one; a scenario that cannot be run at all has a ``failure``."""
    return {scenario["id"]: outcome_or_failure(partial(run_plan, planner), scenario) for scenario in scenarios}


def errors_of(outcomes: Mapping[str, Actual]) -> dict[str, dict[str, Any]]:
    """The errors of the scenarios in which a step fails, by id."""
    return {
        name: actual["error"]
        for name, actual in outcomes.items()
        if "error" in actual and actual["error"]["input_index"] >= 0
    }


def _unscaled(output: dict[str, Any], factor: int) -> dict[str, Any]:
    return {name: part // factor if name in _TIMES else part for name, part in output.items()}
