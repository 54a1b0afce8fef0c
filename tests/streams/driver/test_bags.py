"""Bags against a counter that is copied: each bag stays as it is, whatever is made of it, and knows both its ends."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.driver.aggregators import in_order
from streams.driver.bags import Bag
from streams.rows import Row, frozen

MANY = settings(max_examples=300)
NUMBERS = st.sampled_from([float("nan"), -0.0, 0.0, 1.0, -2.5, float("inf")])
VALUES: list[st.SearchStrategy[Any]] = [
    st.integers(-3, 3),
    NUMBERS,
    st.builds(lambda n, v: Row(n=n, v=v), NUMBERS, st.sampled_from([None, "a", "b"])),
    st.lists(st.one_of(st.none(), st.integers(0, 2)), max_size=2),
]
#: Which of the bags so far is changed, and how.
CHANGES = st.one_of(
    *(st.lists(st.tuples(st.integers(0, 30), value, st.sampled_from([1, 1, -1])), max_size=30) for value in VALUES)
)


@MANY
@given(CHANGES)
def test_every_bag_holds_what_a_copied_counter_would_whichever_is_asked_or_changed_next(
    changes: list[tuple[int, Any, int]],
) -> None:
    bags: list[tuple[Bag, Counter[Any]]] = [(Bag(), Counter())]
    for which, value, sign in changes:
        bag, expected = bags[which % len(bags)]
        counts = Counter(expected)
        counts[frozen(value)] += sign
        bags.append((bag.changed(value, sign), +counts))
    for bag, expected in bags:
        # To the order of the values and the signs of zeros.
        assert repr(bag.items()) == repr(list(expected.items()))
        assert repr(bag.least()) == repr(min(expected, key=in_order, default=None))
        assert repr(bag.greatest()) == repr(max(expected, key=in_order, default=None))


@MANY
@given(CHANGES)
def test_a_bag_that_is_made_of_the_items_of_another_is_the_same(changes: list[tuple[int, Any, int]]) -> None:
    bag = Bag()
    for _, value, sign in changes:
        bag = bag.changed(value, sign)
    again = Bag(bag.items())
    assert again.items() == bag.items()
    assert (again.least(), again.greatest()) == (bag.least(), bag.greatest())
