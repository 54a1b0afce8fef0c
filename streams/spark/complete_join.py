"""Table-table joins with complete history on Spark: late records re-emit every older result that they change (R150).

State: none of its own unless the plan asks for a store. Both sides' histories are read from their tables, only for the
keys and the time span that the batch touches. The rule is ``versioned.history_join_rules``, folded key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql.types import DataType

from streams.expressions import Expr, evaluate
from streams.nodes import JoinKind, TableTableJoin
from streams.rows import Row
from streams.spark.fitting import fitting
from streams.spark.flow import CAUSE, CHANGE, KEY, LATEST, OLD, OP, PLACE, SCOPE, US, VALUE, Flow
from streams.spark.history_store import HistoryStore
from streams.spark.kernel import OUT, PlainRow, Told, fold_groups, told_rows
from streams.spark.key_types import check_outer_keys, key_as
from streams.spark.lookup_table import LookupTable
from streams.spark.operator import Batch
from streams.spark.store import StoringOperator, store_of
from streams.spark.table_table_join import JoinedView, Pairing
from versioned import spark_functions as F
from versioned.history_join_rules import SIDES, HistoryJoin

_SIDE = "_side"
#: The record that caused a change, among all of the batch; and the store's old value and latest flag of the change.
_RECORD, _WAS, _IS_NEWEST = "_record", "_was", "_is_newest"


@dataclass(frozen=True)
class CompleteFold:
    """Joins the histories of one key.

    States and events have ``_side``, the value in ``_v0`` or ``_v1`` by side, and ``_us``; events also have ``_scope``
    and ``_place``.
    """

    kind: JoinKind
    joiner: Expr
    value_type: DataType

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        key = Row(group[KEY])
        histories = HistoryJoin(self.kind, self._pair)
        for state in states:
            histories.put(SIDES[state[_SIDE]], key, _value(state), state[US])
        for event in events:
            results = histories.put(SIDES[event[_SIDE]], key, _value(event), event[US])
            for ordinal, result in enumerate(results):
                yield (
                    "out",
                    {
                        KEY: group[KEY],
                        VALUE: result.new,
                        OLD: result.old,
                        LATEST: result.is_latest,
                        US: result.valid_from_us,
                        SCOPE: event[SCOPE],
                        PLACE: [*event[PLACE], ordinal],
                        OP: result.op,
                        CAUSE: str(result.cause),
                    },
                )

    def _pair(self, key: Any, left: Row | None, right: Row | None) -> Any:
        return self._fit(evaluate(self.joiner, {"key": key, "left": left, "right": right}))

    @cached_property
    def _fit(self) -> Callable[[Any], Any]:
        return fitting(self.value_type)


class CompleteJoinOperator(StoringOperator[TableTableJoin]):
    """Emits a change for each start of a result that a record adds, alters or removes, with operation and cause."""

    def __init__(self, node: TableTableJoin, left: LookupTable, right: LookupTable) -> None:
        super().__init__(node, None if node.materialized is None else store_of(node, node.materialized))
        self._pairing = Pairing(node, left, right)
        self.state: LookupTable = self.store or JoinedView(self._pairing)
        self._told: DataFrame | None = None

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        self._told = None
        events = reduce(DataFrame.unionByName, (self._events(flow.frame, side) for side, flow in enumerate(inputs)))
        if all(flow.is_empty for flow in inputs):
            nothing = Flow(self._nothing(events), {})
            stored = self.stored(batch, nothing)
            # As below: with a versioned store, changes carry operation and cause.
            return nothing if isinstance(self.store, HistoryStore) else stored
        self._told = batch.cut(self._fold(events, inputs))
        results = Flow(told_rows(self._told, "out", OUT))
        taken = self.stored(batch, results)
        if not isinstance(self.store, HistoryStore):
            return taken
        placed = self.store.scoped(results.map(_with_record))
        return placed.map(lambda frame: _as_taken(frame, taken.frame))

    def _events(self, frame: DataFrame, side: int) -> DataFrame:
        """One side's changes as events; each side's values have a column of their own, since their types differ."""
        key_type = self._pairing.sides[0].key_type
        if self.node.kind == "outer" and side == 1:
            check_outer_keys(self.node.name, key_type, frame.schema[KEY].dataType)
        key = key_as(frame, key_type)
        return frame.select(key.alias(KEY), F.lit(side).alias(_SIDE), *self._values(side), US, SCOPE, PLACE)

    def _values(self, side: int) -> list[Any]:
        return [
            (F.col(VALUE) if own == side else F.lit(None).cast(self._pairing.sides[own].value_type)).alias(f"_v{own}")
            for own in (0, 1)
        ]

    def _nothing(self, events: DataFrame) -> DataFrame:
        value = self._pairing.value(F.col("_v0"), F.col("_v1"), 0)
        typed = events.limit(0).withColumn(VALUE, value)
        return typed.select(
            KEY, VALUE, F.col(VALUE).alias(OLD), F.lit(True).alias(LATEST), US, SCOPE, PLACE,
            F.lit("").alias(OP), F.lit("").alias(CAUSE),
        )  # fmt: skip

    def _fold(self, events: DataFrame, inputs: list[Flow]) -> DataFrame:
        oldest = [flow.oldest_us for flow in inputs if not flow.is_empty]
        known = [us for us in oldest if us is not None]
        from_us = min(known) if len(known) == len(oldest) else events.agg(F.min(US)).collect()[0][0] or 0
        keys = events.select(KEY).distinct()
        states = []
        for side, table in enumerate(self._pairing.sides):
            # The versions valid just before the oldest change show whether a result starts there.
            rows = table.history(from_us - 1)
            rows = rows.withColumn(KEY, key_as(rows, self._pairing.sides[0].key_type))
            touched = rows.join(keys, KEY, "left_semi")
            states.append(touched.select(KEY, F.lit(side).alias(_SIDE), *self._values(side), US))
        out = self._nothing(events).schema
        fold = CompleteFold(self.node.kind, self.node.joiner, out[VALUE].dataType)
        return fold_groups(events, reduce(DataFrame.unionByName, states), [KEY], fold, out, out, node=self.node.name)


def _with_record(frame: DataFrame) -> DataFrame:
    before_ordinal = F.slice(F.col(PLACE), 1, F.size(PLACE) - 1)
    return frame.withColumn(_RECORD, F.concat(F.array(F.col(SCOPE).cast("long")), before_ordinal))


def _as_taken(frame: DataFrame, taken: DataFrame) -> DataFrame:
    """The changes that a versioned store accepts, with their old values and latest flags as the store sees them.

    Only the last of a record's changes may be the latest, if the store says so. Its old value is what the store held as
    latest before the record: the value replaced by the first change of the record that became the latest.

    Args:
        frame: All changes, each with the record that caused it.
        taken: The store's own changes.
    """
    said = taken.select(SCOPE, PLACE, US, F.col(OLD).alias(_WAS), F.col(LATEST).alias(_IS_NEWEST))
    met = frame.drop(US).join(said, [SCOPE, PLACE])
    of_record = Window.partitionBy(KEY, SCOPE, _RECORD).orderBy(PLACE)
    held = F.first(F.when(F.col(_IS_NEWEST), F.struct(_WAS)), ignorenulls=True).over(of_record)
    is_latest = F.col(_IS_NEWEST) & F.lead(PLACE).over(of_record).isNull()
    told = met.withColumns({LATEST: is_latest, "_held": held})
    old = F.when(F.col(LATEST), F.col("_held").getField(_WAS)).otherwise(F.col(OLD))
    return told.withColumn(OLD, old).select(*CHANGE, OP, CAUSE)


def _value(row: PlainRow) -> Row | None:
    value = row[f"_v{row[_SIDE]}"]
    return None if value is None else Row(value)
