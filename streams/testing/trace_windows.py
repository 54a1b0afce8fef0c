"""Traces of windows, suppression and stream-stream joins, as topologies built with the DSL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from streams.driver.driver import TopologyTestDriver
from streams.driver.suppress import SuppressProcessor
from streams.expressions import Expr
from streams.fields import WINDOW_END, WINDOW_START
from streams.functions import cast, coalesce, concat, lit, starts_with
from streams.ktable import KTable
from streams.nodes import Materialized
from streams.rows import Row
from streams.testing.trace_run import Actual, Params, Planner, Scenario, TracePlan, on_driver
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig, EagerBufferConfig, StrictBufferConfig
from suppress.buffer_rules import BufferedRow
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, Windows
from versioned.durations import Resolution

_US: Final = 1_000
_LONGEST_MS: Final = timedelta.max // timedelta(milliseconds=1)
_LONG_BYTES: Final = 8
_INPUT_TOPIC_LENGTH: Final = len("in")
#: Kafka's bytes of a buffered record beside topic, key and values: buffer time, timestamp, offset, partition.
_FIXED_BYTES: Final = 8 + 8 + 8 + 4
#: Lengths of the names of internal topics in these traces: that of a grouped table, and that of the responses of a
#: foreign-key join.
REPARTITION_TOPIC_LENGTH: Final = 58
RESPONSE_TOPIC_LENGTH: Final = 60

SizeOf = Callable[[BufferedRow], int]


def ms(value: int) -> str:
    """Milliseconds as a duration; Kafka's "for ever", the largest long, becomes the longest possible duration."""
    return f"{min(value, _LONGEST_MS)} ms"


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
    """The record that is being processed, for sizes that depend on how a window came about."""

    def __init__(self) -> None:
        self.topic = ""
        self.ts_us = 0
        self.value_bytes = 0

    def note(self, step: Mapping[str, Any]) -> None:
        """Remember a step that is about to run."""
        self.topic = step.get("topic", "")
        self.ts_us = step.get("ts", 0) * _US
        self.value_bytes = len((step.get("value") or "").encode())


class KafkaSize:
    """Bytes of a buffered row as Kafka counts them: serialized key and values, record context, source topic.

    For a new window, Kafka's old value is what the aggregation started from: the initializer's value, or the aggregate
    that a sliding window copied. For the window right of a record, which is a mere copy, it is null.

    Args:
        topic_length: The length of the name of the topic that rows come from.
        windows: The windows of the keys.
        start_bytes: The size of the initializer's value.
        others: Other lengths than ``topic_length`` for steps of other topics, by topic.
    """

    def __init__(
        self,
        topic_length: int,
        windows: Windows | None = None,
        start_bytes: int = 0,
        others: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.step = CurrentStep()
        self._topic_length = topic_length
        self._others = others
        self._windows = windows
        self._start_bytes = start_bytes
        self._sliding_start_bytes: dict[Any, int] = {}

    def __call__(self, row: BufferedRow) -> int:
        prior_bytes = self._bytes_at_start(row) if row.prior is None else self._prior_bytes(row)
        old_bytes = 0 if row.old == row.prior or self._is_without_old(row) else value_bytes(row.old)
        topic_length = self._others.get(self.step.topic, self._topic_length)
        context = _FIXED_BYTES + topic_length + self._key_bytes(row.key)
        return context + prior_bytes + old_bytes + value_bytes(row.value)

    def _prior_bytes(self, row: BufferedRow) -> int:
        # Only a session of one instant is updated in place. Its former value is first sent when it is merged into
        # another session: to a buffer that does not hold it yet.
        key: Any = row.key
        is_instant = isinstance(self._windows, SessionWindows) and key[WINDOW_START] == key[WINDOW_END]
        came_in_place = is_instant and (row.value is not None or row.old != row.prior)
        return 0 if came_in_place else value_bytes(row.prior)

    def _is_without_old(self, row: BufferedRow) -> bool:
        # Kafka never sends the old value of a session that it updates in place, and where one record makes the same
        # sliding window twice (right of its predecessor, and its own) it starts from the same value both times.
        if isinstance(self._windows, SessionWindows):
            return row.value is not None or self._holds_step(row)
        # Appending an empty text is an update, though the text stays the same; a number that stays the same is not.
        is_update = _is_text(row.value) and self.step.value_bytes == 0
        return isinstance(self._windows, SlidingWindows) and row.old == row.value and not is_update

    def _holds_step(self, row: BufferedRow) -> bool:
        """Whether a session is the one that the step's record joined, not one that was merged into it."""
        key: Any = row.key
        return bool(self.step.topic and key[WINDOW_START] <= self.step.ts_us <= key[WINDOW_END])

    def _bytes_at_start(self, row: BufferedRow) -> int:
        if self._windows is None or isinstance(self._windows, SessionWindows):
            return 0
        if not isinstance(self._windows, SlidingWindows):
            return self._start_bytes
        # How a sliding window began can be seen only when it begins, so this memory works on the driver only.
        return self._sliding_start_bytes.setdefault(row.key, self._bytes_of_copied(row))

    def _bytes_of_copied(self, row: BufferedRow) -> int:
        key: Any = row.key
        if key[WINDOW_START] == self.step.ts_us + _US:
            return 0
        # Texts are concatenated, so the window began with everything but the record's own text.
        return value_bytes(row.value) - self.step.value_bytes if _is_text(row.value) else self._start_bytes

    def _key_bytes(self, key: Any) -> int:
        # The only text in a key is Kafka's key; windows, and the case of a packed scenario, are numbers.
        ends = {TimeWindows: 1, SlidingWindows: 1, SessionWindows: 2}.get(type(self._windows), 0)
        texts = [part for part in key.values() if isinstance(part, str)]
        return sum(len(text.encode()) for text in texts) + ends * _LONG_BYTES


def _is_text(value: Row | None) -> bool:
    return value is not None and isinstance(next(iter(value.values())), str)


def value_bytes(value: Row | None) -> int:
    """The serialized length of a single-field value: text by its UTF-8 bytes, a number 8 bytes, null 0."""
    if value is None:
        return 0
    field = next(iter(value.values()))
    return len(field.encode()) if isinstance(field, str) else _LONG_BYTES


def windowed(params: Params) -> TracePlan:
    """The plan of ``windowed_aggregate`` and of ``suppress_windowed``."""
    builder = StreamsBuilder()
    size = KafkaSize(_INPUT_TOPIC_LENGTH, windows_of(params["window"]), _LONG_BYTES if params["agg"] == "count" else 0)
    table = windowed_table(builder, params)
    if params.get("raw"):
        table.to_changelog("raw")
    if "suppress" in params:
        table = table.suppress(suppressed_of(params["suppress"], size), name="sup")
    table.to_changelog("out")
    probe = buffer_size if "suppress" in params else None
    return TracePlan(builder.build(), sinks_of(params), probe=probe, counts_expired=True, before=size.step.note)


def windowed_table(builder: StreamsBuilder, params: Mapping[str, Any]) -> KTable:
    """The windowed aggregate of a scenario over the topic ``in``."""
    retention = params.get("store_retention_ms")
    stored = Materialized(
        time_resolution=Resolution.MILLISECOND,
        retention=None if retention is None else timedelta(milliseconds=min(retention, _LONGEST_MS)),
    )
    windows = windows_of(params["window"])
    grouped = builder.stream("in", value="v").group_by_key().windowed_by(windows)
    if params["agg"] == "count":
        return grouped.count(materialized=stored, name="agg")
    if params["agg"] == "reduce_concat":
        return grouped.reduce(_joined, materialized=stored, name="agg")
    added = _added_or_reset if params["agg"] == "aggregate_reset" else _added
    merger = _merged if isinstance(windows, SessionWindows) else None
    return grouped.aggregate(
        lambda: {"v": ""}, added, merger=merger, schema="v STRING", materialized=stored, name="agg"
    )


def stream_stream_join(params: Params) -> TracePlan:
    """The plan of ``stream_stream_join``."""
    builder = StreamsBuilder()
    left, right = (builder.stream(side, value="v") for side in ("left", "right"))
    windows = JoinWindows(*(params[name] * _US for name in ("before_ms", "after_ms", "grace_ms")))
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[params["type"]]
    join(right, pair, windows=windows, name="join").to_changelog("out")
    return TracePlan(builder.build(), {"out": "out"})


def time_limit(params: Params) -> TracePlan:
    """The plan of ``suppress_time_limit``: over a table, a filtered table, a grouped table or a windowed one."""
    builder = StreamsBuilder()
    size = size_of_limit(params)
    table = limited_table(builder, params)
    if params.get("raw"):
        table.to_changelog("raw")
    suppressed = table.suppress(suppressed_of(params["suppress"], size, params.get("timer", "first")), name="sup")
    downstream_of(builder, params, suppressed, size).to_changelog("out")
    return TracePlan(builder.build(), sinks_of(params), probe=buffer_size, counts_expired=True, before=size.step.note)


def sinks_of(params: Params) -> dict[str, str]:
    """The sinks of a scenario: one before and one after the suppression, or only the latter."""
    return {"raw": "raw", "out": "out"} if params.get("raw") else {"out": "out"}


def size_of_limit(params: Mapping[str, Any]) -> KafkaSize:
    """Kafka's size for the table that a time limit is put on."""
    if params["source"] == "windowed":
        start_bytes = _LONG_BYTES if params["agg"] == "count" else 0
        return KafkaSize(_INPUT_TOPIC_LENGTH, windows_of(params["window"]), start_bytes)
    return KafkaSize(REPARTITION_TOPIC_LENGTH if params["source"] == "count" else _INPUT_TOPIC_LENGTH)


def limited_table(builder: StreamsBuilder, params: Mapping[str, Any]) -> KTable:
    """The table that is suppressed."""
    if params["source"] == "windowed":
        return windowed_table(builder, params)
    source = table_of(builder, "in")
    if params["source"] == "count":
        return source.group_by(lambda value: {"key": value.v}).count(name="count")
    if params["source"] == "filter":
        return source.filter(predicate(params["predicate"]), name="filter")
    return source


def downstream_of(builder: StreamsBuilder, params: Mapping[str, Any], table: KTable, size: KafkaSize) -> KTable:
    """What follows the suppressed table before the sink."""
    kind = params.get("downstream", "stream")
    if kind == "group_count":
        return table.group_by(lambda key, value: key).count(name="downstream")
    if kind == "suppress_again":
        return table.suppress(suppressed_of(params["suppress2"], size), name="sup")
    if kind.startswith("outer_join") and params["source"] == "count":
        table = table.map_values(lambda value: {"v": cast(value.count, "string")}, name="text")
    if kind == "outer_join_left":
        return table.outer_join(table_of(builder, "other"), pair, name="downstream")
    if kind == "outer_join_right":
        return table_of(builder, "other").outer_join(table, pair, name="downstream")
    return table


def table_of(builder: StreamsBuilder, topic: str) -> KTable:
    """A plain, stored table."""
    return builder.table(topic, Materialized(name=f"{topic}-store"), value="v")


def predicate(spec: Mapping[str, Any]) -> Callable[[Any], Any]:
    """The predicate of a scenario."""
    if spec["kind"] == "prefix":
        return lambda value: starts_with(value.v, spec["arg"])
    if spec["kind"] == "int_gt":
        return lambda value: cast(value.v, "bigint") > spec["arg"]
    return lambda value: lit(spec["kind"] == "all")


def pair(left: Expr, right: Expr) -> dict[str, Expr]:
    """The joiner of every trace: ``(left,right)``, with the text ``null`` for a missing side."""
    return {"v": concat("(", coalesce(left.v, "null"), ",", coalesce(right.v, "null"), ")")}


def buffer_size(driver: TopologyTestDriver) -> tuple[int, int]:
    """Records and bytes in the buffer of the node ``sup``."""
    processor = driver.processor("sup")
    return processor.buffered if isinstance(processor, SuppressProcessor) else (0, 0)


def _joined(left: Row | None, right: Row | None) -> dict[str, str]:
    return {"v": _text(left) + _text(right)}


def _added(key: Row, value: Row | None, aggregate: Row | None) -> dict[str, str]:
    return _joined(aggregate, value)


def _added_or_reset(key: Row, value: Row | None, aggregate: Row | None) -> dict[str, str] | None:
    return None if _text(value) == "RESET" else _joined(aggregate, value)


def _merged(key: Row, left: Row | None, right: Row | None) -> dict[str, str]:
    return _joined(left, right)


def _text(value: Row | None) -> str:
    return "null" if value is None else str(value.v)


#: What each operation's ``params`` stand for.
PLANNERS: Final[Mapping[str, Planner]] = {
    "windowed_aggregate": windowed,
    "suppress_windowed": windowed,
    "stream_stream_join": stream_stream_join,
    "suppress_time_limit": time_limit,
}
RUNNERS: Final[Mapping[str, Callable[[Scenario], Actual]]] = {name: on_driver(plan) for name, plan in PLANNERS.items()}
