"""Joins without a joiner on the driver: what a row without a partner has, and fields that both sides have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams.functions import is_null, merge
from streams.rows import Row
from streams.testing import TopologyTestDriver
from streams.topology import KStream, KTable, Materialized, StreamsBuilder
from suppress.windows import JoinWindows
from versioned.errors import RecordError

_WITHIN = JoinWindows.of("1 s")
_HISTORY = Materialized.versioned("1 day")
_MERGED: Callable[..., Any] = lambda left, right: merge(left, right)  # noqa: E731


class _Sides:
    """Two sources of each kind; of one of the two the plan may tell no fields."""

    def __init__(self, left: str | None, right: str | None) -> None:
        self.builder = StreamsBuilder()
        self.stream = self.builder.stream("left-stream", key="k", value=left)
        self.table = self.builder.table("left-table", _HISTORY, key="k", value=left)
        self.other_stream = self.builder.stream("right-stream", key="k", value=right)
        self.other = self.builder.table("right-table", _HISTORY, key="k", value=right)
        self.globally = self.builder.global_table("right-global", key="k", value=right)


Make = Callable[[_Sides], KStream | KTable]
_STREAM_JOINS: list[Make] = [
    lambda x: x.stream.left_join(x.other),
    lambda x: x.stream.left_join(x.other, _MERGED),
    lambda x: x.stream.left_join(x.globally, key=lambda key, value: key.k),
    lambda x: x.stream.left_join(x.other_stream, windows=_WITHIN),
    lambda x: x.stream.outer_join(x.other_stream, windows=_WITHIN),
]
_TABLE_JOINS: list[Make] = [
    lambda x: x.table.left_join(x.other),
    lambda x: x.table.outer_join(x.other),
    lambda x: x.table.outer_join(x.other, _MERGED),
    lambda x: x.table.outer_join(x.other, history="complete"),
    lambda x: x.table.left_join(x.other, foreign_key=lambda key, value: key.k),
]
_OF_BOTH = [("left-stream", make) for make in _STREAM_JOINS] + [("left-table", make) for make in _TABLE_JOINS]


def _driver(make: Make, left: str | None, right: str | None) -> TopologyTestDriver:
    sides = _Sides(left, right)
    make(sides).to_changelog("out")
    return TopologyTestDriver(sides.builder.build())


def _values(running: TopologyTestDriver) -> list[Row | None]:
    return [record.value for record in running.read_output("out")]


@pytest.mark.parametrize("left", ["amount", None])
@pytest.mark.parametrize(("topic", "make"), _OF_BOTH)
def test_a_row_without_a_partner_has_nulls_under_the_fields_that_are_known_of_the_missing_side(
    topic: str, make: Make, left: str | None
) -> None:
    running = _driver(make, left, "price")
    running.pipe_input(topic, "pen", {"amount": 3}, 0)
    # Its window has passed by then.
    running.pipe_input(topic, "ink", {"amount": 4}, 2_000_001)
    assert _values(running)[0] == Row(amount=3, price=None)


@pytest.mark.parametrize(
    ("topic", "make"),
    [
        ("right-stream", lambda x: x.stream.outer_join(x.other_stream, windows=_WITHIN)),
        ("right-table", lambda x: x.table.outer_join(x.other)),
        ("right-table", lambda x: x.table.outer_join(x.other, history="complete")),
    ],
)
def test_a_row_of_the_right_side_alone_has_nulls_under_the_known_fields_of_the_left(topic: str, make: Make) -> None:
    running = _driver(make, "amount", None)
    running.pipe_input(topic, "pen", {"price": 2}, 0)
    running.pipe_input(topic, "ink", {"price": 2}, 2_000_001)
    assert _values(running)[0] == Row(amount=None, price=2)


def test_a_step_behind_reads_null_of_a_row_without_a_partner() -> None:
    running = _driver(lambda x: x.stream.left_join(x.other).filter(lambda v: is_null(v.price)), None, "price")
    running.pipe_input("left-stream", "pen", {"amount": 3}, 0)
    assert _values(running) == [Row(amount=3, price=None)]


def test_where_no_fields_of_the_missing_side_are_known_a_step_that_reads_one_says_what_to_do() -> None:
    running = _driver(lambda x: x.stream.left_join(x.other).map_values("price", name="priced"), "amount", None)
    with pytest.raises(RecordError, match=r'^priced: There is no field "price".*: list the `value` of its source\.'):
        running.pipe_input("left-stream", "pen", 3, 0)


@pytest.mark.parametrize("right", ["price", "PRICE"])
@pytest.mark.parametrize(
    ("topics", "make"),
    [
        *((("right-table", "left-table"), make) for make in _TABLE_JOINS),
        (("right-table", "left-stream"), lambda x: x.stream.join(x.other, name="j")),
        (("right-stream", "left-stream"), lambda x: x.stream.join(x.other_stream, windows=_WITHIN)),
        (("right-global", "left-stream"), lambda x: x.stream.join(x.globally, key=lambda key, value: key.k)),
    ],
)
def test_a_field_that_both_rows_have_is_refused_and_none_takes_the_place_of_the_other(
    topics: tuple[str, str], make: Make, right: str
) -> None:
    running = _driver(make, None, None)
    running.pipe_input(topics[0], "pen", {right: 2}, 0)
    told = r"^[\w-]+: the left and the right row both have \['price'\].* in YAML the value: of the join"
    with pytest.raises(RecordError, match=told):
        running.pipe_input(topics[1], "pen", {"price": 3}, 0)
