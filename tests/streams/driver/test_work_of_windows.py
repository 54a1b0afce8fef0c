"""What a record costs does not grow with the windows of its key: only those that it can touch are looked at."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from steps import steps_of

from streams.driver.aggregators import Aggregator
from streams.driver.window_state import WindowState
from streams.nodes import Aggregation
from streams.rows import Row
from suppress.window_rules import Window
from suppress.windows import SessionWindows, SlidingWindows, Windows

KEY = Row(key="a")
KEEP_ALL_US = 2**62
SLIDING, SESSIONS = SlidingWindows(60, grace_us=10**6), SessionWindows(5, grace_us=10**6)


def filled(windows: Windows, times: range | list[int]) -> WindowState:
    state = WindowState(windows, Aggregator(Aggregation("count")), 1, KEEP_ALL_US)
    for ts_us in times:
        state.add(KEY, Row(v=1), ts_us, max(times))
    return state


def work_of_records(windows: Windows, known: int) -> int:
    """The work of a hundred records late and new, after so many of one key."""
    times = range(20, 20 * known, 20)
    state = filled(windows, times)
    later = random.Random(3).sample(range(20 * known // 2, 20 * known), 100)
    return steps_of(lambda: [state.add(KEY, Row(v=1), ts_us, 20 * known) for ts_us in later])


def work_beside_idle(windows: Windows, known: int) -> int:
    """The work of a hundred records, after so many windows of the key were closed by the wall clock."""
    times = range(20, 20 * known, 20)
    state = filled(windows, times)
    for ts_us in times[:-100]:
        state.close_idle(KEY, Window(ts_us, ts_us))
    return steps_of(lambda: [state.add(KEY, Row(v=1), ts_us + 2, 20 * known) for ts_us in times[-100:]])


def work_of_purges(windows: Windows, known: int) -> int:
    """The work of a hundred purges with nothing to remove."""
    state = filled(windows, range(20, 20 * known, 20))

    def purge_often() -> None:
        for _ in range(100):
            state.purge(KEEP_ALL_US)

    return steps_of(purge_often)


@pytest.mark.parametrize("windows", [SLIDING, SESSIONS], ids=["sliding", "sessions"])
@pytest.mark.parametrize(
    "work", [work_of_records, work_beside_idle, work_of_purges], ids=["records", "beside idle windows", "purges"]
)
def test_a_record_costs_as_much_beside_many_windows_of_its_key_as_beside_few(
    work: Callable[[Windows, int], int], windows: Windows
) -> None:
    few, many = work(windows, 500), work(windows, 2_000)
    # Finding a place among four times as many takes two comparisons more, not four times as many.
    assert many < 1.2 * few
