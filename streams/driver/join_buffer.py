"""The two sides of a stream-stream join: which records meet, and which stay unmatched for good. Pure.

A record of the left side meets those of the right side with ``left ts - before <= right ts <= left ts + after``. A
record is remembered until its own side's stream time passes it by before + after + grace. One that met nobody is
final once ``ts + reach + grace < stream time``, where its reach is ``after`` on the left and ``before`` on the right.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from streams.rows import Row
from suppress.order import canonical_order
from suppress.windows import JoinWindows


class Side(IntEnum):
    """The parents of the join; unmatched records of one ts leave right before left, as in Kafka."""

    RIGHT = 0
    LEFT = 1


@dataclass(order=True)
class Held:
    """A record in the buffer."""

    ts_us: int
    arrival: int
    key: Row = field(compare=False)
    value: Row = field(compare=False)
    side: Side = field(compare=False)
    matched: bool = field(default=False, compare=False)
    padded: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Marks:
    """Instants of a join's buffer: its stream time, where the last look for final records ended, each side's newest."""

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
        self._unmatched: list[Held] = []
        self._look_from_us: int | None = None

    @classmethod
    def restore(
        cls, windows: JoinWindows, records: Iterable[Held], padded_sides: Collection[Side], marks: Marks
    ) -> JoinBuffer:
        """A buffer that goes on where :meth:`records` and :meth:`marks` were taken.

        Args:
            windows: The definition.
            records: What it held.
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
                insort(buffer._unmatched, record, key=_unmatched_order)
        return buffer

    def marks(self) -> Marks:
        """The instants to go on from."""
        return Marks(self.stream_time_us, self._look_from_us, dict(self._latest_us))

    def records(self) -> list[Held]:
        """Every record that can still meet another one, or is still watched."""
        held = [
            record
            for side, by_key in self._records.items()
            for records in by_key.values()
            for record in records
            if record.ts_us > self._horizon_us(side)
        ]
        known = {record.arrival for record in held}
        watched = [record for record in self._unmatched if not record.matched and record.arrival not in known]
        return [*held, *watched]

    def advance(self, ts_us: int) -> int:
        """Move the stream time that both sides share."""
        self.stream_time_us = ts_us if self.stream_time_us is None else max(self.stream_time_us, ts_us)
        return self.stream_time_us

    def partners(self, side: Side, key: Row, ts_us: int) -> Iterator[Held]:
        """The records of the other side that one of ``side`` meets, in order of ts; they count as matched."""
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
        """Remember a record for partners to come."""
        self._arrivals += 1
        record = Held(ts_us, self._arrivals, key, value, side)
        self._latest_us[side] = max(ts_us, self._latest_us.get(side, ts_us))
        held = self._records[side].setdefault(key, [])
        insort(held, record)
        # What has fallen behind the horizon can never meet anybody again.
        del held[: bisect_right(held, self._horizon_us(side), key=_ts)]
        return record

    def await_match(self, record: Held) -> None:
        """Watch an unmatched record, to report it once it is final."""
        insort(self._unmatched, record, key=_unmatched_order)
        self._look_from_us = record.ts_us if self._look_from_us is None else min(self._look_from_us, record.ts_us)

    def is_final(self, side: Side, ts_us: int) -> bool:
        """Whether a record can have no partner any more that is not late itself."""
        return self.stream_time_us is not None and self._passes_at_us(side, ts_us) < self.stream_time_us

    def final_unmatched(self, side: Side) -> list[Held]:
        """Unmatched records that have become final, in order of ts, then right before left, then key; each once.

        ``side`` is the side of the record that just moved stream time. As in Kafka, it only has a look if a record at
        the place where the last look ended would be final by its own side's reach, so that results come at the same
        record as there; that may be a few records later than possible, never earlier.
        """
        if self._look_from_us is None or not self.is_final(side, self._look_from_us):
            return []
        self._look_from_us = None
        final: list[Held] = []
        kept: list[Held] = []
        still_open: set[Side] = set()
        waiting = [record for record in self._unmatched if not record.matched]
        for position, record in enumerate(waiting):
            # The next look begins where this one ends, at the record it did not come to as well.
            self._look_from_us = record.ts_us
            if len(still_open) == len(Side):
                kept.extend(waiting[position:])
                break
            if self.is_final(record.side, record.ts_us):
                record.padded = True
                final.append(record)
            else:
                still_open.add(record.side)
                kept.append(record)
        self._unmatched = kept
        return final

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
