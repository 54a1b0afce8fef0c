"""Table-table joins with complete history: late records re-emit every older result that they change (R150, R154)."""

from __future__ import annotations

from collections.abc import Iterator

from streams.driver.keys import Key, key_parts
from streams.driver.processor import Change, Context, Dated
from streams.driver.table_state import StoredTable
from streams.expressions import evaluate
from streams.nodes import TableTableJoin
from streams.plan_checks import is_versioned
from streams.reasons import NULL_KEY
from streams.rows import Row
from versioned.errors import TopologyError
from versioned.history_join_rules import HistoryJoin, ResultChange, Side

_SIDES: tuple[Side, Side] = ("left", "right")


class CompleteJoinProcessor(StoredTable):
    """Joins the histories of two versioned tables; its output is one change for each start of a result that changed.

    A change carries its operation (``insert``, ``update``, ``retract``) and the record that caused it. ``old`` and
    ``new`` are the results valid at its timestamp before and after.
    """

    def __init__(self, node: TableTableJoin, context: Context) -> None:
        super().__init__(node, context)
        unversioned = [parent.name for parent in node.parents if not is_versioned(parent)]
        if node.joiner is None or unversioned:
            raise TopologyError(
                "R150", node.name, f"a complete join needs a joiner and versions; {unversioned} have none."
            )
        self._joiner = node.joiner
        self._histories = HistoryJoin(node.kind, self._pair)

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if change.key is None:
            self.skip(change, NULL_KEY)
            return
        parts = key_parts(change.key)
        for result in self._histories.put(_SIDES[parent], parts, change.new, change.ts_us):
            yield from self._kept(self.own_key(change.key), result)

    def history(self, key: Row) -> list[tuple[int, Row | None]]:
        """Every start of the result of a key with its value, oldest first; null where a result ends."""
        return self._histories.history(key_parts(key))

    def _view_get(self, key: Row) -> Dated | None:
        history = self.history(key)
        return (history[-1][1], history[-1][0]) if history else None

    def _kept(self, row: Row, result: ResultChange) -> Iterator[Change]:
        change = Change(row, result.new, result.old, result.valid_from_us, result.is_latest)
        taken = self._stored(row, change)
        if taken is not None:
            yield Change(
                row,
                result.new,
                result.old,
                taken.ts_us,
                result.is_latest,
                op=result.op,
                cause=f"{result.cause.side}@{result.cause.ts_us}",
            )

    def _row(self, parts: Key) -> Row:
        return Row(dict(zip(self.key_fields or (), parts, strict=True)))

    def _pair(self, parts: Key, left: Row | None, right: Row | None) -> Row | None:
        key = self._row(parts) if self.key_fields is not None else None
        joined: Row | None = evaluate(self._joiner, {"key": key, "left": left, "right": right})
        return joined
