"""Foreign-key joins of two tables on Spark: inner and left (R155).

State: the result, one row per left key; between two versioned sides tombstones are kept, since a result's ts never goes
back. The left rows that point to a right row are found in the left table, by one join on the foreign key; nothing is
collected.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window

from streams.nodes import ForeignKeyJoin
from streams.plan_facts import is_versioned, with_ancestors
from streams.reasons import NULL_KEY
from streams.spark.columns import joined, with_key
from streams.spark.flow import CHANGE, FOUND, FOUND_US, KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE, Flow, count_ignored
from streams.spark.key_types import key_as
from streams.spark.lookup_table import LookupTable
from streams.spark.of_keys import of_keys, without_keys
from streams.spark.operator import Batch
from streams.spark.plain_store import LAST_US, PlainStore
from streams.spark.store import Store, StoringOperator, store_of, table_name
from versioned import spark_functions as F

#: The keys to which a left row points now and before, its value before, and the places between which it is valid.
_TO, _TO_BEFORE, _BEFORE, _FROM, _UNTIL = "_to", "_to_before", "_before", "_from", "_until"


class ForeignKeyJoinOperator(StoringOperator[ForeignKeyJoin]):
    """Joins each left row with the right row that it points to (Kafka: ``KTable.join`` with a foreign key, KIP-213).

    A change of a right row gives one result for each left row that points to it at its place, in order of keys.
    """

    def __init__(self, node: ForeignKeyJoin, left: LookupTable, right: LookupTable) -> None:
        self._keeps_order = all(is_versioned(parent) for parent in node.parents)
        self._result = _store(node, self._keeps_order)
        super().__init__(node, self._result)
        self.state: LookupTable = self._result
        self._left, self._right = left, right
        # With a common ancestor, a record may reach the right side when the left table has it, but this join has not.
        self._sides_meet = not with_ancestors(node.parents[0]).isdisjoint(with_ancestors(node.parents[1]))
        self._batch: Batch | None = None
        self._inputs: list[Flow] = []

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        left, right = inputs
        self._batch = batch
        self._inputs = [flow for flow in inputs if not flow.is_empty]
        touched = self._touched(left.frame.where(F.col(LATEST)), few=batch.has_few(left))
        if self._inputs:
            touched = batch.cut(touched)
        results = self._of_left(batch, touched.where(F.col(_FROM).isNotNull()), few=batch.has_few(left))
        if not right.is_empty:
            untouched = self._left.rows()
            if not left.is_empty:
                untouched = without_keys(untouched, touched, few=batch.has_few(left))
            pointing = with_key(untouched, _TO, self.node.foreign_key, F.col(VALUE))
            everyone = touched.unionByName(pointing, allowMissingColumns=True)
            changed = right.frame.where(F.col(LATEST))
            results = results.unionByName(self._of_right(changed, everyone, few=batch.has_few(right)))
        results = self.rescoped(results)
        flow = Flow(batch.cut(results) if self._inputs else results, None if self._inputs else {})
        return self.stored(batch, flow.map(self._in_order) if self._keeps_order else flow)

    def tally(self) -> DataFrame | None:
        told = [count_ignored(flow.frame) for flow in self._inputs]
        return None if not told else told[0] if len(told) == 1 else told[0].unionByName(told[1])

    def _touched(self, changes: DataFrame, *, few: bool) -> DataFrame:
        """The left rows of keys that change in the batch: before the batch, and after each change."""
        stored = of_keys(self._left.rows(), changes, few=few)
        new = changes.select(KEY, VALUE, US, SCOPE, PLACE, F.col(PLACE).alias(_FROM))
        by_key = Window.partitionBy(KEY).orderBy(F.col(_FROM).asc_nulls_first(), SCOPE)
        steps = stored.unionByName(new, allowMissingColumns=True).withColumns(
            {_UNTIL: F.lead(_FROM).over(by_key), _BEFORE: F.lag(VALUE).over(by_key)}
        )
        pointed = with_key(steps, _TO, self.node.foreign_key, F.col(VALUE))
        return with_key(pointed, _TO_BEFORE, self.node.foreign_key, F.col(_BEFORE))

    def _of_left(self, batch: Batch, changed: DataFrame, *, few: bool) -> DataFrame:
        """The results of left rows' changes, and tombstones where a result ends."""
        is_left_join, is_deleted = F.lit(self.node.kind == "left"), F.col(VALUE).isNull()
        if self.node.kind == "inner":
            batch.reject(self.node.name, changed.where(~is_deleted & F.col(_TO).isNull()), F.lit(NULL_KEY))
        asked = changed.withColumnRenamed(KEY, "_own").withColumn(KEY, F.coalesce(_TO, _TO_BEFORE))
        # A row that now points nowhere joins nothing; its former target only dates the end of an inner join's result.
        met = self._right.find_latest(asked, few=few).drop(KEY).withColumnRenamed("_own", KEY)
        somewhere = is_deleted | F.col(_TO).isNotNull()
        dates = somewhere | ~is_left_join
        met = met.withColumns({FOUND: F.when(somewhere, F.col(FOUND)), FOUND_US: F.when(dates, F.col(FOUND_US))})
        gives = ~is_deleted & (is_left_join | F.col(FOUND).isNotNull())
        moved = F.col(_TO_BEFORE).isNotNull() & ~F.coalesce(F.col(_TO_BEFORE) == F.col(_TO), F.lit(False))
        was_joined = F.col(_BEFORE).isNotNull() & (is_left_join | F.col(_TO_BEFORE).isNotNull())
        ends = F.when(is_deleted, was_joined).otherwise(~gives & moved)
        ts = F.when(is_deleted & is_left_join, F.col(US)).otherwise(F.greatest(US, FOUND_US))
        return self._told(met.where(gives | ends), gives, F.col(VALUE), ts)

    def _of_right(self, changed: DataFrame, lefts: DataFrame, *, few: bool) -> DataFrame:
        """The results of right rows' changes: one for each left row that points to the right row at that place."""
        asked = changed.select(
            key_as(changed, self._right.key_type).alias("_right_key"),
            F.col(VALUE).alias(FOUND),
            F.col(US).alias(FOUND_US),
            F.col(SCOPE).alias("_right_scope"),
            F.col(PLACE).alias("_right_place"),
        )
        held = F.coalesce(F.col(_FROM) < F.col("_right_place"), F.lit(True))
        still = F.coalesce(F.col("_right_place") < F.col(_UNTIL), F.lit(True))
        to = key_as(lefts, self._right.key_type, _TO)
        points = F.col("_right_key") == to
        lefts = lefts.where(F.col(VALUE).isNotNull())
        if few:
            # Only keys are broadcast: values may be large.
            lefts = lefts.join(F.broadcast(asked.select("_right_key")), points, "left_semi")
        met = asked.join(lefts, points & held & still)
        rank = F.row_number().over(Window.partitionBy("_right_scope", "_right_place").orderBy(KEY)).cast("long")
        placed = met.withColumn(SCOPE, F.col("_right_scope")).withColumn(PLACE, F.concat("_right_place", F.array(rank)))
        if self._sides_meet or not self._left.is_dated_by_changes:
            placed = self._dated_by_look_up(placed)
        gives = F.lit(self.node.kind == "left") | F.col(FOUND).isNotNull()
        return self._told(placed, gives, F.col(VALUE), F.greatest(US, FOUND_US))

    def _dated_by_look_up(self, placed: DataFrame) -> DataFrame:
        """Left rows with the ts that a look-up finds at the place of the right row's change."""
        apart = placed.withColumnsRenamed({FOUND: "_right_value", FOUND_US: "_right_us"})
        dated = self._left.find_latest(apart).withColumn(US, F.coalesce(FOUND_US, US)).drop(FOUND, FOUND_US)
        return dated.withColumnsRenamed({"_right_value": FOUND, "_right_us": FOUND_US})

    def _told(self, met: DataFrame, gives: Column, left: Column, ts: Column) -> DataFrame:
        """The changes to emit: the joined row where ``gives`` holds, else a tombstone."""
        names = {
            "left": self._left.value_type.names,
            "right": self._right.value_type.names,
            "key": self._left.key_type.names,
        }
        bindings = {"left": left, "right": F.col(FOUND), "key": F.col(KEY)}
        told = met.withColumn("_result", joined(self.node, bindings, names, gives)).withColumn(US, ts)
        none = F.lit(None).cast(told.schema["_result"].dataType)
        return told.withColumns({VALUE: F.col("_result"), OLD: none, LATEST: F.lit(True)}).select(*map(F.col, CHANGE))

    def _in_order(self, frame: DataFrame) -> DataFrame:
        """Results whose ts never goes back for a left key, as between two versioned sides."""
        assert self._batch is not None
        so_far = Window.partitionBy(KEY).orderBy(PLACE, SCOPE).rowsBetween(Window.unboundedPreceding, 0)
        ordered = frame.withColumn(US, F.max(US).over(so_far))
        last = self._result.last_times(self._batch, self._left.key_type.names)
        if last is not None:
            ordered = ordered.join(last, KEY, "left").withColumn(US, F.greatest(US, LAST_US))
        return ordered.select(*map(F.col, CHANGE))


def _store(node: ForeignKeyJoin, keeps_order: bool) -> Store:
    if keeps_order and (node.materialized is None or not node.materialized.is_versioned):
        return PlainStore(node.name, table_name(node), keeps_tombstones=True)
    return store_of(node, node.materialized)
