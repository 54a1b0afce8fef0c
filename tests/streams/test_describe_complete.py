"""Every option of every class of nodes is told where a topology is described."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, Final

import pytest

from streams.describe import _PHRASES, describe
from streams.expressions import as_expr
from streams.nodes import Node, Suppress, WindowedAggregate
from streams.plan_checks import check_node
from streams.topology import Joined, Materialized, StreamsBuilder, Topology
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from versioned.durations import Resolution
from versioned.errors import ConfigurationError, TopologyError


def _fold(key: Any, value: Any, total: Any = None) -> Any:
    return total


def _another(key: Any, value: Any, total: Any = None) -> Any:
    return total


#: What changes nothing that a plan does: that of a store or a suppression is the node's, others are for Kafka's sake.
_UNTOLD: Final = {
    "Joined.name", "Joined.retention", "Materialized.fixed_retention", "Materialized.segment_interval",
    "UntilTimeLimit.name", "UntilWallClockTimeLimit.name", "UntilWindowCloses.name", "UnlimitedWindows.grace_us",
}  # fmt: skip
#: Another value for each option, by its name, or by that of its class as well where several have one of the name.
_OTHERS: Final[dict[str, Any]] = {
    "name": "another", "topic": "another", "key": ("another",), "timestamp": "another", "value": ("another",),
    "deleted": "another", "materialized": Materialized("another"), "reorder": timedelta(7), "predicate": as_expr(True),
    "mapper": as_expr({"x": 7}), "kind": "left", "joiner": as_expr({"x": 7}), "key_mapper": as_expr({"x": "7"}),
    "foreign_key": as_expr({"x": "7"}), "history": "complete", "group_key": as_expr({"x": 7}),
    "group_value": as_expr({"a": 7}), "late_policy": "side_table", "emit": "net", "history_retention": timedelta(7),
    "grace": timedelta(hours=7), "retention": timedelta(7), "time_scope": "store",
    "time_resolution": Resolution.MILLISECOND, "system_history": True, "on_expired": "drop", "too_late": "side_table",
    "correction_retention": timedelta(7), "Aggregation.kind": "max", "Aggregation.value": as_expr(7),
    "output": "another", "initializer": float, "adder": _another, "subtractor": _another, "merger": _another,
    "schema": "x bigint", "size_us": 2 * 3_600_000_000, "advance_us": 7, "difference_us": 7, "gap_us": 7, "start_us": 7,
    "before_us": 7, "after_us": 7, "grace_us": 7, "wait_us": 7, "timer": "record", "max_age_us": 7_000_000,
    "clock": "window_start", "size_of": "value", "close_idle": True, "retention_us": 7, "max_records": 7,
    "max_bytes": 7, "when_full": "spill",
}  # fmt: skip


def _of_every_class() -> Topology:
    """Nodes and options of every class."""
    b = StreamsBuilder()
    stream = b.stream("s", key="k", value=("a", "b"))
    table = b.table("t", Materialized.key_value(), key="k", value=("c", "d"))
    versioned = b.table("v", Materialized.versioned("10 days", grace="1 day"), key="k", value="e")
    stream.filter(lambda v: v.a > 1).map_values("a").select_key("a").to_changelog("changelog")
    table.filter(lambda v: v.c > 1).map_values("c").to_stream().to_latest("latest")
    stream.join(versioned, joined=Joined.with_grace_period("1 h").with_corrections("1 h")).corrections()
    stream.join(b.global_table("g", Materialized.key_value(), key="k", value="e"), key="a")
    stream.join(b.stream("o", key="k", value="e"), windows=JoinWindows.of("1 h"))
    versioned.join(b.table("w", Materialized.versioned("1 day"), key="k", value="f"))
    table.join(versioned, foreign_key="c")
    stream.to_table(Materialized.key_value())
    grouped = stream.group_by_key()
    grouped.aggregate(int, _fold, schema="int")
    table.group_by("c").aggregate(int, _fold, _fold)
    hourly = grouped.windowed_by(TimeWindows.of("1 h")).sum("a", materialized=Materialized())
    grouped.windowed_by(SessionWindows.of("1 h")).aggregate(int, _fold, merger=_fold)
    for windows in (SlidingWindows(1), UnlimitedWindows.of()):
        grouped.windowed_by(windows).count()
    strict, early = BufferConfig.max_bytes(9).shut_down_when_full(), BufferConfig.max_records(9)
    for until in (
        Suppressed.until_window_closes(strict),
        Suppressed.until_time_limit("1 s", early),
        Suppressed.until_time_limit("1 s", strict, timer="last", max_age="1 min"),
        Suppressed.until_wall_clock_time_limit("1 s", BufferConfig.unbounded()),
    ):
        hourly.suppress(until)
    return b.build()


def _options(held: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The options of a node, and those within them, by their class, with the way to them."""
    for option in fields(held):
        value = getattr(held, option.name)
        if is_dataclass(value):
            yield from _options(value, (*above, option.name))
        elif option.name != "parents":
            yield f"{type(held).__name__}.{option.name}", (*above, option.name)


def _with(held: Any, path: tuple[str, ...], value: Any) -> Any:
    first, *rest = path
    return replace(held, **{first: _with(getattr(held, first), tuple(rest), value) if rest else value})


def _told(node: Node) -> str:
    return describe(Topology((node,)))


def _is_ignored(option: str, node: Node) -> bool:
    """Whether this node has the option and does nothing with it."""
    if option in ("Materialized.retention", "Materialized.late_policy"):
        # Only windows have a retention (R18), and a policy of their own.
        return isinstance(node, WindowedAggregate) == (option == "Materialized.late_policy")
    unbounded = BufferConfig.unbounded()
    return (
        option == "StrictBufferConfig.when_full" and isinstance(node, Suppress) and node.suppressed.buffer == unbounded
    )


_NODES: Final = tuple(_of_every_class())
_PLACES: Final = [(name, node, path) for node in _NODES for name, path in _options(node)]


def test_every_class_of_nodes_is_among_those_that_are_looked_at() -> None:
    assert {type(node) for node in _NODES} == set(_PHRASES)


@pytest.mark.parametrize("option", sorted({name for name, _, _ in _PLACES} - _UNTOLD))
def test_a_node_with_another_value_of_an_option_is_described_otherwise(option: str) -> None:
    others = []
    for node, path in ((node, path) for name, node, path in _PLACES if name == option):
        try:
            other = _with(node, path, _OTHERS.get(option, _OTHERS.get(path[-1])))
            check_node(other)
        except (ConfigurationError, TopologyError):
            continue  # An option that this node cannot have.
        if not _is_ignored(option, node):
            others.append((_told(node), _told(other)))
    assert others
    assert [before for before, after in others if before == after] == []
