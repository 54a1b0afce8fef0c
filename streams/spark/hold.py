"""Records that wait until stream time has passed them, on Spark: judged set-wise, and stored in a table meanwhile.

Used to wait for late input: by stream-table joins with grace (KIP-923) and for reordering at a source (R169). A record
leaves at the place of the first record that brings stream time to its ts plus the wait. Records that leave together are
ordered by ts, key and arrival.
"""

from __future__ import annotations

from typing import Final, TypeVar

from pyspark.sql import DataFrame, Window

from streams.nodes import Node
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, WAS_PLACE, Flow, NodeReport, lookup_times, struct_fields
from streams.spark.operator import Batch, StepOf
from streams.spark.store import Store, StoringOperator
from suppress.window_rules import NEVER_US
from versioned import spark_functions as F
from versioned.commit import ReplaceWhere
from versioned.durations import LAST_INSTANT_US
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.stream_times import newest_times

N = TypeVar("N", bound=Node)

_DUE: Final = "_due_us"
_BATCH: Final = "_batch_id"
_LEAVES: Final = "_leaves"


class Hold:
    """Holds back the records of one node.

    Args:
        node: The name under which the stream times of the arriving records are kept.
        table: The name of the table of waiting records.
        wait_us: How far stream time must be past a record.
    """

    def __init__(self, node: str, table: str, wait_us: int) -> None:
        self.node = node
        self.table = table
        self._wait_us = wait_us
        self._judged: DataFrame | None = None
        self._works = False
        self._is_ready = False

    def target(self, root: TableRef) -> TableRef:
        """The table of waiting records: key, ``value``, ``ts``, ``deadline``, scope and place of arrival."""
        return root.child(self.table)

    def steps(self, root: TableRef) -> list[StepOf]:
        """The writes that a batch may make to the table."""
        return [(self.target(root), self.node, "hold")]

    def take(self, batch: Batch, flow: Flow) -> Flow:
        """Take in the batch's records, and return those that leave, with the places of leaving and of arrival."""
        self._works = not flow.is_empty
        self._make_ready(batch, flow.frame)
        if not self._works:
            return flow.map(lambda frame: frame.select(KEY, VALUE, US, SCOPE, PLACE))
        # Nothing leaves without records, since only they advance stream time.
        self._judged = batch.cut(self._judge(batch, flow.frame))
        return Flow(self._released)

    def marks(self, batch: Batch) -> dict[str, dict[int, int]]:
        """Stream time of the arriving records per scope, after the batch, under the node's name."""
        times = dict(batch.times_of(self.node))
        if self._works and self._judged is not None:
            new = self._judged.where(F.col(_BATCH) == batch.number)
            rows = new.groupBy(SCOPE).agg(F.max(US).alias("newest")).collect()
            times = newest_times(times, {row[SCOPE]: row["newest"] for row in rows})
        return {self.node: times}

    def write(self, batch: Batch) -> None:
        """Commit the waiting records."""
        if self._works:
            batch.commit(self.target(batch.root), self._replace, self.node, "hold")

    def release(self) -> None:
        """Forget the batch."""
        self._judged = None

    def _judge(self, batch: Batch, frame: DataFrame) -> DataFrame:
        """All waiting and arriving records, with the place at which each leaves (null: not in this batch)."""
        new = frame.select(KEY, VALUE, US, SCOPE, PLACE, F.lit(batch.number).cast("long").alias(_BATCH))
        waiting = self._stored(batch, frame).unionByName(new.withColumn("_is_new", F.lit(True)))
        due = waiting.withColumns({_DUE: F.col(US) + self._wait_us, WAS_PLACE: F.col(PLACE)})
        movers = new.select(SCOPE, F.col(US).alias(_DUE), PLACE, F.lit(True).alias("_moves"))
        both = due.withColumn("_moves", F.lit(False)).unionByName(movers, allowMissingColumns=True)
        later = Window.partitionBy(SCOPE).orderBy(F.desc(_DUE), F.desc("_moves"))
        until_here = later.rowsBetween(Window.unboundedPreceding, 0)
        mover = F.when(F.col("_moves"), F.col(PLACE))
        first, any_first = F.min(mover).over(until_here), F.min(mover).over(Window.partitionBy(SCOPE))
        before = F.coalesce(lookup_times(dict(batch.times_of(self.node))), F.lit(NEVER_US))
        placed = both.withColumns({"_first": first, "_any": any_first}).where(~F.col("_moves"))
        own = F.when(F.col("_is_new"), F.col(WAS_PLACE))
        # A record may be waiting although it is due, if the plan was changed to a shorter wait since it came.
        leaves = F.when(F.col(_DUE) <= before, F.coalesce(own, "_any")).otherwise(
            F.when(own.isNull() | (F.col("_first") > own), F.col("_first")).otherwise(
                F.when(F.col("_first").isNotNull(), own)
            )
        )
        return placed.withColumn(_LEAVES, leaves).select(KEY, VALUE, US, SCOPE, WAS_PLACE, _BATCH, _LEAVES)

    def _released(self) -> DataFrame:
        assert self._judged is not None
        leaving = self._judged.where(F.col(_LEAVES).isNotNull())
        together = Window.partitionBy(SCOPE, _LEAVES).orderBy(US, KEY, _BATCH, WAS_PLACE)
        rank = F.row_number().over(together).cast("long")
        placed = leaving.withColumn(PLACE, F.concat(_LEAVES, F.array(rank)))
        return placed.select(KEY, VALUE, US, SCOPE, PLACE, WAS_PLACE)

    def _stored(self, batch: Batch, frame: DataFrame) -> DataFrame:
        keys = F.struct(*(quote(name) for name in struct_fields(frame, KEY)))
        return read_table(batch.session, self.target(batch.root)).select(
            keys.alias(KEY),
            F.col("value").alias(VALUE),
            F.unix_micros("ts").alias(US),
            SCOPE,
            F.col("_seq").alias(PLACE),
            _BATCH,
            F.lit(False).alias("_is_new"),
        )

    def _replace(self) -> ReplaceWhere:
        assert self._judged is not None
        waiting = self._judged.where(F.col(_LEAVES).isNull())
        return ReplaceWhere(self._as_rows(waiting.withColumnRenamed(WAS_PLACE, PLACE)), "true")

    def _as_rows(self, frame: DataFrame) -> DataFrame:
        # Capped, since a long wait may end after the last possible instant.
        deadline = F.least(F.col(US) + self._wait_us, F.lit(LAST_INSTANT_US))
        return frame.select(
            f"{KEY}.*",
            F.col(VALUE).alias("value"),
            F.timestamp_micros(US).alias("ts"),
            F.timestamp_micros(deadline).alias("deadline"),
            SCOPE,
            F.col(PLACE).alias("_seq"),
            _BATCH,
        )

    def _make_ready(self, batch: Batch, frame: DataFrame) -> None:
        if not self._is_ready:
            empty = self._as_rows(frame.limit(0).withColumn(_BATCH, F.lit(0).cast("long")))
            batch.create_or_check(self.target(batch.root), self.node, empty, by_name=True)
        self._is_ready = True


class HoldingOperator(StoringOperator[N]):
    """An operator whose input may wait, and whose result may be stored."""

    def __init__(self, node: N, store: Store | None, hold: Hold | None) -> None:
        super().__init__(node, store)
        self.holds = () if hold is None else (hold,)

    def holding(self) -> list[str]:
        return [hold.table for hold in self.holds]

    def tables(self, root: TableRef) -> list[TableRef]:
        return [*super().tables(root), *(hold.target(root) for hold in self.holds)]

    def steps(self, root: TableRef) -> list[StepOf]:
        return [*super().steps(root), *(step for hold in self.holds for step in hold.steps(root))]

    def report(self, batch: Batch) -> NodeReport:
        report = super().report(batch)
        for hold in self.holds:
            report.marks.update(hold.marks(batch))
        return report

    def write(self, batch: Batch) -> None:
        super().write(batch)
        # After the store, which takes what leaves the hold: until it has landed, a replay must find the hold unchanged.
        for hold in self.holds:
            hold.write(batch)

    def release(self) -> None:
        super().release()
        for hold in self.holds:
            hold.release()
