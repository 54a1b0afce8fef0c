"""Session and sliding windows, and user-written aggregates over any windows, on Spark: folded key by key.

Sessions merge and sliding windows copy each other, so the effect of each record depends on the one before. The rule is
``streams.driver.window_state``, the same as the driver's; stream time at each record is computed set-wise beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType, DoubleType, LongType, StructField, StructType

from streams.driver.aggregators import Aggregator
from streams.driver.window_state import Slot, WindowResult, WindowState
from streams.nodes import Aggregation, WindowedAggregate
from streams.reasons import BEFORE_WINDOWS, LATE
from streams.rows import Row, frozen
from streams.spark.aggregate_types import USER_CODE, is_scalar, operands_first, result_type, returned_type
from streams.spark.flow import CHANGE, KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE, Flow
from streams.spark.kernel import COUNT, OUT, STATE, WHAT, PlainRow, Told, fold_groups, told_counts, told_rows
from streams.spark.of_keys import of_keys, without_keys
from streams.spark.returned import returned
from streams.spark.window_store import CLOSE_US, END_US, START_US, WindowStoreOperator, WindowSurvey
from suppress.scoped_buffers import stays
from suppress.window_rules import Window
from suppress.windows import SlidingWindows, Windows
from versioned import spark_functions as F
from versioned.once import Once
from versioned.stream_times import newest_times

_STREAM_US = "_stream_us"
_REFUSED = "_refused"
#: Stream time as a suppression learns it from a change: no later than the change's ts, which is older than the record
#: for a session that the record merges into another.
_REACHED_US = "_reached_us"
_IDLE = "_idle"
#: A fold keeps its windows for one batch only, so none expires in it; stream time decides which ones are stored.
_KEEP_ALL_US = 2**62


@dataclass(frozen=True)
class WindowCodec:
    """Converts a window's aggregate to columns, and back."""

    aggregation: Aggregation
    is_scalar: bool
    #: The type of what user code returns; None = the value is taken as it is.
    returns: DataType | None = None

    @cached_property
    def fit(self) -> Callable[[Any], Any]:
        """The function that turns a result of user code into one that can be stored; made once for all groups."""
        return returned(self.returns)

    def state(self, row: PlainRow, names: list[str]) -> Any:
        """The aggregate read from its parts."""
        kind = self.aggregation.kind
        if kind in USER_CODE and not self.is_scalar:
            return Row({name: row[name] for name in names})
        if kind == "avg":
            return None if row["_sum"] is None else (row["_sum"], row["_count"])
        kept = row[self.aggregation.output]
        # User code gets its own results back unchanged.
        return kept if kind in USER_CODE else frozen(kept)

    def parts(self, state: Any) -> PlainRow:
        """The columns that store an aggregate."""
        if self.aggregation.kind in USER_CODE and isinstance(state, Row):
            return dict(state)
        if self.aggregation.kind == "avg":
            return {"_sum": None, "_count": 0} if state is None else {"_sum": float(state[0]), "_count": state[1]}
        return {self.aggregation.output: state}


@dataclass(frozen=True)
class WindowFold:
    """Updates the windows of one key.

    Events have ``_value _us _stream_us _scope _place``; states have the window, ``_us``, ``_scope`` and the parts. It
    yields changes, each with the stream time that a suppression learns from it; records that no window took, with the
    reason; the windows afterwards; and counts.
    """

    windows: Windows
    codec: WindowCodec
    unit_us: int
    names: list[str]

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        aggregator = Aggregator(self.codec.aggregation, fit=self.codec.fit)
        windows = WindowState(self.windows, aggregator, self.unit_us, _KEEP_ALL_US)
        key, accepted, expired = Row(group[KEY]), 0, 0
        # Each window goes by the stream time of one of its own records, not of later ones of its key in other windows.
        scopes: dict[Window, int] = {}
        for state in states:
            window = Window(state[START_US], state[END_US])
            if state[_IDLE]:
                windows.close_idle(key, window)
                continue
            scopes[window] = state[SCOPE]
            slot = Slot(self.codec.state(state, self.names), state[US])
            windows.restore(key, window, slot)
        for event in events:
            value = None if event[VALUE] is None else Row(event[VALUE])
            outcome = windows.add(key, value, event[US], event[_STREAM_US])
            expired += outcome.expired
            accepted += bool(outcome.results)
            if not outcome.results:
                reason = LATE if outcome.is_late else BEFORE_WINDOWS
                own = {KEY: group[KEY], SCOPE: event[SCOPE], PLACE: event[PLACE]}
                yield ("out", {**own, US: event[US], _REACHED_US: event[US], _REFUSED: reason})
                yield ("sum", (reason, 1))
            for place, result in enumerate(outcome.results):
                scopes[result.window] = self._scope(result, scopes, event)
                before, after = (
                    None if slot is None else aggregator.result(slot.state) for slot in (result.before, result.after)
                )
                ends = {START_US: result.window.start_us, END_US: result.window.end_us}
                told = {VALUE: after, OLD: before, US: result.ts_us}
                reached = {_REACHED_US: min(result.ts_us, event[_STREAM_US])}
                yield ("out", {**_at(group, event, place), **ends, **told, **reached})
        for _, window, slot in windows.items():
            ends = {START_US: window.start_us, END_US: window.end_us}
            own = {US: slot.ts_us, SCOPE: scopes[window]}
            yield ("state", {KEY: group[KEY], **ends, **own, **self.codec.parts(slot.state)})
        yield ("sum", ("accepted", accepted))
        yield ("sum", ("expired", expired))

    def _scope(self, result: WindowResult, scopes: Mapping[Window, int], event: PlainRow) -> int:
        """The scope of a window from now on: the record's, or the former one."""
        window, before, scope = result.window, result.before, int(event[SCOPE])
        is_held = before is not None and stays(self.windows, (before.ts_us, scopes[window]), (event[US], scope))
        return scopes[window] if is_held else scope


class FoldedWindowsOperator(WindowStoreOperator):
    """Any aggregate over any windows."""

    def __init__(self, node: WindowedAggregate) -> None:
        super().__init__(node)
        self._told: Once[DataFrame] | None = None
        self._few = False

    def parts(self) -> StructType:
        records, aggregation = self.records(), self.node.aggregation
        if aggregation.kind == "avg":
            return StructType([StructField("_sum", DoubleType()), StructField("_count", LongType())])
        return result_type(self.node.name, aggregation, records)

    def result(self) -> Column:
        if self.node.aggregation.kind == "avg":
            return F.struct(F.try_divide("_sum", "_count").alias(self.node.aggregation.output))
        return F.struct(*self.parts().names)

    def changes(self) -> DataFrame:
        out = told_rows(self._folded, "out", OUT).where(F.col(_REFUSED).isNull())
        keyed = out.withColumns({KEY: self.windowed_key(out), LATEST: F.lit(True)})
        return keyed.select(*map(F.col, CHANGE))

    def closing(self) -> DataFrame:
        # A record that no window took has no change, but it advances stream time, and nothing else shows that.
        change = F.when(F.col(_REFUSED).isNull(), F.col(PLACE)).otherwise(
            F.concat(PLACE, F.array(F.lit(0).cast("long")))
        )
        told = told_rows(self._folded, "out", OUT)
        return told.select(SCOPE, F.col(_REACHED_US).alias(CLOSE_US), change.alias(PLACE))

    def next_state(self) -> DataFrame:
        touched = told_rows(self._folded, "state", STATE)
        untouched = without_keys(self.stored(), self.records(), few=self._few)
        return touched.unionByName(untouched)

    def _take(self, records: DataFrame, flow: Flow) -> None:
        self._few = self.batch.has_few(flow)
        self._told = Once(self._fold if flow.is_empty else lambda: self.batch.cut(self._fold()))
        if isinstance(self.windows, SlidingWindows):
            records = records.where(F.col(VALUE).isNotNull())
            # The others do not advance this node's stream time.
            flow = Flow(records, flow.bounds)
        timed = records.withColumn(_STREAM_US, self.stream_time(flow))
        self._records = timed if flow.is_empty else self.batch.cut(timed)

    @property
    def _folded(self) -> DataFrame:
        assert self._told is not None
        return self._told()

    def _fold(self) -> DataFrame:
        value = result_type(self.node.name, self.node.aggregation, self.records())
        aggregation, records = operands_first(self.node.aggregation, self.records(), VALUE)
        scalar = is_scalar(aggregation, records)
        codec = WindowCodec(aggregation, scalar, returned_type(aggregation, value, scalar))
        stored = self.stored()
        out = records.select(
            KEY,
            F.lit(0).cast("long").alias(START_US),
            F.lit(0).cast("long").alias(END_US),
            F.lit(None).cast(value).alias(VALUE),
            F.lit(None).cast(value).alias(OLD),
            US,
            SCOPE,
            PLACE,
            F.lit(None).cast("long").alias(_REACHED_US),
            F.lit(None).cast("string").alias(_REFUSED),
        ).schema
        touched = of_keys(stored, records, few=self._few)
        fold = WindowFold(self.windows, codec, self.unit_us, self.parts().names)
        states = touched.withColumn(_IDLE, F.lit(False))
        closed = self.closed_windows()
        if closed is not None:
            states = states.unionByName(closed.withColumn(_IDLE, F.lit(True)), allowMissingColumns=True)
        return fold_groups(records, states, [KEY], fold, out, stored.schema, node=self.node.name)

    def _late_records(self) -> DataFrame:
        refused = told_rows(self._folded, "out", OUT).where(F.col(_REFUSED) == LATE)
        return self.records().join(refused.select(SCOPE, PLACE), [SCOPE, PLACE], "left_semi")

    def _look(self) -> WindowSurvey:
        counted = told_counts(self._folded).select(WHAT, F.lit(None).cast("int").alias(SCOPE), COUNT)
        newest = self.records().groupBy(SCOPE).agg(F.max(US).alias(COUNT))
        rows = counted.unionByName(newest.select(F.lit("newest").alias(WHAT), SCOPE, COUNT)).collect()
        counts = {row[WHAT]: row[COUNT] for row in rows if row[WHAT] != "newest"}
        moved = {row[SCOPE]: row[COUNT] for row in rows if row[WHAT] == "newest"}
        times = newest_times(self.times_before(), moved)
        return WindowSurvey(counts.get("accepted", 0), counts.get(LATE, 0), counts.get("expired", 0), times)


def _at(group: PlainRow, event: PlainRow, ordinal: int) -> PlainRow:
    return {KEY: group[KEY], SCOPE: event[SCOPE], PLACE: [*event[PLACE], ordinal]}
