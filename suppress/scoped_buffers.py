"""The buffers of one suppression, one per stream-time scope, and which of them holds a key.

A key has one row, wherever its records come from: of two, the older one could leave last. So a key that comes from
several scopes moves between their buffers, and goes on waiting there as it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from suppress.buffer_rules import Emission, SuppressBuffer, Update
from suppress.windows import TimeWindows, Windows


def stays(windows: Windows | None, held: tuple[int, int], record: tuple[int, int]) -> bool:
    """Whether a window stays in its scope though a record of another one changes it.

    A tumbling or hopping window stays with its newest record, of equal times with that of the greatest scope; any other
    goes along with each record.

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
    """The buffers of one suppression.

    Args:
        make: Makes the buffer of a scope that is seen for the first time.
        windows: The windows of the table, or None.

    Example:
        >>> from suppress.buffer_rules import BufferRule
        >>> rule, update = BufferRule("final", wait_us=5, final=True), Update("k", b"k", "v", None, 3)
        >>> buffers = ScopedBuffers(lambda scope: SuppressBuffer(rule), None)
        >>> for scope in (0, 1):
        ...     told = buffers.put(scope, update, buffers.holder(scope, update, 3), arrived_us=3, now_us=0)
        >>> [(scope, buffer.records) for scope, buffer in buffers]
        [(0, 0), (1, 1)]
    """

    def __init__(self, make: Callable[[int], SuppressBuffer], windows: Windows | None) -> None:
        self._make = make
        self._windows = windows
        self._buffers: dict[int, SuppressBuffer] = {}

    def __iter__(self) -> Iterator[tuple[int, SuppressBuffer]]:
        """Scopes with their buffers, in order, whichever had a record first."""
        return ((scope, self._buffers[scope]) for scope in sorted(self._buffers))

    @property
    def records(self) -> int:
        """Buffered keys of all scopes."""
        return sum(buffer.records for buffer in self._buffers.values())

    @property
    def bytes(self) -> int:
        """Bytes of all buffered rows."""
        return sum(buffer.bytes for buffer in self._buffers.values())

    def of(self, scope: int) -> SuppressBuffer:
        """The buffer of a scope."""
        if scope not in self._buffers:
            self._buffers[scope] = self._make(scope)
        return self._buffers[scope]

    def holder(self, scope: int, update: Update, record_us: int) -> SuppressBuffer:
        """The buffer that holds an update from now on; no other one does.

        It is that of the record, unless it is of final results and the window :func:`stays` where it is.

        Args:
            scope: Where the record came from.
            update: What it made of its window.
            record_us: Its own instant, which may be older than the window's newest.
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
    ) -> list[Emission]:
        """Take one change; gives what leaves because of it, oldest first.

        Args:
            scope: Where the record came from.
            update: What it made of its window.
            holder: Who holds it, as :meth:`holder` told.
            arrived_us: The stream time of the record's scope with it.
            now_us: The wall clock.

        Raises:
            BufferFullError: as of :meth:`SuppressBuffer.put`.
        """
        own = self.of(scope)
        if not own.rule.final:
            return holder.put(update, now_us)
        # The newest instant of the window may be that of another scope.
        reached_us = min(update.ts_us, arrived_us)
        if holder is own:
            return own.put(update, now_us, reached_us)
        # No record of the other scope came: its stream time stays.
        return holder.put(update, now_us, holder.stream_time_us) + own.advance(reached_us, now_us)
