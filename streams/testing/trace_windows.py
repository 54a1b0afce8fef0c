"""Traces of windows, suppression and stream-stream joins, as topologies of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from streams.driver.driver import TopologyTestDriver
from streams.driver.keys import WINDOW_START
from streams.driver.suppress import SuppressProcessor
from streams.expressions import Expr, trace
from streams.functions import coalesce, concat
from streams.nodes import (
    Aggregation,
    ChangelogSink,
    Materialized,
    Node,
    StreamSource,
    StreamStreamJoin,
    Suppress,
    Topology,
    WindowedAggregate,
)
from streams.rows import Row
from streams.testing.trace_run import run_topology
from suppress.buffer_config import BufferConfig, EagerBufferConfig, StrictBufferConfig
from suppress.buffer_rules import BufferedRow
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, Windows
from versioned.durations import Resolution

_US: Final = 1_000
_LONG_BYTES: Final = 8
#: Kafka's bytes of a buffered record beside topic, key and values: buffer time, timestamp, offset, partition.
_FIXED_BYTES: Final = 8 + 8 + 8 + 4
#: Length of the name of the repartition topic that Kafka generates for a grouped table in these traces.
_REPARTITION_TOPIC_LENGTH: Final = 58

SizeOf = Callable[[BufferedRow], int]


def ms(value: int) -> str:
    """Milliseconds as a duration; as text, since traces use numbers that no timedelta holds."""
    return f"{value} ms"


def windows_of(spec: Mapping[str, Any]) -> Windows:
    """The windows of a scenario."""
    grace = ms(spec.get("grace_ms", 0))
    if spec["kind"] == "session":
        return SessionWindows.of_inactivity_gap_and_grace(ms(spec["gap_ms"]), grace)
    if spec["kind"] == "sliding":
        return SlidingWindows.of_time_difference_and_grace(ms(spec["size_ms"]), grace)
    windows = TimeWindows.of_size_and_grace(ms(spec["size_ms"]), grace)
    return windows.advance_by(ms(spec["advance_ms"])) if spec["kind"] == "hopping" else windows


def buffer_of(spec: Mapping[str, Any]) -> StrictBufferConfig | EagerBufferConfig:
    """The buffer of a scenario's suppression."""
    strict = BufferConfig.unbounded()
    if "max_records" in spec:
        strict = strict.with_max_records(spec["max_records"])
    if "max_bytes" in spec:
        strict = strict.with_max_bytes(spec["max_bytes"])
    when_full = spec.get("when_full", "unbounded")
    if when_full == "emit_early":
        return strict.emit_early_when_full()
    return strict.shut_down_when_full() if when_full == "shut_down" else strict


def suppressed_of(spec: Mapping[str, Any], size_of: SizeOf, timer: Any = "first") -> Suppressed:
    """The suppression of a scenario, with bytes counted by Kafka's formula."""
    buffer = buffer_of(spec)
    if spec["mode"] == "until_window_closes":
        return Suppressed.until_window_closes(buffer, size_of=size_of)  # type: ignore[arg-type]
    return Suppressed.until_time_limit(ms(spec["time_ms"]), buffer, timer=timer, size_of=size_of)


class CurrentStep:
    """The timestamp of the record that is being processed, for a size that depends on how a window came to be."""

    def __init__(self) -> None:
        self.ts_us = 0

    def note(self, step: Mapping[str, Any]) -> None:
        """Called before each step."""
        self.ts_us = step.get("ts", 0) * _US


class KafkaSize:
    """Bytes of a buffered row as Kafka counts them: serialized key and values, record context, source topic.

    For a window that is new, Kafka's old value is what the aggregation started from: the initializer's value, or the
    aggregate that a sliding window copied; but null for the window right of a record, which is a mere copy.
    """

    def __init__(self, topic_length: int, windows: Windows | None = None, start_bytes: int = 0) -> None:
        self.step = CurrentStep()
        self._topic_length = topic_length
        self._windows = windows
        self._start_bytes = start_bytes
        self._prior_bytes: dict[Any, int] = {}

    def __call__(self, row: BufferedRow) -> int:
        prior_bytes = value_bytes(row.prior)
        if row.prior is None:
            prior_bytes = self._prior_bytes.setdefault(row.key, self._bytes_at_start(row.key))
        # Kafka never sends the old value of a session that it updates in place.
        has_no_old = row.old == row.prior or (isinstance(self._windows, SessionWindows) and row.value is not None)
        old_bytes = 0 if has_no_old else value_bytes(row.old)
        context = _FIXED_BYTES + self._topic_length + self._key_bytes(row.key)
        return context + prior_bytes + old_bytes + value_bytes(row.value)

    def _bytes_at_start(self, key: Any) -> int:
        if self._windows is None or isinstance(self._windows, SessionWindows):
            return 0
        is_copy = isinstance(self._windows, SlidingWindows) and key[WINDOW_START] == self.step.ts_us + _US
        return 0 if is_copy else self._start_bytes

    def _key_bytes(self, key: Any) -> int:
        ends = {TimeWindows: 1, SlidingWindows: 1, SessionWindows: 2}.get(type(self._windows), 0)
        return len(str(next(iter(key.values()))).encode()) + ends * _LONG_BYTES


def value_bytes(value: Row | None) -> int:
    """The serialized length of a single-field value: text by its UTF-8 bytes, a number 8 bytes, null 0."""
    if value is None:
        return 0
    field = next(iter(value.values()))
    return len(field.encode()) if isinstance(field, str) else _LONG_BYTES


def aggregation_of(kind: str) -> Aggregation:
    """The aggregation of a scenario; the texts of null values are ``null``."""

    def joined(left: Row | None, right: Row | None) -> dict[str, str]:
        return {"v": _text(left) + _text(right)}

    if kind == "count":
        return Aggregation("count")
    if kind == "reduce_concat":
        return Aggregation("reduce", "v", adder=joined)

    def added(key: Row, value: Row | None, aggregate: Row | None) -> dict[str, str] | None:
        if kind == "aggregate_reset" and _text(value) == "RESET":
            return None
        return joined(aggregate, value)

    return Aggregation(
        "aggregate", "v", initializer=lambda: {"v": ""}, adder=added, merger=lambda key, left, right: joined(left, right)
    )


def run_windowed(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """``windowed_aggregate`` and ``suppress_windowed``."""
    params = scenario["params"]
    size = KafkaSize(2, windows_of(params["window"]), _LONG_BYTES if params["agg"] == "count" else 0)
    sinks = ["raw", "out"] if params.get("raw") else ["out"]

    def build() -> Topology:
        table = windowed_table(params)
        nodes: list[Node] = [*table.parents, table]
        if params.get("raw"):
            nodes.append(ChangelogSink("raw", (table,)))
        if "suppress" in params:
            table = Suppress("sup", (table,), suppressed_of(params["suppress"], size))
            nodes.append(table)
        return Topology((*nodes, ChangelogSink("out", (table,))))

    probe = buffer_size if "suppress" in params else None
    return run_topology(scenario, build, sinks, probe=probe, before=size.step.note, dropped=kafka_drops)


def windowed_table(params: Mapping[str, Any]) -> Node:
    """The windowed aggregate of a scenario over the topic ``in``."""
    retention = params.get("store_retention_ms")
    stored = Materialized(
        time_resolution=Resolution.MILLISECOND,
        retention=None if retention is None else timedelta(milliseconds=retention),
    )
    source = StreamSource("in", topic="in", value=("v",))
    windows, aggregation = windows_of(params["window"]), aggregation_of(params["agg"])
    return WindowedAggregate("agg", (source,), windows, aggregation, materialized=stored)


def run_stream_stream_join(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """``stream_stream_join``."""
    params = scenario["params"]

    def build() -> Topology:
        before, after, grace = (params[name] * _US for name in ("before_ms", "after_ms", "grace_ms"))
        left, right = (StreamSource(side, topic=side, value=("v",)) for side in ("left", "right"))
        windows = JoinWindows(before, after, grace)
        join = StreamStreamJoin("join", (left, right), params["type"], windows, joiner())
        return Topology((left, right, join, ChangelogSink("out", (join,))))

    return run_topology(scenario, build, ["out"])


def joiner() -> Expr:
    """The joiner of every trace: ``(left,right)`` with the text ``null`` for a missing side."""
    return trace(
        lambda left, right: {"v": concat("(", coalesce(left.v, "null"), ",", coalesce(right.v, "null"), ")")},
        "left",
        "right",
    )


def buffer_size(driver: TopologyTestDriver) -> tuple[int, int]:
    """Records and bytes in the buffer of the node ``sup``."""
    processor = driver.processor("sup")
    return processor.buffered if isinstance(processor, SuppressProcessor) else (0, 0)


def kafka_drops(driver: TopologyTestDriver) -> int:
    """Kafka's one count: invalid records, and every expired window assignment on its own."""
    return driver.total("skipped") + driver.total("expired")


def _text(value: Row | None) -> str:
    return "null" if value is None else str(value.v)


RUNNERS: Final[dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "windowed_aggregate": run_windowed,
    "suppress_windowed": run_windowed,
    "stream_stream_join": run_stream_stream_join,
}
