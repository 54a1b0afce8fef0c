"""One scenario through the test driver: pipes its steps and collects what ``expected`` speaks of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from streams.driver.driver import OutputRecord, TopologyTestDriver
from streams.driver.keys import WINDOW_END, WINDOW_START
from streams.nodes import Topology
from versioned.errors import BufferFullError, ConfigurationError, RecordError, TopologyError

_US: Final = 1_000

#: A look at the driver after a step, for example the size of a buffer.
Probe = Callable[[TopologyTestDriver], Sequence[int]]


def run_topology(
    scenario: Mapping[str, Any],
    build: Callable[[], Topology],
    sinks: Sequence[str],
    *,
    probe: Probe | None = None,
    dropped: Callable[[TopologyTestDriver], int] | None = None,
    before: Callable[[Mapping[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """The actual outcome of a scenario whose steps are records and wall-clock steps.

    Args:
        scenario: With ``steps``.
        build: Makes the topology; what it refuses is an error at step -1.
        sinks: Read after each step, in this order; named in the outputs if there are several.
        probe: Its numbers after each step become ``buffer``.
        dropped: How many records have been dropped so far, as Kafka counts.
        before: Told each step before it runs.
    """
    try:
        driver = TopologyTestDriver(build())
    except (TopologyError, ConfigurationError) as refusal:
        return {"outputs": [], "error": {"input_index": -1, "message": str(refusal)}}
    actual: dict[str, Any] = {"outputs": [], "dropped": [], "buffer": []}
    drops = 0
    for index, step in enumerate(scenario["steps"]):
        if before is not None:
            before(step)
        try:
            _apply(driver, step)
        except (BufferFullError, RecordError) as failure:
            actual["error"] = {"input_index": index, "message": str(failure)}
            break
        for sink in sinks:
            named = {"sink": sink} if len(sinks) > 1 else {}
            actual["outputs"] += [{"input_index": index, **named, **shown(r)} for r in driver.read_output(sink)]
        total = driver.total("dropped") if dropped is None else dropped(driver)
        if total > drops:
            actual["dropped"].append({"input_index": index, "count": total - drops})
        drops = total
        if probe is not None:
            actual["buffer"].append([index, *probe(driver)])
    return actual


def shown(record: OutputRecord) -> dict[str, Any]:
    """An output in the traces' shape: a single key field and a single value field, times in milliseconds."""
    key = dict(record.key) if record.key is not None else {}
    window = {}
    if WINDOW_START in key:
        window = {"window_start": key.pop(WINDOW_START) // _US, "window_end": key.pop(WINDOW_END) // _US}
    value = None if record.value is None else next(iter(record.value.values()))
    return {"key": next(iter(key.values()), None), **window, "value": value, "ts": record.ts_us // _US}


def _apply(driver: TopologyTestDriver, step: Mapping[str, Any]) -> None:
    if "advance_wall_clock_ms" in step:
        driver.advance_wall_clock(f"{step['advance_wall_clock_ms']} ms")
    else:
        driver.pipe_input(step["topic"], step["key"], step["value"], step["ts"] * _US)
