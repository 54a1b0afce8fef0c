"""Versioned table sources on Spark: a topic's records are puts into a versioned table (KIP-914, "put").

State: the versioned table, named after its store. One batch of puts is at most two commits, ``splice`` and ``main``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from streams.nodes import Materialized, TableSource
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
from versioned.commit import is_missing
from versioned.durations import duration
from versioned.identifiers import TableRef, quote
from versioned.put import PutBatch
from versioned.put_frames import floor_to_resolution
from versioned.spec import VersionedTableSpec
from versioned.table import VersionedTable


class VersionedTableSourceOperator(Operator[TableSource]):
    """Puts its topic's records into a versioned table; its output are the table's changes."""

    def __init__(self, node: TableSource) -> None:
        super().__init__(node)
        assert node.materialized is not None
        self._materialized: Materialized = node.materialized
        self._table: VersionedTable | None = None
        self._puts: PutBatch | None = None
        self._is_empty = True

    def tables(self, root: TableRef) -> list[TableRef]:
        return [root.child(self._materialized.name or self.node.name)]

    @property
    def spec(self) -> VersionedTableSpec:
        """The contract of the table."""
        assert self._table is not None
        return self._table.spec

    def value_type(self) -> DataType:
        """The type of a value."""
        return self.puts.judged.schema[VALUE].dataType

    @property
    def puts(self) -> PutBatch:
        """The puts of this batch, with the table's state before them."""
        assert self._puts is not None
        return self._puts

    @property
    def has_puts(self) -> bool:
        """Whether the batch brought any record."""
        return not self._is_empty

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        flow = valid_records(batch, self.node, inputs[0])
        self._is_empty = flow.is_empty
        spec = self._opened(batch, flow.frame).spec
        records = flat_keys(flow.frame).withColumn(US, floor_to_resolution(F.col(US), spec))
        by_partition = spec.time_scope == "partition"
        if not by_partition:
            records = records.withColumn(SCOPE, F.lit(0))
        unit = spec.time_resolution.value
        bounds = {scope: (b.oldest_us // unit * unit, b.newest_us) for scope, b in (flow.bounds or {}).items()}
        self._puts = PutBatch(
            self.tables(batch.root)[0],
            spec,
            records,
            batch.times_of(self.node.name),
            bounds if by_partition and flow.bounds is not None else None,
        )
        return Flow(lambda: changes(self.puts, spec), flow.bounds)

    def report(self, batch: Batch) -> NodeReport:
        if self._is_empty:
            return NodeReport(stream_times=self.puts.observed)
        counts = self.puts.counts
        if self._materialized.late_policy == "side_table" and counts.refused:
            late = self.puts.judged.where(F.col("_refused"))
            batch.reject(self.node.name, struct_keys(late, self.spec.keys), F.lit("LATE"))
        told = {"input": counts.accepted + counts.refused, "accepted": counts.accepted, "late": counts.refused}
        told |= {"out_of_order": counts.out_of_order, "spliced": counts.spliced}
        return NodeReport(told, self.puts.stream_times)

    def write(self, batch: Batch) -> None:
        if not self._is_empty and self.puts.counts.accepted:
            landed = self.puts.write(lambda step: batch.step(self.node.name, step), batch.details)
            batch.versions[self.node.name] = landed.version

    def release(self) -> None:
        self.puts.release()

    def _opened(self, batch: Batch, records: DataFrame) -> VersionedTable:
        if self._table is None:
            (target,) = self.tables(batch.root)
            if is_missing(batch.session, target):
                _create(batch, target, records, self._materialized)
            self._table = VersionedTable.open(batch.session, target)
        return self._table


def changes(puts: PutBatch, spec: VersionedTableSpec) -> DataFrame:
    """The table's changes: what each accepted put replaced, and whether it is now the latest."""
    accepted = puts.outcomes().where(~F.col("_refused"))
    return struct_keys(
        accepted.select(*spec.keys, VALUE, F.col(OLD).getField("value").alias(OLD), LATEST, US, SCOPE, PLACE), spec.keys
    )


def _create(batch: Batch, target: TableRef, records: DataFrame, materialized: Materialized) -> None:
    keys = struct_fields(records, KEY)
    flat = records.select(f"{KEY}.*", f"{VALUE}.*").drop("_present")
    columns = ", ".join(f"{quote(field.name)} {field.dataType.simpleString()}" for field in flat.schema.fields)
    assert materialized.history_retention is not None
    VersionedTable.create(
        batch.session,
        target,
        columns,
        keys=keys,
        history_retention=duration(materialized.history_retention),
        grace=materialized.grace,
        time_scope=materialized.time_scope,
        time_resolution=materialized.time_resolution,
    )
