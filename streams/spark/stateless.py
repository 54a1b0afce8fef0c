"""Filters and mappers of streams, and table changes as a stream: no state, and no jobs of their own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from streams.nodes import SelectKey, StreamFilter, StreamMapValues, ToStream
from streams.spark.columns import holds, to_column, with_key
from streams.spark.flow import KEY, LATEST, OLD, VALUE, Flow
from streams.spark.operator import Batch, Operator
from versioned import spark_functions as F


class StreamFilterOperator(Operator[StreamFilter]):
    """Keeps the records for which the predicate is true."""

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        return inputs[0].map(self._kept)

    def _kept(self, frame: DataFrame) -> DataFrame:
        return frame.where(holds(to_column(self.node.predicate, {"key": F.col(KEY), "value": F.col(VALUE)})))


class StreamMapValuesOperator(Operator[StreamMapValues]):
    """Replaces each value."""

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        return inputs[0].map_each(self._mapped)

    def _mapped(self, frame: DataFrame) -> DataFrame:
        return frame.withColumn(VALUE, to_column(self.node.mapper, {"key": F.col(KEY), "value": F.col(VALUE)}))


class SelectKeyOperator(Operator[SelectKey]):
    """Puts each record under a new key, which may be null or partly null; and in one scope, unless scopes are kept."""

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        return inputs[0].map(self._rekeyed) if self.keeps_scopes else inputs[0].in_one_scope(self._rekeyed)

    def _rekeyed(self, frame: DataFrame) -> DataFrame:
        keyed = with_key(frame, "_new_key", self.node.mapper, in_parts=True)
        return self.rescoped(keyed.drop(KEY).withColumnRenamed("_new_key", KEY))


class ToStreamOperator(Operator[ToStream]):
    """A table's changes as records: the new values, tombstones as null values."""

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        return inputs[0].map(lambda frame: frame.drop(OLD, LATEST))
