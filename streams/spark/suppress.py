"""``suppress`` on Spark: updates wait in a stored buffer, final results in the window store (KIP-328, KIP-539).

*Final results* with an unbounded buffer need no table of their own: the window store has the rows, and stream time
determines which of them become final in a batch. All other suppressions have a buffer: a Delta table with the key, the
value, ``ts``, ``bufferTime``, ``deadline``, ``arrivedAt`` and ``size`` of each waiting row. So do final results into
which a join looks: it needs the update by which each was released, which the window store does not have. What leaves a
buffer depends on the records before, so each stream-time scope is folded; ``streams.spark.suppress_fold`` runs the test
driver's own rules. If keys come from several scopes, these are folded together.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from streams.fields import CLOSED_BY, WINDOW_END, WINDOW_START
from streams.nodes import Suppress
from streams.plan_facts import said_retention_us, window_retention_us
from streams.spark.flow import (
    CHANGE,
    KEY,
    LATEST,
    OLD,
    PLACE,
    SCOPE,
    US,
    VALUE,
    Flow,
    NodeReport,
    lookup_times,
    struct_fields,
)
from streams.spark.kernel import COUNT, OUT, STATE, TOLD, WHAT, fold_groups, told_rows
from streams.spark.meeting_scopes import TOGETHER, keys_meet, with_times
from streams.spark.operator import Batch, Operator, StepOf
from streams.spark.plain_store import PlainStore
from streams.spark.suppress_columns import on_columns
from streams.spark.suppress_fold import (
    ALARM,
    ARRIVED_US,
    BUFFER_US,
    EMITTED,
    FIRST_US,
    FULL,
    PRIOR,
    SIZE,
    TIME_OF,
    SuppressFold,
)
from streams.spark.window_store import END_US, START_US, WindowStoreOperator
from streams.spark.window_upkeep import keep_retention, window_results_properties
from streams.suppression import rule_of
from suppress.suppress_rules import warn_of_idle
from suppress.suppressed import UntilWindowCloses
from suppress.window_rules import NEVER_US
from versioned import spark_functions as F
from versioned.commit import ReplaceWhere
from versioned.durations import LAST_INSTANT_US, capped_us
from versioned.errors import BufferFullError
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.stream_times import newest_times

_CLOSED: Final = "closed_by_wall_clock"


def closed_windows_table(root: TableRef, node: Suppress) -> TableRef:
    """The table in which a suppression records the windows that the wall clock has closed."""
    return root.child(f"{node.name}_closed")


class FinalResultsOperator(Operator[Suppress]):
    """Emits each window once, in the batch in which it becomes final.

    Args:
        node: The suppression.
        windows: The operator that makes the windows.
        branch: The suppression's number among the consumers of their changes; None if it is the only one.
    """

    def __init__(self, node: Suppress, windows: WindowStoreOperator, branch: int | None) -> None:
        super().__init__(node)
        self._windows, self._branch = windows, branch
        self._finals: DataFrame | None = None
        self._input: Flow | None = None
        self._batch: Batch | None = None

    def windows_table(self, root: TableRef) -> TableRef:
        """The table in which the windows wait until they are final."""
        return self._windows.tables(root)[0]

    @property
    def closes_idle(self) -> bool:
        """Whether the wall clock can close windows: never, since that needs a retention."""
        return False

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        self._batch, self._input, self._finals = batch, inputs[0], None
        return Flow(self._final_rows, {} if inputs[0].is_empty else None)

    def measured(self) -> DataFrame | None:
        return None if self._input is None or self._input.is_empty else self._input.frame

    def tally_debug(self) -> DataFrame | None:
        """The counts that a buffer would have, by the buffer's own rules; nothing is stored (R63-R74)."""
        updates = self.measured()
        suppressed = self.node.suppressed
        if updates is None or self._batch is None or not isinstance(suppressed, UntilWindowCloses):
            return None
        rule, windows = rule_of(self.node), self._windows
        fold = SuppressFold(rule, suppressed.size_of, windows.windows, self._batch.clock_us, windows.times_before())
        emission, mixes = updates.select(*map(F.col, CHANGE)), len(windows.stream_times) > 1
        told = _folded(updates, self._held(updates), fold, emission, windows, mixes=mixes)
        is_other = (F.col(WHAT) == EMITTED) | F.col(WHAT).startswith(TIME_OF)
        return told.where((F.col(TOLD) == "count") & ~is_other).select(WHAT, COUNT)

    def report(self, batch: Batch) -> NodeReport:
        survey = self._windows.survey
        # Records that only met windows closed by the wall clock advance stream time too.
        if not (survey.accepted or survey.late):
            return NodeReport()
        emitted = self._final_rows().count()
        return NodeReport({EMITTED: emitted} if emitted else {}, self._windows.stream_times)

    def _held(self, updates: DataFrame) -> DataFrame:
        """The stored windows that are not final yet, in the form of buffered rows."""
        windows = self._windows
        stored = windows.not_final_yet(windows.stored())
        none = F.lit(None).cast(updates.schema[VALUE].dataType)
        return stored.select(
            windows.windowed_key(stored).alias(KEY),
            windows.result().alias(VALUE),
            none.alias(OLD),
            none.alias(PRIOR),
            US,
            *(F.col(END_US).alias(name) for name in (BUFFER_US, FIRST_US, ARRIVED_US)),
            F.lit(0).cast("long").alias(SIZE),
            SCOPE,
        )

    def _final_rows(self) -> DataFrame:
        assert self._batch is not None
        if self._finals is None:
            self._finals = self._batch.cut(self._windows.finals(self._branch))
        return self._finals


class SuppressOperator(Operator[Suppress]):
    """Holds changes back in a buffer, by event time, by the wall clock, or until windows close.

    Args:
        node: The suppression.
        is_looked_up: Whether a join looks into the suppressed table: then emitted rows are kept in a table.
        default_retention_us: ``suppressed.record.retention.ms`` of the application, in microseconds; None = off.
        made_by: The operator that makes the windows; None if the table is not windowed.
    """

    def __init__(
        self,
        node: Suppress,
        is_looked_up: bool,
        default_retention_us: int | None,
        made_by: WindowStoreOperator | None,
    ) -> None:
        super().__init__(node)
        self._windows, self._made_by = None if made_by is None else made_by.windows, made_by
        self.rule = rule_of(node, default_retention_us)
        warn_of_idle(node.name, node.suppressed, self.rule, self._windows)
        self._results_retention_us = None if made_by is None else said_retention_us(made_by.node)
        self._emitted = self._results() if is_looked_up else None
        # Joins see emitted rows only, never those that are still held.
        self.state = self._emitted
        self._store_retention_us = 0 if made_by is None else capped_us(window_retention_us(made_by.node))
        self._batch: Batch | None = None
        self._input: Flow | None = None
        self._told: DataFrame | None = None
        self._is_ready = False

    def _results(self) -> PlainStore:
        name = f"{self.node.name}_emitted"
        said = {} if self._made_by is None else window_results_properties(self.node.name, self._results_retention_us)
        return PlainStore(name, name, properties=said)

    def windows_table(self, root: TableRef) -> TableRef | None:
        """The window store of the windows that it holds back; None if it holds no windows."""
        return None if self._made_by is None else self._made_by.tables(root)[0]

    def holding(self) -> list[str]:
        return [self.node.name]

    def tables(self, root: TableRef) -> list[TableRef]:
        emitted = [] if self._emitted is None else [self._emitted.target(root)]
        closed = [closed_windows_table(root, self.node)] if self.closes_idle else []
        return [root.child(self.node.name), *emitted, *closed]

    def joins_find(self, target: TableRef, root: TableRef) -> bool:
        """Whether a table is the one in which joins find the emitted rows."""
        return self._emitted is not None and target == self._emitted.target(root)

    def steps(self, root: TableRef) -> list[StepOf]:
        emitted = [] if self._emitted is None else self._emitted.steps(root)
        tables, node = self.tables(root), self.node.name
        closed = [(tables[-1], node, "closed")] if self.closes_idle else []
        return [*emitted, *closed, (tables[0], node, "main")]

    @property
    def closes_idle(self) -> bool:
        """Whether the wall clock can close windows (R117)."""
        return self.rule.final and self.rule.retention_us is not None

    def closed_windows(self, batch: Batch, keys: list[str]) -> DataFrame | None:
        """The windows that the wall clock has closed before this batch or at its start: they take no more records.

        The result is the same before and after this batch's commits, so that a replay decides alike.

        Args:
            batch: The batch.
            keys: The names of the key's fields, without the window.

        Returns:
            ``_key``, ``_start_us``, ``_end_us``, possibly twice; None if there is no buffer yet.
        """
        buffer, *_, marks = self.tables(batch.root)
        if batch.is_missing(buffer):
            return None
        columns = [
            F.struct(*map(quote, keys)).alias(KEY),
            F.unix_micros(WINDOW_START).alias(START_US),
            F.unix_micros(WINDOW_END).alias(END_US),
        ]
        assert self.rule.retention_us is not None  # Only called if the node closes windows by the wall clock.
        waited = F.unix_micros("arrivedAt") + F.lit(capped_us(self.rule.retention_us)) <= F.lit(batch.clock_us)
        due = read_table(batch.session, buffer).where(waited & F.col("value").isNotNull()).select(*columns)
        return due if batch.is_missing(marks) else due.unionByName(read_table(batch.session, marks).select(*columns))

    @property
    def is_windowed(self) -> bool:
        """Whether its keys have windows; final results always have."""
        return self._windows is not None

    @property
    def waits_otherwise(self) -> Column:
        """Whether a rule with another clock put a buffered row there, as far as the row itself shows.

        Final results wait from the end of their windows; limits from a record, the start of a window or an arrival. If
        the first record of a row was at the start of its window, a limit from the record and one from the window look
        the same, so under a limit from records no row counts as waiting from the start of its window.
        """
        since, arrived = F.col("bufferTime"), F.col("arrivedAt")
        if self.rule.clock == "wall":
            return since != arrived
        if self.rule.clock == "window_start":
            return since != F.col(WINDOW_START)
        if self.rule.clock == "window_end":
            # Rows without a value are no results: they leave without being emitted, so it does not matter when.
            return F.col("value").isNotNull() & (since != F.col(WINDOW_END))
        # A row whose record is at the window's end (for example, of a session) waits the same by either rule.
        by_end = (since == F.col(WINDOW_END)) & (F.col("ts") < since) if self.is_windowed else F.lit(False)
        return by_end | ((since == arrived) & (F.col("ts") != since))

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        self._batch, self._input, self._told = batch, inputs[0], None
        self._make_ready(batch)
        works = not inputs[0].is_empty or self._is_due(batch) or self.node.name in batch.drains
        if works and self.node.name not in batch.spared:
            self._told = self._batch.cut(self._fold(batch, inputs[0]))
            flow = Flow(told_rows(self._told, "out", OUT).select(*map(F.col, CHANGE)))
        else:
            flow = Flow(self._nothing(inputs[0].frame), {})
        if self._emitted is not None:
            self._emitted.put(batch, flow)
        return flow

    def report(self, batch: Batch) -> NodeReport:
        if self._told is None or self._input is None:
            return NodeReport(alarm_us=batch.alarms.get(self.node.name))
        counted = self._told.where(F.col(TOLD) == "count").groupBy(WHAT).agg(
            F.sum(COUNT).alias("sum"), F.min(COUNT).alias("min"), F.max(COUNT).alias("max")
        )  # fmt: skip
        if not self.rule.final:
            # Only buffers of final results report stream times; for others they follow from the input.
            newest = self._input.frame.groupBy(SCOPE).agg(F.max(US).alias("max"))
            named = newest.select(F.concat(F.lit(TIME_OF), F.col(SCOPE).cast("string")).alias(WHAT), "max")
            counted = counted.unionByName(named, allowMissingColumns=True)
        rows = counted.collect()
        full = sorted(row[WHAT] for row in rows if row[WHAT].startswith(FULL))
        if full:
            raise BufferFullError(full[0].removeprefix(FULL))
        seen = {int(row[WHAT].removeprefix(TIME_OF)): row["max"] for row in rows if row[WHAT].startswith(TIME_OF)}
        alarm = next((row["min"] for row in rows if row[WHAT] == ALARM), None)
        counts = {
            row[WHAT]: row["max" if row[WHAT].endswith("_max") else "sum"]
            for row in rows
            if row[WHAT] != ALARM and not row[WHAT].startswith(TIME_OF)
        }
        return NodeReport(counts, newest_times(batch.times_of(self.node.name), seen), alarm)

    def write(self, batch: Batch) -> None:
        if self._told is None:
            return
        if self._emitted is not None:
            self._emitted.write(batch)
        if self.closes_idle and self.tallied.get(_CLOSED):
            # Before the buffer, which these windows leave, so that they can always be found in one of the two.
            batch.commit(self.tables(batch.root)[-1], lambda: self._replace_marks(batch), self.node.name, "closed")
        batch.commit(self.tables(batch.root)[0], self._replace, self.node.name, "main")

    def tally(self) -> DataFrame | None:
        if self._told is None or not self.closes_idle:
            return None
        return self._just_closed().agg(F.lit(_CLOSED).alias("what"), F.count("*").alias("n"))

    def measured(self) -> DataFrame | None:
        return None if self._input is None or self._input.is_empty else self._input.frame

    def _just_closed(self) -> DataFrame:
        assert self._told is not None
        out = told_rows(self._told, "out", OUT)
        return out.where(F.col(VALUE).getField(CLOSED_BY) == "wall_clock").select(f"{KEY}.*", SCOPE)

    def _replace_marks(self, batch: Batch) -> ReplaceWhere:
        """The write of the windows that the wall clock closed, as long as a record could find them in the window store.

        That depends on the window's own scope, as closing by stream time does, since other scopes may be silent for
        ever. A table of an earlier release has no scopes, and goes by the slowest one.
        """
        marks, times = read_table(batch.session, self.tables(batch.root)[-1]), dict(batch.times_of(self.node.name))
        reached = F.lit(min(times.values(), default=NEVER_US)).cast("long")
        if SCOPE in marks.columns:
            reached = F.coalesce(lookup_times(times), reached)
        kept = F.unix_micros(WINDOW_END) >= reached - F.lit(self._store_retention_us)
        together = self._just_closed().select(*map(quote, marks.columns)).unionByName(marks).distinct()
        return ReplaceWhere(together.where(kept), "true")

    def _is_due(self, batch: Batch) -> bool:
        alarm_us = batch.alarms.get(self.node.name)
        return alarm_us is not None and alarm_us <= batch.clock_us

    def _fold(self, batch: Batch, flow: Flow) -> DataFrame:
        times = dict(batch.times_of(self.node.name))
        drains = self.node.name in batch.drains
        size_of = self.node.suppressed.size_of
        fold = SuppressFold(self.rule, size_of, self._windows, batch.clock_us, times, drains, self.position)
        held, emission = self._stored(batch, flow.frame), self._nothing(flow.frame)
        # Final results are always of windows.
        windows = self._made_by if self.rule.final else None
        if flow.is_empty or self.is_in_one_scope:
            mixes = False
        else:
            mixes = len(batch.scopes if windows is None else windows.stream_times) > 1
        return _folded(flow.frame, held, fold, emission, windows, mixes=mixes)

    def _nothing(self, frame: DataFrame) -> DataFrame:
        """An empty frame of the type of emissions."""
        kind = frame.schema[VALUE].dataType
        assert isinstance(kind, StructType)
        if self.rule.final and self.rule.retention_us is not None:
            kind = StructType([*kind.fields, StructField(CLOSED_BY, StringType())])
        none = F.lit(None).cast(kind)
        empty = frame.limit(0).select(KEY, none.alias(VALUE), none.alias(OLD), F.lit(True).alias(LATEST), US)
        return empty.withColumns({SCOPE: F.lit(0), PLACE: F.array(F.lit(0).cast("long"))}).select(*map(F.col, CHANGE))

    def _stored(self, batch: Batch, frame: DataFrame) -> DataFrame:
        rows = read_table(batch.session, self.tables(batch.root)[0])
        return rows.select(
            F.struct(*(quote(name) for name in struct_fields(frame, KEY))).alias(KEY),
            F.col("value").alias(VALUE),
            F.col("_old").alias(OLD),
            PRIOR,
            F.unix_micros("ts").alias(US),
            F.unix_micros("bufferTime").alias(BUFFER_US),
            F.unix_micros("_firstTime").alias(FIRST_US),
            F.unix_micros("arrivedAt").alias(ARRIVED_US),
            F.col("size").alias(SIZE),
            SCOPE,
        )

    def _replace(self) -> ReplaceWhere:
        assert self._told is not None
        return ReplaceWhere(self._as_rows(told_rows(self._told, "state", STATE)), "true")

    def _as_rows(self, state: DataFrame) -> DataFrame:
        # A wait may end after SQL's last instant: then the row is never due.
        due = F.try_add(BUFFER_US, F.lit(capped_us(self.rule.wait_us)).cast("long"))
        deadline = F.when(due <= F.lit(LAST_INSTANT_US), F.timestamp_micros(due))
        return state.select(
            f"{KEY}.*",
            F.col(VALUE).alias("value"),
            F.timestamp_micros(US).alias("ts"),
            F.timestamp_micros(BUFFER_US).alias("bufferTime"),
            deadline.alias("deadline"),
            F.timestamp_micros(ARRIVED_US).alias("arrivedAt"),
            F.col(SIZE).alias("size"),
            F.timestamp_micros(FIRST_US).alias("_firstTime"),
            F.col(OLD).alias("_old"),
            PRIOR,
            SCOPE,
        )

    def _make_ready(self, batch: Batch) -> None:
        assert self._input is not None
        target = self.tables(batch.root)[0]
        if not self._is_ready:
            frame = self._input.frame.limit(0)
            longs = {name: F.lit(0).cast("long") for name in (BUFFER_US, FIRST_US, ARRIVED_US, SIZE)}
            batch.create_or_check(
                target, self.node.name, self._as_rows(frame.withColumns({PRIOR: F.col(OLD), **longs}))
            )
        if self.closes_idle and not self._is_ready and batch.is_missing(self.tables(batch.root)[-1]):
            keys = self._input.frame.limit(0).select(f"{KEY}.*", SCOPE)
            batch.create(self.tables(batch.root)[-1], keys)
        if self._emitted is not None and self._made_by is not None and not self._is_ready:
            self._keep_results(batch, self._emitted)
        self._is_ready = True

    def _keep_results(self, batch: Batch, results: PlainStore) -> None:
        """Set the plan's window retention on an existing table of results."""
        target = results.target(batch.root)
        if not batch.is_missing(target):
            keep_retention(batch.session, target, results.properties(batch), self._results_retention_us)


def _folded(
    updates: DataFrame,
    held: DataFrame,
    fold: SuppressFold,
    emission: DataFrame,
    windows: WindowStoreOperator | None,
    *,
    mixes: bool,
) -> DataFrame:
    """The output of the buffers for these updates, scope by scope, or for all scopes together.

    Args:
        updates: Changes of the table.
        held: The waiting rows.
        fold: The buffer's rules.
        emission: A frame of the type of emissions.
        windows: For final results, the operator that made the changes, since they go by its stream times; else None.
        mixes: Whether changes come from several scopes, so that a key may have rows of two.
    """
    events, kinds = updates.select(KEY, VALUE, OLD, US, SCOPE, PLACE), (emission.schema, held.schema)
    if mixes:
        before, after = ({}, {}) if windows is None else (windows.times_before(), windows.stream_times)
        if keys_meet(events, held, before, after):
            timed = events if windows is None else with_times(events, windows.records(), before)
            one = F.lit(0).alias(TOGETHER)
            return fold_groups(timed.select("*", one), held.select("*", one), [TOGETHER], fold, *kinds)
    return fold_groups(events, held, [SCOPE], on_columns(updates, fold) or fold, *kinds)
