"""The time-ordered buffer of ``suppress``, pure: insert or overwrite, then evict until every bound holds again.

One class serves both engines. The test driver feeds it record by record. The Spark engine's Arrow kernel resumes with
the instants of the previous batch (:meth:`SuppressBuffer.restore`), puts back the rows of the buffer table one by one
(:meth:`SuppressBuffer.hold`), feeds a batch, and stores :meth:`SuppressBuffer.rows`. The class never reads a clock:
stream time comes from the records, and the wall clock is passed in as data (KIP-539, R126).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import Any, Literal

from suppress.sizes import SizeFunction, record_size
from suppress.spill import SpillFile
from suppress.suppressed import Timer
from suppress.window_rules import Window
from versioned.errors import BufferFullError

BufferClock = Literal["record", "window_start", "window_end", "wall"]
WhenFull = Literal["emit_early", "shut_down", "spill"]


@dataclass(frozen=True)
class BufferRule:
    """The rule by which one suppression holds and emits rows.

    Args:
        node: The suppression's name, for errors.
        wait_us: Microseconds from a row's buffer time to its emission.
        clock: What a row's buffer time is: the record's ts, its window's start or end, or its wall-clock arrival.
        timer: Whether an update keeps the first buffer time (``first``), takes its own ts (``record``), or takes its
            own ts unless that is earlier (``last``, with ``max_age_us``).
        max_age_us: With ``timer="last"``: the longest stay after the first buffered update.
        max_records, max_bytes: The most keys and bytes that the buffer holds; ``None`` = no bound.
        when_full: What happens beyond a bound; without one the buffer is never full.
        retention_us: ``suppressed.record.retention.ms``: the longest stay by the wall clock; ``None`` = off.
        final: Final results of windows: tombstones are not emitted.
        tombstone_lead_us: With ``final``: how much earlier than a result a tombstone leaves (it is not emitted). A
            session that was merged away cannot come back, so it need not wait for the last unit before its window is
            final.
    """

    node: str
    wait_us: int
    clock: BufferClock = "record"
    timer: Timer = "first"
    max_age_us: int | None = None
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: WhenFull = "shut_down"
    retention_us: int | None = None
    final: bool = False
    tombstone_lead_us: int = 0

    @property
    def clock_wait_us(self) -> int | None:
        """The longest that a row waits by the wall clock, in microseconds; ``None`` if that clock releases no row."""
        if self.clock != "wall":
            return self.retention_us
        return self.wait_us if self.retention_us is None else min(self.retention_us, self.wait_us)


@dataclass(frozen=True)
class Update:
    """A change that reaches the buffer; ``order`` breaks ties between equal buffer times (``suppress.order``)."""

    key: Hashable
    order: bytes
    value: Any
    old: Any
    ts_us: int
    window: Window | None = None


@dataclass(frozen=True)
class BufferedRow:
    """A row of the buffer: the latest update of one key.

    ``prior`` is the value that downstream knows (the one replaced when the key entered the buffer); ``old`` is the
    value that the latest update replaced. ``first_us`` is the buffer time of the first update, ``arrived_us`` the wall
    clock at that moment.
    """

    key: Hashable
    order: bytes
    value: Any
    old: Any
    prior: Any
    ts_us: int
    buffer_us: int
    first_us: int
    arrived_us: int
    size: int = 0

    @property
    def rank(self) -> tuple[int, bytes]:
        """The order of eviction: by buffer time, then by the canonical order of the key."""
        return (self.buffer_us, self.order)


def _rank(row: BufferedRow) -> tuple[int, bytes]:
    return row.rank


class Cause(Enum):
    """Why a row left the buffer."""

    DUE = "due"
    FULL = "full"
    RETENTION = "retention"
    DRAIN = "drain"


@dataclass(frozen=True)
class Emission:
    """A row that leaves the buffer, to be emitted with its own timestamp, and why it leaves."""

    row: BufferedRow
    cause: Cause


class SuppressBuffer:
    """The buffer of one suppression in one stream-time scope (KIP-328).

    :meth:`put`, :meth:`tick` and :meth:`advance` apply the change at once. What leaves because of it leaves while the
    result is iterated, row by row, so that rows on disk never all come into memory. Take all of it before the next
    call: only then do the bounds hold.

    Example:
        >>> buffer = SuppressBuffer(BufferRule("rate", wait_us=2))
        >>> records = [("A", "w", 0), ("A", "x", 1)]
        >>> [list(buffer.put(Update(k, k.encode(), v, None, ts), now_us=0)) for k, v, ts in records]
        [[], []]
        >>> [emission.row.value for emission in buffer.put(Update("B", b"B", "y", None, 2), now_us=0)]
        ['x']
    """

    def __init__(self, rule: BufferRule, size_of: SizeFunction = record_size) -> None:
        self.rule = rule
        self.stream_time_us: int | None = None
        self.clock_us: int | None = None
        self.bytes = 0
        self._size_of = size_of
        self._hot: dict[Hashable, BufferedRow] = {}
        self._hot_bytes = 0
        self._heap: list[tuple[int, bytes, int, Hashable]] = []
        self._arrivals: list[tuple[int, bytes, int, Hashable]] = []
        self._entry: dict[Hashable, int] = {}
        self._entries = 0
        self._cold: SpillFile | None = None

    @classmethod
    def restore(
        cls,
        rule: BufferRule,
        stream_time_us: int | None,
        size_of: SizeFunction = record_size,
        clock_us: int | None = None,
    ) -> SuppressBuffer:
        """Return a buffer that continues from a stored stream time and clock; add its rows with :meth:`hold`."""
        buffer = cls(rule, size_of)
        buffer.stream_time_us = stream_time_us
        buffer.clock_us = clock_us
        return buffer

    def hold(self, row: BufferedRow) -> None:
        """Put back a row that came from :meth:`rows`, measuring its size again."""
        self._store(self._measured(row))

    def rows(self) -> Iterator[BufferedRow]:
        """Every buffered row in order of eviction, as the state to store; spilled rows are read one at a time."""
        hot = sorted(self._hot.values(), key=_rank)
        return heapq.merge(hot, self._cold.rows(), key=_rank) if self._cold is not None else iter(hot)

    def first_arrived_us(self) -> int | None:
        """The arrival of the row that has waited longest by the wall clock; ``None`` if there is no row."""
        hot = min((row.arrived_us for row in self._hot.values()), default=None)
        cold = None if self._cold is None else self._cold.longest_held()
        arrived = [hot, None if cold is None else cold.arrived_us]
        return min((us for us in arrived if us is not None), default=None)

    @property
    def records(self) -> int:
        """Number of buffered keys."""
        return len(self._hot) + (len(self._cold) if self._cold is not None else 0)

    @property
    def hot_records(self) -> int:
        """Number of buffered keys in memory, to which the bound applies with ``spill``."""
        return len(self._hot)

    @property
    def hot_bytes(self) -> int:
        """Bytes of the rows in memory."""
        return self._hot_bytes

    def get(self, key: Hashable) -> BufferedRow | None:
        """The buffered row of a key, or ``None``."""
        found = self._hot.get(key)
        return self._cold.get(key) if found is None and self._cold is not None else found

    def deadline_us(self, row: BufferedRow) -> int:
        """When a row is due, on the clock of the rule (event time, or the wall clock for ``wall``)."""
        return row.buffer_us + self.rule.wait_us

    def put(self, update: Update, now_us: int, stream_us: int | None = None) -> Iterator[Emission]:
        """Apply one change: advance stream time, insert or overwrite, then evict until every bound holds (R92).

        Args:
            update: The change; a null value is a tombstone and is buffered like any other.
            now_us: The wall clock, in microseconds.
            stream_us: The stream time to advance to; None = the update's own timestamp. A window's newest timestamp may
                be that of another scope's record.

        Returns:
            The rows that leave, oldest first; the new row may be among them. Bounds hold once all have been taken.

        Raises:
            BufferFullError: while iterated; a ``shut_down`` buffer is over its bound after everything due has left.
        """
        self._advance(update.ts_us if stream_us is None else stream_us)
        clock_us = self._clock(now_us)
        self._store(self._measured(self._inserted(update, clock_us)))
        return chain(self._evict_due(clock_us), self._enforce_bounds())

    def tick(self, now_us: int) -> Iterator[Emission]:
        """Advance the wall clock, never stream time, and emit rows that have waited too long by it (R118-R123)."""
        return self._evict_due(self._clock(now_us))

    def advance(self, ts_us: int, now_us: int) -> Iterator[Emission]:
        """Advance stream time without a row, for a record that reached the node but changes nothing in it (R88)."""
        self._advance(ts_us)
        return self._evict_due(self._clock(now_us))

    def forget(self, key: Hashable) -> None:
        """Drop a key, if present, because another buffer holds it from now on."""
        known = self.get(key)
        if known is not None:
            self._remove(known)

    def drain(self) -> Iterator[Emission]:
        """Emit everything, oldest first (R59), to remove a suppression without losing what it holds."""
        return self._evict_while(self._oldest, lambda row: True, Cause.DRAIN)

    def _advance(self, ts_us: int) -> None:
        self.stream_time_us = ts_us if self.stream_time_us is None else max(self.stream_time_us, ts_us)

    def _clock(self, now_us: int) -> int:
        # Keep the latest time seen (R121): a wall clock that is set back only makes rows wait longer.
        self.clock_us = now_us if self.clock_us is None else max(self.clock_us, now_us)
        return self.clock_us

    def _inserted(self, update: Update, now_us: int) -> BufferedRow:
        known = self.get(update.key)
        slot_us = self._slot_us(update, now_us)
        if known is None:
            return BufferedRow(
                update.key, update.order, update.value, update.old, update.old, update.ts_us, slot_us, slot_us, now_us
            )
        return replace(
            known,
            # The new key: one read back from the spill file may equal it in canonical order only, as NaN does.
            key=update.key,
            value=update.value,
            old=update.old,
            ts_us=update.ts_us,
            buffer_us=self._restarted_us(known, slot_us),
        )

    def _slot_us(self, update: Update, now_us: int) -> int:
        if self.rule.clock == "wall":
            return now_us
        if self.rule.clock == "record" or update.window is None:
            return update.ts_us
        if self.rule.clock == "window_start":
            return update.window.start_us
        lead_us = self.rule.tombstone_lead_us if update.value is None else 0
        return update.window.end_us - lead_us

    def _restarted_us(self, known: BufferedRow, slot_us: int) -> int:
        if self.rule.final:
            return slot_us
        if self.rule.timer == "first":
            return known.buffer_us
        if self.rule.timer == "record" or self.rule.max_age_us is None:
            return slot_us
        latest_us = known.first_us + self.rule.max_age_us - self.rule.wait_us
        return min(max(known.buffer_us, slot_us), max(known.first_us, latest_us))

    def _measured(self, row: BufferedRow) -> BufferedRow:
        return replace(row, size=self._size_of(row))

    def _store(self, row: BufferedRow) -> None:
        known = self.get(row.key)
        if known is not None and known.rank == row.rank and self.rule.when_full != "spill":
            self._overwrite(known, row)
            return
        if known is not None:
            self._remove(known)
        self.bytes += row.size
        if self.rule.when_full == "spill" and self._exceeds(len(self._hot) + 1, self._hot_bytes + row.size):
            if self._cold is None:
                self._cold = SpillFile()
            self._cold.put(row)
            return
        self._insert_hot(row)

    def _overwrite(self, known: BufferedRow, row: BufferedRow) -> None:
        self._hot[row.key] = row
        self._hot_bytes += row.size - known.size
        self.bytes += row.size - known.size

    def _insert_hot(self, row: BufferedRow) -> None:
        self._hot[row.key] = row
        self._hot_bytes += row.size
        self._entries += 1
        self._entry[row.key] = self._entries
        heapq.heappush(self._heap, (*row.rank, self._entries, row.key))
        if self.rule.retention_us is not None:
            heapq.heappush(self._arrivals, (row.arrived_us, row.order, self._entries, row.key))
        if max(len(self._heap), len(self._arrivals)) > 2 * len(self._hot) + 1_000:
            self._compact()

    def _compact(self) -> None:
        # A timer that moves leaves a stale entry per update, and stale entries behind a row that waits long are not
        # popped. Without this, a hot key or an old one would make the heaps grow for ever.
        self._heap = [entry for entry in self._heap if self._entry.get(entry[3]) == entry[2]]
        self._arrivals = [entry for entry in self._arrivals if self._entry.get(entry[3]) == entry[2]]
        heapq.heapify(self._heap)
        heapq.heapify(self._arrivals)

    def _remove(self, row: BufferedRow) -> BufferedRow:
        self.bytes -= row.size
        if self._hot.pop(row.key, None) is not None:
            # Heap entries of this row go stale and are skipped when they surface.
            del self._entry[row.key]
            self._hot_bytes -= row.size
        elif self._cold is not None:
            self._cold.remove(row.key)
        return row

    def _evict_due(self, now_us: int) -> Iterator[Emission]:
        clock_us = now_us if self.rule.clock == "wall" else self.stream_time_us
        if clock_us is not None:
            yield from self._evict_while(self._oldest, lambda row: self.deadline_us(row) <= clock_us, Cause.DUE)
        retention_us = self.rule.retention_us
        if retention_us is not None:
            yield from self._evict_while(
                self._longest_held, lambda row: row.arrived_us + retention_us <= now_us, Cause.RETENTION
            )

    def _enforce_bounds(self) -> Iterator[Emission]:
        if self.rule.when_full == "spill" or not self._exceeds(self.records, self.bytes):
            return
        if self.rule.when_full == "shut_down":
            raise BufferFullError(self._full_message())
        yield from self._evict_while(self._oldest, lambda row: self._exceeds(self.records, self.bytes), Cause.FULL)

    def _evict_while(
        self,
        next_row: Callable[[], BufferedRow | None],
        wanted: Callable[[BufferedRow], bool],
        cause: Cause,
    ) -> Iterator[Emission]:
        while (row := next_row()) is not None and wanted(row):
            self._remove(row)
            if row.value is not None or not self.rule.final:
                yield Emission(row, cause)

    def _oldest(self) -> BufferedRow | None:
        hot = self._top(self._heap)
        cold = self._cold.oldest() if self._cold is not None else None
        if hot is None or cold is None:
            return hot or cold
        return hot if hot.rank <= cold.rank else cold

    def _longest_held(self) -> BufferedRow | None:
        hot = self._top(self._arrivals)
        cold = self._cold.longest_held() if self._cold is not None else None
        if hot is None or cold is None:
            return hot or cold
        return hot if (hot.arrived_us, hot.order) <= (cold.arrived_us, cold.order) else cold

    def _top(self, heap: list[tuple[int, bytes, int, Hashable]]) -> BufferedRow | None:
        while heap and self._entry.get(heap[0][3]) != heap[0][2]:
            heapq.heappop(heap)
        return self._hot[heap[0][3]] if heap else None

    def _exceeds(self, records: int, size: int) -> bool:
        rule = self.rule
        return (rule.max_records is not None and records > rule.max_records) or (
            rule.max_bytes is not None and size > rule.max_bytes
        )

    def _full_message(self) -> str:
        limits = [
            f"{used} of {bound} {what}"
            for used, bound, what in (
                (self.records, self.rule.max_records, "records"),
                (self.bytes, self.rule.max_bytes, "bytes"),
            )
            if bound is not None
        ]
        # Final results wait for the grace of the windows, which is fixed once windows are stored.
        wait = "begin in a new root with a shorter grace" if self.rule.final else "shorten the wait"
        return (
            f"{self.rule.node}: the suppression buffer is full: it would hold {' and '.join(limits)}. "
            f"Nothing of this batch was committed. Raise the bound, {wait}, or let it spill (when_full: spill, in "
            "Python spill_to_disk_when_full()); then start again, it resumes at this batch."
        )
