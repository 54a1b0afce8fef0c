"""Built-in aggregates over tumbling, hopping and unlimited windows on Spark, set-wise, by key and window start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql.types import StructType

from streams.nodes import StreamSource, WindowedAggregate
from streams.spark.aggregate_types import checked_operand
from streams.spark.columns import to_column
from streams.spark.flow import CHANGE, KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE, Flow
from streams.spark.window_store import CLOSE_US, END_US, START_US, WindowStoreOperator, WindowSurvey
from suppress.window_rules import FOREVER_US, first_taken_us
from suppress.windows import TimeWindows, UnlimitedWindows
from versioned import spark_functions as F
from versioned.stream_times import newest_times


@dataclass(frozen=True)
class Part:
    """One stored column of an aggregate: its value for a record, and the function that merges several values."""

    name: str
    of_record: Column
    merge: Callable[[Column], Column]


class TimeWindowsOperator(WindowStoreOperator):
    """Counts, sums, averages, minima or maxima per key and window."""

    def __init__(self, node: WindowedAggregate) -> None:
        super().__init__(node)
        self._assigned: DataFrame | None = None
        self._kinds: StructType | None = None

    def parts(self) -> StructType:
        # Cached: needed several times a batch, and the same in every batch.
        if self._kinds is None:
            if self.node.aggregation.kind != "count":
                checked_operand(self.node.name, self.node.aggregation, self.records())
            typed = self.records().select(*(part.of_record.alias(part.name) for part in self._parts()))
            merged = typed.agg(*(part.merge(F.col(part.name)).alias(part.name) for part in self._parts()))
            self._kinds = merged.schema
        return self._kinds

    def result(self) -> Column:
        aggregation = self.node.aggregation
        if aggregation.kind == "avg":
            return F.struct(F.try_divide("_sum", "_count").alias(aggregation.output))
        return F.struct(F.col(aggregation.output))

    def changes(self) -> DataFrame:
        parts = self._parts()
        names = [part.name for part in parts]
        before = self.stored().withColumn("_stored", F.lit(True))
        new = self._accepted().select(
            KEY, START_US, END_US, US, SCOPE, PLACE, *(p.of_record.alias(p.name) for p in parts)
        )
        both = before.unionByName(new.withColumn("_stored", F.lit(False)), allowMissingColumns=True)
        so_far = Window.partitionBy(KEY, START_US).orderBy(F.col(PLACE).asc_nulls_first(), SCOPE)
        until_now = so_far.rowsBetween(Window.unboundedPreceding, 0)
        kinds = self.parts()
        running = {p.name: p.merge(F.col(p.name)).over(until_now).cast(kinds[p.name].dataType) for p in parts}
        merged = both.withColumns(running)
        merged = merged.withColumns({US: F.max(US).over(until_now), VALUE: self.result()})
        merged = merged.withColumn(OLD, F.lag(VALUE).over(so_far)).where(~F.col("_stored")).drop(*names)
        ordinal = F.concat(PLACE, F.array(F.col(START_US)))
        keyed = merged.withColumns({KEY: self.windowed_key(merged), PLACE: ordinal, LATEST: F.lit(True)})
        return keyed.select(*map(F.col, CHANGE))

    def next_state(self) -> DataFrame:
        parts = self._parts()
        new = self._accepted().select(KEY, START_US, END_US, US, SCOPE, *(p.of_record.alias(p.name) for p in parts))
        both = self.stored().unionByName(new)
        kinds = self.parts()
        # Without the cast, sums of sums of decimals would grow by ten digits with each batch.
        merged = [p.merge(F.col(p.name)).cast(kinds[p.name].dataType).alias(p.name) for p in parts]
        return both.groupBy(KEY, START_US, END_US).agg(F.max(US).alias(US), self._scope().alias(SCOPE), *merged)

    def _scope(self) -> Column:
        """The scope of a window's newest record; of records with equal times, the greatest scope."""
        scopes, windows = self.stream_times, self.windows
        if len(scopes) < 2:
            return F.max(SCOPE)
        assert isinstance(windows, (TimeWindows, UnlimitedWindows))
        span_us = windows.size_us if isinstance(windows, TimeWindows) else FOREVER_US - windows.start_us
        width = max(scopes) + 1
        if min(scopes) < 0 or (span_us + 1) * width >= 2**63:
            newest = F.col(US).cast("decimal(20, 0)") * F.lit(2**32).cast("decimal(10, 0)") + F.col(SCOPE)
            return F.max_by(SCOPE, newest)
        # Time and scope in one long, which is aggregated as fast as the scope alone; a struct is not.
        newest = (F.col(US) - F.col(START_US)) * F.lit(width) + F.col(SCOPE)
        return F.pmod(F.max(newest), F.lit(width)).cast("int")

    def closing(self) -> DataFrame:
        """The first of all records that close the same windows: windows have few ends, but there are many records."""
        wait_us, windows = self.wait_us, self.windows
        if wait_us is None or not isinstance(windows, TimeWindows):
            return super().closing()
        # Windows end at multiples of the advance plus the size.
        since_last = F.pmod(F.col(US) - F.lit(windows.size_us + wait_us), F.lit(windows.advance_us))
        last = (F.col(US) - since_last).alias(CLOSE_US)
        # The record's first change is that of the first window that takes it.
        first = self._rows().groupBy(SCOPE, last).agg(F.min(F.struct(PLACE, "_late", START_US)).alias("_first"))
        change = F.concat(f"_first.{PLACE}", F.array(f"_first.{START_US}"))
        return first.select(SCOPE, CLOSE_US, change.alias(PLACE))

    def _take(self, records: DataFrame, flow: Flow) -> None:
        self._records = records
        assigned = self._without_idle(self._assign(records, flow))
        self._assigned = assigned if flow.is_empty or self._is_near(flow) else self.batch.cut(assigned)
        # One row per record and window, which does not matter: only times and places are read.
        self._records = self._assigned.select(*records.columns)

    def _assign(self, records: DataFrame, flow: Flow) -> DataFrame:
        """One row per record and window, with ``_late``: whether the window had closed when the record came."""
        windows = self.windows
        records = records.where(F.col(US) >= F.lit(first_taken_us(windows)))
        if isinstance(windows, UnlimitedWindows):
            ends = {START_US: F.lit(windows.start_us).cast("long"), END_US: F.lit(FOREVER_US).cast("long")}
            return records.withColumns({**ends, "_late": F.lit(False)})
        assert isinstance(windows, TimeWindows)
        timed = records.withColumn("_stream_us", self._needed_stream_time(windows, flow))
        rows = _in_windows(timed, windows).withColumn(END_US, F.col(START_US) + windows.size_us)
        late = F.coalesce(F.col(END_US) + windows.grace_us <= F.col("_stream_us"), F.lit(False))
        return rows.withColumn("_late", late).drop("_stream_us")

    def _is_near(self, flow: Flow) -> bool:
        """Whether windows take a mere sum to compute from a source's records, which are cached: no need to cut them."""
        windows = self.windows
        one_each = isinstance(windows, TimeWindows) and windows.advance_us == windows.size_us
        by_itself = isinstance(self.node.parents[0], StreamSource) and not self.closed_by_clock
        return one_each and by_itself and self.has_seen_all(flow)

    def _without_idle(self, assigned: DataFrame) -> DataFrame:
        """The rows, with those for windows that the wall clock has closed marked as late."""
        closed = self.closed_windows()
        if closed is None:
            return assigned
        marked = assigned.join(closed.select(KEY, START_US, F.lit(True).alias("_idle")), [KEY, START_US], "left")
        return marked.withColumn("_late", F.col("_late") | F.coalesce("_idle", F.lit(False))).drop("_idle")

    def _needed_stream_time(self, windows: TimeWindows, flow: Flow) -> Column:
        """Stream time after each record; null if nothing in the batch can be late, which saves the sort."""
        # A floored instant may be in an earlier window, if windows are not aligned with the resolution.
        oldest = None if flow.oldest_us is None else flow.oldest_us // self.unit_us * self.unit_us
        newest = max([*self.times_before().values(), *flow.newest().values()], default=0)
        # The first end after the oldest record; windows end at multiples of the advance plus the size.
        since = None if oldest is None else (oldest - windows.size_us) % windows.advance_us
        first_end = None if oldest is None or since is None else oldest - since + windows.advance_us
        if first_end is not None and first_end - self.unit_us + windows.grace_us >= newest:
            return F.lit(None).cast("long")
        return self.stream_time(flow)

    def _rows(self) -> DataFrame:
        assert self._assigned is not None
        return self._assigned

    def _accepted(self) -> DataFrame:
        return self._rows().where(~F.col("_late"))

    def _late_records(self) -> DataFrame:
        rows = self._rows()
        taken = rows.where(~F.col("_late")).select(SCOPE, PLACE)
        return rows.join(taken, [SCOPE, PLACE], "left_anti").dropDuplicates([SCOPE, PLACE])

    def _look(self) -> WindowSurvey:
        rows = self._rows().groupBy(SCOPE).agg(*self._survey_columns()).collect()
        times = newest_times(self.times_before(), {row[SCOPE]: row["newest"] for row in rows})
        accepted, records = _total(rows, "accepted"), _total(rows, "records")
        return WindowSurvey(accepted, records - accepted, _total(rows, "late_rows"), times)

    def _survey_columns(self) -> list[Column]:
        is_late, windows = F.col("_late"), self.windows
        if self.closed_by_clock:
            # The wall clock may have closed any of a record's windows, so each distinct record is counted.
            accepted, records = F.count_distinct(F.when(~is_late, F.col(PLACE))), F.count_distinct(PLACE)
        elif isinstance(windows, TimeWindows):
            # Count a record by the last of its windows: it always has one, which closes last.
            is_last = F.col(START_US) == F.col(US) - F.pmod(F.col(US), F.lit(windows.advance_us))
            accepted, records = F.count_if(is_last & ~is_late), F.count_if(is_last)
        else:
            accepted, records = F.count_if(~is_late), F.count("*")
        late_rows, newest = F.count_if(is_late), F.max(US)
        return [
            accepted.alias("accepted"),
            records.alias("records"),
            late_rows.alias("late_rows"),
            newest.alias("newest"),
        ]

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
        """1 for each record; with a counted value, 0 where that is null."""
        value = self.node.aggregation.value
        if value is None:
            return F.lit(1).cast("long")
        return to_column(value, {"key": F.col(KEY), "value": F.col(VALUE)}).isNotNull().cast("long")


def _in_windows(records: DataFrame, windows: TimeWindows) -> DataFrame:
    """One row per record and window that contains it, with the window's start."""
    size, advance = windows.size_us, windows.advance_us
    last = F.col(US) - F.pmod(F.col(US), F.lit(advance))
    if advance == size:
        return records.withColumn(START_US, last)
    first = last - ((size - 1) // advance) * advance
    # As in Kafka, a record at or after the Unix epoch is in no window that starts before the epoch.
    holds = (F.col(START_US) + size > F.col(US)) & ((F.col(START_US) >= 0) | (F.col(US) < 0))
    return records.withColumn(START_US, F.explode(F.sequence(first, last, F.lit(advance)))).where(holds)


def _total(rows: list[Row], name: str) -> int:
    return sum(row[name] for row in rows)
