"""The buffers of one suppression, one per stream-time scope, and which of them holds a key.

A key has one row, wherever its records come from; with two, the older one could leave last. So a key that occurs in
several scopes moves between their buffers, and continues to wait there as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from suppress.buffer_rules import Emission, SuppressBuffer, Update
from suppress.windows import TimeWindows, Windows


def stays(windows: Windows | None, held: tuple[int, int], record: tuple[int, int]) -> bool:
    """Whether a window stays in its scope when a record of another scope changes it.

    A tumbling or hopping window stays in the scope of its newest record (at equal times, the greatest scope). Any other
    window moves to the scope of each record.

    Args:
        windows: The windows of the table, or None.
        held: The newest instant of the window, and its scope.
        record: The instant of the record, and its scope.

    Example:
        >>> stays(TimeWindows.of("1 minute"), (7, 0), (5, 1)), stays(TimeWindows.of("1 minute"), (7, 0), (7, 1))
        (True, False)
    """
    return isinstance(windows, TimeWindows) and held > record


class ScopedBuffers:
    """The buffers of one suppression, one per scope.

    Args:
        make: Makes the buffer of a scope on its first use.
        windows: The windows of the table, or None.

    Example:
        >>> from suppress.buffer_rules import BufferRule
        >>> rule, update = BufferRule("final", wait_us=5, final=True), Update("k", b"k", "v", None, 3)
        >>> buffers = ScopedBuffers(lambda scope: SuppressBuffer(rule), None)
        >>> for scope in (0, 1):
        ...     left = list(buffers.put(scope, update, buffers.holder(scope, update, 3), arrived_us=3, now_us=0))
        >>> [(scope, buffer.records) for scope, buffer in buffers]
        [(0, 0), (1, 1)]
    """

    def __init__(self, make: Callable[[int], SuppressBuffer], windows: Windows | None) -> None:
        self._make = make
        self._windows = windows
        self._buffers: dict[int, SuppressBuffer] = {}

    def __iter__(self) -> Iterator[tuple[int, SuppressBuffer]]:
        """The scopes with their buffers, in order of scope."""
        return ((scope, self._buffers[scope]) for scope in sorted(self._buffers))

    @property
    def records(self) -> int:
        """Number of buffered keys of all scopes."""
        return sum(buffer.records for buffer in self._buffers.values())

    @property
    def bytes(self) -> int:
        """Bytes of the buffered rows of all scopes."""
        return sum(buffer.bytes for buffer in self._buffers.values())

    def of(self, scope: int) -> SuppressBuffer:
        """The buffer of a scope, made on first use."""
        if scope not in self._buffers:
            self._buffers[scope] = self._make(scope)
        return self._buffers[scope]

    def holder(self, scope: int, update: Update, record_us: int) -> SuppressBuffer:
        """Return the buffer that is to hold an update, after moving the key's row there from any other buffer.

        This is the buffer of the record's scope, unless results are final and the window :func:`stays` where it is.

        Args:
            scope: The scope of the record.
            update: The change that the record made.
            record_us: The record's own instant, which may be older than the newest instant of its window.
        """
        own = self.of(scope)
        for other, buffer in self._buffers.items():
            held = None if buffer is own else buffer.get(update.key)
            if held is None:
                continue
            if own.rule.final and stays(self._windows, (held.ts_us, other), (record_us, scope)):
                return buffer
            buffer.forget(update.key)
            own.hold(held)
        return own

    def put(
        self, scope: int, update: Update, holder: SuppressBuffer, *, arrived_us: int, now_us: int
    ) -> Iterator[Emission]:
        """Apply one change and return what leaves because of it, oldest first in each buffer.

        As with :meth:`SuppressBuffer.put`, it leaves while the result is iterated: take all of it before the next call.

        Args:
            scope: The scope of the record.
            update: The change that the record made.
            holder: The buffer that :meth:`holder` returned.
            arrived_us: The stream time of the record's scope, the record included.
            now_us: The wall clock.

        Raises:
            BufferFullError: while iterated; as for :meth:`SuppressBuffer.put`.
        """
        own = self.of(scope)
        if not own.rule.final:
            return holder.put(update, now_us)
        # The newest instant of the window may be that of another scope's record, which moves no stream time here.
        reached_us = min(update.ts_us, arrived_us)
        if holder is own:
            return own.put(update, now_us, reached_us)
        # No record of the holder's scope came, so its stream time stays.
        left = holder.put(update, now_us, holder.stream_time_us)
        return chain(left, own.advance(reached_us, now_us))
