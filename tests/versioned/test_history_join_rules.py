"""Complete joins of two histories (R150, R154) against a join of everything at every instant."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from versioned.history_join_rules import Cause, HistoryJoin, Kind, ResultChange, are_same

Put = tuple[str, Any, int]


def pair(key: Any, left: Any, right: Any) -> str:
    return f"({left},{right})"


def puts(*texts: str) -> list[Put]:
    """``a5`` is a put on the left at 5, ``b5`` on the right, ``a5-`` a tombstone."""
    sides = {"a": "left", "b": "right"}
    return [(sides[t[0]], None if t.endswith("-") else t, int(t[1:].rstrip("-"))) for t in texts]


def joined(join: HistoryJoin, records: list[Put]) -> list[ResultChange]:
    return [change for side, value, ts in records for change in join.put(side, "k", value, ts)]  # type: ignore[arg-type]


def emitted(changes: list[ResultChange]) -> list[tuple[Any, int]]:
    return [(change.new, change.valid_from_us) for change in changes]


def test_a_result_that_is_no_number_and_stays_so_is_no_change() -> None:
    join = HistoryJoin("inner", lambda key, left, right: {"product": float(left) * float(right)})
    records: list[Put] = [("left", "inf", 0), ("right", "0", 0), ("right", "0", 0), ("right", "1", 0)]
    assert [change.op for change in joined(join, records)] == ["insert", "update"]


@pytest.mark.rule("R150")
def test_the_papers_second_attempt_gives_every_older_result_that_a_late_record_changes() -> None:
    join = HistoryJoin("inner", pair)
    assert emitted(joined(join, puts("a0", "a5"))) == []
    assert emitted(joined(join, puts("b2"))) == [("(a0,b2)", 2), ("(a5,b2)", 5)]
    assert emitted(joined(join, puts("b3"))) == [("(a0,b3)", 3), ("(a5,b3)", 5)]
    assert emitted(joined(join, puts("b4"))) == [("(a0,b4)", 4), ("(a5,b4)", 5)]
    assert emitted(joined(join, puts("a1"))) == [("(a1,b2)", 2), ("(a1,b3)", 3), ("(a1,b4)", 4)]


@pytest.mark.rule("R149", "R150")
def test_on_the_papers_counter_example_to_its_first_attempt_all_three_results_come() -> None:
    join = HistoryJoin("inner", pair)
    joined(join, puts("a0", "b0", "a4", "b3", "b2"))
    assert emitted(joined(join, puts("a1"))) == [("(a1,b0)", 1), ("(a1,b2)", 2), ("(a1,b3)", 3)]


@pytest.mark.rule("R153")
def test_the_result_that_stays_wrong_with_the_latest_history_only_is_put_right() -> None:
    join = HistoryJoin("inner", pair)
    joined(join, puts("a0", "b2", "a5"))
    (change,) = joined(join, puts("a1"))
    assert change == ResultChange("k", 2, "update", "(a0,b2)", "(a1,b2)", Cause("left", 1), is_latest=False)


def test_a_start_that_vanishes_is_retracted() -> None:
    join = HistoryJoin("inner", pair)
    joined(join, puts("b0", "a5"))
    (change,) = joined(join, puts("a5-"))
    assert (change.op, change.valid_from_us, change.old, change.new) == ("retract", 5, "(a5,b0)", None)


def test_a_result_that_merely_ends_earlier_is_no_change_of_its_own() -> None:
    join = HistoryJoin("inner", pair)
    joined(join, puts("a0", "b0", "a9"))
    assert emitted(joined(join, puts("a5"))) == [("(a5,b0)", 5)]


def test_a_tombstone_that_ends_a_result_is_a_start_without_value() -> None:
    join = HistoryJoin("inner", pair)
    joined(join, puts("a0", "b0"))
    assert emitted(joined(join, puts("b7-"))) == [(None, 7)]
    assert joined(join, puts("a8-")) == []


def test_a_history_begins_with_the_first_start_of_either_side() -> None:
    join = HistoryJoin("left", pair)
    joined(join, puts("a0", "b5"))
    assert join.history("k") == [(0, "(a0,None)"), (5, "(a0,b5)")]


@pytest.mark.parametrize(("left", "right"), [(None, [1]), ([1], None), (None, {"n": 1}), ({"n": 1}, None)])
def test_what_is_missing_is_not_the_same_as_a_list_or_a_row(left: Any, right: Any) -> None:
    assert not are_same(left, right)


@pytest.mark.parametrize("within", [lambda part: part, lambda part: [part], lambda part: {"share": part}])
def test_a_number_that_becomes_nan_is_another_one(within: Callable[[float], object]) -> None:
    nan = float("nan")
    assert not are_same(within(1.0), within(nan))
    assert not are_same(within(nan), within(1.0))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ([math.nan], [float("nan")], True),
        ([math.nan], [float("nan"), 1], False),
        ({"a": math.nan, "b": 1}, {"a": float("nan"), "b": 1}, True),
        ({"a": math.nan, "b": 1}, {"a": float("nan"), "b": 2}, False),
        ({"a": math.nan}, {"a": float("nan"), "b": 1}, False),
    ],
)
def test_results_with_nan_are_the_same_if_all_their_parts_are(left: Any, right: Any, same: bool) -> None:
    assert are_same(left, right) == same


SIDES = st.sampled_from(["left", "right"])
RECORDS = st.lists(st.tuples(SIDES, st.one_of(st.none(), st.sampled_from("xyz")), st.integers(-9, 9)), max_size=14)
KINDS = st.sampled_from(["inner", "left", "outer"])


def brute_force(records: list[Put], kind: str, at: int) -> str | None:
    """The join of what is valid on both sides at one instant, from the plain list of records."""
    valid = {}
    for side in ("left", "right"):
        versions = {ts: value for name, value, ts in records if name == side}
        starts = [ts for ts in versions if ts <= at]
        valid[side] = versions[max(starts)] if starts else None
    left, right = valid["left"], valid["right"]
    if left is None and (kind != "outer" or right is None):
        return None
    return None if kind == "inner" and right is None else pair("k", left, right)


@pytest.mark.rule("R150")
@given(RECORDS, KINDS)
def test_the_changes_applied_one_after_the_other_give_the_join_at_every_instant(records: list[Put], kind: Kind) -> None:
    starts: dict[int, Any] = {}
    join = HistoryJoin(kind, pair)
    for place, (side, value, ts) in enumerate(records):
        for change in join.put(side, "k", value, ts):  # type: ignore[arg-type]
            if change.op == "retract":
                del starts[change.valid_from_us]
            else:
                assert (change.valid_from_us in starts) == (change.op == "update")
                starts[change.valid_from_us] = change.new
        for at in range(-10, 11):
            valid = [start for start in starts if start <= at]
            assert (starts[max(valid)] if valid else None) == brute_force(records[: place + 1], kind, at)


@given(RECORDS, KINDS)
def test_the_history_holds_no_start_that_says_nothing(records: list[Put], kind: Kind) -> None:
    join = HistoryJoin(kind, pair)
    joined(join, records)
    values = [None, *(value for _, value in join.history("k"))]
    assert not any(before is None and after is None for before, after in pairwise(values))


@given(RECORDS, KINDS)
def test_old_is_the_result_that_was_valid_there_before(records: list[Put], kind: Kind) -> None:
    join = HistoryJoin(kind, pair)
    for place, (side, value, ts) in enumerate(records):
        for change in join.put(side, "k", value, ts):  # type: ignore[arg-type]
            assert change.old == brute_force(records[:place], kind, change.valid_from_us)
            assert change.new == brute_force(records[: place + 1], kind, change.valid_from_us)


@given(RECORDS, KINDS)
def test_the_latest_change_of_a_record_leads_from_one_latest_result_to_the_next(records: list[Put], kind: Kind) -> None:
    latest = None
    join = HistoryJoin(kind, pair)
    for place, (side, value, ts) in enumerate(records):
        for change in join.put(side, "k", value, ts):  # type: ignore[arg-type]
            if change.is_latest:
                assert change.old == latest
                latest = change.new
        assert latest == brute_force(records[: place + 1], kind, 10)


@given(RECORDS, KINDS)
def test_of_the_changes_of_a_record_at_most_the_last_is_the_latest(records: list[Put], kind: Kind) -> None:
    join = HistoryJoin(kind, pair)
    for side, value, ts in records:
        changes = join.put(side, "k", value, ts)  # type: ignore[arg-type]
        assert not any(change.is_latest for change in changes[:-1])


def test_a_start_that_vanishes_behind_a_new_end_is_what_takes_the_latest_result_back() -> None:
    join = HistoryJoin("left", pair)
    joined(join, puts("a10", "b40"))
    found = [(change.op, change.valid_from_us, change.old, change.is_latest) for change in joined(join, puts("a20-"))]
    assert found == [("insert", 20, "(a10,None)", False), ("retract", 40, "(a10,b40)", True)]
