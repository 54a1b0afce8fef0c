"""Stream-stream joins on the test driver: kinds, nulls, grace, one padded result at most."""

from __future__ import annotations

from typing import Any

import pytest

from streams.rows import Row
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.windows import JoinWindows

Output = tuple[Any, Any, Any, int]


def driver(kind: Any, windows: JoinWindows) -> TopologyTestDriver:
    builder = StreamsBuilder()
    left, right = (builder.stream(side) for side in ("left", "right"))
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    pair = join(right, lambda left, right: {"left": left.value, "right": right.value}, windows=windows, name="join")
    pair.to_changelog("out")
    return TopologyTestDriver(builder.build())


def piped(running: TopologyTestDriver, *records: tuple[str, Any, Any, int]) -> list[Output]:
    for topic, key, value, ts in records:
        running.pipe_input(topic, key, value, ts)
    return [
        (record.key and record.key.key, *(record.value or Row(left=None, right=None)).values(), record.ts_us)
        for record in running.read_output("out")
    ]


@pytest.mark.parametrize(
    ("right_ts", "joins"), [(94, False), (95, True), (110, True), (111, False)], ids=lambda value: str(value)
)
def test_both_ends_of_the_window_are_inclusive(right_ts: int, joins: bool) -> None:
    running = driver("inner", JoinWindows(before_us=5, after_us=10, grace_us=100))
    assert bool(piped(running, ("left", "k", "l", 100), ("right", "k", "r", right_ts))) is joins


@pytest.mark.parametrize(("newest", "joins"), [(24, True), (25, False)])
def test_a_record_is_remembered_until_its_own_side_is_later_by_the_window_and_the_grace(
    newest: int, joins: bool
) -> None:
    running = driver("inner", JoinWindows(before_us=5, after_us=10, grace_us=10))
    outputs = piped(running, ("left", "k", "l", 0), ("left", "other", "l", newest), ("right", "k", "r", 0))
    assert bool(outputs) is joins


def test_the_result_has_the_later_timestamp_whichever_side_came_last() -> None:
    running = driver("inner", JoinWindows(10, 10, 0))
    assert piped(running, ("left", "k", "l", 7), ("right", "k", "r", 3)) == [("k", "l", "r", 7)]


@pytest.mark.rule("R7")
@pytest.mark.parametrize(("grace_us", "padded_at"), [(0, 16), (5, 21)])
def test_an_unmatched_left_record_is_padded_once_its_window_and_grace_have_passed(
    grace_us: int, padded_at: int
) -> None:
    running = driver("left", JoinWindows(10, 10, grace_us))
    piped(running, ("left", "k", "l", 5))
    times = [ts for ts in range(6, 30) if piped(running, ("left", f"other{ts}", "x", ts))[:1] == [("k", "l", None, 5)]]
    assert times == [padded_at]


@pytest.mark.parametrize(
    ("kind", "outputs"),
    [("inner", []), ("left", [(None, "l", None, 1)]), ("outer", [(None, "l", None, 1), (None, None, "r", 2)])],
)
def test_records_without_key_are_padded_at_once_where_their_side_is_kept(kind: Any, outputs: list[Output]) -> None:
    running = driver(kind, JoinWindows(10, 10, 0))
    assert piped(running, ("left", None, "l", 1), ("right", None, "r", 2)) == outputs
    assert running.counters("join")["skipped"] == 2 - len(outputs)


@pytest.mark.parametrize(
    ("kind", "key", "value", "reason"),
    [("outer", "k", None, "NULL_VALUE"), ("inner", "k", None, "NULL_VALUE"), ("inner", None, "v", "NULL_KEY")],
)
def test_nulls_that_join_nothing_are_skipped_and_rejected_with_the_reason(
    kind: str, key: str | None, value: str | None, reason: str
) -> None:
    running = driver(kind, JoinWindows(10, 10, 0))
    assert piped(running, ("left", key, value, 1), ("right", key, value, 2)) == []
    assert [reject.reason for reject in running.rejects] == [reason, reason]


def test_a_record_without_value_moves_the_time_after_which_records_are_padded() -> None:
    running = driver("left", JoinWindows(10, 10, 0))
    outputs = piped(running, ("left", "k", "l", 0), ("right", "other", None, 11), ("left", "k", "l2", 11))
    assert outputs == [("k", "l", None, 0)]


@pytest.mark.rule("R62")
def test_a_record_too_late_to_meet_anybody_counts_as_late_in_an_inner_join() -> None:
    running = driver("inner", JoinWindows(10, 10, 0))
    piped(running, ("left", "a", "l", 100), ("right", "b", "r", 50))
    assert running.counters("join")["late"] == 1


def test_a_padded_record_is_never_joined_afterwards() -> None:
    running = driver("outer", JoinWindows(10, 10, 0))
    first = piped(running, ("left", "k", "l", 0), ("right", "t", "t", 11))
    second = piped(running, ("right", "k", "r", 5))
    assert first == [("k", "l", None, 0)]
    assert second == []


def test_sides_that_call_the_key_differently_meet_by_its_parts() -> None:
    builder = StreamsBuilder()
    left, right = builder.stream("left", key="a", value="v"), builder.stream("right", key="b", value="v")
    joined = left.outer_join(right, lambda left, right: {"l": left.v, "r": right.v}, windows=JoinWindows(10, 10, 0))
    joined.to_changelog("out")
    running = TopologyTestDriver(builder.build())
    running.pipe_input("left", "k", "l", 0)
    running.pipe_input("right", "k", "r", 1)
    running.pipe_input("right", "other", "alone", 2)
    running.pipe_input("right", "k", "r", 100)
    told = [(record.key, record.value) for record in running.read_output("out")]
    assert told == [(Row(a="k"), Row(l="l", r="r")), (Row(a="other"), Row(l=None, r="alone"))]
