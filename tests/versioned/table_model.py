"""What a versioned table must say, told by a dictionary per key: the model that random uses are compared with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

Key = tuple[Any, ...]
#: A put's value; ``None`` is a tombstone.
Value = tuple[Any, ...] | None
#: Key, start, end (None = current), value.
Row = tuple[Key, int, int | None, Value]
REFUSED: Final = -(2**63)


@dataclass(frozen=True)
class Record:
    """One record of a batch, in the order of its batch."""

    key: Key
    us: int
    value: Value
    partition: int = 0


@dataclass(frozen=True)
class Judged:
    """What became of a record: ``result`` as of a put; ``old`` is the version valid there just before, if it lived."""

    result: int
    outcome: str
    old: tuple[int, Value] | None


@dataclass
class TableModel:
    """Every version of every key, stream times, and what was known after each write."""

    retention_us: int
    grace_us: int
    scope: str
    resolution: int = 1
    first_us: int | None = None
    versions: dict[Key, dict[int, Value]] = field(default_factory=dict)
    observed: dict[Any, int] = field(default_factory=dict)
    known: dict[Key, dict[int, Value]] = field(default_factory=dict)
    purged_us: int | None = None

    def put(self, records: Iterable[Record]) -> list[Judged]:
        """Put records one after the other; late ones are refused."""
        judged = []
        for record in records:
            scope, us = self._scope(record), record.us // self.resolution * self.resolution
            before = self.observed.get(scope, self.first_us)
            if before is not None and us < before - self.grace_us:
                judged.append(Judged(REFUSED, "refused", None))
                continue
            self.observed[scope] = us if before is None else max(before, us)
            judged.append(self._insert(record, us))
        return judged

    def backfill(self, records: Iterable[Record]) -> list[Judged | None]:
        """Put records that are never late; None for one that is after stream time."""
        judged: list[Judged | None] = []
        is_empty, newest = not self.observed, max(self.observed.values(), default=None)
        latest = {key: max(held) for key, held in self.versions.items()}
        for record in records:
            us = record.us // self.resolution * self.resolution
            bound = latest.get(record.key, newest) if self.scope == "key" else newest
            if not is_empty and us > bound:  # type: ignore[operator]
                judged.append(None)
                continue
            scope = self._scope(record)
            if is_empty or self.scope == "key":
                first = us if self.first_us is None else self.first_us
                self.observed[scope] = max(us, self.observed.get(scope, first))
            judged.append(self._insert(record, us))
        return judged

    def purge(self) -> int:
        """Remove the rows that no promised lookup can find; return how many."""
        gone = [row for row in self.rows() if self._is_expired(row)]
        slowest = self._slowest_us()
        if gone and self.scope == "partition" and slowest is not None:
            self.purged_us = slowest if self.purged_us is None else max(slowest, self.purged_us)
        for key, start, _, _ in gone:
            del self.versions[key][start]
            if not self.versions[key]:
                del self.versions[key]
        return len(gone)

    def rows(self, held: dict[Key, dict[int, Value]] | None = None) -> list[Row]:
        """All stored versions, or those of another dictionary."""
        told: list[Row] = []
        for key, values in (self.versions if held is None else held).items():
            starts = sorted(values)
            ends = [*starts[1:], None]
            told += [(key, start, end, values[start]) for start, end in zip(starts, ends, strict=True)]
        return told

    def current(self) -> list[Row]:
        return [row for row in self.rows() if row[2] is None and row[3] is not None]

    def as_of(self, at: int) -> list[Row]:
        return [
            row for row in _valid(self.rows(), at)
            if row[3] is not None and (row[2] is None or not self._is_old(row[0], at))
        ]  # fmt: skip

    def between(self, start: int | None, end: int | None) -> list[Row]:
        return [
            row for row in self.rows()
            if row[3] is not None and (end is None or row[1] <= end)
            and (start is None or row[2] is None or row[2] > start)
        ]  # fmt: skip

    def known_as_of(self, known: dict[Key, dict[int, Value]], at: int) -> list[Row]:
        return [row for row in _valid(self.rows(known), at) if row[3] is not None]

    def lookup(self, key: Key | None, at: int | None) -> Row | str:
        """A version, or why there is none."""
        if key is None or at is None or key not in self.versions:
            return "NO_MATCH"
        found = next(iter(_valid([row for row in self.rows() if row[0] == key], at)), None)
        if self._is_old(key, at) and (found is None or found[2] is not None):
            return "EXPIRED"
        if found is None:
            return "NO_MATCH"
        return "TOMBSTONE" if found[3] is None else found

    def horizon_us(self) -> int | None:
        """The horizon of the slowest scope, but not before what a purge has removed."""
        slowest = self._slowest_us()
        return slowest if slowest is None or self.purged_us is None else max(slowest, self.purged_us)

    def _slowest_us(self) -> int | None:
        if self.scope == "key" or not self.observed:
            return None
        return min(self.observed.values()) - self.retention_us

    def _insert(self, record: Record, us: int) -> Judged:
        held = self.versions.setdefault(record.key, {})
        before = max((start for start in held if start <= us), default=None)
        old = None if before is None or held[before] is None else (before, held[before])
        held[us] = record.value
        self.known.setdefault(record.key, {})[us] = record.value
        following = min((start for start in held if start > us), default=None)
        if following is None:
            return Judged(-1, "latest", old)
        return Judged(following // self.resolution, "out_of_order", old)

    def _scope(self, record: Record) -> Any:
        return {"partition": record.partition, "store": 0, "key": record.key}[self.scope]

    def _is_old(self, key: Key, at: int) -> bool:
        return self._is_before(key, at, self.horizon_us())

    def _is_before(self, key: Key, at: int, horizon: int | None) -> bool:
        if self.scope == "key":
            horizon = max(self.versions[key]) - self.retention_us
        return horizon is not None and at < horizon

    def _is_expired(self, row: Row) -> bool:
        key, start, end, value = row
        last = start if end is None else end - 1
        return (end is not None or value is None) and self._is_before(key, last, self._slowest_us())


def _valid(rows: Iterable[Row], at: int) -> list[Row]:
    return [row for row in rows if row[1] <= at and (row[2] is None or at < row[2])]
