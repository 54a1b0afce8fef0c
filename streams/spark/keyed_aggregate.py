"""Unwindowed aggregates on Spark: of streams (values are only added) and of tables (old values are subtracted).

State: one row per group: the key, ``ts``, the result, and what is needed beside it to go on (sum and number, or the
bag of values of ``min`` and ``max``). ``count``, ``sum`` and ``avg`` are running sums of signed contributions, in one
window by group; ``min`` and ``max`` of streams likewise. A value taken from a sum and a value added to it are separate
rows, added one after the other: their difference would not keep every digit. User code, and ``min`` and ``max`` of
tables, are folded.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql.types import DataType, DecimalType, StructType

from streams.nodes import StreamAggregate, TableAggregate
from streams.plan_facts import taken_of_rows
from streams.reasons import NULL_KEY, NULL_VALUE
from streams.spark.aggregate_folds import AddingFold, ReplacingFold, StateCodec
from streams.spark.aggregate_types import (
    ASIDE,
    BAG,
    HORIZON_US,
    NUMBER,
    SUM,
    USER_CODE,
    bag_type,
    check_told,
    is_scalar,
    operand,
    operands_first,
    result_type,
    returned_type,
)
from streams.spark.columns import to_column, to_column_if, under_group, with_key
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
    count_ignored,
    has_null_key,
    struct_fields,
)
from streams.spark.history_store import HistoryStore
from streams.spark.kernel import OUT, fold_groups, told_rows
from streams.spark.lookup_table import LookupTable
from streams.spark.of_keys import of_keys
from streams.spark.operator import Batch, StepOf
from streams.spark.plain_store import LAST_US, PlainStore
from streams.spark.store import StoringOperator, store_of, table_name
from versioned import spark_functions as F
from versioned.identifiers import TableRef

_PLUS, _MINUS = "_plus", "_minus"
#: The digits that Spark's minus keeps, and the digits of two numbers up to which their sum is exact.
_NEGATED_DIGITS: Final = 34
_ADDED_DIGITS: Final = 37
_IS_NEW: Final = "_new"
#: Columns: whether an event starts an aggregate if its group has none; whether the group has a result at the event.
_BEGINS, _HAS = "_begins", "_has"
#: Column: 0 = the row takes a value away at an event; 1 = it adds one, and has the event's result.
_STEP: Final = "_step"
#: Columns: the contributions of an event to a group that has no aggregate yet.
_FIRST: Final = {NUMBER: "_first_number", SUM: "_first_sum"}
#: Columns: the running parts of a group, without events that are put aside.
_KEPT: Final = {NUMBER: "_kept_number", SUM: "_kept_sum"}


class KeyedAggregateOperator(StoringOperator[StreamAggregate | TableAggregate]):
    """The running aggregate of each group; the result's ts never goes back (R168)."""

    def __init__(self, node: StreamAggregate | TableAggregate) -> None:
        check_told(node.name, node.aggregation)
        is_history = node.materialized is not None and node.materialized.is_versioned
        suffix = "_state" if is_history else ""
        self._of_table = isinstance(node, TableAggregate)
        kind = f"{node.aggregation.kind} of a {'table' if self._of_table else 'stream'}"
        name, table = node.name + suffix, table_name(node) + suffix
        taken = taken_of_rows(node) if isinstance(node, TableAggregate) else None
        self._state = PlainStore(name, table, extra=_kept_beside(node), aggregate=kind, taken=taken)
        super().__init__(node, store_of(node, node.materialized) if is_history else None)
        self.state: LookupTable = self.store or self._state
        self._input: Flow | None = None

    def tables(self, root: TableRef) -> list[TableRef]:
        return [*super().tables(root), self._state.target(root)]

    def steps(self, root: TableRef) -> list[StepOf]:
        return [*super().steps(root), *self._state.steps(root)]

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        (flow,) = inputs
        self._input = flow
        events = self._of_changes(flow.frame) if self._of_table else self._of_records(batch, flow)
        kind = result_type(self.node.name, self.node.aggregation, self._values(flow.frame))
        few = batch.has_few(flow)
        events = self._with_horizon(batch, events, few)
        told_of = self._folded if self.is_sequential else self._running
        results = told_of(batch, events, kind, few)
        kept = batch.cut(results) if not flow.is_empty else results
        # A change of a table may affect two groups.
        most = None if flow.most is None else flow.most * (2 if self._of_table else 1)
        told = Flow(kept, {} if flow.is_empty else None, most=most)
        if self.store is None:
            return self._state.put(batch, told).map(lambda frame: frame.select(*map(F.col, CHANGE)))
        # The store gets all results, since it counts those that it refuses.
        self._state.put(batch, told.map(lambda frame: frame.where(~F.col(ASIDE))))
        return self.stored(batch, told.map(lambda frame: frame.select(*map(F.col, CHANGE))))

    def tally(self) -> DataFrame | None:
        if self._input is None or self._input.is_empty or not self._of_table:
            return None
        return count_ignored(self._input.frame)

    def write(self, batch: Batch) -> None:
        super().write(batch)
        self._state.write(batch)

    @property
    def is_sequential(self) -> bool:
        """Whether groups are folded record by record, not computed set-wise."""
        kind = self.node.aggregation.kind
        return kind in USER_CODE or (self._of_table and kind in ("min", "max"))

    @property
    def _unit_us(self) -> int | None:
        """The time resolution of the versioned store in microseconds; None without one."""
        said = self.node.materialized
        return said.time_resolution.value if said is not None and isinstance(self.store, HistoryStore) else None

    def _with_horizon(self, batch: Batch, events: DataFrame, few: bool) -> DataFrame:
        """Add the ts before which the versioned store refuses a result at its place; null without such a store.

        The store's stream time follows the events': no result is older than its event, and where it has the ts of an
        earlier one, that has advanced stream time already. If a group may end (by user code, or when a value is taken
        from a group without an aggregate), also add the start of the store's latest version of it, maybe a tombstone.
        """
        none = F.lit(None).cast("long")
        if not isinstance(self.store, HistoryStore):
            return events.withColumn(HORIZON_US, none)
        events = events.withColumn(HORIZON_US, self.store.horizon(batch, events))
        if not (self.is_sequential or self._of_table):
            return events
        last = self.store.last_times(batch, struct_fields(events, KEY))
        if last is None:
            return events.withColumn(LAST_US, none)
        return events.join(of_keys(last, events, few=few), KEY, "left")

    def _values(self, frame: DataFrame) -> DataFrame:
        """The keys and values that are aggregated, used for their types only."""
        mapper = self.node.group_value if isinstance(self.node, TableAggregate) else None
        if mapper is None:
            return frame.select(KEY, VALUE)
        return frame.select(KEY, to_column(mapper, {"key": F.col(KEY), "value": F.col(VALUE)}).alias(VALUE))

    def _of_records(self, batch: Batch, flow: Flow) -> DataFrame:
        """A stream's records under their group: ``_key _plus _us _scope _place``."""
        frame = flow.frame
        if self.node.group_key is not None:
            frame = self.rescoped(under_group(frame, self.node.group_key))
        no_key = has_null_key(frame)
        reason = F.when(no_key, NULL_KEY).when(F.col(VALUE).isNull(), NULL_VALUE)
        if not flow.is_empty:
            batch.reject(self.node.name, frame.where(reason.isNotNull()), reason)
        usable = frame.where(reason.isNull()).withColumn(_MINUS, F.lit(None).cast(frame.schema[VALUE].dataType))
        return usable.select(KEY, F.col(VALUE).alias(_PLUS), _MINUS, US, SCOPE, PLACE)

    def _of_changes(self, frame: DataFrame) -> DataFrame:
        """A table's changes under their groups; a move between groups makes two events, that of the old group first."""
        taken = frame.where(F.col(LATEST))
        parts = self._grouped(self._grouped(taken, OLD, "_from", _MINUS), VALUE, "_to", _PLUS)
        stays = F.coalesce(F.col("_from") == F.col("_to"), F.lit(False))
        none = F.lit(None).cast(parts.schema[_PLUS].dataType)
        first = _part(F.when(stays, F.col("_to")).otherwise(F.col("_from")), F.when(stays, F.col(_PLUS)), _MINUS, 0)
        second = _part(F.when(~stays, F.col("_to")), F.col(_PLUS), none, 1)
        there = F.filter(F.array(first, second), lambda part: part.getField(KEY).isNotNull())
        exploded = parts.select(US, SCOPE, F.col(PLACE).alias("_at"), F.explode(there).alias("_part"))
        place = F.concat("_at", F.array(F.col("_part.step")))
        events = exploded.select(f"_part.{KEY}", f"_part.{_PLUS}", f"_part.{_MINUS}", US, SCOPE, place.alias(PLACE))
        return events if self.node.group_key is None else self.rescoped(events)

    def _grouped(self, frame: DataFrame, name: str, group: str, part: str) -> DataFrame:
        """Add the group of the value in the column ``name``, and its contribution; both null if either is null."""
        assert isinstance(self.node, TableAggregate)
        value, mapper = F.col(name), self.node.group_value
        if self.node.group_key is None:
            keyed = frame.withColumn(group, F.when(value.isNotNull(), F.col(KEY)))
        else:
            keyed = with_key(frame, group, self.node.group_key, value)
        bindings, has_group = {"key": F.col(KEY), "value": value}, F.col(group).isNotNull()
        mapped = F.when(has_group, value) if mapper is None else to_column_if(has_group, mapper, bindings)
        keyed = keyed.withColumn(part, mapped)
        return keyed.withColumn(group, F.when(F.col(part).isNotNull(), F.col(group)))

    def _running(self, batch: Batch, events: DataFrame, kind: StructType, few: bool) -> DataFrame:
        """The results of events, set-wise: each from all contributions to its group up to the event."""
        events = self._in_steps(events)
        parts = self._contributions(events)
        flags = {_BEGINS: F.col(_PLUS).isNotNull(), _IS_NEW: F.lit(True)}
        columns = [column.alias(name) for name, column in {**parts, **flags}.items()]
        times = [name for name in (HORIZON_US, LAST_US) if name in events.columns]
        both = events.select(KEY, US, SCOPE, PLACE, _STEP, *times, *columns)
        stored = self._state.before(batch, struct_fields(events, KEY), kind.names)
        if stored is not None:
            touched = of_keys(stored, both, few=few)
            both = both.unionByName(self._as_parts(touched), allowMissingColumns=True)
        by_group = Window.partitionBy(KEY).orderBy(F.col(PLACE).asc_nulls_first(), SCOPE, _STEP)
        until_now = by_group.rowsBetween(Window.unboundedPreceding, 0)
        merge = {"min": F.min, "max": F.max}.get(self.node.aggregation.kind, F.sum)
        merges = {n: m for n, m in {NUMBER: F.sum, SUM: merge}.items() if n in parts}
        if self._unit_us is None:
            # No store refuses anything, so sums do not depend on the ts of results.
            if self._of_table:
                both = _with_begun(both, by_group, F.coalesce(_BEGINS, F.lit(True)), F.lit(True))
            else:
                both = both.withColumns({US: F.max(US).over(until_now), _HAS: F.lit(True)})
            running = {n: m(n).over(until_now) for n, m in merges.items()}
            told = both.withColumns({**running, ASIDE: F.lit(False)})
        else:
            both = _with_taken(both, by_group, self._unit_us)
            kept = {_KEPT[n]: m(F.when(~F.col(ASIDE), F.col(n))).over(until_now) for n, m in merges.items()}
            told = self._with_aside(both.withColumns(kept), by_group, list(merges))
        result = F.struct(self._result().cast(kind[0].dataType).alias(self.node.aggregation.output))
        told = told.withColumn(VALUE, F.when(F.col(_HAS), result))
        told = told.where(F.coalesce(_STEP, F.lit(1)) == 1).withColumn(OLD, F.lag(VALUE).over(by_group))
        told = told.where(F.col(_IS_NEW)).withColumn(LATEST, F.lit(True))
        return told.select(*map(F.col, CHANGE), *_kept_beside(self.node), ASIDE)

    def _with_aside(self, kept: DataFrame, by_group: WindowSpec, names: list[str]) -> DataFrame:
        """Running parts; at an event that is put aside, those without other such events but with its own contribution.

        That gives the result which the store refuses, or has below its latest; later results do not include it.
        """
        chosen = {"min": F.least, "max": F.greatest}.get(self.node.aggregation.kind)
        running: dict[str, Column] = {}
        for name in names:
            so_far, own = F.col(_KEPT[name]), F.col(name)
            if chosen is not None and name == SUM:
                with_own = chosen(so_far, own)
            else:
                kind = kept.schema[_KEPT[name]].dataType
                nothing = F.lit(0).cast(kind)
                # The value that the event takes away is in the previous row.
                loss = F.when(F.lag(_STEP).over(by_group) == 0, F.lag(name).over(by_group))
                without = _added(F.coalesce(so_far, nothing), F.coalesce(loss, nothing), kind)
                with_own = _added(without, own, kind)
            running[name] = F.when(F.col(ASIDE), with_own).otherwise(so_far)
        return kept.withColumns(running)

    def _in_steps(self, events: DataFrame) -> DataFrame:
        """The events with ``_step``; for sums of tables, an event that takes a value away becomes two rows."""
        if not self._of_table or self.node.aggregation.kind not in ("sum", "avg"):
            return events.withColumn(_STEP, F.lit(1))
        takes = F.col(_MINUS).isNotNull()
        steps = F.when(takes, F.array(F.lit(0), F.lit(1))).otherwise(F.array(F.lit(1)))
        each, adds = events.withColumn(_STEP, F.explode(steps)), F.col(_STEP) == 1
        return each.withColumns({_PLUS: F.when(adds, F.col(_PLUS)), _MINUS: F.when(~adds, F.col(_MINUS))})

    def _contributions(self, events: DataFrame) -> dict[str, Column]:
        """What each event adds to the number and to the sum (for ``min`` and ``max``: its value).

        For tables, and with a versioned store, also what it adds to a group that has no aggregate yet.
        """
        aggregation = self.node.aggregation
        plus, minus = (operand(aggregation, F.col(name)) for name in (_PLUS, _MINUS))
        added = {NUMBER: plus.isNotNull().cast("long")}
        changed = {NUMBER: added[NUMBER] - minus.isNotNull().cast("long")}
        if aggregation.kind in ("sum", "avg"):
            # In the type of the sum, which holds the negative of every value except the least 64-bit integer.
            total = events.agg(F.sum(plus).alias(SUM)).schema[SUM].dataType
            gain, loss, nothing = plus.cast(total), _negative(minus.cast(total), total), F.lit(0).cast(total)
            added[SUM], changed[SUM] = F.coalesce(gain, nothing), F.coalesce(gain, loss, nothing)
        if aggregation.kind in ("min", "max"):
            added[SUM] = changed[SUM] = plus
        if self._unit_us is None and not self._of_table:
            return changed
        return changed | {_FIRST[name]: column for name, column in added.items()}

    def _as_parts(self, stored: DataFrame) -> DataFrame:
        """Stored groups in the shape of contributions."""
        kind, value = self.node.aggregation.kind, F.col(VALUE).getField(self.node.aggregation.output)
        number = value if kind == "count" else F.col(NUMBER) if kind in ("sum", "avg") else F.lit(None).cast("long")
        total = F.col(SUM) if kind in ("sum", "avg") else value
        parts = [number.alias(NUMBER)] if kind == "count" else [number.alias(NUMBER), total.alias(SUM)]
        return stored.select(KEY, US, *parts)

    def _result(self) -> Column:
        kind = self.node.aggregation.kind
        if kind == "count":
            return F.col(NUMBER)
        if kind == "avg":
            return F.try_divide(F.col(SUM).cast("double"), NUMBER)
        return F.when(F.col(NUMBER) != 0, F.col(SUM)) if kind == "sum" else F.col(SUM)

    def _folded(self, batch: Batch, events: DataFrame, kind: StructType, few: bool) -> DataFrame:
        """The results of events, folded record by record: user code, and ``min`` and ``max`` of tables."""
        aggregation, events = operands_first(self.node.aggregation, events, _PLUS, _MINUS)
        scalar = is_scalar(aggregation, events)
        codec = StateCodec(aggregation, scalar, returned_type(aggregation, kind, scalar))
        out = events.select(
            KEY,
            F.lit(None).cast(kind).alias(VALUE),
            F.lit(None).cast(kind).alias(OLD),
            F.lit(True).alias(LATEST),
            US,
            SCOPE,
            PLACE,
            *(F.lit(None).cast(bag_type(kind[0].dataType)).alias(name) for name in _kept_beside(self.node)),
            F.lit(False).alias(ASIDE),
        ).schema
        fold = (ReplacingFold if self._of_table else AddingFold)(codec, self._unit_us)
        inputs = events if self._of_table else events.withColumnRenamed(_PLUS, VALUE).drop(_MINUS)
        stored = self._state.before(batch, struct_fields(events, KEY), kind.names)
        touched = None if stored is None else of_keys(stored, events, few=few)
        state = out if touched is None else touched.schema
        told = fold_groups(inputs, touched, [KEY], fold, out, state, node=self.node.name)
        return told_rows(told, "out", OUT)


def _with_taken(both: DataFrame, by_group: WindowSpec, unit_us: int) -> DataFrame:
    """Stored groups and events, with what a versioned store does with their results.

    A value taken from a group without an aggregate changes nothing: the result is a tombstone. The group has no
    aggregate until its store takes a result that is no older than its newest tombstone; an older result is stored by
    itself, below the tombstone.

    Returns:
        both + the ts of the result, ``_is_aside``, ``_has``; events of groups without an aggregate so far have their
        contributions to a first one.
    """
    begins, is_taken = F.coalesce(_BEGINS, F.lit(True)), F.coalesce(F.col(US) >= F.col(HORIZON_US), F.lit(True))
    starts = begins & is_taken
    if LAST_US in both.columns:
        at = F.col(US) - F.pmod(F.col(US), F.lit(unit_us))
        ended = F.max(F.when(is_taken & ~begins, at)).over(by_group.rowsBetween(Window.unboundedPreceding, -1))
        starts = starts & F.coalesce(at >= F.greatest(ended, F.col(LAST_US)), F.lit(True))
    # The result of an event before the horizon may still be taken, since it has the ts of the group's newest event.
    both = _with_begun(both, by_group, starts, is_taken)
    is_alone = begins & ~F.col(_HAS)
    is_refused = F.coalesce(F.col(US) < F.col(HORIZON_US), F.lit(False))
    return both.withColumns({ASIDE: is_refused | is_alone, _HAS: F.col(_HAS) | is_alone})


def _with_begun(both: DataFrame, by_group: WindowSpec, begins: Column, is_taken: Column) -> DataFrame:
    """Stored groups and events; a group has an aggregate from the first event on that ``begins`` one.

    Values taken away before that are ignored, as in Kafka Streams: they are of rows older than the aggregate.

    Args:
        both: The rows.
        by_group: The window of each group's rows, in order.
        begins: Whether an event may begin an aggregate.
        is_taken: Whether the group's results from the event on are no older than it.

    Returns:
        both + ``_has`` and the ts of the result; events of groups without an aggregate so far have their contributions
        to a first one.
    """
    until_now = by_group.rowsBetween(Window.unboundedPreceding, 0)
    both = both.withColumn(_HAS, begins)
    both = both.withColumn(_HAS, F.max(_HAS).over(until_now))
    had = F.coalesce(F.lag(_HAS).over(by_group), F.lit(False)) | F.col(_IS_NEW).isNull()
    newest = F.max(F.when(F.col(_HAS) & is_taken, F.col(US))).over(until_now)
    both = both.withColumns({"_had": had, US: F.greatest(newest, US)})
    named = {name: first for name, first in _FIRST.items() if name in both.columns}
    return both.withColumns({n: F.when(F.col("_had"), F.col(n)).otherwise(F.col(first)) for n, first in named.items()})


def _added(one: Column, other: Column, kind: DataType) -> Column:
    """The exact sum of two numbers; null if it is too large. Spark's own sum may lack a digit of long decimals."""
    if isinstance(kind, DecimalType):
        part = DecimalType(min(kind.precision, max(_ADDED_DIGITS, kind.scale)), kind.scale)
        one, other = one.try_cast(part), other.try_cast(part)
    return F.try_add(one, other).try_cast(kind)


def _negative(value: Column, kind: DataType) -> Column:
    """The exact negative of a number; Spark's own keeps only 34 digits of long decimals."""
    if not isinstance(kind, DecimalType) or kind.precision <= _NEGATED_DIGITS:
        return F.negate(value)
    text = value.cast("string")
    return F.when(value < 0, F.substr(text, F.lit(2))).otherwise(F.concat(F.lit("-"), text)).cast(kind)


def _part(group: Column, plus: Column, minus: Column | str, step: int) -> Column:
    of = F.col(minus) if isinstance(minus, str) else minus
    return F.struct(group.alias(KEY), plus.alias(_PLUS), of.alias(_MINUS), F.lit(step).cast("long").alias("step"))


def _kept_beside(node: StreamAggregate | TableAggregate) -> tuple[str, ...]:
    """The columns stored beside the result."""
    kind = node.aggregation.kind
    if kind in ("sum", "avg"):
        return (SUM, NUMBER)
    return (BAG,) if kind in ("min", "max") and isinstance(node, TableAggregate) else ()
