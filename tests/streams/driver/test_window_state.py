"""Windowed aggregates against plain definitions, over random histories with late records."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.driver.aggregators import Aggregator
from streams.driver.window_state import WindowState
from streams.nodes import Aggregation
from streams.rows import Row
from suppress.buffer_config import BufferConfig
from suppress.buffer_rules import SuppressBuffer, Update
from suppress.suppress_rules import buffer_rule, tie_order
from suppress.suppressed import Suppressed
from suppress.window_rules import Window, is_closed
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, Windows

MANY = settings(max_examples=150)
RETENTION_US = 10**9

TIME_WINDOWS = st.builds(
    lambda size, share, grace: TimeWindows(size, max(1, size * share // 4), grace),
    st.integers(1, 15), st.integers(1, 4), st.integers(0, 12),
)  # fmt: skip
ANY_WINDOWS: st.SearchStrategy[Windows] = st.one_of(
    TIME_WINDOWS,
    st.builds(SessionWindows, st.integers(0, 8), st.integers(0, 12)),
    st.builds(SlidingWindows, st.integers(0, 12), st.integers(0, 12)),
)
HISTORY = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-30, 60)), max_size=35)

History = list[tuple[str, int]]


def counts(windows: Windows, kind: Any = "count") -> WindowState:
    return WindowState(windows, Aggregator(Aggregation(kind)), 1, RETENTION_US)


def run(state: WindowState, history: History) -> tuple[list[Any], list[int]]:
    """The outcome of each record and the stream time after it."""
    stream_time, outcomes, times = -(10**9), [], []
    for key, ts in history:
        stream_time = max(stream_time, ts)
        outcomes.append(state.add(Row(key=key), Row(v=1), ts, stream_time))
        times.append(stream_time)
    return outcomes, times


@pytest.mark.rule("R10", "R13")
@MANY
@given(windows=TIME_WINDOWS, history=HISTORY)
def test_a_time_window_holds_exactly_the_records_that_came_before_it_closed(
    windows: TimeWindows, history: History
) -> None:
    state = counts(windows)
    run(state, history)
    expected: Counter[tuple[str, int]] = Counter()
    stream_time = -(10**9)
    for key, ts in history:
        stream_time = max(stream_time, ts)
        for number in range(-60, 80):
            start = number * windows.advance_us
            contains = start <= ts < start + windows.size_us and (ts < 0 or start >= 0)
            if contains and start + windows.size_us + windows.grace_us > stream_time:
                expected[key, start] += 1
    assert {(key.key, window.start_us): slot.state for key, window, slot in state.items()} == expected


@pytest.mark.rule("R13")
@MANY
@given(windows=ANY_WINDOWS, history=HISTORY)
def test_a_closed_window_never_changes(windows: Windows, history: History) -> None:
    outcomes, times = run(counts(windows), history)
    changed = [(result.window, now) for outcome, now in zip(outcomes, times, strict=True) for result in outcome.results]
    assert not [window for window, now in changed if is_closed(windows, window, now)]


@pytest.mark.rule("R5", "R28", "R54")
@MANY
@given(windows=ANY_WINDOWS, history=HISTORY)
def test_every_window_gets_one_final_result_and_it_is_the_last_content(windows: Windows, history: History) -> None:
    state = counts(windows)
    rule = buffer_rule("finals", Suppressed.until_window_closes(BufferConfig.unbounded()), windows)
    buffer = SuppressBuffer(rule)
    finals: list[tuple[Any, ...]] = []
    places: dict[bytes, tuple[Any, ...]] = {}
    stream_time = -(10**9)
    for key, ts in [*history, ("flush", 1_000)]:
        stream_time = max(stream_time, ts)
        emissions = []
        for result in state.add(Row(key=key), Row(v=1), ts, stream_time).results:
            value = None if result.after is None else Row(count=result.after.state)
            rank = tie_order([key], result.window)
            places[rank] = (key, result.window.start_us, result.window.end_us)
            emissions += buffer.put(Update(rank, rank, value, None, result.ts_us, result.window), now_us=0)
        finals += [(*places[emission.row.order], emission.row.value.count) for emission in emissions]
    stored = [
        (key.key, window.start_us, window.end_us, slot.state)
        for key, window, slot in state.items()
        if is_closed(windows, window, stream_time)
    ]
    assert sorted(finals) == sorted(stored)


@MANY
@given(windows=ANY_WINDOWS, history=HISTORY)
def test_a_record_is_late_only_if_no_window_took_it(windows: Windows, history: History) -> None:
    outcomes, _ = run(counts(windows), history)
    assert all(bool(outcome.results) != outcome.is_late for outcome in outcomes)


@pytest.mark.rule("R117")
@pytest.mark.parametrize(
    ("windows", "window"),
    [
        (TimeWindows(10, 10, 100), Window(0, 10)),
        (SessionWindows(5, 100), Window(3, 3)),
    ],
    ids=["tumbling", "session"],
)
def test_a_record_for_a_window_closed_by_the_wall_clock_is_late(windows: Windows, window: Window) -> None:
    state = counts(windows)
    state.add(Row(key="a"), Row(v=1), 3, 3)
    state.close_idle(Row(key="a"), window)
    assert state.add(Row(key="a"), Row(v=1), 4, 4).is_late
    assert not state.add(Row(key="b"), Row(v=1), 4, 4).is_late


@pytest.mark.rule("R20", "R117")
def test_that_a_window_was_closed_by_the_wall_clock_is_forgotten_with_it() -> None:
    state = WindowState(TimeWindows(10, 10, 1_000), Aggregator(Aggregation("count")), 1, retention_us=100)
    state.close_idle(Row(key="a"), Window(0, 10))
    state.purge(111)
    assert not state.add(Row(key="a"), Row(v=1), 3, 111).is_late


@pytest.mark.rule("R20")
def test_a_window_can_be_read_until_its_retention_has_passed() -> None:
    state = WindowState(TimeWindows(10, 10, 0), Aggregator(Aggregation("count")), 1, retention_us=100)
    state.add(Row(key="a"), Row(v=1), 3, 3)
    state.purge(110)
    assert state.get(Row(key="a"), Window(0, 10)) is not None
    state.purge(111)
    assert state.get(Row(key="a"), Window(0, 10)) is None


TEXTS = [("a", 0), ("b", 9), ("c", 4)]


def joined(aggregation: Aggregation, windows: Windows) -> list[Any]:
    """Results per window of the texts of ``TEXTS``."""
    aggregator = Aggregator(aggregation)
    state = WindowState(windows, aggregator, 1, RETENTION_US)
    for text, ts in TEXTS:
        state.add(Row(key="k"), Row(text=text), ts, 9)
    return [aggregator.result(slot.state) for _, _, slot in state.items()]


@pytest.mark.parametrize(
    ("windows", "result"),
    [(TimeWindows(10, 10, 0), ["abc"]), (SessionWindows(5, 10), ["abc"]), (TimeWindows(5, 5, 5), ["ac", "b"])],
    ids=["tumbling", "session merged in order of end", "two windows"],
)
def test_a_reducer_joins_the_values_of_a_window(windows: Windows, result: list[str]) -> None:
    reduce = Aggregation("reduce", adder=lambda left, right: {"text": left.text + right.text})
    assert [row.text for row in joined(reduce, windows)] == result


def test_an_aggregate_keeps_a_plain_value_and_gives_it_as_the_output_field() -> None:
    count_letters = Aggregation(
        "aggregate", "letters", initializer=lambda: 0, adder=lambda key, value, total: total + 1
    )
    assert joined(count_letters, TimeWindows(10, 10, 0)) == [Row(letters=3)]


def test_an_aggregate_that_returns_null_deletes_its_window() -> None:
    reset = Aggregation("aggregate", "n", initializer=lambda: 0, adder=lambda key, value, n: None)
    assert joined(reset, TimeWindows(10, 10, 0)) == []
