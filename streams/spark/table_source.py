"""Tables from topics or streams on Spark: records are changes of a stored table, versioned or plain."""

from __future__ import annotations

from pyspark.sql import DataFrame

from streams.nodes import GlobalTableSource, TableSource, ToTable
from streams.reasons import NULL_KEY
from streams.spark.flow import PLACE, SCOPE, US, Flow, NodeReport, has_null_key, in_one_scope
from streams.spark.history_store import HistoryStore
from streams.spark.hold import Hold
from streams.spark.operator import BEFORE_US, GROUP, Batch, StepOf
from streams.spark.source import valid_records
from streams.spark.store import Store, StoringOperator, store_of
from versioned import spark_functions as F
from versioned.durations import duration_us
from versioned.errors import TopologyError
from versioned.identifiers import TableRef


class TableOperator(StoringOperator[TableSource | ToTable | GlobalTableSource]):
    """Puts the records of a topic, or of a stream, into a table; its output are the table's changes."""

    def __init__(self, node: TableSource | ToTable | GlobalTableSource) -> None:
        materialized = node.materialized
        self._table: Store = store_of(node, materialized)
        super().__init__(node, self._table)
        self.state = self._table
        reorder = getattr(node, "reorder", None)
        self._hold = (
            None if reorder is None else Hold(f"{node.name}:reorder", f"{node.name}_waiting", duration_us(reorder))
        )
        self._time_scope = "partition" if materialized is None else materialized.time_scope
        self._taken: Flow | None = None
        if self._hold is not None and self._time_scope == "key":
            raise TopologyError("spark", node.name, 'reorder on Spark waits per partition or "store", not per key.')

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        records = self._records(batch, inputs[0])
        self._taken = records if self._hold is None else self._in_order(batch, self._hold, records)
        return self.stored(batch, self._taken)

    def measured(self) -> DataFrame | None:
        """What comes to the table, in the order in which it does; a refused record moves no stream time."""
        if self._taken is None or self._taken.is_empty:
            return None
        if self._time_scope == "partition":
            return self._taken.frame
        if self._time_scope == "store":
            return in_one_scope(self._taken.frame)
        if not isinstance(self._table, HistoryStore):
            return None  # A plain table forgets the times of deleted keys.
        keys = F.struct(*self._table.spec.keys).alias(GROUP)
        return self._table.puts.judged.select(keys, F.col("_stored_us").alias(BEFORE_US), US, SCOPE, PLACE)

    def holding(self) -> list[str]:
        return [] if self._hold is None else [self._hold.table]

    def tables(self, root: TableRef) -> list[TableRef]:
        return [*super().tables(root), *([] if self._hold is None else [self._hold.target(root)])]

    def steps(self, root: TableRef) -> list[StepOf]:
        return [*super().steps(root), *([] if self._hold is None else self._hold.steps(root))]

    def report(self, batch: Batch) -> NodeReport:
        report = super().report(batch)
        if self._hold is not None:
            report.marks.update(self._hold.marks(batch))
        return report

    def write(self, batch: Batch) -> None:
        super().write(batch)
        # What the table took came out of the hold, so a replay must find that as it was until the table has it.
        if self._hold is not None:
            self._hold.write(batch)

    def release(self) -> None:
        super().release()
        if self._hold is not None:
            self._hold.release()

    def _in_order(self, batch: Batch, hold: Hold, records: Flow) -> Flow:
        """Records wait until they can be put in order of time (R169)."""
        if self._time_scope == "store":
            records = records.in_one_scope(in_one_scope)
        return hold.take(batch, records)

    def _records(self, batch: Batch, flow: Flow) -> Flow:
        if not isinstance(self.node, ToTable):
            return valid_records(batch, self.node, flow)
        if not flow.is_empty:
            batch.reject(self.node.name, flow.frame.where(has_null_key(flow.frame)), F.lit(NULL_KEY))
        return flow.map(lambda frame: frame.where(~has_null_key(frame)))
