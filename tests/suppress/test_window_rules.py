"""Windows: assignment, closing, sessions and sliding windows, also before the epoch, and against plain definitions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suppress.window_rules import (
    FOREVER_US,
    Window,
    assign,
    close_wait_us,
    first_taken_us,
    is_closed,
    last_taken_us,
    lateness_us,
    merge_session,
    slide,
)
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US

MANY = settings(max_examples=200, deadline=None)


def tumbling(size_us: int, grace_us: int = 0) -> TimeWindows:
    return TimeWindows(size_us=size_us, advance_us=size_us, grace_us=grace_us)


@pytest.mark.parametrize(
    ("windows", "ts_us", "starts"),
    [
        (tumbling(10), 0, [0]),
        (tumbling(10), 9, [0]),
        (tumbling(10), 10, [10]),
        (tumbling(10), -1, [-10]),
        (tumbling(10), -10, [-10]),
        (TimeWindows(size_us=10, advance_us=4, grace_us=0), 11, [4, 8]),
        (TimeWindows(size_us=10, advance_us=4, grace_us=0), 3, [0]),
        (TimeWindows(size_us=10, advance_us=4, grace_us=0), -1, [-8, -4]),
        (UnlimitedWindows(start_us=5), 5, [5]),
        (UnlimitedWindows(start_us=5), 4, []),
    ],
)
def test_a_record_belongs_to_the_windows_that_contain_it(
    windows: TimeWindows | UnlimitedWindows, ts_us: int, starts: list[int]
) -> None:
    assert [window.start_us for window in assign(windows, ts_us)] == starts


@MANY
@given(size_us=st.integers(1, 20), advance_us=st.integers(1, 20), ts_us=st.integers(-60, 60))
def test_assignment_equals_a_search_over_all_windows(size_us: int, advance_us: int, ts_us: int) -> None:
    advance_us = min(advance_us, size_us)
    windows = TimeWindows(size_us=size_us, advance_us=advance_us, grace_us=0)
    every = (Window(n * advance_us, n * advance_us + size_us) for n in range(-100, 100))
    wanted = [w for w in every if w.start_us <= ts_us < w.end_us and (ts_us < 0 or w.start_us >= 0)]
    assert list(assign(windows, ts_us)) == wanted


@MANY
@given(size_us=st.integers(1, 9 * 10**9), advance_us=st.integers(10**6, 10**9), hops=st.booleans())
def test_the_first_and_last_record_that_are_taken_are_those_without_a_window_outside_the_time_of_tables(
    size_us: int, advance_us: int, hops: bool
) -> None:
    windows = TimeWindows(size_us=size_us, advance_us=min(advance_us, size_us) if hops else size_us, grace_us=0)
    first_us = first_taken_us(windows)
    starts = [min(window.start_us for window in assign(windows, us)) for us in (first_us, first_us - 1)]
    assert starts[0] >= FIRST_INSTANT_US > starts[1]
    last_us = last_taken_us(windows)
    ends = [max(window.end_us for window in assign(windows, us)) for us in (last_us, last_us + 1)]
    assert ends[0] <= LAST_INSTANT_US < ends[1]


@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows(size_us=10**18, advance_us=10**18, grace_us=0),
        TimeWindows(size_us=10**18, advance_us=1, grace_us=0),
        SlidingWindows(difference_us=10**18, grace_us=0),
        UnlimitedWindows(),
    ],
    ids=repr,
)
def test_the_longest_windows_take_every_record_from_the_epoch_on(windows: Windows) -> None:
    assert first_taken_us(windows) == 0


def test_sessions_take_every_record_to_the_last_and_sliding_windows_those_whose_next_window_ends_by_then() -> None:
    assert last_taken_us(SessionWindows(gap_us=5, grace_us=0)) == last_taken_us(UnlimitedWindows()) == LAST_INSTANT_US
    windows = SlidingWindows(difference_us=10, grace_us=0)
    last_us = last_taken_us(windows, unit_us=1000)
    steps = slide(windows, {Window(last_us, last_us + 10): last_us + 5}, last_us, unit_us=1000)
    assert max(step.window.end_us for step in steps) == LAST_INSTANT_US


def test_sessions_take_every_record_and_sliding_windows_those_a_window_after_the_first_instant() -> None:
    assert first_taken_us(SessionWindows(gap_us=5, grace_us=0)) == FIRST_INSTANT_US
    first_us = first_taken_us(SlidingWindows(difference_us=10, grace_us=0))
    assert [step.window.start_us for step in slide(SlidingWindows(10, 0), {}, first_us)] == [FIRST_INSTANT_US]


@pytest.mark.rule("R4", "R10", "R13", "R52")
@pytest.mark.parametrize(
    ("windows", "window", "final_at"),
    [
        (tumbling(10, 3), Window(0, 10), 13),
        (TimeWindows(size_us=10, advance_us=5, grace_us=0), Window(5, 15), 15),
        (SlidingWindows(difference_us=10, grace_us=3), Window(0, 10), 14),
        (SessionWindows(gap_us=5, grace_us=3), Window(0, 10), 19),
    ],
    ids=["end + grace", "no grace", "sliding: its end still takes a record", "session: gap as well"],
)
def test_a_window_is_closed_once_no_record_can_change_it(windows: Windows, window: Window, final_at: int) -> None:
    assert [is_closed(windows, window, final_at + step) for step in (-1, 0, 1)] == [False, True, True]


@pytest.mark.rule("R9")
def test_an_unlimited_window_never_closes_although_it_takes_a_grace() -> None:
    assert not is_closed(UnlimitedWindows(start_us=0, grace_us=5), Window(0, FOREVER_US), FOREVER_US)


def test_an_inclusive_end_closes_one_unit_of_the_resolution_later() -> None:
    assert close_wait_us(SlidingWindows(difference_us=10_000, grace_us=3_000), unit_us=1_000) == 4_000


@pytest.mark.rule("R11")
def test_lateness_is_never_negative() -> None:
    assert [lateness_us(10, ts) for ts in (4, 10, 12)] == [6, 0, 0]


def test_the_gap_of_a_session_is_inclusive() -> None:
    windows = SessionWindows(gap_us=5, grace_us=100)
    assert merge_session(windows, [Window(0, 3)], 8, 8).window == Window(0, 8)
    assert merge_session(windows, [Window(0, 3)], 9, 9).window == Window(9, 9)


@pytest.mark.rule("R28")
def test_a_bridging_record_takes_both_sessions_back_in_order_of_end() -> None:
    merge = merge_session(SessionWindows(gap_us=5, grace_us=100), [Window(10, 20), Window(0, 3)], 7, 20)
    assert merge.window == Window(0, 20)
    assert merge.retracted == (Window(0, 3), Window(10, 20))


@pytest.mark.parametrize(("session", "ts_us", "retracted"), [((0, 10), 4, True), ((4, 4), 4, False)])
def test_a_session_is_updated_in_place_only_at_its_single_instant(
    session: tuple[int, int], ts_us: int, retracted: bool
) -> None:
    merge = merge_session(SessionWindows(gap_us=5, grace_us=100), [Window(*session)], ts_us, 10)
    assert merge.retracted == ((Window(*session),) if retracted else ())


def test_a_closed_session_is_never_merged() -> None:
    merge = merge_session(SessionWindows(gap_us=5, grace_us=0), [Window(0, 3)], 8, 9)
    assert merge.window == Window(8, 8)


@MANY
@given(st.lists(st.integers(-60, 60), max_size=25), st.integers(0, 10))
def test_without_late_records_sessions_are_the_runs_whose_gaps_are_small_enough(times: list[int], gap_us: int) -> None:
    windows = SessionWindows(gap_us=gap_us, grace_us=1_000)
    sessions: set[Window] = set()
    for position, ts in enumerate(times):
        merge = merge_session(windows, sessions, ts, max(times[: position + 1]))
        sessions = sessions - set(merge.merged) | {merge.window}
    runs: list[list[int]] = []
    for ts in sorted(times):
        if runs and ts - runs[-1][-1] <= gap_us:
            runs[-1].append(ts)
        else:
            runs.append([ts])
    assert sessions == {Window(run[0], run[-1]) for run in runs}


def sliding_counts(difference_us: int, times: list[int], unit_us: int = 1) -> dict[Window, tuple[int, int]]:
    """Windows with their count and their largest timestamp, built by :func:`slide` in order of arrival."""
    state: dict[Window, tuple[int, int]] = {}
    windows = SlidingWindows(difference_us=difference_us, grace_us=10**9)
    for ts in times:
        before = dict(state)
        for step in slide(windows, {window: latest for window, (_, latest) in before.items()}, ts, unit_us):
            count, latest = before[step.base] if step.base else (0, ts)
            state[step.window] = (count + step.adds, max(latest, ts) if step.adds else latest)
    return state


def sliding_definition(difference_us: int, times: list[int]) -> dict[Window, tuple[int, int]]:
    """Every window that a record makes by the definition, with what lies in it."""
    made = set()
    for ts in times:
        early = 0 <= ts < difference_us
        made.add(Window(0, difference_us) if early else Window(ts - difference_us, ts))
        made.add(Window(ts + 1, ts + 1 + difference_us))
    content = {}
    for window in made:
        inside = [
            ts for ts in times if window.start_us <= ts <= window.end_us and (ts < 0 or window.start_us >= 0)
            and (ts >= 0 or window.start_us < 0)
        ]  # fmt: skip
        if inside:
            content[window] = (len(inside), max(inside))
    return content


@MANY
@given(st.integers(0, 12), st.lists(st.integers(0, 60), max_size=25))
def test_sliding_windows_equal_their_definition_in_any_order_of_arrival(difference_us: int, times: list[int]) -> None:
    assert sliding_counts(difference_us, times) == sliding_definition(difference_us, times)


@MANY
@given(st.integers(0, 12), st.lists(st.integers(-60, 20), max_size=25))
def test_sliding_windows_equal_their_definition_before_the_epoch(difference_us: int, times: list[int]) -> None:
    assert sliding_counts(difference_us, times) == sliding_definition(difference_us, times)


def test_what_only_a_later_window_knows_is_no_predecessor_once_the_window_of_that_record_is_deleted() -> None:
    steps = slide(SlidingWindows(difference_us=6), {Window(21, 27): 22}, 26)
    assert [(step.window, step.base) for step in steps] == [(Window(21, 27), Window(21, 27)), (Window(20, 26), None)]


@pytest.mark.parametrize("ts_us", [3, 9, 10, 12, 26])
def test_the_steps_of_a_record_do_not_hang_on_the_order_in_which_windows_are_told(ts_us: int) -> None:
    known = {Window(0, 10): 8, Window(5, 15): 15, Window(8, 18): 15, Window(9, 19): 15, Window(16, 26): 20}
    windows = SlidingWindows(difference_us=10)
    assert slide(windows, dict(reversed(known.items())), ts_us) == slide(windows, known, ts_us)


def test_a_record_at_the_very_difference_is_no_early_one() -> None:
    known = {Window(0, 15): 3, Window(15, 30): 30}
    made = [step.window for step in slide(SlidingWindows(difference_us=15), known, 15)]
    assert made == [Window(15, 30), Window(0, 15), Window(4, 19), Window(16, 31)]


def test_the_right_window_starts_one_unit_of_the_resolution_later() -> None:
    steps = slide(SlidingWindows(difference_us=10_000), {Window(20_000, 30_000): 30_000}, 35_000, unit_us=1_000)
    assert steps[0].window == Window(31_000, 41_000)
