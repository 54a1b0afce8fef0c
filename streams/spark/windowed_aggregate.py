"""Windowed aggregates over time windows on Spark (KIP-328: grace; R4, R10-R14).

State: the window store, a Delta table with the key columns, ``windowStart``, ``windowEnd``, the aggregate's parts,
``maxTs`` and the partition column ``_open``. A batch replaces the open windows in one commit; those that close in it
land in the closed partition in the same commit and are never touched again.

The same store serves final results (``suppress`` until the window closes): a window is final in the batch in which
stream time passes its end plus grace, so no second copy of the state is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from streams.nodes import WindowedAggregate
from streams.spark.columns import to_column
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
    has_null_key,
    lookup_times,
    struct_fields,
)
from streams.spark.operator import Batch, Operator
from suppress.windows import TimeWindows
from versioned.commit import ReplaceWhere, is_missing
from versioned.identifiers import TableRef, check_columns, quote, text_literal
from versioned.put import read_table

_LOG: Final = logging.getLogger(__name__)
START, END, MAX_TS, OPEN = "windowStart", "windowEnd", "maxTs", "_open"
_START_US, _END_US, _CLOSE_US = "_start_us", "_end_us", "_close_us"


@dataclass(frozen=True)
class Part:
    """One stored column of an aggregate: how records give it, and how two of them merge."""

    name: str
    of_record: Column
    merge: Callable[[Column], Column]


@dataclass(frozen=True)
class Survey:
    """What the batch holds for the node, per scope."""

    accepted: int
    late: int
    expired_assignments: int
    rejected: int
    stream_times: dict[int, int]


class WindowedAggregateOperator(Operator[WindowedAggregate]):
    """Counts, sums, averages, minima or maxima per key and time window."""

    def __init__(self, node: WindowedAggregate) -> None:
        super().__init__(node)
        assert isinstance(node.windows, TimeWindows)
        self.windows: TimeWindows = node.windows
        self._batch: Batch | None = None
        self._assigned: DataFrame | None = None
        self._survey: Survey | None = None
        self._is_ready = False

    def tables(self, root: TableRef) -> list[TableRef]:
        name = self.node.materialized.name if self.node.materialized else None
        return [root.child(name or self.node.name)]

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        (flow,) = inputs
        self._batch, self._survey = batch, None
        keyed = self._keyed(flow.frame)
        batch.reject(self.node.name, keyed.where(has_null_key(keyed)), F.lit("NULL_KEY"))
        self._assigned = self._assign(keyed, flow).persist()
        if flow.is_empty:
            self._survey = Survey(0, 0, 0, 0, dict(batch.times_of(self.node.name)))
        self._make_ready(batch)
        return Flow(self.changes, {} if flow.is_empty else None)

    @property
    def survey(self) -> Survey:
        """Counts and stream times of the batch: one job."""
        if self._survey is None:
            rows = self._rows().groupBy(SCOPE).agg(*_survey_columns()).collect()
            self._survey = self._told(rows)
        return self._survey

    def report(self, batch: Batch) -> NodeReport:
        told = self.survey
        if told.late:
            _LOG.debug("%s: %d records came after all their windows had closed; dropped.", self.node.name, told.late)
            if self.node.late_policy == "side_table":
                batch.reject(self.node.name, self._late_records(), F.lit("LATE"))
        total = told.accepted + told.late + told.rejected
        counts = {"input": total, "accepted": told.accepted, "late": told.late, "rejected": told.rejected}
        counts["expired-window-record-drop"] = told.expired_assignments
        return NodeReport(counts if total else {}, told.stream_times)

    def write(self, batch: Batch) -> None:
        if self.survey.accepted:
            batch.commit(self.tables(batch.root)[0], self._replace_open, self.node.name, "main")

    def release(self) -> None:
        if self._assigned is not None:
            self._assigned.unpersist()

    def finals(self) -> DataFrame:
        """The windows that become final in this batch, as a flow; placed at the record that closes them."""
        before = F.coalesce(lookup_times(self._times_before()), F.lit(-(2**62)))
        state = self._next_state().withColumn(_CLOSE_US, F.col(_END_US) + self.windows.grace_us)
        due = state.where((F.col(_CLOSE_US) > before) & (F.col(_CLOSE_US) <= lookup_times(self.survey.stream_times)))
        return self._as_flow(self._placed_at_close(due))

    def changes(self) -> DataFrame:
        """Every update of every window, record by record."""
        parts = self._parts()
        names = [part.name for part in parts]
        before = self._stored_open().withColumn("_stored", F.lit(True))
        new = self._accepted().select(
            KEY, _START_US, _END_US, US, SCOPE, PLACE, *(p.of_record.alias(p.name) for p in parts)
        )
        both = before.unionByName(new.withColumn("_stored", F.lit(False)), allowMissingColumns=True)
        so_far = Window.partitionBy(KEY, _START_US).orderBy(F.col(PLACE).asc_nulls_first())
        until_now = so_far.rowsBetween(Window.unboundedPreceding, 0)
        merged = both.withColumns({p.name: p.merge(F.col(p.name)).over(until_now) for p in parts})
        merged = merged.withColumns({US: F.max(US).over(until_now), VALUE: self._result()})
        merged = merged.withColumn(OLD, F.lag(VALUE).over(so_far)).where(~F.col("_stored")).drop(*names)
        ordinal = F.concat(PLACE, F.array(F.col(_START_US)))
        keyed = merged.withColumns({KEY: self._windowed_key(merged), PLACE: ordinal, LATEST: F.lit(True)})
        return keyed.select(KEY, VALUE, OLD, LATEST, US, SCOPE, PLACE)

    def _keyed(self, frame: DataFrame) -> DataFrame:
        if self.node.group_key is None:
            return frame
        return frame.withColumn(KEY, to_column(self.node.group_key, {"key": F.col(KEY), "value": F.col(VALUE)}))

    def _assign(self, keyed: DataFrame, flow: Flow) -> DataFrame:
        """One row per record and window, with ``_late``: the window had closed when the record came."""
        valid = keyed.where(~has_null_key(keyed))
        timed = valid.withColumn("_stream_us", self._stream_time(flow))
        size, advance = self.windows.size_us, self.windows.advance_us
        last = F.col(US) - F.pmod(F.col(US), F.lit(advance))
        first = last - ((size - 1) // advance) * advance
        candidates = F.sequence(first, last, F.lit(advance)) if advance < size else F.array(last)
        # The epoch is a wall: a record at or after it is in no window that starts before it (as in Kafka).
        holds = (F.col(_START_US) + size > F.col(US)) & ((F.col(_START_US) >= 0) | (F.col(US) < 0))
        rows = timed.withColumn(_START_US, F.explode(candidates)).where(holds)
        rows = rows.withColumn(_END_US, F.col(_START_US) + size)
        late = F.coalesce(F.col(_END_US) + self.windows.grace_us <= F.col("_stream_us"), F.lit(False))
        return rows.withColumn("_late", late).drop("_stream_us")

    def _stream_time(self, flow: Flow) -> Column:
        """Stream time after each record; null when nothing in the batch can be late (spares the sort)."""
        before = self._times_before()
        oldest = flow.oldest_us
        newest = max([*before.values(), *flow.newest().values()], default=0)
        first_end = None if oldest is None else oldest - oldest % self.windows.advance_us + self.windows.advance_us
        if first_end is not None and first_end + self.windows.grace_us > newest:
            return F.lit(None).cast("long")
        so_far = Window.partitionBy(SCOPE).orderBy(PLACE).rowsBetween(Window.unboundedPreceding, 0)
        return F.greatest(lookup_times(before), F.max(US).over(so_far))

    def _times_before(self) -> dict[int, int]:
        assert self._batch is not None
        return dict(self._batch.times_of(self.node.name))

    def _rows(self) -> DataFrame:
        assert self._assigned is not None
        return self._assigned

    def _accepted(self) -> DataFrame:
        return self._rows().where(~F.col("_late"))

    def _late_records(self) -> DataFrame:
        """The records that no window took."""
        rows = self._rows()
        taken = rows.where(~F.col("_late")).select(SCOPE, PLACE)
        return rows.join(taken, [SCOPE, PLACE], "left_anti").dropDuplicates([SCOPE, PLACE])

    def _told(self, rows: list[Row]) -> Survey:
        times = self._times_before()
        for row in rows:
            times[row[SCOPE]] = max(row["newest"], times.get(row[SCOPE], row["newest"]))
        assignments = sum(row["late_rows"] for row in rows)
        accepted, records = sum(row["accepted"] for row in rows), sum(row["records"] for row in rows)
        return Survey(accepted, records - accepted, assignments, 0, times)

    def _parts(self) -> list[Part]:
        aggregation = self.node.aggregation
        if aggregation.kind == "count":
            return [Part(aggregation.output, self._counted(), F.sum)]
        assert aggregation.value is not None
        value = to_column(aggregation.value, {"key": F.col(KEY), "value": F.col(VALUE)})
        if aggregation.kind == "avg":
            number = value.cast("double")
            return [Part("_sum", number, F.sum), Part("_count", number.isNotNull().cast("long"), F.sum)]
        merge: Final[dict[str, Callable[[Column], Column]]] = {"sum": F.sum, "min": F.min, "max": F.max}
        return [Part(aggregation.output, value, merge[aggregation.kind])]

    def _counted(self) -> Column:
        """1 for each record, or for each whose counted value is not null."""
        value = self.node.aggregation.value
        if value is None:
            return F.lit(1).cast("long")
        return to_column(value, {"key": F.col(KEY), "value": F.col(VALUE)}).isNotNull().cast("long")

    def _result(self) -> Column:
        aggregation = self.node.aggregation
        if aggregation.kind == "avg":
            return F.struct(F.try_divide("_sum", "_count").alias(aggregation.output))
        return F.struct(F.col(aggregation.output))

    def _next_state(self) -> DataFrame:
        """Every open window after the batch: ``_key _start_us _end_us _us _scope`` and the parts."""
        parts = self._parts()
        new = self._accepted().select(KEY, _START_US, _END_US, US, SCOPE, *(p.of_record.alias(p.name) for p in parts))
        both = self._stored_open().unionByName(new)
        merged = [p.merge(F.col(p.name)).alias(p.name) for p in parts]
        return both.groupBy(KEY, _START_US, _END_US).agg(F.max(US).alias(US), F.max(SCOPE).alias(SCOPE), *merged)

    def _stored_open(self) -> DataFrame:
        assert self._batch is not None
        rows = read_table(self._batch.session, self.tables(self._batch.root)[0]).where(F.col(OPEN))
        keys = struct_fields(self._rows(), KEY)
        return rows.select(
            F.struct(*keys).alias(KEY),
            F.unix_micros(START).alias(_START_US),
            F.unix_micros(END).alias(_END_US),
            F.unix_micros(MAX_TS).alias(US),
            SCOPE,
            *(part.name for part in self._parts()),
        )

    def _replace_open(self) -> ReplaceWhere:
        after = lookup_times(self.survey.stream_times)
        state = self._next_state().withColumn(OPEN, F.col(_END_US) + self.windows.grace_us > after)
        return ReplaceWhere(self._as_rows(state), f"{quote(OPEN)} = true")

    def _as_rows(self, state: DataFrame) -> DataFrame:
        return state.select(
            f"{KEY}.*",
            F.timestamp_micros(_START_US).alias(START),
            F.timestamp_micros(_END_US).alias(END),
            *(part.name for part in self._parts()),
            F.timestamp_micros(US).alias(MAX_TS),
            SCOPE,
            OPEN,
        )

    def _as_flow(self, placed: DataFrame) -> DataFrame:
        final = placed.withColumn(VALUE, self._result()).withColumn(KEY, self._windowed_key(placed))
        old = F.lit(None).cast(final.schema[VALUE].dataType)
        return final.select(KEY, VALUE, old.alias(OLD), F.lit(True).alias(LATEST), US, SCOPE, PLACE)

    def _windowed_key(self, frame: DataFrame) -> Column:
        fields = [F.col(KEY).getField(name).alias(name) for name in struct_fields(frame, KEY)]
        return F.struct(*fields, F.timestamp_micros(_START_US).alias(START), F.timestamp_micros(_END_US).alias(END))

    def _placed_at_close(self, due: DataFrame) -> DataFrame:
        """Give each final window the place of the first record that closed it, then its rank among those."""
        records = self._rows().select(SCOPE, F.col(US).alias(_CLOSE_US), PLACE, F.lit(0).alias("_asks"))
        both = due.withColumn("_asks", F.lit(1)).unionByName(records, allowMissingColumns=True)
        later = Window.partitionBy(SCOPE).orderBy(F.desc(_CLOSE_US), "_asks").rowsBetween(Window.unboundedPreceding, 0)
        found = both.withColumn(PLACE, F.min(PLACE).over(later)).where(F.col("_asks") == 1).drop("_asks")
        ranked = Window.partitionBy(SCOPE, PLACE).orderBy(_CLOSE_US, KEY)
        return found.withColumn(PLACE, F.concat(PLACE, F.array(F.row_number().over(ranked).cast("long"))))

    def _make_ready(self, batch: Batch) -> None:
        (target,) = self.tables(batch.root)
        if not self._is_ready and is_missing(batch.session, target):
            self._create(batch, target)
        self._is_ready = True

    def _create(self, batch: Batch, target: TableRef) -> None:
        parts = self._parts()
        empty = self._rows().limit(0)
        shaped = empty.select(
            KEY, _START_US, _END_US, US, SCOPE, F.lit(True).alias(OPEN), *(p.of_record.alias(p.name) for p in parts)
        )
        rows = self._as_rows(shaped)
        check_columns(struct_fields(empty, KEY), reserved=(START, END, MAX_TS, self.node.aggregation.output))
        columns = ", ".join(f"{quote(field.name)} {field.dataType.simpleString()}" for field in rows.schema.fields)
        kind = f"TBLPROPERTIES ({text_literal('versioned.kind')} = {text_literal('window_store')})"
        batch.session.sql(f"CREATE TABLE {target.sql} ({columns}) USING DELTA PARTITIONED BY ({quote(OPEN)}) {kind}")


def _survey_columns() -> list[Column]:
    taken = F.count_distinct(F.when(~F.col("_late"), F.col(PLACE)))
    return [
        taken.alias("accepted"),
        F.count_distinct(PLACE).alias("records"),
        F.count_if("_late").alias("late_rows"),
        F.max(US).alias("newest"),
    ]
