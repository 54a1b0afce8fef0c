"""What a change of a group costs ``min`` and ``max`` of a table does not grow with the values of the group."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from steps import steps_of

from streams.driver.table_aggregate import TableAggregator
from streams.expressions import Expr, as_expr
from streams.nodes import Aggregation
from streams.rows import Row
from streams.spark.aggregate_folds import ReplacingFold, StateCodec
from streams.spark.aggregate_types import ASIDE, BAG, HORIZON_US
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE
from streams.spark.plain_store import LAST_US

KIND = ["min", "max"]
Kind = Literal["min", "max"]


def aggregation(kind: Kind) -> Aggregation:
    return Aggregation(kind, "extreme", as_expr(Expr("ref", "value")["n"]))


def event(place: int, plus: int | None, minus: int | None, horizon_us: int | None = None) -> dict[str, Any]:
    parts = {"_plus": plus, "_minus": minus}
    values = {name: None if number is None else {"n": number} for name, number in parts.items()}
    return {**values, US: place, SCOPE: 0, PLACE: [place], HORIZON_US: horizon_us, LAST_US: None}


def told(kind: Kind, events: list[dict[str, Any]], states: list[dict[str, Any]], unit_us: int | None = None) -> Any:
    fold = ReplacingFold(StateCodec(aggregation(kind)), unit_us)
    return [row for _, row in fold({KEY: {"k": "a"}}, iter(states), iter(events))]


@pytest.mark.parametrize("kind", KIND)
def test_a_change_costs_as_much_beside_many_values_as_beside_few(kind: Kind) -> None:
    aggregator, key = TableAggregator(aggregation(kind)), Row(k="a")

    def changes(count: int) -> Iterator[tuple[int, int]]:
        return zip(range(0, 2 * count, 2), random.Random(3).sample(range(1, 2 * count, 2), 100), strict=False)

    def work(count: int) -> int:
        state = aggregator.initial()
        for number in range(0, 2 * count, 2):
            state = aggregator.change(state, key, Row(n=number), 1)

        def go_on() -> None:
            after = state
            for old, new in changes(count):
                before, after = after, aggregator.change(after, key, Row(n=old), -1)
                after = aggregator.change(after, key, Row(n=new), 1)
                # The old value of a change is asked for behind the new one.
                assert aggregator.result(after) is not None
                assert aggregator.result(before) is not None

        return steps_of(go_on)

    assert work(2_000) < 1.2 * work(500)


@pytest.mark.parametrize("kind", KIND)
def test_the_bag_of_a_group_is_told_once_in_a_batch(kind: Kind) -> None:
    rows = told(kind, [event(place, place, None) for place in range(1_000)], [])
    assert len(rows) == 1_000
    assert [len(row[BAG]) for row in rows if row.get(BAG) is not None] == [1_000]
    assert rows[-1][BAG] == [{"value": number, "n": 1} for number in range(1_000)]


@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize("behind", [0, 3, 10_000], ids="{} refused behind the last taken".format)
def test_the_last_result_that_the_store_takes_tells_the_bag_and_rows_keep_their_order(kind: Kind, behind: int) -> None:
    taken = [event(place, place, None, horizon_us=0) for place in range(5)]
    refused = [event(5 + place, 100, None, horizon_us=10**6) for place in range(behind)]
    rows = told(kind, taken + refused, [], unit_us=1)
    assert [row[PLACE] for row in rows] == [[place] for place in range(5 + behind)]
    assert [row[ASIDE] for row in rows] == [False] * 5 + [True] * behind
    assert {row[PLACE][0]: len(row[BAG]) for row in rows if row.get(BAG) is not None} == {4: 5}


@pytest.mark.parametrize("kind", KIND)
def test_a_group_goes_on_from_its_stored_bag_as_if_the_batch_had_not_been_cut(kind: Kind) -> None:
    numbers = [random.Random(5).choice([1, 2, 3, 5, 8]) for _ in range(30)]
    kept: list[int] = []
    events = []
    for place, number in enumerate(numbers):
        minus = kept.pop(0) if len(kept) > 3 else None
        kept.append(number)
        events.append(event(place, number, minus))
    whole = told(kind, events, [])
    first = told(kind, events[:17], [])
    stored = {**{name: first[-1][name] for name in (VALUE, US, BAG)}}
    rest = told(kind, events[17:], [stored])
    assert [(row[VALUE], row["_old"], row[US]) for row in first + rest] == [
        (row[VALUE], row["_old"], row[US]) for row in whole
    ]
