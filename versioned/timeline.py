"""One key's versions in order of time: each is valid from its own start (inclusive) to the next start (exclusive)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any


class Timeline:
    """The versions of a key: starts and values at the same positions; a null value is a version like any other.

    Example:
        >>> line = Timeline()
        >>> line.put(20, "new"), line.put(10, "old"), line.put(20, "newer")
        (None, 20, None)
        >>> line.value_at(19), line.value_at(20), line.value_at(9)
        ('old', 'newer', None)
    """

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.values: list[Any] = []

    def put(self, ts_us: int, value: Any) -> int | None:
        """Add a version, or replace the one with the same start, and return the start of the next one."""
        place = bisect_left(self.times, ts_us)
        if place < len(self.times) and self.times[place] == ts_us:
            self.values[place] = value
        else:
            self.times.insert(place, ts_us)
            self.values.insert(place, value)
        return self.ends(place)

    def place_at(self, ts_us: int) -> int:
        """The position of the version valid at an instant; -1 before the first."""
        return bisect_right(self.times, ts_us) - 1

    def value_at(self, ts_us: int) -> Any:
        """The value valid at an instant; null before the first version."""
        place = self.place_at(ts_us)
        return None if place < 0 else self.values[place]

    def ends(self, place: int) -> int | None:
        """When the version at a position stops being valid; ``None`` for the latest."""
        return self.times[place + 1] if place + 1 < len(self.times) else None

    def next_start(self, ts_us: int) -> int | None:
        """The first start after an instant."""
        return self.ends(self.place_at(ts_us))

    def starts(self, from_us: int, to_us: int | None) -> list[int]:
        """The starts in [from, to]; without ``to_us``, up to the latest."""
        end = len(self.times) if to_us is None else bisect_right(self.times, to_us)
        return self.times[bisect_left(self.times, from_us) : end]

    def forget(self, count: int) -> None:
        """Drop the oldest ``count`` versions."""
        del self.times[:count], self.values[:count]
