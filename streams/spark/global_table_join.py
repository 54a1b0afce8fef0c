"""Joins of a stream with a global table on Spark: every record sees the whole table, regardless of time (R170)."""

from __future__ import annotations

from pyspark.sql import DataFrame

from streams.nodes import StreamGlobalTableJoin
from streams.reasons import NO_MATCH, NULL_KEY, NULL_VALUE
from streams.spark.columns import joined, with_key
from streams.spark.flow import FOUND, KEY, PLACE, REASON, SCOPE, US, VALUE, Flow, struct_fields
from streams.spark.lookup_table import LookupTable
from streams.spark.operator import Batch, Operator
from streams.spark.stream_table_join import look_ups
from versioned import spark_functions as F

_OWN_KEY = "_own_key"


class StreamGlobalTableJoinOperator(Operator[StreamGlobalTableJoin]):
    """Looks up a key computed from the record in a global table (Kafka: ``KStreamGlobalKTableJoin``).

    The result keeps the stream's key. A null computed key finds nothing; an inner join rejects the record.
    """

    def __init__(self, node: StreamGlobalTableJoin, table: LookupTable) -> None:
        super().__init__(node)
        self._table = table
        self._found: DataFrame | None = None

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        stream = inputs[0]
        self._found = None
        asked = self._asked(stream.frame)
        is_inner = self.node.kind == "inner"
        if not stream.is_empty:
            reason = F.when(F.col(VALUE).isNull(), NULL_VALUE).when(F.col(KEY).isNull() & F.lit(is_inner), NULL_KEY)
            batch.reject(self.node.name, asked.where(reason.isNotNull()), reason)
        usable = asked.where(F.col(VALUE).isNotNull())
        usable = usable.where(F.col(KEY).isNotNull()) if is_inner else usable
        found = self._table.find_latest(usable, few=batch.has_few(stream))
        found = found.withColumn(REASON, F.when(F.col(FOUND).isNull(), NO_MATCH))
        if not stream.is_empty:
            self._found = found = batch.cut(found)
        return Flow(self._joined(found), stream.bounds, most=stream.most)

    def tally(self) -> DataFrame | None:
        if self._found is None:
            return None
        return look_ups(self._found)

    def _asked(self, frame: DataFrame) -> DataFrame:
        keyed = with_key(frame, "_mapped", self.node.key_mapper, F.col(VALUE))
        return keyed.withColumnsRenamed({KEY: _OWN_KEY, "_mapped": KEY})

    def _joined(self, found: DataFrame) -> DataFrame:
        kept = found.where(F.col(FOUND).isNotNull()) if self.node.kind == "inner" else found
        kept = kept.drop(KEY).withColumnRenamed(_OWN_KEY, KEY)
        names = {
            "left": struct_fields(kept, VALUE),
            "right": self._table.value_type.names,
            "key": struct_fields(kept, KEY),
        }
        bindings = {"left": F.col(VALUE), "right": F.col(FOUND), "key": F.col(KEY)}
        value = joined(self.node, bindings, names)
        return kept.select(KEY, value.alias(VALUE), US, SCOPE, PLACE, REASON)
