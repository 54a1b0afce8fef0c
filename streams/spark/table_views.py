"""``filter`` and ``map_values`` of a table on Spark (R160-R162, R167): a view, or a stored table of its own."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame

from streams.nodes import TableMapValues, ViewNode
from streams.plan_facts import is_versioned
from streams.spark.columns import to_column_if
from streams.spark.flow import KEY, OLD, VALUE, Flow
from streams.spark.history_store import HistoryStore
from streams.spark.lookup_table import LookupTable, LookupView
from streams.spark.operator import Batch
from streams.spark.store import StoringOperator, store_of
from versioned import spark_functions as F


class TableViewOperator(StoringOperator[ViewNode]):
    """Applies a filter or mapper to each row of a table.

    Without a store of its own, look-ups go through to the table. A filter of a plain, stored table drops a null
    result whose previous result was null too (R160); of a versioned table it keeps them, since they carry time (R161).

    Args:
        node: The filter or mapper.
        table: The table that it reads; None if that has no state, like a suppression into which no join looks.
        drops: Whether repeated tombstones are dropped.
    """

    def __init__(self, node: ViewNode, table: LookupTable | None, drops: bool) -> None:
        stored = node.materialized
        super().__init__(node, None if stored is None else store_of(node, stored, drops_repeats=drops))
        self._drops = drops
        self.state: LookupTable | None = self.store
        if self.state is None and table is not None:
            self.state = LookupView(table, self._row, dates_tombstones=is_versioned(node))

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        # Store first: it knows the previous results; a versioned store has already dropped repeated tombstones.
        changes = self.stored(batch, inputs[0].map(self._mapped))
        drops = self._drops and not isinstance(self.store, HistoryStore)
        return changes.map(_without_repeats) if drops else changes

    def _mapped(self, frame: DataFrame) -> DataFrame:
        return frame.withColumns({name: self._row(F.col(KEY), F.col(name)) for name in (VALUE, OLD)})

    def _row(self, key: Column, value: Column) -> Column:
        bindings = {"key": key, "value": value}
        if isinstance(self.node, TableMapValues):
            return to_column_if(value.isNotNull(), self.node.mapper, bindings)
        return F.when(to_column_if(value.isNotNull(), self.node.predicate, bindings), value)


def _without_repeats(frame: DataFrame) -> DataFrame:
    return frame.where(F.col(VALUE).isNotNull() | F.col(OLD).isNotNull())
