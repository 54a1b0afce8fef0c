"""Foreign-key joins of two tables, record by record: inner and left (R155)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from streams.driver.keys import Key, computed_key, key_parts
from streams.driver.processor import Change, Context, Dated
from streams.driver.table_state import StoringProcessor
from streams.expressions import evaluate
from streams.nodes import ForeignKeyJoin
from streams.plan_facts import is_versioned
from streams.reasons import NULL_KEY
from streams.rows import Row
from suppress.order import canonical_order

_RIGHT: Final = 1


@dataclass(frozen=True)
class _Left:
    """A left row as the join last saw it; ``foreign`` is the key of the right row, null if it points to none."""

    value: Row
    foreign: Row | None
    ts_us: int

    def at(self, dated: Dated | None) -> _Left:
        """The row with the timestamp that the left table has for it now, if it has one."""
        return self if dated is None else replace(self, ts_us=dated[1])


class ForeignKeyJoinProcessor(StoringProcessor):
    """Joins each left row with the right row that it points to (Kafka: ``KTable.join`` with a foreign key, KIP-213).

    A result's ts is the larger of those of its two sides; for a versioned side that is the ts of the latest version,
    tombstones included. If both sides are versioned, the ts also never goes back for one left key. Out-of-order records
    of a versioned side have no effect. A change of a right row emits one result for each left row that points to it, in
    order of keys.
    """

    def __init__(self, node: ForeignKeyJoin, context: Context) -> None:
        super().__init__(node, context, always_stored=True)
        self._joiner = node.joiner
        self._foreign_key = node.foreign_key
        self._is_left_join = node.kind == "left"
        self._left, self._right = (parent.name for parent in node.parents)
        self._keeps_order = all(is_versioned(parent) for parent in node.parents)
        self._lefts: dict[Row, _Left] = {}
        self._pointing: dict[Key, dict[Row, None]] = {}
        self._last_us: dict[Row, int] = {}

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        assert change.key is not None  # Tables have no rows without a key.
        if not change.is_latest:
            self.metrics.count("ignored")
            self.metrics.count("dropped")
            return
        changed = self._right_changed if parent == _RIGHT else self._left_changed
        for result in changed(change.key, change):
            taken = self._stored(result.key or change.key, result)
            if taken is not None:
                yield taken

    def _left_changed(self, key: Row, change: Change) -> Iterator[Change]:
        before = self._lefts.get(key)
        after = self._pointed(key, change)
        right = None if after is None or after.foreign is None else self._row_of(self._right, after.foreign)
        if after is None:
            yield from self._deleted(key, before, change.ts_us)
        elif self._is_left_join or (right is not None and right[0] is not None):
            yield self._result(key, after, right)
        else:
            yield from self._unmatched(key, before, after, right)

    def _right_changed(self, foreign: Row, change: Change) -> Iterator[Change]:
        for key in sorted(self._pointing.get(key_parts(foreign), ()), key=canonical_order):
            # If the left table is a join without a store, its ts follows from what its own sides hold now, whatever ts
            # it emitted before.
            left = self._lefts[key].at(self._row_of(self._left, key))
            if change.new is not None or self._is_left_join:
                yield self._result(key, left, (change.new, change.ts_us))
            else:
                yield self._tombstone(key, max(left.ts_us, change.ts_us))

    def _deleted(self, key: Row, before: _Left | None, ts_us: int) -> Iterator[Change]:
        if before is None or (before.foreign is None and not self._is_left_join):
            return
        right = None if before.foreign is None else self._row_of(self._right, before.foreign)
        yield self._tombstone(key, ts_us if right is None or self._is_left_join else max(ts_us, right[1]))

    def _unmatched(self, key: Row, before: _Left | None, after: _Left, right: Dated | None) -> Iterator[Change]:
        # There is nothing to join with. A result has to be retracted only if the row pointed elsewhere before.
        if after.foreign is None:
            self.skip(Change(key, after.value, None, after.ts_us), NULL_KEY)
        if before is not None and before.foreign is not None and before.foreign != after.foreign:
            if after.foreign is None:
                # As for a deleted row, the end of its result is dated by the right row that it pointed to until now.
                right = self._row_of(self._right, before.foreign)
            yield self._tombstone(key, after.ts_us if right is None else max(after.ts_us, right[1]))

    def _pointed(self, key: Row, change: Change) -> _Left | None:
        """Remember where a left row points to now, and return it; ``None`` if it was deleted."""
        before = self._lefts.pop(key, None)
        if before is not None and before.foreign is not None:
            self._pointing[key_parts(before.foreign)].pop(key)
        if change.new is None:
            return None
        foreign = computed_key(self._foreign_key, key, change.new)
        self._lefts[key] = _Left(change.new, foreign, change.ts_us)
        if foreign is not None:
            self._pointing.setdefault(key_parts(foreign), {})[key] = None
        return self._lefts[key]

    def _row_of(self, table: str, key: Row) -> Dated | None:
        processor = self.context.processor(table)
        return processor.get(processor.own_key(key))

    def _result(self, key: Row, left: _Left, right: Dated | None) -> Change:
        value = evaluate(self._joiner, {"key": key, "left": left.value, "right": None if right is None else right[0]})
        ts_us = left.ts_us if right is None else max(left.ts_us, right[1])
        return Change(key, value, None, self._ordered(key, ts_us))

    def _tombstone(self, key: Row, ts_us: int) -> Change:
        return Change(key, None, None, self._ordered(key, ts_us))

    def _ordered(self, key: Row, ts_us: int) -> int:
        if self._keeps_order:
            ts_us = max(ts_us, self._last_us.get(key, ts_us))
            self._last_us[key] = ts_us
        return ts_us
