"""Corrections of stream-table joins on Spark: results that a late table change altered.

State: the answers given, a Delta table with the stream record, what was found for it and how often it was corrected.
An answer is kept until the table's stream time is past it by the retention in every partition, including its own. A
change of the table alters the answers of its key from its own ts to the start of the next version: one join on the key
with that range. An answer is identified by its record's place with the number of the batch appended, which
distinguishes equal records of different batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql.types import DataType

from streams.nodes import CorrectionFeed, StreamTableJoin
from streams.spark.flow import FOUND, KEY, PLACE, SCOPE, US, VALUE, Flow, struct_fields
from streams.spark.key_types import key_as
from streams.spark.lookup_table import LookupTable
from streams.spark.operator import Batch, Operator
from streams.spark.stream_table_join import StreamTableJoinOperator
from streams.stream_time_scopes import follows_partitions
from versioned import spark_functions as F
from versioned.commit import Merge, same_keys
from versioned.durations import duration_us
from versioned.hashing import row_hash
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.sql_types import has_order

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder

_LEFT, _REVISION, _NEW, _CAUSE = "_left", "_revision", "_new", "_cause_us"
_AT, _AT_SCOPE, _TABLE_US = "_at", "_at_scope", "_table_us"


class CorrectionFeedOperator(Operator[CorrectionFeed]):
    """Emits, for each answer that is no longer right, the old and the new one."""

    def __init__(self, node: CorrectionFeed, join: StreamTableJoinOperator, table: LookupTable) -> None:
        super().__init__(node)
        kind = node.parents[0]
        assert isinstance(kind, StreamTableJoin)
        assert kind.joined.correction_retention is not None
        self._retention_us = duration_us(kind.joined.correction_retention)
        self._join, self._table = join, table
        self._follows_partitions = all(map(follows_partitions, kind.parents))
        self._steps: DataFrame | None = None
        self._answers: DataFrame | None = None
        self._is_ready = False

    def tables(self, root: TableRef) -> list[TableRef]:
        return [root.child(self.node.name)]

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        number = F.array(F.lit(batch.number).cast("long"))
        new = self._join.answers().withColumn(PLACE, F.concat(PLACE, number))
        self._make_ready(batch, new)
        self._steps = self._answers = None
        if all(flow.is_empty for flow in inputs):
            return Flow(self._told(self._nothing(new)), {})
        stored = self._stored(batch, struct_fields(new, KEY))
        known = stored.unionByName(new.withColumns({_REVISION: F.lit(0), "_is_new": F.lit(True)}))
        self._answers = batch.cut(known)
        self._steps = batch.cut(self._revised(self._answers))
        return Flow(self._told(self._steps.where("_differs")))

    def tally(self) -> DataFrame | None:
        if self._steps is None:
            return None
        return self._steps.where("_differs").agg(F.lit("corrected").alias("what"), F.count("*").alias("n"))

    def write(self, batch: Batch) -> None:
        if self._answers is not None:
            batch.commit(self.tables(batch.root)[0], self._upsert, self.node.name, "main")

    def _revised(self, answers: DataFrame) -> DataFrame:
        """Each answer with each table change that affects it, in order, and the answer before and after."""
        key_type = answers.schema[KEY].dataType
        spans = self._table.spans()
        spans = spans.select(
            key_as(spans, key_type).alias(KEY),
            F.col(VALUE).alias(_NEW),
            F.col(US).alias(_CAUSE),
            "_until_us",
            F.col(SCOPE).alias(_AT_SCOPE),
            F.col(PLACE).alias(_AT),
            _TABLE_US,
        )
        reaches = (F.col(_CAUSE) <= F.col(US)) & F.coalesce(F.col(US) < F.col("_until_us"), F.lit(True))
        after = ~F.col("_is_new") | (F.col(_AT) > F.col(PLACE))
        remembered = F.col(US) >= F.col(_TABLE_US) - self._retention_us
        hit = answers.join(spans, KEY).where(reaches & after & remembered)
        in_order = Window.partitionBy(SCOPE, PLACE).orderBy(_AT, _AT_SCOPE)
        before = F.coalesce(F.lag(F.struct(_NEW)).over(in_order), F.struct(F.col(FOUND).alias(_NEW)))
        steps = hit.withColumn("_before", before.getField(_NEW))
        old, new = self._join.answer(steps, F.col("_before")), self._join.answer(steps, F.col(_NEW))
        told = steps.withColumns({"_old_row": old, "_new_row": new})
        told = told.withColumn("_differs", _differ(told.schema["_new_row"].dataType))
        corrections = F.sum(F.col("_differs").cast("int")).over(in_order.rowsBetween(Window.unboundedPreceding, 0))
        rank = Window.partitionBy(_AT_SCOPE, _AT).orderBy(SCOPE, PLACE)
        return told.withColumns(
            {_REVISION: F.col(_REVISION) + corrections, "_rank": F.row_number().over(rank).cast("long")}
        )

    def _told(self, steps: DataFrame) -> DataFrame:
        value = F.struct(
            F.col(SCOPE).alias("original_scope"),
            F.slice(F.col(PLACE), 1, F.size(PLACE) - 1).alias("original_seq"),
            F.col(_REVISION).alias("revision"),
            F.col("_old_row").alias("old"),
            F.col("_new_row").alias("new"),
            F.col(_CAUSE).alias("cause"),
        )
        place = F.concat(_AT, F.array("_rank"))
        return steps.select(KEY, value.alias(VALUE), US, F.col(_AT_SCOPE).alias(SCOPE), place.alias(PLACE))

    def _nothing(self, answers: DataFrame) -> DataFrame:
        row = self._join.answer(answers, F.col(FOUND))
        long = F.lit(0).cast("long")
        added = {"_old_row": row, "_new_row": row, _CAUSE: long, _AT: F.col(PLACE), "_rank": long}
        return answers.limit(0).withColumns({**added, _AT_SCOPE: F.col(SCOPE), _REVISION: long})

    def _upsert(self) -> Merge:
        """The merge of new and revised answers, which also deletes those too old for a correction."""
        assert self._answers is not None
        assert self._steps is not None
        last = Window.partitionBy(SCOPE, PLACE).orderBy(F.desc(_AT), F.desc(_AT_SCOPE))
        revised = self._steps.withColumn("_nth", F.row_number().over(last)).where(F.col("_nth") == 1)
        changed = revised.select(SCOPE, PLACE, F.col(_NEW).alias("_revised"), F.col(_REVISION).alias("_revisions"))
        joined = self._answers.join(changed.withColumn("_hit", F.lit(True)), [SCOPE, PLACE], "left")
        kept = joined.where(F.col("_is_new") | F.col("_hit")).withColumns(
            {
                FOUND: F.when(F.col("_hit"), F.col("_revised")).otherwise(F.col(FOUND)),
                _REVISION: F.coalesce("_revisions", _REVISION),
            }
        )
        rows, too_old = self._as_rows(kept), self._too_old()

        def clauses(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
            merge = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()
            return merge if too_old is None else merge.whenNotMatchedBySourceDelete(too_old)

        return Merge(rows, same_keys((SCOPE, "_seq")), clauses)

    def _too_old(self) -> str | None:
        """The condition for answers that no change of the table can reach any more; None if there are none."""
        times = self._table.stream_times()
        if not times:
            return None
        passed = f"unix_micros(t.ts) < {min(times.values()) - self._retention_us}"
        # A partition from which no change has come yet has no stream time, so none of its answers is too old.
        return f"{passed} AND t.{SCOPE} IN ({', '.join(map(str, times))})" if self._follows_partitions else passed

    def _stored(self, batch: Batch, keys: list[str]) -> DataFrame:
        return read_table(batch.session, self.tables(batch.root)[0]).select(
            F.struct(*map(quote, keys)).alias(KEY),
            F.col("value").alias(_LEFT),
            F.unix_micros("ts").alias(US),
            SCOPE,
            F.col("_seq").alias(PLACE),
            F.col("found").alias(FOUND),
            F.col("revision").alias(_REVISION),
            F.lit(False).alias("_is_new"),
        )

    def _as_rows(self, answers: DataFrame) -> DataFrame:
        return answers.select(
            f"{KEY}.*",
            F.col(_LEFT).alias("value"),
            F.timestamp_micros(US).alias("ts"),
            F.col(FOUND).alias("found"),
            F.col(_REVISION).cast("int").alias("revision"),
            SCOPE,
            F.col(PLACE).alias("_seq"),
        )

    def _make_ready(self, batch: Batch, answers: DataFrame) -> None:
        (target,) = self.tables(batch.root)
        if not self._is_ready:
            empty = self._as_rows(answers.limit(0).withColumn(_REVISION, F.lit(0)))
            batch.create_or_check(target, self.node.name, empty, by_name=True)
        self._is_ready = True


def _differ(kind: DataType) -> Column:
    """Whether an answer has changed; by hash where it contains maps or variants, which Spark cannot compare."""
    old, new = F.col("_old_row"), F.col("_new_row")
    return ~old.eqNullSafe(new) if has_order(kind) else row_hash([(old, kind)]) != row_hash([(new, kind)])
