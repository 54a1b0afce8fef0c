"""Runs one scenario through the test driver: pipes its steps and collects what ``expected`` covers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streams.driver.driver import OutputRecord, TopologyTestDriver
from streams.fields import WINDOW_END, WINDOW_START
from streams.nodes import ForeignKeyJoin, TableAggregate, Topology
from versioned.errors import BufferFullError, ConfigurationError, RecordError, TopologyError

_US: Final = 1_000

Scenario = Mapping[str, Any]
Params = Mapping[str, Any]
Step = Mapping[str, Any]
Actual = dict[str, Any]
#: A look at the driver after a step, for example the size of a buffer.
Probe = Callable[[TopologyTestDriver], Sequence[int]]


@dataclass(frozen=True)
class TracePlan:
    """What the ``params`` of a scenario stand for, on any engine.

    Args:
        topology: The plan. Its topics are named as in the steps; keys and values have one field.
        sinks: The sinks to read, in this order, with their names in the traces.
        versioned: Whether the resulting table is versioned; ``None`` if the scenario does not ask.
        probe: Its numbers after each step become ``buffer``; works on the driver only.
        counts_expired: Whether each closed window counts as a drop of its own, as in Kafka.
        before: Called with each step before it runs, on the driver only.
    """

    topology: Topology
    sinks: Mapping[str, str]
    versioned: bool | None = None
    probe: Probe | None = None
    counts_expired: bool = False
    before: Callable[[Step], None] | None = None

    def dropped(self, driver: TopologyTestDriver) -> int:
        """How many records the plan's nodes have dropped so far, as Kafka counts."""
        counters = ("skipped", "expired") if self.counts_expired else ("dropped",)
        told = [(node.name, counter) for node in self.topology for counter in counters]
        # Kafka counts the results that a store refuses, and one record may give several.
        told += [(node.name, "late") for node in self.topology if isinstance(node, ForeignKeyJoin | TableAggregate)]
        return sum(driver.counters(name)[counter] for name, counter in told)


#: Builds the plan of a scenario's ``params``; raises the error with which the plan is refused.
Planner = Callable[[Params], TracePlan]


def plan_or_refusal(planner: Planner, scenario: Scenario) -> TracePlan | Actual:
    """The plan of a scenario, or its outcome if the plan is refused: an error at step -1."""
    try:
        return planner(scenario["params"])
    except (TopologyError, ConfigurationError) as refusal:
        return {"outputs": [], "error": {"input_index": -1, "message": str(refusal)}}


def on_driver(planner: Planner) -> Callable[[Scenario], Actual]:
    """A function that runs scenarios of one operation on the driver."""
    return lambda scenario: run_plan(planner, scenario)


def run_plan(planner: Planner, scenario: Scenario) -> Actual:
    """The outcome on the driver of a scenario whose steps are records and wall-clock steps."""
    plan = plan_or_refusal(planner, scenario)
    if not isinstance(plan, TracePlan):
        return plan
    driver = TopologyTestDriver(plan.topology)
    actual: Actual = {"outputs": [], "dropped": [], "buffer": []}
    drops = 0
    for index, step in enumerate(scenario["steps"]):
        if plan.before is not None:
            plan.before(step)
        try:
            _apply(driver, step)
        except (BufferFullError, RecordError) as failure:
            actual["error"] = {"input_index": index, "message": str(failure)}
            break
        actual["outputs"] += _outputs(driver, plan, index)
        total = plan.dropped(driver)
        if total > drops:
            actual["dropped"].append({"input_index": index, "count": total - drops})
        drops = total
        if plan.probe is not None:
            actual["buffer"].append([index, *plan.probe(driver)])
    return actual if plan.versioned is None else {**actual, "versioned": plan.versioned}


def shown(record: OutputRecord) -> dict[str, Any]:
    """An output in the traces' shape: a single key field and a single value field, times in milliseconds."""
    key = dict(record.key) if record.key is not None else {}
    window = {}
    if WINDOW_START in key:
        window = {"window_start": key.pop(WINDOW_START) // _US, "window_end": key.pop(WINDOW_END) // _US}
    value = None if record.value is None else next(iter(record.value.values()))
    # In a packed plan the case stands before the key.
    return {"key": next(reversed(key.values()), None), **window, "value": value, "ts": record.ts_us // _US}


def _outputs(driver: TopologyTestDriver, plan: TracePlan, index: int) -> list[dict[str, Any]]:
    found = []
    for sink, name in plan.sinks.items():
        named = {"sink": name} if len(plan.sinks) > 1 else {}
        found += [{"input_index": index, **named, **shown(record)} for record in driver.read_output(sink)]
    return found


def _apply(driver: TopologyTestDriver, step: Step) -> None:
    if "advance_wall_clock_ms" in step:
        driver.advance_wall_clock(f"{step['advance_wall_clock_ms']} ms")
    else:
        driver.pipe_input(step["topic"], step["key"], step["value"], step["ts"] * _US)
