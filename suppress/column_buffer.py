"""The time-ordered buffer on columns: the decisions of ``SuppressBuffer``, as row indices instead of rows.

Most suppressions have the same rule: an event-time limit counted from the first update, with a bound that emits the
oldest row early. For it, only the key, the instant and the size of a row matter. So no row becomes an object: keys are
numbers in canonical order, rows are indices into the columns of a batch, and the caller builds what leaves from them. A
property test compares this module with ``SuppressBuffer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from suppress.buffer_rules import BufferRule
from suppress.sizes import SizeOf
from suppress.window_rules import NEVER_US

_UNBOUNDED: Final = 2**62


def fits_columns(rule: BufferRule, size_of: SizeOf) -> bool:
    """Whether a rule can be applied on columns.

    >>> fits_columns(BufferRule("n", wait_us=5, max_records=2, when_full="emit_early"), "record")
    True
    >>> fits_columns(BufferRule("n", wait_us=5, clock="wall"), "record")
    False
    """
    return (
        (rule.clock, rule.timer, rule.final, rule.retention_us) == ("record", "first", False, None)
        and (rule.when_full == "emit_early" or (rule.max_records is None and rule.max_bytes is None))
        and size_of in ("record", "value")
    )


@dataclass(frozen=True)
class Columns:
    """Rows to feed to the buffer, in the order in which they apply.

    Args:
        keys: The key of each row as a number; numbers compare as the keys do.
        ts_us: The instant of each row; for a row already held, the instant at which it entered.
        sizes: The size of each row in bytes.
    """

    keys: Sequence[int]
    ts_us: Sequence[int]
    sizes: Sequence[int]


@dataclass
class Observed:
    """What the buffer held at the start and after each update (R70, R73)."""

    suppressed: int = 0
    samples: int = 0
    most_records: int = 0
    most_bytes: int = 0
    sum_records: int = 0
    sum_bytes: int = 0
    records: int = 0
    bytes: int = 0

    def add(self, later: Observed) -> None:
        """Add what was observed later."""
        self.suppressed += later.suppressed
        self.samples += later.samples
        self.most_records = max(self.most_records, later.most_records)
        self.most_bytes = max(self.most_bytes, later.most_bytes)
        self.sum_records += later.sum_records
        self.sum_bytes += later.sum_bytes
        self.records, self.bytes = later.records, later.bytes


@dataclass
class Emissions:
    """The rows that left, in order, as indices: the update after which each left, its first and its latest update."""

    after: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    latest: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Folded:
    """What a batch did to the buffer.

    Args:
        emissions: The rows that left it.
        held: The rows that it still holds, oldest first, each as the indices of its first and its latest update.
        stream_time_us: Stream time after the batch.
    """

    emissions: Emissions
    held: list[tuple[int, int]]
    stream_time_us: int | None


def fold_columns(rows: Columns, held: int, rule: BufferRule, stream_time_us: int | None, seen: Observed) -> Folded:
    """Feed a batch to the buffer and return what left it and what it still holds.

    Args:
        rows: First the rows that the buffer already holds, then the updates.
        held: How many of the rows it already holds.
        rule: A rule that :func:`fits_columns` accepts.
        stream_time_us: Stream time before the batch.
        seen: What was observed so far; updated in place.

    Example:
        >>> rows = Columns(keys=[0, 1, 0], ts_us=[0, 1, 9], sizes=[8, 8, 8])
        >>> told = fold_columns(rows, 0, BufferRule("n", wait_us=5), None, Observed())
        >>> told.emissions.latest, told.held
        ([2, 1], [])
        >>> told.emissions.after
        [2, 2]
    """
    keys, ts_us, sizes = rows.keys, rows.ts_us, rows.sizes
    first = {keys[at]: at for at in range(held)}
    latest = dict(first)
    heap = [(ts_us[at], key) for key, at in first.items()]
    heapify(heap)
    most_records, most_bytes = _limits(rule)
    now_us = NEVER_US if stream_time_us is None else stream_time_us
    out, records, size = Emissions(), held, sum(sizes[at] for at in range(held))
    # Local numbers, added to ``seen`` at the end: attributes and calls would take half the time of a million updates.
    suppressed = sum_records = sum_bytes = 0
    peak_records, peak_bytes = records, size
    for at in range(held, len(keys)):
        key, us = keys[at], ts_us[at]
        if us > now_us:
            now_us = us
        known = latest.get(key)
        if known is None:
            first[key] = at
            heappush(heap, (us, key))
            size += sizes[at]
            records += 1
        else:
            suppressed += 1
            size += sizes[at] - sizes[known]
        latest[key] = at
        while records and (heap[0][0] + rule.wait_us <= now_us or records > most_records or size > most_bytes):
            gone = heappop(heap)[1]
            out.after.append(at)
            out.first.append(first.pop(gone))
            out.latest.append(latest.pop(gone))
            size -= sizes[out.latest[-1]]
            records -= 1
        sum_records += records
        sum_bytes += size
        if records > peak_records:
            peak_records = records
        if size > peak_bytes:
            peak_bytes = size
    seen.add(Observed(suppressed, len(keys) - held, peak_records, peak_bytes, sum_records, sum_bytes, records, size))
    waiting = [(first[key], latest[key]) for _, key in sorted(heap)]
    return Folded(out, waiting, None if now_us == NEVER_US else now_us)


def _limits(rule: BufferRule) -> tuple[int, int]:
    """The most records and the most bytes that may wait."""
    return (
        _UNBOUNDED if rule.max_records is None else rule.max_records,
        _UNBOUNDED if rule.max_bytes is None else rule.max_bytes,
    )
