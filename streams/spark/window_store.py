"""The window store of a windowed aggregate on Spark, and how windows become final (KIP-328: grace; R4, R10-R14).

State: a Delta table with the key columns, ``windowStart``, ``windowEnd``, the aggregate's parts, ``maxTs`` and the
partition column ``_open``. A batch replaces the open windows in one commit. In the same commit, windows that no record
can need any more move to the closed partition, and are never touched again.

The same store serves final results (``suppress`` until the window closes): a window is final in the batch in which
stream time passes its end plus grace, so no second copy of the state is needed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType, TimestampType

from streams.fields import MAX_TS, WINDOW_END, WINDOW_START
from streams.nodes import Materialized, WindowedAggregate
from streams.plan_facts import said_retention_us
from streams.reasons import AFTER_WINDOWS, BEFORE_WINDOWS, LATE, NULL_KEY, NULL_VALUE
from streams.spark.aggregate_types import check_told
from streams.spark.columns import under_group
from streams.spark.flow import (
    KEY,
    LATEST,
    OLD,
    PLACE,
    SCOPE,
    US,
    VALUE,
    WAS_KEY,
    WAS_US,
    Flow,
    NodeReport,
    has_null_key,
    in_one_scope,
    lookup_times,
    stream_time_at,
    struct_fields,
)
from streams.spark.lookup_table import LookupTable, latest_at_place
from streams.spark.operator import Batch, Operator
from streams.spark.store import table_name
from streams.spark.stored_shape import aggregate_properties, check_aggregate, check_rows
from streams.spark.window_upkeep import OPEN, check_windows, window_store_properties
from suppress.window_rules import NEVER_US, close_wait_us, first_taken_us, last_taken_us
from suppress.windows import SessionWindows, SlidingWindows, Windows
from versioned import spark_functions as F
from versioned.append_only import REPLACES_ROWS
from versioned.commit import ReplaceWhere
from versioned.errors import TopologyError
from versioned.identifiers import TableRef, check_columns, quote
from versioned.making import make_table
from versioned.once import Once
from versioned.put_frames import floored
from versioned.reading import read_table
from versioned.schema import create_plain
from versioned.table_details import properties_of

START_US, END_US = "_start_us", "_end_us"
#: Column: the stream time at which a window is final.
CLOSE_US: Final = "_close_us"
#: Columns with a record's former key and instant, for the rejects.
_WAS: Final = (WAS_KEY, WAS_US)


#: From a batch and the names of the key's fields, makes ``_key _start_us _end_us``; None if there are none.
ClosedWindows = Callable[[Batch, list[str]], DataFrame | None]


@dataclass(frozen=True)
class WindowSurvey:
    """The node's counts in a batch (``expired``: closed windows that records missed), and stream times after it."""

    accepted: int = 0
    late: int = 0
    expired: int = 0
    stream_times: dict[int, int] | None = None


class WindowStoreOperator(Operator[WindowedAggregate]):
    """The common part of all windowed aggregates; subclasses decide how windows change."""

    def __init__(self, node: WindowedAggregate) -> None:
        super().__init__(node)
        check_told(node.name, node.aggregation)
        self.windows = node.windows
        stored = node.materialized or Materialized()
        if stored.time_scope == "key":
            raise TopologyError("spark", node.name, 'windows on Spark have one stream time per partition or "store".')
        self._time_scope = stored.time_scope
        self._one_scope = stored.time_scope == "store"
        self.unit_us = stored.time_resolution.value
        #: How long after their end the windows close; None = never.
        self.wait_us = close_wait_us(node.windows, self.unit_us)
        #: Later records are rejected and advance no stream time: their windows would end after the last instant.
        self._last_us = last_taken_us(node.windows, self.unit_us)
        self.state: LookupTable = WindowTable(self)
        #: For each suppression that may close windows by the wall clock, a function that returns those closed (R117).
        self.closed_by_clock: list[ClosedWindows] = []
        self._batch: Batch | None = None
        self._records: DataFrame | None = None
        self._arrived: DataFrame | None = None
        self._valid: DataFrame | None = None
        self._survey: Once[WindowSurvey] | None = None
        self._is_ready = False

    def tables(self, root: TableRef) -> list[TableRef]:
        return [root.child(table_name(self.node))]

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        (flow,) = inputs
        self._batch = batch
        self._survey = Once(self._nothing_came if flow.is_empty else self._look)
        keyed = self._keyed(flow.frame)
        valid = keyed.where(~has_null_key(keyed) & (F.col(US) <= self._last_us)).drop(*_WAS)
        if not flow.is_empty:
            reason = self._refusal(keyed)
            batch.reject(self.node.name, keyed.where(reason.isNotNull()), reason)
        self._arrived = keyed
        self._valid = None if flow.is_empty else valid
        self._take(valid, flow)
        self._make_ready(batch)
        return Flow(self.changes, {}) if flow.is_empty else Flow(lambda: batch.cut(self.changes()))

    @property
    def survey(self) -> WindowSurvey:
        """Counts and stream times of the batch; runs one job."""
        assert self._survey is not None
        return self._survey()

    @property
    def stream_times(self) -> dict[int, int]:
        """Stream time per scope after the batch."""
        return self.survey.stream_times or {}

    def report(self, batch: Batch) -> NodeReport:
        told = self.survey
        if told.late and self.node.late_policy == "side_table":
            batch.reject(self.node.name, self._as_they_came(self._late_records()), F.lit(LATE))
        counts = {"late": told.late, "expired": told.expired}
        return NodeReport(counts if told.accepted + told.late else {}, self.stream_times)

    def measured(self) -> DataFrame | None:
        """The records that reach the windows' rule, under the key of their group."""
        if self._valid is None or not isinstance(self.windows, SlidingWindows):
            return self._valid
        return self._valid.where(F.col(VALUE).isNotNull())

    def write(self, batch: Batch) -> None:
        if self.survey.accepted:
            batch.commit(self.tables(batch.root)[0], self._replace_open, self.node.name, "main")

    @property
    def batch(self) -> Batch:
        """The current batch."""
        assert self._batch is not None
        return self._batch

    def times_before(self) -> dict[int, int]:
        """Stream time per scope before the batch."""
        return dict(self.batch.times_of(self.node.name))

    def finals(self, branch: int | None = None) -> DataFrame:
        """The windows that become final in this batch, in the columns of changes; each at the place that closes it.

        Args:
            branch: The number of the branch, if changes go to several; else None.
        """
        times = self.stream_times
        # A filter by the newest of all stream times needs a window's end alone: Spark can apply it before aggregating.
        may_be = F.col(CLOSE_US) <= F.lit(max(times.values(), default=NEVER_US))
        due = self.not_final_yet(self.next_state()).where(may_be & (F.col(CLOSE_US) <= lookup_times(times)))
        return self._as_flow(self._placed_at_close(self.batch.cut(due), branch))

    def not_final_yet(self, state: DataFrame) -> DataFrame:
        """The windows that were not final before this batch, with ``_close_us``: the stream time that closes each."""
        assert self.wait_us is not None
        before = F.coalesce(lookup_times(self.times_before()), F.lit(NEVER_US))
        return state.withColumn(CLOSE_US, F.col(END_US) + self.wait_us).where(F.col(CLOSE_US) > before)

    @abstractmethod
    def changes(self) -> DataFrame:
        """Every update of every window, record by record, in the columns of changes."""

    @abstractmethod
    def next_state(self) -> DataFrame:
        """The state after the batch of all windows that were open before it, or are new.

        Columns: ``_key _start_us _end_us _us _scope`` and the parts.
        """

    @abstractmethod
    def parts(self) -> StructType:
        """Names and types of the stored parts of an aggregate."""

    @abstractmethod
    def result(self) -> Column:
        """The result computed from the stored parts."""

    @abstractmethod
    def _take(self, records: DataFrame, flow: Flow) -> None:
        """Take the batch's valid records: ``_key _value _us _scope _place``."""

    def _nothing_came(self) -> WindowSurvey:
        return WindowSurvey(stream_times=self.times_before())

    @abstractmethod
    def _look(self) -> WindowSurvey:
        """Counts and stream times of the batch, by a job."""

    @abstractmethod
    def _late_records(self) -> DataFrame:
        """The records that no window took."""

    def _as_they_came(self, records: DataFrame) -> DataFrame:
        """Some of the batch's records, with their keys and instants from before grouping and flooring."""
        assert self._arrived is not None
        was = [name for name in _WAS if name in self._arrived.columns]
        return records.join(self._arrived.select(SCOPE, PLACE, *was), [SCOPE, PLACE]) if was else records

    def records(self) -> DataFrame:
        """The batch's valid records."""
        assert self._records is not None
        return self._records

    def closing(self) -> DataFrame:
        """What closes windows: ``_close_us`` (all windows up to then), and ``_scope`` and ``_place`` of the change."""
        change = F.concat(PLACE, F.array(F.lit(0).cast("long")))
        return self.records().select(SCOPE, F.col(US).alias(CLOSE_US), change.alias(PLACE))

    def windowed_key(self, frame: DataFrame) -> Column:
        """The key with its window appended."""
        fields = [F.col(KEY).getField(name).alias(name) for name in struct_fields(frame, KEY)]
        start, end = F.timestamp_micros(START_US), F.timestamp_micros(END_US)
        return F.struct(*fields, start.alias(WINDOW_START), end.alias(WINDOW_END))

    def stored(self, rows: DataFrame | None = None) -> DataFrame:
        """Stored windows in the columns of state; by default those that were open before the batch."""
        if rows is None:
            rows = read_table(self.batch.session, self.tables(self.batch.root)[0]).where(F.col(OPEN))
        return rows.select(
            F.struct(*struct_fields(self.records(), KEY)).alias(KEY),
            F.unix_micros(WINDOW_START).alias(START_US),
            F.unix_micros(WINDOW_END).alias(END_US),
            F.unix_micros(MAX_TS).alias(US),
            SCOPE,
            *self.parts().names,
        )

    def closed_windows(self) -> DataFrame | None:
        """The windows that the wall clock has closed, for any suppression; each of them once."""
        keys = struct_fields(self.records(), KEY)
        told = (closed(self.batch, keys) for closed in self.closed_by_clock)
        known = [windows for windows in told if windows is not None]
        return reduce(DataFrame.unionByName, known).distinct() if known else None

    def stored_ever(self) -> DataFrame:
        """Every stored window before the batch, including closed ones."""
        return self.stored(read_table(self.batch.session, self.tables(self.batch.root)[0]))

    def stream_time(self, flow: Flow) -> Column:
        """Stream time after each record of a flow; without a sort if their places contain it."""
        before = lookup_times(self.times_before())
        if not self.has_seen_all(flow):
            return stream_time_at(before)
        return F.greatest(before, floored(F.get(PLACE, F.lit(0)), self.unit_us))

    def has_seen_all(self, flow: Flow) -> bool:
        """Whether every record that counts in the flow's places has reached this node, also in earlier batches."""
        if flow.maxima_before is None or self.node.group_key is not None:
            return False
        if max(flow.newest().values(), default=NEVER_US) > self._last_us:
            return False
        seen = self.times_before()
        return all(
            seen.get(0 if self._one_scope else scope, NEVER_US) >= us - us % self.unit_us
            for scope, us in flow.maxima_before.items()
            if flow.bounds is None or scope in flow.bounds
        )

    def _keyed(self, frame: DataFrame) -> DataFrame:
        if self.node.group_key is not None:
            frame = self.rescoped(under_group(frame, self.node.group_key))
        frame = in_one_scope(frame) if self._one_scope else frame
        was = [F.col(WAS_KEY)] if WAS_KEY in frame.columns else []
        if self.unit_us > 1:
            was.append(F.col(US).alias(WAS_US))
        return frame.select(KEY, VALUE, floored(F.col(US), self.unit_us).alias(US), SCOPE, PLACE, *was)

    def _refusal(self, keyed: DataFrame) -> Column:
        """The reason why a record is put aside; null if windows take it."""
        reason = F.when(has_null_key(keyed), NULL_KEY)
        if isinstance(self.windows, SlidingWindows):
            reason = reason.when(F.col(VALUE).isNull(), NULL_VALUE)
        reason = reason.when(F.col(US) > self._last_us, AFTER_WINDOWS)
        if isinstance(self.windows, SessionWindows):
            return reason
        return reason.when(F.col(US) < F.lit(first_taken_us(self.windows)), BEFORE_WINDOWS)

    def _replace_open(self) -> ReplaceWhere:
        wait_us = self.wait_us
        after = lookup_times(self.stream_times)
        still_open = F.lit(True) if wait_us is None else F.col(END_US) + (wait_us + _reach_us(self.windows)) > after
        return ReplaceWhere(self._as_rows(self.next_state().withColumn(OPEN, still_open)), f"{quote(OPEN)} = true")

    def _as_rows(self, state: DataFrame) -> DataFrame:
        return state.select(
            f"{KEY}.*",
            F.timestamp_micros(START_US).alias(WINDOW_START),
            F.timestamp_micros(END_US).alias(WINDOW_END),
            *self.parts().names,
            F.timestamp_micros(US).alias(MAX_TS),
            SCOPE,
            OPEN,
        )

    def _as_flow(self, placed: DataFrame) -> DataFrame:
        final = placed.withColumn(VALUE, self.result()).withColumn(KEY, self.windowed_key(placed))
        old = F.lit(None).cast(final.schema[VALUE].dataType)
        return final.select(KEY, VALUE, old.alias(OLD), F.lit(True).alias(LATEST), US, SCOPE, PLACE)

    def _placed_at_close(self, due: DataFrame, branch: int | None) -> DataFrame:
        """Give each final window a place: that of the change that closed it, the branch, its closing time and rank."""
        # One record may close a million windows. They close at few instants, so only these are sorted together.
        instants = due.select(SCOPE, CLOSE_US).distinct().withColumn("_asks", F.lit(1))
        both = instants.unionByName(self.closing().withColumn("_asks", F.lit(0)), allowMissingColumns=True)
        later = Window.partitionBy(SCOPE).orderBy(F.desc(CLOSE_US), "_asks").rowsBetween(Window.unboundedPreceding, 0)
        closed = both.withColumn(PLACE, F.min(PLACE).over(later)).where(F.col("_asks") == 1).drop("_asks")
        ranked = Window.partitionBy(SCOPE, CLOSE_US).orderBy(KEY, START_US)
        rank = F.row_number().over(ranked).cast("long")
        behind = [*([] if branch is None else [F.lit(branch).cast("long")]), F.col(CLOSE_US), rank]
        return due.join(closed, [SCOPE, CLOSE_US]).withColumn(PLACE, F.concat(PLACE, F.array(*behind)))

    def _make_ready(self, batch: Batch) -> None:
        (target,) = self.tables(batch.root)
        if self._is_ready:
            return
        retention_us = said_retention_us(self.node)
        if batch.is_missing(target):
            self._create(batch, target, retention_us)
        else:
            self._check(batch, target, retention_us)
        self._is_ready = True

    def _check(self, batch: Batch, target: TableRef, retention_us: int | None) -> None:
        """Refuse a plan that cannot go on from the stored windows; only the retention may have changed."""
        said, node = properties_of(batch.session, target), self.node
        check_aggregate(node.name, target.short_name, said, node.aggregation.kind)
        check_rows(node.name, target.short_name, read_table(batch.session, target).schema, self._columns())
        check_windows(batch.session, target, said, repr(self.windows), retention_us, self._time_scope, self.wait_us)

    def _create(self, batch: Batch, target: TableRef, retention_us: int | None) -> None:
        keys = struct_fields(self.records(), KEY)
        check_columns(keys, reserved=(WINDOW_START, WINDOW_END, MAX_TS, *self.parts().names))
        said = window_store_properties(self.node.name, retention_us, repr(self.windows), self._time_scope, self.wait_us)
        said |= {**aggregate_properties(self.node.aggregation.kind), **REPLACES_ROWS}
        create = create_plain(target, self._columns(), batch.pii_columns, partitioned_by=(OPEN,), properties=said)
        make_table(batch.session, target, create, or_take=True)

    def _columns(self) -> StructType:
        window = [StructField(WINDOW_START, TimestampType()), StructField(WINDOW_END, TimestampType())]
        own = StructType().add(MAX_TS, TimestampType()).add(SCOPE, IntegerType()).add(OPEN, BooleanType())
        key_fields = self.records().select(f"{KEY}.*").schema.fields
        return StructType([*key_fields, *window, *self.parts().fields, *own.fields])


class WindowTable(LookupTable):
    """The windowed table as joins see it."""

    def __init__(self, operator: WindowStoreOperator) -> None:
        self._operator = operator

    def rows(self) -> DataFrame:
        stored = self._operator.stored_ever()
        return stored.select(self._operator.windowed_key(stored).alias(KEY), self._operator.result().alias(VALUE), US)

    def find_latest(self, asked: DataFrame, *, few: bool = False) -> DataFrame:
        return latest_at_place(asked, self.rows(), self._operator.changes(), few=few)


def _reach_us(windows: Windows) -> int:
    """How long after its closing a window may still matter for records of other windows of its key."""
    if isinstance(windows, SlidingWindows):
        return 2 * windows.difference_us
    return windows.gap_us if isinstance(windows, SessionWindows) else 0
