"""Windows in order against the plain definition, over random ones that lie within one another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.driver.ordered_windows import OrderedWindows
from suppress.window_rules import Window

MANY = settings(max_examples=300)
INSTANT = st.integers(-10, 20)
INTERVAL = st.tuples(INSTANT, st.integers(0, 12)).map(lambda ends: (ends[0], ends[0] + ends[1]))
WINDOW = INTERVAL.map(lambda ends: Window(*ends))
STEP = st.one_of(
    st.tuples(st.just("put"), WINDOW),
    st.tuples(st.just("put"), WINDOW),
    st.tuples(st.just("remove"), WINDOW),
    st.tuples(st.just("forget_ended"), INSTANT),
)

Step = tuple[str, Window | int]


def used(steps: list[Step]) -> tuple[OrderedWindows[int], dict[Window, int]]:
    """Windows in order after some steps, and what they should hold."""
    windows: OrderedWindows[int] = OrderedWindows()
    expected: dict[Window, int] = {}
    for number, (name, argument) in enumerate(steps):
        if not isinstance(argument, Window):
            windows.forget_ended(argument)
            expected = {window: kept for window, kept in expected.items() if window.end_us >= argument}
        elif name == "put":
            windows.put(argument, number)
            expected[argument] = number
        else:
            windows.remove(argument)
            expected.pop(argument, None)
    return windows, expected


@MANY
@given(st.lists(STEP, max_size=25))
def test_windows_are_kept_in_order_until_they_are_removed_or_ended(steps: list[Step]) -> None:
    windows, expected = used(steps)
    assert list(windows.items()) == sorted(expected.items())
    assert len(windows) == len(expected)


@MANY
@given(st.lists(STEP, max_size=25), INTERVAL)
def test_the_windows_that_touch_an_interval_and_those_that_start_in_it_are_found(
    steps: list[Step], interval: tuple[int, int]
) -> None:
    windows, expected = used(steps)
    from_us, to_us = interval
    assert windows.touching(from_us, to_us) == [
        window for window in sorted(expected) if window.start_us <= to_us and window.end_us >= from_us
    ]
    assert windows.starting(from_us, to_us) == [
        window for window in sorted(expected) if from_us <= window.start_us <= to_us
    ]


@pytest.mark.parametrize("within", [[(1, 2)], [(10, 12), (20, 25)], [(20, 25), (10, 12)]])
@pytest.mark.parametrize("comes_first", [True, False])
def test_an_outer_window_is_found_behind_those_within_it(within: list[tuple[int, int]], comes_first: bool) -> None:
    outer, inner = Window(0, 100), [Window(*ends) for ends in within]
    windows, _ = used([("put", window) for window in ([outer, *inner] if comes_first else [*inner, outer])])
    assert windows.touching(50, 60) == [outer]
