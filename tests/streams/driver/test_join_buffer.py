"""Stream-stream joins against the definition: every pair in reach once, every lonely record once."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.driver.join_buffer import JoinBuffer, Side
from streams.rows import Row
from suppress.windows import JoinWindows

MANY = settings(max_examples=200)
FLUSH_US = 100_000
L, R = Side.LEFT, Side.RIGHT

WINDOWS = st.builds(JoinWindows, st.integers(0, 10), st.integers(1, 10), st.integers(0, 10))
HISTORY = st.lists(st.tuples(st.sampled_from(list(Side)), st.sampled_from("ab"), st.integers(-20, 60)), max_size=30)
PADDED_SIDES = st.sampled_from([(), (Side.LEFT,), tuple(Side)])

Record = tuple[Side, str, int]

#: Two steps past the end: the first look may stop short of the last record, as Kafka's does.
FLUSH: Final[list[Record]] = [(L, "flush", FLUSH_US), (R, "flush", 2 * FLUSH_US)]


def run(
    windows: JoinWindows,
    history: list[Record],
    cuts: Collection[int] = (),
    padded_sides: Collection[Side] = tuple(Side),
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Joined pairs (left, right), and padded records with the stream time at which they left; by position.

    Before the records at ``cuts`` the buffer is restored from what it tells of itself.
    """
    buffer = JoinBuffer(windows)
    pairs, padded, at = [], [], []
    for position, (side, key, ts) in enumerate([*history, *FLUSH]):
        # Not among the steps past the end, of which none waits for a partner.
        if position in cuts and position <= len(history):
            buffer = JoinBuffer.restore(windows, map(copy.copy, buffer.records()), padded_sides, buffer.marks())
        stream_time = buffer.advance(ts)
        for record, partner in buffer.take(side, Row(key=key), Row(n=position), ts, padded_sides):
            if partner is not None:
                other = partner.value.n
                pairs.append((position, other) if side is Side.LEFT else (other, position))
            elif record.padded and record.value.n < len(history):
                padded.append(record.value.n)
                at.append(stream_time)
    return pairs, padded, at


def in_reach(windows: JoinWindows, left: Record, right: Record) -> bool:
    return left[1] == right[1] and left[2] - windows.before_us <= right[2] <= left[2] + windows.after_us


@MANY
@given(windows=WINDOWS, history=HISTORY)
def test_with_grace_enough_every_pair_in_reach_meets_once(windows: JoinWindows, history: list[Record]) -> None:
    patient = JoinWindows(windows.before_us, windows.after_us, grace_us=1_000)
    pairs, _, _ = run(patient, history)
    expected = [
        (left, right)
        for left, one in enumerate(history)
        for right, other in enumerate(history)
        if one[0] is Side.LEFT and other[0] is Side.RIGHT and in_reach(windows, one, other)
    ]
    assert sorted(pairs) == expected


@MANY
@given(windows=WINDOWS, history=HISTORY)
def test_a_record_is_either_joined_or_padded_once(windows: JoinWindows, history: list[Record]) -> None:
    pairs, padded, _ = run(windows, history)
    met = {position for pair in pairs for position in pair}
    assert sorted([*met, *padded]) == list(range(len(history)))


@MANY
@given(windows=WINDOWS, history=HISTORY)
def test_a_padded_result_never_leaves_before_its_window_and_grace_have_passed(
    windows: JoinWindows, history: list[Record]
) -> None:
    _, padded, at = run(windows, history)
    for position, stream_time in zip(padded, at, strict=True):
        side, _, ts = history[position]
        reach_us = windows.after_us if side is Side.LEFT else windows.before_us
        assert ts + reach_us + windows.grace_us < stream_time


def padded_by_kafka(windows: JoinWindows, history: list[Record], pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What Kafka's scans over all that waits pad, if these pairs meet: positions, with the stream time of each."""
    records = [*history, *FLUSH]
    stream_time = -FLUSH_US
    look_from: int | None = None
    waiting: list[int] = []
    padded = []

    def is_final(side: Side, ts: int) -> bool:
        reach_us = windows.after_us if side is Side.LEFT else windows.before_us
        return ts + reach_us + windows.grace_us < stream_time

    for position, (side, _, ts) in enumerate(records):
        stream_time = max(stream_time, ts)
        if ts == stream_time and look_from is not None and is_final(side, look_from):
            look_from = None
            open_sides: set[Side] = set()
            for place in sorted(waiting, key=lambda place: (records[place][2], *records[place][:2], place)):
                side_of, _, look_from = records[place]
                if len(open_sides) == 2:
                    break
                if is_final(side_of, look_from):
                    waiting.remove(place)
                    padded.append((place, stream_time))
                else:
                    open_sides.add(side_of)
        met = {other for pair in pairs if max(pair) == position for other in pair}
        waiting = [place for place in waiting if place not in met]
        if not met and is_final(side, ts):
            padded.append((position, stream_time))
        elif not met:
            waiting.append(position)
            look_from = ts if look_from is None else min(look_from, ts)
    return [(position, at) for position, at in padded if position < len(history)]


@MANY
@given(windows=WINDOWS, history=HISTORY)
# A record that has met its partner is not where a scan ends: neither as the last of its side,
@example(JoinWindows(3, 5, 5), [(L, "b", 6), (L, "a", 7), (L, "b", 10), (R, "b", 13), (R, "a", 16), (R, "b", 18)])
# nor behind an open record of each side;
@example(
    JoinWindows(0, 3, 6),
    [(R, "b", -9), (L, "b", 6), (R, "a", 10), (R, "a", 12), (L, "a", 12), (R, "a", 15), (L, "b", 20), (R, "b", 19)],
)
# of those that wait there, it is the first one of both sides.
@example(
    JoinWindows(9, 6, 9),
    [(R, "a", -9), (R, "b", 5), (L, "a", 8), (L, "a", 9), (R, "b", 16), (L, "b", 22), (R, "a", 23), (L, "b", 27)],
)
def test_unmatched_records_leave_in_the_order_and_at_the_stream_time_of_kafkas_scans(
    windows: JoinWindows, history: list[Record]
) -> None:
    pairs, padded, at = run(windows, history)
    assert list(zip(padded, at, strict=True)) == padded_by_kafka(windows, history, pairs)


@MANY
@given(windows=WINDOWS, history=HISTORY)
def test_pairs_are_never_out_of_reach(windows: JoinWindows, history: list[Record]) -> None:
    pairs, _, _ = run(windows, history)
    assert all(in_reach(windows, history[left], history[right]) for left, right in pairs)


@MANY
@given(
    windows=WINDOWS,
    history=HISTORY,
    cuts=st.frozensets(st.integers(0, 31)),
    padded_sides=PADDED_SIDES,
)
# The number of the next arrival goes on too, by which partners of one instant are in order.
@example(JoinWindows(0, 1, 0), [(L, "a", 0)] * 3 + [(R, "a", 0)], frozenset({2}), ())
# Beyond its side's horizon as soon as it is there, though it still waits to be padded.
@example(JoinWindows(0, 0, 0), [(L, "a", 19)], frozenset({1}), (Side.LEFT,))
@example(JoinWindows(0, 1, 0), [(L, "a", 60), (L, "a", 0), (R, "a", 0)], frozenset({1, 2}), ())
def test_a_buffer_that_is_restored_from_its_records_goes_on_as_if_nothing_had_happened(
    windows: JoinWindows, history: list[Record], cuts: frozenset[int], padded_sides: tuple[Side, ...]
) -> None:
    assert run(windows, history, cuts, padded_sides) == run(windows, history, (), padded_sides)


@MANY
@given(windows=WINDOWS, history=HISTORY, padded_sides=PADDED_SIDES)
# Matched, and beyond its side's horizon before a scan has met it.
@example(JoinWindows(1, 0, 3), [(R, "a", 7), (L, "a", 7), (R, "b", 11)], tuple(Side))
def test_a_buffer_holds_only_records_that_can_meet_another_one_or_wait_to_be_padded(
    windows: JoinWindows, history: list[Record], padded_sides: tuple[Side, ...]
) -> None:
    buffer = JoinBuffer(windows)
    for position, (side, key, ts) in enumerate(history):
        buffer.advance(ts)
        list(buffer.take(side, Row(key=key), Row(n=position), ts, padded_sides))
    for held in buffer.records():
        newest_us = max(ts for side, _, ts in history if side is held.side)
        can_meet = held.ts_us > newest_us - windows.before_us - windows.after_us - windows.grace_us
        assert can_meet or not (held.matched or held.padded)
