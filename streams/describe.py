"""A topology as text: what each node does, with its versions, windows and buffers (Kafka: ``Topology.describe``)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from streams.expressions import Expr, operation
from streams.graph import joined_value
from streams.nodes import (
    Aggregation,
    ChangelogSink,
    CorrectionFeed,
    ForeignKeyJoin,
    GlobalTableSource,
    Node,
    Output,
    SelectKey,
    StreamAggregate,
    StreamFilter,
    StreamGlobalTableJoin,
    StreamMapValues,
    StreamSource,
    StreamStreamJoin,
    StreamTableJoin,
    Suppress,
    TableAggregate,
    TableFilter,
    TableMapValues,
    TableSink,
    TableSource,
    TableTableJoin,
    Topology,
    ToStream,
    ToTable,
    WindowedAggregate,
    materialized_of,
)
from streams.options import FOREVER, Joined, LatePolicy, Materialized
from streams.plan_facts import is_versioned, side_without_versions
from streams.time_texts import instant_text
from suppress.buffer_config import EagerBufferConfig
from suppress.suppressed import AnySuppressed, UntilTimeLimit, UntilWallClockTimeLimit, UntilWindowCloses
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, Windows
from versioned.durations import Resolution, in_words, instant


def describe(topology: Topology) -> str:
    """A topology as text: every node in plan order, with its kind and options, what it reads, and what reads it.

    Example:
        >>> source = StreamSource("clicks", topic="clicks")
        >>> print(describe(Topology((source, ChangelogSink("out", (source,))))))
        clicks: stream of topic clicks, key (key), time ts
            -> out
        out: changelog sink, every change
            <- clicks
    """
    return "\n".join(line for node in topology for line in _lines(topology, node))


def what_it_is(node: Node) -> list[str]:
    """What a node does, in a few phrases: its kind first."""
    kind = _PHRASES[type(node)](node)
    if node.output is Output.TABLE and not isinstance(node, (TableSource, GlobalTableSource)):
        kind += _stored(node)
    return kind


def span(duration: timedelta) -> str:
    """A duration in words: its largest whole units.

    >>> span(timedelta(hours=26))
    '1 day 2 hours'
    """
    if duration >= FOREVER:
        return "for ever"
    return in_words(duration)


def _lines(topology: Topology, node: Node) -> list[str]:
    lines = [f"{node.name}: {', '.join(what_it_is(node))}"]
    if node.parents:
        lines.append(f"    <- {', '.join(parent.name for parent in node.parents)}")
    children = topology.children(node)
    if children:
        lines.append(f"    -> {', '.join(child.name for child in children)}")
    return lines


def _source(kind: str) -> Callable[[Any], list[str]]:
    def phrases(node: StreamSource | TableSource | GlobalTableSource) -> list[str]:
        told = [f"{kind} of topic {node.topic}", f"key ({', '.join(node.key)})", f"time {node.timestamp}"]
        told += [] if node.deleted is None else [f"deleted where {node.deleted}"]
        told += _reordered(node.reorder) if isinstance(node, TableSource) else []
        # There may be many value fields, and a box of the picture has little room, so they come last.
        return [*told, *_stored(node), *([] if node.value is None else [f"value ({', '.join(node.value)})"])]

    return phrases


def _stored(node: Node) -> list[str]:
    materialized = materialized_of(node)
    if materialized is None:
        return ["versioned (inherited)"] if is_versioned(node) else []
    name = [f"store {materialized.name}"] if materialized.name not in (None, node.name) else []
    if not materialized.is_versioned:
        kind = [] if isinstance(node, WindowedAggregate) else ["key-value store"]
        kept = [] if materialized.retention is None else [f"retention {span(materialized.retention)}"]
        return [*kind, *name, *kept, *_times(materialized)]
    history = materialized.history_retention or timedelta()
    grace = history if materialized.grace is None else materialized.grace
    mixed = side_without_versions(node)
    told = [
        "versioned" if mixed is None else f"versioned ({mixed} is not)",
        f"history {span(history)}",
        f"grace {span(grace)}",
    ]
    told += _times(materialized)
    if materialized.system_history:
        told.append("system history")
    return [*told, *_late(materialized.late_policy), *name]


def _times(stored: Materialized) -> list[str]:
    told = [] if stored.time_scope == "partition" else [f"stream time per {stored.time_scope}"]
    is_finest = stored.time_resolution is Resolution.MICROSECOND
    return told if is_finest else [*told, f"time in {stored.time_resolution.name.lower()}s"]


def _late(policy: LatePolicy) -> list[str]:
    return [] if policy == "drop" else ["late ones to the rejects table"]


def _reordered(reorder: timedelta | None) -> list[str]:
    return [] if reorder is None else [f"reordered within {span(reorder)}"]


def _join(kind: str) -> Callable[[Any], list[str]]:
    def phrases(node: Any) -> list[str]:
        told = [f"{node.kind} {kind}"]
        if isinstance(node, StreamTableJoin):
            told += _joined(node.joined)
        if isinstance(node, (StreamGlobalTableJoin, ForeignKeyJoin)):
            told += _grouped(node.key_mapper if isinstance(node, StreamGlobalTableJoin) else node.foreign_key)
        if isinstance(node, StreamStreamJoin):
            told.append(_join_windows(node.windows))
        if isinstance(node, TableTableJoin) and node.history == "complete":
            told.append("complete history")
        is_given = repr(node.joiner) != repr(joined_value(None, node.name, *node.parents))
        return [*told, f"giving {node.joiner!r}"] if is_given else told

    return phrases


def _joined(joined: Joined) -> list[str]:
    told = [] if joined.grace is None else [f"grace {span(joined.grace)}"]
    if joined.too_late != "join":
        told.append("later ones to the rejects table")
    if joined.on_expired != "null":
        told.append("expired ones " + ("dropped" if joined.on_expired == "drop" else "to the rejects table"))
    if joined.correction_retention is not None:
        told.append(f"corrections for {span(joined.correction_retention)}")
    return told


def _join_windows(windows: JoinWindows) -> str:
    before, after = in_words(windows.before_us), in_words(windows.after_us)
    return f"{before} before to {after} after, grace {in_words(windows.grace_us)}"


def _aggregate(node: StreamAggregate | TableAggregate) -> list[str]:
    told = [_aggregation(node.aggregation), *_grouped(node.group_key)]
    mapped = node.group_value if isinstance(node, TableAggregate) else None
    return [*told, *([] if mapped is None else [f"over {mapped!r}"]), *_by_functions(node.aggregation)]


def _windowed_aggregate(node: WindowedAggregate) -> list[str]:
    told = [f"windowed {_aggregation(node.aggregation)}", windows_in_words(node.windows)]
    return [*told, *_grouped(node.group_key), *_by_functions(node.aggregation), *_late(node.late_policy)]


def _aggregation(aggregation: Aggregation) -> str:
    of = "" if aggregation.value is None else f" of {aggregation.value!r}"
    usual = "value" if aggregation.kind in ("reduce", "aggregate") else aggregation.kind
    return f"{aggregation.kind}{of}{'' if aggregation.output == usual else f' as {aggregation.output}'}"


def _by_functions(aggregation: Aggregation) -> list[str]:
    """The user functions that compute an aggregate, and the type of its result."""
    functions = {name: getattr(aggregation, name) for name in ("initializer", "adder", "subtractor", "merger")}
    told = [f"{name} {getattr(by, '__name__', 'function')}" for name, by in functions.items() if by is not None]
    return told if aggregation.schema is None else [*told, f"result {aggregation.schema}"]


def _grouped(key: Expr | None) -> list[str]:
    return [] if key is None else [f"by {_key(key)}"]


def _key(key: Expr) -> str:
    # A key that is one field of the value reads better as that field alone.
    op, args = operation(key)
    return repr(args[1]) if op == "row" else repr(key)


def windows_in_words(windows: Windows) -> str:
    """Windows in words, with their sizes and grace.

    >>> windows_in_words(TimeWindows.of("1 hour").grace("10 minutes"))
    'tumbling windows of 1 hour, grace 10 minutes'
    """
    grace = f", grace {in_words(windows.grace_us)}"
    if isinstance(windows, TimeWindows):
        if windows.advance_us == windows.size_us:
            return f"tumbling windows of {in_words(windows.size_us)}{grace}"
        return f"hopping windows of {in_words(windows.size_us)} every {in_words(windows.advance_us)}{grace}"
    if isinstance(windows, SessionWindows):
        return f"sessions with gap {in_words(windows.gap_us)}{grace}"
    if isinstance(windows, SlidingWindows):
        return f"sliding windows of {in_words(windows.difference_us)}{grace}"
    start = f" from {instant_text(instant(windows.start_us))}" if windows.start_us else ""
    return f"one unlimited window{start}"


def _suppress(node: Suppress) -> list[str]:
    suppressed = node.suppressed
    if isinstance(suppressed, UntilWindowCloses):
        idle = ["also by the wall clock if the application has a retention"] if suppressed.close_idle else []
        if suppressed.retention_us is not None:
            idle = [f"also {in_words(suppressed.retention_us)} by the wall clock after its first record"]
        return ["suppress until the window closes", *idle, _buffer(suppressed)]
    if isinstance(suppressed, UntilWallClockTimeLimit):
        wait = f"suppress for {in_words(suppressed.wait_us)} of wall-clock time"
        return [wait, *_longest(suppressed), _buffer(suppressed)]
    timer = [] if suppressed.timer == "first" else [f"timer {suppressed.timer}"]
    timer += [] if suppressed.max_age_us is None else [f"at most for {in_words(suppressed.max_age_us)}"]
    clock = [] if suppressed.clock == "record" else ["from the window's start"]
    wait = f"suppress for {in_words(suppressed.wait_us)} of event time"
    return [wait, *clock, *timer, *_longest(suppressed), _buffer(suppressed)]


def _longest(suppressed: UntilTimeLimit | UntilWallClockTimeLimit) -> list[str]:
    retention_us = suppressed.retention_us
    return [] if retention_us is None else [f"at most for {in_words(retention_us)} by the wall clock"]


def _buffer(suppressed: AnySuppressed) -> str:
    buffer, size_of = suppressed.buffer, suppressed.size_of
    of = "" if size_of == "record" else f" of {size_of if isinstance(size_of, str) else 'a function'}"
    bounds = [] if buffer.max_records is None else [f"{buffer.max_records:,} records"]
    bounds += [] if buffer.max_bytes is None else [f"{buffer.max_bytes:,} bytes{of}"]
    sizes = f", sizes{of}" if of and buffer.max_bytes is None else ""
    if not bounds:
        return f"unbounded buffer{sizes}"
    full = "emit early" if isinstance(buffer, EagerBufferConfig) else buffer.when_full.replace("_", " ")
    return f"at most {' and '.join(bounds)}, then {full}{sizes}"


def _changelog(node: ChangelogSink) -> list[str]:
    return ["changelog sink", "every change" if node.emit == "every" else "the net change per key and batch"]


_PHRASES: Final[dict[type[Node], Callable[[Any], list[str]]]] = {
    StreamSource: _source("stream"),
    TableSource: _source("table"),
    GlobalTableSource: _source("global table"),
    StreamFilter: lambda node: [f"filter {node.predicate!r}"],
    TableFilter: lambda node: [f"filter {node.predicate!r}"],
    StreamMapValues: lambda node: [f"map values to {node.mapper!r}"],
    TableMapValues: lambda node: [f"map values to {node.mapper!r}"],
    SelectKey: lambda node: [f"key by {_key(node.mapper)}"],
    ToStream: lambda node: ["to stream"],
    ToTable: lambda node: ["to table", *_reordered(node.reorder)],
    StreamTableJoin: _join("stream-table join"),
    CorrectionFeed: lambda node: ["corrections of answers that late table changes altered"],
    StreamGlobalTableJoin: _join("join with a global table"),
    StreamStreamJoin: _join("stream-stream join"),
    TableTableJoin: _join("table-table join"),
    ForeignKeyJoin: _join("foreign-key join"),
    StreamAggregate: _aggregate,
    TableAggregate: _aggregate,
    WindowedAggregate: _windowed_aggregate,
    Suppress: _suppress,
    ChangelogSink: _changelog,
    TableSink: lambda node: ["table sink", "latest state per key"],
}
