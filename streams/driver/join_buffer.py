"""The two sides of a stream-stream join: which records match, and which stay unmatched for good. Pure.

A left record meets the right records with ``left ts - before <= right ts <= left ts + after``. A record is remembered
until its own side has a record that is later by before + after + grace. A record without a partner is final once
``ts + reach + grace < stream time``, where its reach is ``after`` on the left and ``before`` on the right.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import merge
from operator import itemgetter
from typing import Any, Final

from streams.rows import Row
from suppress.order import canonical_order
from suppress.windows import JoinWindows


class Side(IntEnum):
    """The sides of the join, in the order in which unmatched records of one ts are emitted, as in Kafka."""

    RIGHT = 0
    LEFT = 1


@dataclass(order=True)
class Held:
    """A record in the buffer; ``padded`` once it has been reported as unmatched for good."""

    ts_us: int
    arrival: int
    key: Row = field(compare=False)
    value: Row = field(compare=False)
    side: Side = field(compare=False)
    matched: bool = field(default=False, compare=False)
    padded: bool = field(default=False, compare=False)


#: A record and what it is sorted by: ts, right before left, key, arrival.
_Entry = tuple[tuple[int, Side, bytes, int], Held]
_ORDER: Final = itemgetter(0)


class _Unmatched:
    """The records of one side that wait for a partner, in order; matched ones are removed when a scan meets them."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        # Entries taken from the front are deleted only now and then, since that moves all the others.
        self._taken = 0

    def __iter__(self) -> Iterator[_Entry]:
        return (entry for entry in self._entries[self._taken :] if not entry[1].matched)

    def add(self, record: Held) -> None:
        insort(self._entries, (_unmatched_order(record), record), lo=self._taken, key=_ORDER)

    def first(self) -> _Entry | None:
        while self._taken < len(self._entries) and self._entries[self._taken][1].matched:
            self.take_first()
        return self._entries[self._taken] if self._taken < len(self._entries) else None

    def take_first(self) -> None:
        self._taken += 1
        if 2 * self._taken > len(self._entries):
            del self._entries[: self._taken]
            self._taken = 0

    def last(self) -> _Entry | None:
        while self._taken < len(self._entries) and self._entries[-1][1].matched:
            del self._entries[-1]
        return self._entries[-1] if self._taken < len(self._entries) else None

    def behind(self, entry: _Entry) -> _Entry | None:
        """The first waiting record after an entry."""
        place = end = bisect_right(self._entries, entry[0], lo=self._taken, key=_ORDER)
        while end < len(self._entries) and self._entries[end][1].matched:
            end += 1
        del self._entries[place:end]
        return self._entries[place] if place < len(self._entries) else None


@dataclass(frozen=True)
class Marks:
    """Instants to restore a buffer with: stream time, where the last scan ended, the newest timestamp of each side."""

    stream_time_us: int | None = None
    look_from_us: int | None = None
    latest_us: Mapping[Side, int] = field(default_factory=dict)


class JoinBuffer:
    """Both sides of one join, with their shared stream time."""

    def __init__(self, windows: JoinWindows) -> None:
        self.stream_time_us: int | None = None
        self._windows = windows
        self._arrivals = 0
        self._records: dict[Side, dict[Row, list[Held]]] = {Side.LEFT: {}, Side.RIGHT: {}}
        self._latest_us: dict[Side, int] = {}
        self._unmatched: dict[Side, _Unmatched] = {side: _Unmatched() for side in Side}
        self._look_from_us: int | None = None

    @classmethod
    def restore(
        cls, windows: JoinWindows, records: Iterable[Held], padded_sides: Collection[Side], marks: Marks
    ) -> JoinBuffer:
        """A buffer as it was when :meth:`records` and :meth:`marks` were called.

        Args:
            windows: How far apart partners may be.
            records: The records it held.
            padded_sides: The sides whose unmatched records are reported.
            marks: Its instants.
        """
        buffer = cls(windows)
        buffer.stream_time_us, buffer._look_from_us = marks.stream_time_us, marks.look_from_us
        buffer._latest_us = dict(marks.latest_us)
        for record in sorted(records):
            buffer._arrivals = max(buffer._arrivals, record.arrival)
            insort(buffer._records[record.side].setdefault(record.key, []), record)
            if record.side in padded_sides and not record.matched and not record.padded:
                buffer._unmatched[record.side].add(record)
        return buffer

    def marks(self) -> Marks:
        """The instants that :meth:`restore` needs."""
        return Marks(self.stream_time_us, self._look_from_us, dict(self._latest_us))

    def records(self) -> list[Held]:
        """Every record that can still meet a partner, or is still to be reported if it stays unmatched."""
        held = [
            record
            for side, by_key in self._records.items()
            for records in by_key.values()
            for record in records
            if record.ts_us > self._horizon_us(side)
        ]
        known = {record.arrival for record in held}
        unmatched = merge(*self._unmatched.values(), key=_ORDER)
        watched = [record for _, record in unmatched if record.arrival not in known]
        return [*held, *watched]

    def advance(self, ts_us: int) -> int:
        """Advance the stream time that both sides share, and return it."""
        self.stream_time_us = ts_us if self.stream_time_us is None else max(self.stream_time_us, ts_us)
        return self.stream_time_us

    def take(
        self, side: Side, key: Row, value: Row, ts_us: int, padded_sides: Collection[Side]
    ) -> Iterator[tuple[Held, Held | None]]:
        """Take in a record after :meth:`advance`, and yield pairs of a record and its partner.

        A record whose partner is ``None`` stays unmatched for good. It is a result if it is ``padded``, as records of
        ``padded_sides`` are; otherwise it is the record taken in, which is late. The records that its time makes final
        come first.
        """
        if ts_us == self.stream_time_us:
            yield from ((final, None) for final in self.final_unmatched(side))
        record = self.hold(side, key, value, ts_us)
        for partner in self.partners(side, key, ts_us):
            record.matched = True
            yield record, partner
        if record.matched:
            return
        if self.is_final(side, ts_us):
            record.padded = side in padded_sides
            yield record, None
        elif side in padded_sides:
            self.await_match(record)

    def partners(self, side: Side, key: Row, ts_us: int) -> Iterator[Held]:
        """The records of the other side that a record of ``side`` meets, in order of ts; marks them as matched."""
        other = Side.LEFT if side is Side.RIGHT else Side.RIGHT
        back_us, ahead_us = self._windows.before_us, self._windows.after_us
        if side is Side.RIGHT:
            back_us, ahead_us = ahead_us, back_us
        from_us = max(ts_us - back_us, self._horizon_us(other) + 1)
        held = self._records[other].get(key, [])
        for record in held[bisect_left(held, from_us, key=_ts) : bisect_right(held, ts_us + ahead_us, key=_ts)]:
            if not record.padded:
                record.matched = True
                yield record

    def hold(self, side: Side, key: Row, value: Row, ts_us: int) -> Held:
        """Remember a record for later partners."""
        self._arrivals += 1
        record = Held(ts_us, self._arrivals, key, value, side)
        self._latest_us[side] = max(ts_us, self._latest_us.get(side, ts_us))
        held = self._records[side].setdefault(key, [])
        insort(held, record)
        # Records behind the horizon can never meet a partner again.
        del held[: bisect_right(held, self._horizon_us(side), key=_ts)]
        return record

    def await_match(self, record: Held) -> None:
        """Watch an unmatched record, to report it once it is final."""
        self._unmatched[record.side].add(record)
        self._look_from_us = record.ts_us if self._look_from_us is None else min(self._look_from_us, record.ts_us)

    def is_final(self, side: Side, ts_us: int) -> bool:
        """Whether every partner that a record could still meet would be late itself."""
        return self.stream_time_us is not None and self._passes_at_us(side, ts_us) < self.stream_time_us

    def final_unmatched(self, side: Side) -> list[Held]:
        """The unmatched records that have become final, by ts, then right before left, then key; each only once.

        ``side`` is the side of the record that just advanced stream time. As in Kafka, the scan runs only if a record
        at the instant where the last scan ended would be final by the reach of ``side``. So results come with the same
        record as in Kafka, which may be a few records later than possible, but never earlier.
        """
        if self._look_from_us is None or not self.is_final(side, self._look_from_us):
            return []
        # Within a side, records become final in order of ts, so the final ones are at its front.
        final: list[_Entry] = []
        for side_of, unmatched in self._unmatched.items():
            while (entry := unmatched.first()) is not None and self.is_final(side_of, entry[1].ts_us):
                unmatched.take_first()
                final.append(entry)
        final.sort(key=_ORDER)
        end = self._end_of_look(final)
        self._look_from_us = None if end is None else end[1].ts_us
        records = [record for _, record in final]
        for record in records:
            record.padded = True
        return records

    def _end_of_look(self, final: list[_Entry]) -> _Entry | None:
        """Where Kafka's scan over both sides ends: one record after it has met an open record of each side.

        The next scan begins there. If a side has no open record, the scan goes through all of the other.
        """
        sides = self._unmatched.values()
        first_open = [entry for entry in (unmatched.first() for unmatched in sides) if entry is not None]
        if len(first_open) < len(Side):
            last = [entry for entry in (unmatched.last() for unmatched in sides) if entry is not None]
            return max([*final, *last], key=_ORDER, default=None)
        both_open = max(first_open, key=_ORDER)
        behind = [entry for entry in (unmatched.behind(both_open) for unmatched in sides) if entry is not None]
        return min(behind, key=_ORDER, default=both_open)

    def _passes_at_us(self, side: Side, ts_us: int) -> int:
        reach_us = self._windows.after_us if side is Side.LEFT else self._windows.before_us
        return ts_us + reach_us + self._windows.grace_us

    def _horizon_us(self, side: Side) -> int:
        windows = self._windows
        retention_us = windows.before_us + windows.after_us + windows.grace_us
        latest_us = self._latest_us.get(side)
        return -(2**63) if latest_us is None else latest_us - retention_us


def _ts(record: Any) -> int:
    ts_us: int = record.ts_us
    return ts_us


def _unmatched_order(record: Held) -> tuple[int, Side, bytes, int]:
    return (record.ts_us, record.side, canonical_order(record.key), record.arrival)
