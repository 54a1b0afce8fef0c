"""Table-table joins on the primary key, record by record: inner, left, outer (R146-R157)."""

from __future__ import annotations

from collections.abc import Iterator

from streams.driver.complete_join import CompleteJoinProcessor
from streams.driver.processor import Change, Context, Dated, Processor
from streams.driver.table_state import StoringProcessor
from streams.expressions import evaluate
from streams.nodes import TableTableJoin
from streams.reasons import NULL_KEY
from streams.rows import Row
from versioned.history_join_rules import lacks, needs_other


class TableTableJoinProcessor(StoringProcessor):
    """Joins the latest values of two tables (Kafka: ``KTableKTableJoin``).

    The result's ts is the larger of the two sides', tombstones of versioned sides included. An out-of-order record of a
    versioned side has no effect (R151).
    """

    def __init__(self, node: TableTableJoin, context: Context) -> None:
        super().__init__(node, context)
        self._joiner = node.joiner
        self._kind = node.kind

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if change.key is None:
            self.skip(change, NULL_KEY)
            return
        if not change.is_latest:
            self.metrics.count("ignored")
            self.metrics.count("dropped")
            return
        key = self.own_key(change.key)
        result = self._joined(key, change, parent)
        taken = None if result is None else self._stored(key, result)
        if taken is not None:
            yield taken

    def _view_get(self, key: Row) -> Dated | None:
        sides = [self.context.processor(parent.name) for parent in self.node.parents]
        left, right = (side.get(side.own_key(key)) for side in sides)
        value = self._pair(key, None if left is None else left[0], None if right is None else right[0])
        times = [dated[1] for dated in (left, right) if dated is not None]
        return None if value is None else (value, max(times))

    def _joined(self, key: Row, change: Change, parent: int) -> Change | None:
        other_side = self.context.processor(self.node.parents[1 - parent].name)
        dated = other_side.get(other_side.own_key(key))
        other = None if dated is None else dated[0]
        if other is None and needs_other(self._kind, parent):
            return None
        if other is None and change.new is None and change.old is None:
            return None
        ts_us = change.ts_us if dated is None else max(change.ts_us, dated[1])
        new, old = self._sides(key, change.new, other, parent), self._sides(key, change.old, other, parent)
        return Change(key, new, old, ts_us)

    def _sides(self, key: Row, mine: Row | None, other: Row | None, parent: int) -> Row | None:
        return self._pair(key, mine, other) if parent == 0 else self._pair(key, other, mine)

    def _pair(self, key: Row, left: Row | None, right: Row | None) -> Row | None:
        if lacks(self._kind, left, right):
            return None
        joined: Row | None = evaluate(self._joiner, {"key": key, "left": left, "right": right})
        return joined


def table_table_join(node: TableTableJoin, context: Context) -> Processor:
    """The operator of a join on the primary key, by its ``history``: latest or complete."""
    return (
        CompleteJoinProcessor(node, context) if node.history == "complete" else TableTableJoinProcessor(node, context)
    )
