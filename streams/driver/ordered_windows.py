"""The windows of one key in order, with their state; finds those near an instant without visiting the others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final, Generic, TypeVar

from suppress.window_rules import Window

T = TypeVar("T")

_START: Final = attrgetter("start_us")
_PLACE: Final = attrgetter("start_us", "end_us")


class OrderedWindows(Generic[T]):
    """Windows in order of start, then end, with a value for each.

    Sessions may lie within one another, since a late record may extend an open session over the span of a closed one
    beside it. So ends are not in order, and for each place the latest end up to there is kept.

    Example:
        >>> windows = OrderedWindows()
        >>> for start_us in (20, 0, 10):
        ...     windows.put(Window(start_us, start_us + 5), "kept")
        >>> windows.touching(5, 10)
        [Window(start_us=0, end_us=5), Window(start_us=10, end_us=15)]
    """

    def __init__(self) -> None:
        self._kept: dict[Window, T] = {}
        self._order: list[Window] = []
        self._latest_end_us: list[int] = []

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, window: Window) -> bool:
        return window in self._kept

    def __getitem__(self, window: Window) -> T:
        return self._kept[window]

    def get(self, window: Window) -> T | None:
        """The value kept for a window, or ``None``."""
        return self._kept.get(window)

    def items(self) -> Iterator[tuple[Window, T]]:
        """Every window in order, with the value kept for it."""
        for window in list(self._order):
            yield window, self._kept[window]

    def put(self, window: Window, kept: T) -> None:
        """Keep a value for a window, in place of any earlier one."""
        if window not in self._kept:
            place = self._place(window)
            self._order.insert(place, window)
            self._latest_end_us.insert(place, window.end_us)
            self._renew(place)
        self._kept[window] = kept

    def remove(self, window: Window) -> None:
        """Forget a window, if it is known."""
        if window in self._kept:
            place = self._place(window)
            del self._kept[window], self._order[place], self._latest_end_us[place]
            self._renew(place)

    def forget_ended(self, before_us: int) -> None:
        """Forget windows that ended before an instant."""
        begun = bisect_left(self._order, before_us, key=_START)
        left = [place for place in range(begun) if self._order[place].end_us >= before_us]
        if len(left) == begun:
            return
        for window in self._order[:begun]:
            if window.end_us < before_us:
                del self._kept[window]
        # Forgotten windows ended before all that stay, so they were the latest end at the place of none of these.
        self._latest_end_us[:begun] = [self._latest_end_us[place] for place in left]
        self._order[:begun] = [self._order[place] for place in left]

    def starting(self, from_us: int, to_us: int) -> list[Window]:
        """The windows that start within an interval, in order; both ends are inclusive."""
        first = bisect_left(self._order, from_us, key=_START)
        return self._order[first : bisect_right(self._order, to_us, key=_START)]

    def touching(self, from_us: int, to_us: int) -> list[Window]:
        """The windows that share an instant with an interval, in order; all ends are inclusive."""
        place = bisect_right(self._order, to_us, key=_START)
        found = []
        while place > 0 and self._latest_end_us[place - 1] >= from_us:
            place -= 1
            if self._order[place].end_us >= from_us:
                found.append(self._order[place])
        return found[::-1]

    def _place(self, window: Window) -> int:
        return bisect_left(self._order, _PLACE(window), key=_PLACE)

    def _renew(self, changed: int) -> None:
        """Recompute the latest ends from the place where a window came or went, as far as they change."""
        for place in range(changed, len(self._order)):
            latest_us = self._order[place].end_us
            if place > 0:
                latest_us = max(latest_us, self._latest_end_us[place - 1])
            if place > changed and self._latest_end_us[place] == latest_us:
                return
            self._latest_end_us[place] = latest_us
