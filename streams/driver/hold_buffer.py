"""Holds records until stream time has passed them by a fixed wait, then releases them in order of time.

Stream-table joins with grace (KIP-923) and sources that reorder (R169) use it to wait for late records.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from suppress.order import canonical_order

T = TypeVar("T")


@dataclass(order=True)
class _Held(Generic[T]):
    ts_us: int
    order: bytes
    arrival: int
    item: T = field(compare=False)


class HoldBuffer(Generic[T]):
    """Releases held records in order of (ts, key, arrival); its stream time is the largest ts it has ever held.

    Args:
        wait_us: A record is released once the buffer's stream time is at least its ts + ``wait_us``.

    Example:
        >>> buffer = HoldBuffer[str](10)
        >>> [buffer.hold(ts, ("k",), text) for ts, text in ((20, "b"), (15, "a"), (30, "c"))]
        [[], [], ['a', 'b']]
        >>> buffer.is_too_late(19), buffer.is_too_late(20)
        (True, False)
    """

    def __init__(self, wait_us: int) -> None:
        self._wait_us = wait_us
        self._heap: list[_Held[T]] = []
        self._arrivals = 0
        self.stream_time_us: int | None = None

    def is_too_late(self, ts_us: int) -> bool:
        """Whether records of that time have already been released, so that there is nothing to wait for."""
        return self.stream_time_us is not None and ts_us < self.stream_time_us - self._wait_us

    def hold(self, ts_us: int, key: Iterable[object], item: T) -> list[T]:
        """Hold a record and return those that need not wait any longer, in order."""
        self._arrivals += 1
        heapq.heappush(self._heap, _Held(ts_us, canonical_order(list(key)), self._arrivals, item))
        self.stream_time_us = ts_us if self.stream_time_us is None else max(self.stream_time_us, ts_us)
        released = []
        while self._heap and self._heap[0].ts_us <= self.stream_time_us - self._wait_us:
            released.append(heapq.heappop(self._heap).item)
        return released

    def __len__(self) -> int:
        return len(self._heap)

    def size(self, of: Callable[[T], int]) -> int:
        """The total size of the held records."""
        return sum(of(held.item) for held in self._heap)
