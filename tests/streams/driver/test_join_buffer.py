"""Stream-stream joins against the definition: every pair in reach once, every lonely record once."""

from __future__ import annotations

import copy
from collections.abc import Collection

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.driver.join_buffer import JoinBuffer, Side
from streams.rows import Row
from suppress.windows import JoinWindows

MANY = settings(max_examples=200)
FLUSH_US = 100_000

WINDOWS = st.builds(JoinWindows, st.integers(0, 10), st.integers(1, 10), st.integers(0, 10))
HISTORY = st.lists(st.tuples(st.sampled_from(list(Side)), st.sampled_from("ab"), st.integers(-20, 60)), max_size=30)

Record = tuple[Side, str, int]


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
    # Two steps past the end: the first look may stop short of the last record, as Kafka's does.
    flush = [(Side.LEFT, "flush", FLUSH_US), (Side.RIGHT, "flush", 2 * FLUSH_US)]
    for position, (side, key, ts) in enumerate([*history, *flush]):
        # Not among the steps past the end, of which none waits for a partner.
        if position in cuts and position <= len(history):
            buffer = JoinBuffer.restore(windows, map(copy.copy, buffer.records()), padded_sides, buffer.marks())
        stream_time = buffer.advance(ts)
        if ts == stream_time:
            for held in buffer.final_unmatched(side):
                padded.append(held.value.n)
                at.append(stream_time)
        record = buffer.hold(side, Row(key=key), Row(n=position), ts)
        for partner in buffer.partners(side, Row(key=key), ts):
            record.matched = True
            other = partner.value.n
            pairs.append((position, other) if side is Side.LEFT else (other, position))
        if not record.matched and key != "flush" and side in padded_sides:
            if buffer.is_final(side, ts):
                record.padded = True
                padded.append(position)
                at.append(stream_time)
            else:
                buffer.await_match(record)
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
    padded_sides=st.sampled_from([(), (Side.LEFT,), tuple(Side)]),
)
# Beyond its side's horizon as soon as it is there, though it still waits to be padded.
@example(JoinWindows(0, 0, 0), [(Side.LEFT, "a", 19)], frozenset({1}), (Side.LEFT,))
@example(JoinWindows(0, 1, 0), [(Side.LEFT, "a", 60), (Side.LEFT, "a", 0), (Side.RIGHT, "a", 0)], frozenset({1, 2}), ())
def test_a_buffer_that_is_restored_from_its_records_goes_on_as_if_nothing_had_happened(
    windows: JoinWindows, history: list[Record], cuts: frozenset[int], padded_sides: tuple[Side, ...]
) -> None:
    assert run(windows, history, cuts, padded_sides) == run(windows, history, (), padded_sides)
