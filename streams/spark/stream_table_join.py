"""Stream-table join on Spark (KIP-914, "Stream-Table Join"): each record with the version valid at its time.

No state of its own: it reads the table's. Records that find nothing say why (``NO_MATCH``, ``TOMBSTONE``,
``EXPIRED``); a lookup older than the table's history is also logged (R142) and counted.
"""

from __future__ import annotations

import logging
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from streams.nodes import StreamTableJoin
from streams.spark.columns import to_column
from streams.spark.flow import (
    KEY,
    PLACE,
    REASON,
    SCOPE,
    US,
    VALUE,
    Flow,
    NodeReport,
    flat_keys,
    has_null_key,
    struct_fields,
)
from streams.spark.key_value_table import KeyValueTableOperator
from streams.spark.lookup import EXPIRED, FOUND, lookup_latest, lookup_versioned
from streams.spark.operator import Batch, Operator
from streams.spark.table_source import VersionedTableSourceOperator

_LOG: Final = logging.getLogger(__name__)
TableOperator = VersionedTableSourceOperator | KeyValueTableOperator


class StreamTableJoinOperator(Operator[StreamTableJoin]):
    """Joins its stream to a table; ``on_expired`` and the join kind decide about records without a match."""

    def __init__(self, node: StreamTableJoin, table: TableOperator) -> None:
        super().__init__(node)
        self._table = table
        self._looked_up: DataFrame | None = None
        self._is_empty = True

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        stream = inputs[0]
        self._is_empty = stream.is_empty
        if self._is_empty:
            return stream.map(self._unmatched_output)
        frame = stream.frame
        self._reject_invalid(batch, frame)
        usable = frame.where(F.col(VALUE).isNotNull())
        keyed = usable.where(~has_null_key(frame))
        found = self._lookup(keyed, stream).withColumn(KEY, F.struct(*struct_fields(frame, KEY)))
        if self.node.kind == "left":
            unkeyed = usable.where(has_null_key(frame)).withColumn(REASON, F.lit("NO_MATCH"))
            found = found.unionByName(unkeyed, allowMissingColumns=True)
        self._looked_up = found.persist()
        return Flow(self._joined(self._looked_up), stream.bounds)

    def report(self, batch: Batch) -> NodeReport:
        if self._looked_up is None or self._is_empty:
            return NodeReport()
        reason = F.coalesce(REASON, F.lit("MATCH"))
        counts = {
            row["reason"].lower(): row["count"]
            for row in self._looked_up.groupBy(reason.alias("reason")).count().collect()
        }
        expired = counts.get("expired", 0)
        if expired:
            _LOG.warning(
                "%s: %d of %d lookups were older than the table's history and found nothing; keep history longer or "
                "choose on_expired.", self.node.name, expired, sum(counts.values()),
            )  # fmt: skip
            if self.node.joined.on_expired == "side_table":
                batch.reject(self.node.name, self._looked_up.where(F.col(REASON) == EXPIRED), F.lit(EXPIRED))
        return NodeReport({"accepted": sum(counts.values()), **counts})

    def release(self) -> None:
        if self._looked_up is not None:
            self._looked_up.unpersist()
            self._looked_up = None

    def _lookup(self, keyed: DataFrame, stream: Flow) -> DataFrame:
        keys = struct_fields(keyed, KEY)
        flat = flat_keys(keyed)
        if isinstance(self._table, KeyValueTableOperator):
            table = self._table
            return lookup_latest(flat, table.stored(), table.batch_changes(), keys, table.keys)
        oldest = stream.oldest_us
        if oldest is None:
            oldest = keyed.agg(F.min(US)).collect()[0][0] or 0
        return lookup_versioned(flat, self._table.spec, self._table.puts, self._table.has_puts, oldest, keys)

    def _joined(self, found: DataFrame) -> DataFrame:
        keep = found
        if self.node.kind == "inner":
            keep = found.where(F.col(REASON).isNull())
        elif self.node.joined.on_expired != "null":
            keep = found.where(F.coalesce(F.col(REASON) != EXPIRED, F.lit(True)))
        return self._output(keep, F.col(FOUND))

    def _unmatched_output(self, frame: DataFrame) -> DataFrame:
        value = self._table.value_type()
        padded = frame.withColumn(REASON, F.lit(None).cast("string"))
        return self._output(padded, F.lit(None).cast(value))

    def _output(self, frame: DataFrame, right: Column) -> DataFrame:
        assert self.node.joiner is not None
        bindings = {"left": F.col(VALUE), "right": right, "key": F.col(KEY)}
        names = {"left": struct_fields(frame, VALUE), "right": _names(self._table.value_type())}
        value = to_column(self.node.joiner, bindings, names | {"key": struct_fields(frame, KEY)})
        return frame.select(KEY, value.alias(VALUE), US, SCOPE, PLACE, REASON)

    def _reject_invalid(self, batch: Batch, frame: DataFrame) -> None:
        reason = F.when(F.col(VALUE).isNull(), "NULL_VALUE")
        if self.node.kind == "inner":
            reason = reason.when(has_null_key(frame), "NULL_KEY")
        invalid = frame.where(F.col(VALUE).isNull() | (has_null_key(frame) & F.lit(self.node.kind == "inner")))
        batch.reject(self.node.name, invalid, reason)


def _names(kind: DataType) -> list[str]:
    assert isinstance(kind, StructType)
    return list(kind.names)
