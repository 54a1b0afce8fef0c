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
    (lambda s: s.to_table().left_join(s.select_key("origin").to_table(), lambda a, b: {"x": 1}), ("tail", "day")),
]


@pytest.mark.parametrize(("made", "fields"), CASES)
def test_the_plan_tells_the_key_fields(
    made: Callable[[KStream], KStream | KTable], fields: tuple[str, ...] | None
) -> None:
    flights = StreamsBuilder().stream("flights", key=("tail", "day"), value=("origin", "delay"))
    assert key_fields(made(flights).node) == fields


PLAIN = Materialized.key_value("t")
VERSIONED = Materialized.versioned("1 day", name="t")


@pytest.mark.rule("R137", "R160", "R161", "R162")
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
        (None, "join", True),
    ],
)
def test_the_filtered_table_decides_whether_repeated_tombstones_are_dropped(
    materialized: Materialized | None, downstream: str, drops: bool
) -> None:
    builder = StreamsBuilder()
    source = builder.table("t", materialized, value="v", name="t")
    filtered = source.filter(lambda value: value.v > 1, name="filtered")
    if downstream == "stream":
        filtered.to_stream()
    elif downstream == "join":
        filtered.join(builder.table("other", value="w"))
    elif downstream != "none":
        view = filtered.map_values(lambda value: {"v": value.v}) if downstream.startswith("view") else filtered
        view.group_by("v").count()
    node = filtered.node
    assert isinstance(node, TableFilter)
    assert drops_repeated_tombstones(builder.build(), node) is drops
