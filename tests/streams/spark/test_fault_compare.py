"""The comparison of the crash tests counts what is lost, there twice, changed and invented, each for itself."""

from __future__ import annotations

from collections import Counter

import pytest
from fault_chain import Point, points_to_die_at
from fault_compare import Differences, Row, differences

_A, _B, _C, _Y, _Z = (f'{{"v": "{value}"}}' for value in "abcyz")
_WANTED: list[Row] = [("k1", _A), ("k2", _B), ("k2", _C)]


@pytest.mark.parametrize(
    ("got", "counted"),
    [
        (_WANTED, Differences()),
        (_WANTED[::-1], Differences()),
        (_WANTED[1:], Differences(lost=1)),
        ([], Differences(lost=3)),
        ([*_WANTED, ("k1", _A), ("k1", _A)], Differences(duplicated=2)),
        ([("k1", _Z), *_WANTED[1:]], Differences(changed=1)),
        ([*_WANTED, ("k3", _Z)], Differences(invented=1)),
        ([*_WANTED, ("k1", _Z)], Differences(invented=1)),
        ([("k1", _Z), ("k1", _Y), ("k2", _B), ("k2", _B)], Differences(1, 1, 1, 1)),
    ],
    ids=[
        "the same", "in another order", "one gone", "all gone", "one three times", "one changed", "one of a new key",
        "one more of a known key", "all at once",
    ],
)  # fmt: skip
def test_each_kind_of_difference_is_counted(got: list[Row], counted: Differences) -> None:
    assert differences({"t": Counter(got)}, {"t": Counter(_WANTED)}) == counted


def test_a_table_that_only_one_run_has_counts() -> None:
    assert differences({}, {"t": Counter(_WANTED)}) == Differences(lost=3)
    assert differences({"t": Counter(_WANTED)}, {}) == Differences(invented=3)


def test_every_boundary_is_taken_once_and_the_two_steps_of_a_table_twice_in_a_row() -> None:
    batch = ["before:s/splice", "after:s/splice", "before:s/main", "after:s/main"]
    row = ["before:ledger/row", "after:ledger/row", "end:batch"]
    heard = [Point(0, name) for name in ("before:s", "after:s", *batch[2:], *row)]
    heard += [Point(number, name) for number in (1, 2) for name in (*batch, *row)]
    points = points_to_die_at(heard)
    assert {point.name for point in points} == {*batch, *row, "after:s"}
    assert [name for name in points if points.count(name) == 2] == [
        *[Point(1, "before:ledger/row")] * 2,
        *[Point(2, "after:s/splice")] * 2,
    ]
