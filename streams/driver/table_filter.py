"""``filter`` and ``map_values`` of a table (R160-R162, R167)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from streams.driver.processor import Change, Context, Dated, Processor
from streams.driver.table_source import PlainTable, versioned_store
from streams.expressions import Expr, evaluate
from streams.nodes import Node, TableFilter, TableMapValues, TableSource
from streams.rows import Row
from versioned.store_rules import LATEST, REFUSED

RowFunction = Callable[[Row | None, Row], Row | None]


class TableViewProcessor(Processor):
    """A function of each row of a table; without a store of its own, look-ups go through to the table.

    A filter of a plain, stored table drops a null result whose previous result was null too (R160); of a versioned
    one it keeps them, since they carry time (R161).
    """

    def __init__(self, node: Any, context: Context, function: RowFunction, drops_repeated_nulls: bool) -> None:
        super().__init__(node, context)
        self._function = function
        self._drops = drops_repeated_nulls
        self._own: PlainTable | None = None
        self._versions = None if node.materialized is None else versioned_store(node.materialized)
        if node.materialized is not None and self._versions is None:
            self._own = PlainTable()

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        result = replace(change, new=self._applied(change.key, change.new), old=self._applied(change.key, change.old))
        if result.key is not None and self._versions is not None:
            outcome = self._versions.put(result.key, result.new, result.ts_us, self.context.partition)
            if outcome == REFUSED:
                self.metrics.count("late")
                self.metrics.count("dropped")
                return
            result = replace(result, is_latest=outcome == LATEST)
        elif self._own is not None:
            result = self._own.put(result)
        if self._drops and result.new is None and result.old is None:
            return
        yield result

    def get(self, key: Row) -> Dated | None:
        if self._versions is not None:
            version = self._versions.latest(key)
            return None if version is None else (version.value, version.valid_from_us)
        if self._own is not None:
            return self._own.get(key)
        dated = self.context.processor(self.node.parents[0].name).get(key)
        return None if dated is None else (self._applied(key, dated[0]), dated[1])

    def _applied(self, key: Row | None, value: Row | None) -> Row | None:
        return None if value is None else self._function(key, value)


def table_filter(node: TableFilter, context: Context) -> Processor:
    """The operator of a ``filter``."""

    def kept(key: Row | None, value: Row) -> Row | None:
        passes = node.predicate is None or evaluate(node.predicate, {"key": key, "value": value}) is True
        return value if passes else None

    return TableViewProcessor(node, context, kept, drops_repeated_nulls=not _forwards_duplicates(node))


def table_map_values(node: TableMapValues, context: Context) -> Processor:
    """The operator of a ``map_values``."""
    return TableViewProcessor(node, context, _mapped(node.mapper), drops_repeated_nulls=False)


def _mapped(mapper: Expr | None) -> RowFunction:
    def mapped(key: Row | None, value: Row) -> Row | None:
        if mapper is None:
            return value
        result = evaluate(mapper, {"key": key, "value": value})
        return result if result is None or isinstance(result, Row) else Row(value=result)

    return mapped


def _forwards_duplicates(node: Node) -> bool:
    # Decided by where the table comes from: a versioned source, or one without a store that could tell old values.
    parent = node.parents[0]
    materialized = getattr(parent, "materialized", None)
    if materialized is not None:
        return bool(materialized.is_versioned)
    if isinstance(parent, TableSource):
        return True
    return isinstance(parent, (TableFilter, TableMapValues)) and _forwards_duplicates(parent)
