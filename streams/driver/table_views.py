"""``filter`` and ``map_values`` of a table, record by record (R160-R162, R167): a view, or a store of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from streams.driver.processor import Change, Context, Dated, Found, Processor
from streams.driver.table_state import StoringProcessor
from streams.expressions import evaluate
from streams.nodes import TableFilter, TableMapValues
from streams.plan_facts import is_versioned
from streams.reasons import TOMBSTONE
from streams.repeated_tombstones import drops_repeated_tombstones
from streams.rows import Row

RowFunction = Callable[[Row | None, Row], Row | None]


class TableViewProcessor(StoringProcessor):
    """Applies a function to each row of a table; without a store of its own, lookups go through to that table.

    With ``drops``, a null result is not forwarded if the previous result was null too. This is so for filters of plain,
    stored tables (R160). Filters of versioned tables forward it, since it carries a time (R161).
    """

    def __init__(self, node: Any, context: Context, function: RowFunction, drops: bool) -> None:
        super().__init__(node, context)
        self._function = function
        self._drops = drops

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        result = replace(change, new=self._applied(change.key, change.new), old=self._applied(change.key, change.old))
        if result.key is None:
            yield result
            return
        if self._drops and result.new is None and self._previous(result.key, result.old) is None:
            return
        taken = self._stored(result.key, result)
        if taken is not None:
            yield taken

    def _previous(self, key: Row, old: Row | None) -> Row | None:
        # If the view is stored, the store knows what was forwarded before.
        if self.state is None:
            return old
        dated = self.state.get(key)
        return None if dated is None else dated[0]

    def _view_get(self, key: Row) -> Dated | None:
        dated = self._table().get(key)
        if dated is None:
            return None
        value = self._applied(key, dated[0])
        # A plain table keeps no ts for a deleted key, and a row that a filter removes counts as deleted.
        return None if value is None and not is_versioned(self.node) else (value, dated[1])

    def _view_find(self, key: Row, at_us: int) -> Found:
        found = self._table().find(key, at_us)
        value = self._applied(key, found.value)
        # For a lookup, a row that a filter removes is a deleted one.
        return Found(value, found.reason if value is not None or found.value is None else TOMBSTONE)

    def _table(self) -> Processor:
        return self.context.processor(self.node.parents[0].name)

    def _applied(self, key: Row | None, value: Row | None) -> Row | None:
        return None if value is None else self._function(key, value)


def table_filter(node: TableFilter, context: Context) -> Processor:
    """The operator of a ``filter``."""

    def kept(key: Row | None, value: Row) -> Row | None:
        return value if evaluate(node.predicate, {"key": key, "value": value}) is True else None

    return TableViewProcessor(node, context, kept, drops_repeated_tombstones(context.topology, node))


def table_map_values(node: TableMapValues, context: Context) -> Processor:
    """The operator of a ``map_values``."""

    def mapped(key: Row | None, value: Row) -> Row | None:
        result = evaluate(node.mapper, {"key": key, "value": value})
        return result if result is None or isinstance(result, Row) else Row(value=result)

    return TableViewProcessor(node, context, mapped, False)
