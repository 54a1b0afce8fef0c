"""Which fields a node's keys have, and which filters drop repeated tombstones: from the plan alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streams.key_fields import key_fields
from streams.ktable import KTable
from streams.nodes import TableFilter
from streams.repeated_tombstones import drops_repeated_tombstones
from streams.topology import KStream, Materialized, StreamsBuilder
from suppress.windows import TimeWindows

CASES: list[tuple[Callable[[KStream], KStream | KTable], tuple[str, ...] | None]] = [
    (lambda s: s, ("tail", "day")),
    (lambda s: s.filter(lambda value: value.delay > 1).map_values(lambda value: {"x": value.delay}), ("tail", "day")),
    (lambda s: s.select_key("origin"), ("origin",)),
    (lambda s: s.select_key(("origin", "delay")), ("origin", "delay")),
    (lambda s: s.select_key(lambda value: value.delay + 1), ("key",)),
    (lambda s: s.select_key(lambda key, value: key), ("tail", "day")),
    (lambda s: s.group_by_key().count(), ("tail", "day")),
    (lambda s: s.group_by("origin").count(), ("origin",)),
    (lambda s: s.group_by("origin").windowed_by(TimeWindows.of("1 h")).count(), ("origin", "windowStart", "windowEnd")),
    (lambda s: s.to_table().group_by(lambda value: {"a": value.delay}).count(), ("a",)),
    (
        lambda s: s.to_table().left_join(s.select_key(("origin", "delay")).to_table(), lambda a, b: {"x": 1}),
        ("tail", "day"),
    ),
]


@pytest.mark.parametrize(("made", "fields"), CASES)
def test_the_plan_tells_the_key_fields(
    made: Callable[[KStream], KStream | KTable], fields: tuple[str, ...] | None
) -> None:
    flights = StreamsBuilder().stream("flights", key=("tail", "day"), value=("origin", "delay"))
    assert key_fields(made(flights).node) == fields


PLAIN = Materialized.key_value("t")
VERSIONED = Materialized.versioned("1 day", name="t")


@pytest.mark.rule("R160", "R161", "R162")
@pytest.mark.parametrize(
    ("materialized", "downstream", "drops"),
    [
        (PLAIN, "none", True),
        (PLAIN, "count", True),
        (VERSIONED, "none", False),
        (VERSIONED, "count", False),
        (None, "none", False),
        (None, "stream", False),
        (None, "count", True),
        (None, "view and count", True),
        (None, "foreign-key join", True),
        (None, "inner join", False),
        (None, "inner join and count", True),
        (None, "left join", True),
        (None, "right of left join", False),
        (None, "right of left join and count", True),
        (None, "outer join", True),
        (None, "filter", False),
        (None, "stored filter", False),
        (None, "filter and count", True),
    ],
)
def test_the_filtered_table_and_who_asks_decide_whether_repeated_tombstones_are_dropped(
    materialized: Materialized | None, downstream: str, drops: bool
) -> None:
    builder = StreamsBuilder()
    filtered = builder.table("t", materialized, value="v", name="t").filter(lambda v: v.v > 1, name="filtered")
    _put_downstream(filtered, downstream.removesuffix(" and count"), builder, downstream.endswith(" and count"))
    node = filtered.node
    assert isinstance(node, TableFilter)
    assert drops_repeated_tombstones(builder.build(), node) is drops


def _put_downstream(filtered: KTable, operation: str, builder: StreamsBuilder, counted: bool) -> None:
    other = builder.table("other", Materialized.key_value("other"), value="w")
    made: dict[str, Callable[[], object]] = {
        "none": lambda: filtered,
        "count": lambda: filtered.group_by("v").count(),
        "stream": filtered.to_stream,
        "view": lambda: filtered.map_values(lambda value: {"v": value.v}),
        "foreign-key join": lambda: filtered.join(other, foreign_key="v"),
        "inner join": lambda: filtered.join(other),
        "left join": lambda: filtered.left_join(other),
        "right of left join": lambda: other.left_join(filtered),
        "outer join": lambda: filtered.outer_join(other),
        "filter": lambda: filtered.filter(lambda value: value.v > 2),
        "stored filter": lambda: filtered.filter(
            lambda value: value.v > 2, materialized=Materialized.key_value("stored")
        ),
    }
    table = made[operation]()
    if counted:
        assert isinstance(table, KTable)
        table.group_by("v").count()


@pytest.mark.rule("R160")
@pytest.mark.parametrize(("stored_below", "drops"), [(False, False), (True, True)])
@pytest.mark.parametrize("source", ["to_table", "foreign-key join"])
def test_a_table_without_a_store_keeps_no_old_values_unasked(source: str, stored_below: bool, drops: bool) -> None:
    builder = StreamsBuilder()
    table = builder.stream("s", value="v").to_table()
    if source == "foreign-key join":
        other = builder.table("other", Materialized.key_value("other"), value="w")
        table = table.join(other, lambda left, right: {"v": left.v}, foreign_key="v")
    filtered = table.filter(lambda value: value.v > 1, name="filtered")
    if stored_below:
        filtered.group_by("v").count()
    node = filtered.node
    assert isinstance(node, TableFilter)
    assert drops_repeated_tombstones(builder.build(), node) is drops


@pytest.mark.rule("R160")
def test_a_stored_filter_of_a_stored_filter_asks_it_for_old_values() -> None:
    builder = StreamsBuilder()
    source = builder.table("t", value="v", name="t")
    first = source.filter(lambda value: value.v > 1, materialized=Materialized.key_value("first"), name="first")
    first.filter(lambda value: value.v > 2, name="second")
    assert isinstance(first.node, TableFilter)
    assert drops_repeated_tombstones(builder.build(), first.node)
