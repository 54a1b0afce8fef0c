"""Tables from topics or streams on Spark: records are changes to a stored table, versioned or plain."""

from __future__ import annotations

from pyspark.sql import DataFrame

from streams.nodes import GlobalTableSource, TableSource, ToTable
from streams.reasons import NULL_KEY
from streams.spark.flow import PLACE, SCOPE, US, WAS_PLACE, Flow, has_null_key, in_one_scope
from streams.spark.history_store import HistoryStore
from streams.spark.hold import Hold, HoldingOperator
from streams.spark.operator import BEFORE_US, GROUP, Batch
from streams.spark.source import valid_records
from streams.spark.store import Store, store_of
from versioned import spark_functions as F
from versioned.durations import duration_us
from versioned.errors import TopologyError


class TableOperator(HoldingOperator[TableSource | ToTable | GlobalTableSource]):
    """Puts the records of a topic or a stream into a table, and emits the table's changes."""

    def __init__(self, node: TableSource | ToTable | GlobalTableSource) -> None:
        materialized = node.materialized
        self._table: Store = store_of(node, materialized)
        wait = getattr(node, "reorder", None)
        hold = None if wait is None else Hold(f"{node.name}:reorder", f"{node.name}_waiting", duration_us(wait))
        super().__init__(node, self._table, hold)
        self.state = self._table
        self._time_scope = "partition" if materialized is None else materialized.time_scope
        self._taken: Flow | None = None
        if hold is not None and self._time_scope == "key":
            raise TopologyError("spark", node.name, 'reorder on Spark waits per partition or "store", not per key.')

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        self._taken = self._records(batch, inputs[0])
        for hold in self.holds:
            self._taken = self._in_order(batch, hold, self._taken)
        return self.stored(batch, self._taken)

    def measured(self) -> DataFrame | None:
        """The records that reach the table, in their order; those that it refuses do not advance stream time."""
        if self._taken is None or self._taken.is_empty:
            return None
        if self._time_scope == "partition":
            return self._taken.frame
        if self._time_scope == "store":
            return in_one_scope(self._taken.frame)
        if not isinstance(self._table, HistoryStore):
            return None  # A plain table does not keep the times of deleted keys.
        keys = F.struct(*self._table.spec.keys).alias(GROUP)
        return self._table.puts.judged.select(keys, F.col("_stored_us").alias(BEFORE_US), US, SCOPE, PLACE)

    def _in_order(self, batch: Batch, hold: Hold, records: Flow) -> Flow:
        """The records that have waited long enough to be put in order of time (R169)."""
        if self._time_scope == "store":
            records = records.in_one_scope(in_one_scope)
        return hold.take(batch, records).map(lambda frame: frame.drop(WAS_PLACE))

    def _records(self, batch: Batch, flow: Flow) -> Flow:
        if not isinstance(self.node, ToTable):
            return valid_records(batch, self.node, flow)
        if not flow.is_empty:
            batch.reject(self.node.name, flow.frame.where(has_null_key(flow.frame)), F.lit(NULL_KEY))
        return flow.map(lambda frame: frame.where(~has_null_key(frame)))
