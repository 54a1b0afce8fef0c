"""Table-table joins with complete history: late records re-emit every older result that they change (R150, R154)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from streams.driver.keys import Key, key_parts
from streams.driver.processor import Change, Context, Dated
from streams.driver.table_state import StoringProcessor, VersionedState
from streams.expressions import evaluate
from streams.nodes import TableTableJoin
from streams.rows import Row
from versioned.history_join_rules import SIDES, HistoryJoin, ResultChange


class CompleteJoinProcessor(StoringProcessor):
    """Joins the histories of two versioned tables and emits one change for each start of a result that changed.

    A change carries its operation (``insert``, ``update``, ``retract``) and the record that caused it. ``old`` and
    ``new`` are the results valid at its timestamp before and after. At most the last change of a record is
    ``is_latest``. If a versioned store holds the result, that change leads from what the store held as latest before
    the record to what it holds after, even if the store refused other results of the record.
    """

    def __init__(self, node: TableTableJoin, context: Context) -> None:
        super().__init__(node, context)
        self._joiner = node.joiner
        self._histories = HistoryJoin(node.kind, self._pair)
        self._keys: dict[Key, Row] = {}

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        assert change.key is not None  # Tables have no rows without a key.
        key = self.own_key(change.key)
        parts = key_parts(key)
        self._keys.setdefault(parts, key)
        results = self._histories.put(SIDES[parent], parts, change.new, change.ts_us)
        told = [_told(key, result) for result in results]
        if isinstance(self.state, VersionedState):
            yield from self._versions(key, told, self.state.get(key))
            return
        for result in told:
            taken = self._stored(key, result)
            if taken is not None:
                yield taken

    def _versions(self, key: Row, told: list[Change], before: Dated | None) -> Iterator[Change]:
        """The changes of a record that the versioned store accepts; ``before`` is its latest row before the record."""
        for number, result in enumerate(told, 1):
            taken = self._stored(key, result)
            if taken is not None and taken.is_latest and number == len(told):
                yield replace(taken, old=None if before is None else before[0])
            elif taken is not None:
                yield replace(taken, old=result.old, is_latest=False)

    def history(self, key: Row) -> list[tuple[int, Row | None]]:
        """Every instant at which a result of the key starts, with its value, oldest first; null where a result ends."""
        return self._histories.history(key_parts(key))

    def _view_get(self, key: Row) -> Dated | None:
        history = self.history(key)
        return (history[-1][1], history[-1][0]) if history and history[-1][1] is not None else None

    def _pair(self, parts: Key, left: Row | None, right: Row | None) -> Row | None:
        joined: Row | None = evaluate(self._joiner, {"key": self._keys[parts], "left": left, "right": right})
        return joined


def _told(key: Row, result: ResultChange) -> Change:
    at_us, cause = result.valid_from_us, str(result.cause)
    return Change(key, result.new, result.old, at_us, result.is_latest, op=result.op, cause=cause)
