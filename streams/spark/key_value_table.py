"""Unversioned tables on Spark: the latest value per key by arrival.

State: a Delta table with the key columns, ``ts`` and the value columns, named after its store; a tombstone deletes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streams.nodes import TableSource
from streams.spark.flow import (
    KEY,
    LATEST,
    OLD,
    PLACE,
    SCOPE,
    US,
    VALUE,
    Flow,
    NodeReport,
    flat_keys,
    struct_fields,
    struct_keys,
)
from streams.spark.operator import Batch, Operator
from streams.spark.source import valid_records
from versioned.commit import Append, Merge, commit, is_missing
from versioned.identifiers import TableRef, check_columns, quote
from versioned.put import read_table

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder


class KeyValueTableOperator(Operator[TableSource]):
    """Keeps the latest value per key; its output are the changes."""

    def __init__(self, node: TableSource) -> None:
        super().__init__(node)
        self._batch: Batch | None = None
        self._input: Flow | None = None
        self._is_ready = False

    @property
    def keys(self) -> list[str]:
        """The table's key columns."""
        return struct_fields(self._frame, KEY)

    def tables(self, root: TableRef) -> list[TableRef]:
        name = self.node.materialized.name if self.node.materialized else None
        return [root.child(name or self.node.name)]

    def value_type(self) -> StructType:
        """The type of a value."""
        kind = self._frame.schema[VALUE].dataType
        assert isinstance(kind, StructType)
        return kind

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        flow = valid_records(batch, self.node, inputs[0])
        self._batch, self._input = batch, flow
        self._make_ready(batch)
        return Flow(self._changes, flow.bounds)

    def stored(self) -> DataFrame:
        """The table before the batch: key columns, ``_us``, ``_value``."""
        assert self._batch is not None
        rows = read_table(self._batch.session, self.tables(self._batch.root)[0])
        values = self.value_type().names
        return rows.select(*self.keys, F.unix_micros("ts").alias(US), F.struct(*values).alias(VALUE))

    def batch_changes(self) -> DataFrame | None:
        """The batch's records: key columns, ``_value``, ``_us``, ``_scope``, ``_place``; None if there are none."""
        assert self._input is not None
        return None if self._input.is_empty else flat_keys(self._frame)

    def report(self, batch: Batch) -> NodeReport:
        assert self._input is not None
        count = 0 if self._input.is_empty else self._frame.count()
        return NodeReport({"input": count, "accepted": count} if count else {})

    def write(self, batch: Batch) -> None:
        assert self._input is not None
        if not self._input.is_empty:
            batch.commit(self.tables(batch.root)[0], self._upsert, self.node.name, "main")

    @property
    def _frame(self) -> DataFrame:
        assert self._input is not None
        return self._input.frame

    def _make_ready(self, batch: Batch) -> None:
        (target,) = self.tables(batch.root)
        if not self._is_ready and is_missing(batch.session, target):
            check_columns((*self.keys, *self.value_type().names, "ts"))
            empty = self._rows(self._frame).limit(0)
            commit(target, lambda: Append(empty))
        self._is_ready = True

    def _rows(self, frame: DataFrame) -> DataFrame:
        return frame.select(f"{KEY}.*", F.timestamp_micros(US).alias("ts"), f"{VALUE}.*")

    def _upsert(self) -> Merge:
        last = Window.partitionBy(KEY).orderBy(F.desc(PLACE))
        newest = self._frame.withColumn("_rank", F.row_number().over(last)).where(F.col("_rank") == 1)
        deleted = F.col(VALUE).isNull().alias("_deleted")
        rows = newest.select(f"{KEY}.*", F.timestamp_micros(US).alias("ts"), f"{VALUE}.*", deleted)
        same = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in self.keys)
        columns: dict[str, str | Column] = {
            name: F.col(f"s.{quote(name)}") for name in (*self.keys, "ts", *self.value_type().names)
        }

        def clauses(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
            return (
                merge.whenMatchedDelete("s._deleted")
                .whenMatchedUpdate(set=columns)
                .whenNotMatchedInsert("NOT s._deleted", values=columns)
            )

        return Merge(rows, same, clauses)

    def _changes(self) -> DataFrame:
        before = self.stored().select(*self.keys, F.col(VALUE).alias("_before"))
        so_far = Window.partitionBy(*self.keys).orderBy(PLACE)
        is_first = F.row_number().over(so_far) == 1
        changed = flat_keys(self._frame).join(before, self.keys, "left")
        old = F.when(is_first, F.col("_before")).otherwise(F.lag(VALUE).over(so_far))
        told = changed.withColumn(OLD, old).withColumn(LATEST, F.lit(True))
        return struct_keys(told.select(*self.keys, VALUE, OLD, LATEST, US, SCOPE, PLACE), self.keys)
