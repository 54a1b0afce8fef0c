"""Table-table joins on the primary key on Spark: inner, left, outer (R146-R157).

State: none of its own unless the plan asks for a store; each change looks into the other side's table at its place.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame

from streams.nodes import JoinKind, TableTableJoin
from streams.spark.columns import joined
from streams.spark.flow import CHANGE, FOUND, FOUND_US, KEY, LATEST, OLD, US, VALUE, Flow, count_ignored, most_of
from streams.spark.key_types import check_outer_keys, key_as
from streams.spark.lookup_table import LookupTable
from streams.spark.operator import Batch
from streams.spark.store import StoringOperator, store_of
from versioned import spark_functions as F
from versioned.history_join_rules import needs_other
from versioned.identifiers import beside


class Pairing:
    """Joins the values of two tables, where either side may be missing."""

    def __init__(self, node: TableTableJoin, left: LookupTable, right: LookupTable) -> None:
        self._node = node
        self._kind: JoinKind = node.kind
        self.sides = (left, right)

    def value(self, mine: Column, other: Column, side: int) -> Column:
        """The joined value; null where a side is missing that the join kind needs."""
        left, right = (mine, other) if side == 0 else (other, mine)
        present = {
            "inner": left.isNotNull() & right.isNotNull(),
            "left": left.isNotNull(),
            "outer": left.isNotNull() | right.isNotNull(),
        }[self._kind]
        names = {"left": self.sides[0].value_type.names, "right": self.sides[1].value_type.names}
        bindings = {"left": left, "right": right, "key": F.col(KEY)}
        key_names = {"key": self.sides[0].key_type.names}
        return joined(self._node, bindings, names | key_names, present)


class JoinedView(LookupTable):
    """The result of a join that is not stored: computed from both sides for each look-up."""

    def __init__(self, pairing: Pairing) -> None:
        self._pairing = pairing

    @property
    def is_dated_by_changes(self) -> bool:
        # Its ts is that of what its sides have now, and a plain side whose row was deleted has none.
        return False

    def typed(self) -> DataFrame:
        left, right = (side.typed() for side in self._pairing.sides)
        other = F.lit(None).cast(right.schema[VALUE].dataType)
        return left.select(KEY, self._pairing.value(F.col(VALUE), other, 0).alias(VALUE))

    def rows(self) -> DataFrame:
        sides = (side.rows() for side in self._pairing.sides)
        left, right = (rows.select(key_as(rows, self.key_type).alias(KEY), VALUE, US) for rows in sides)
        named = [
            frame.withColumnsRenamed({VALUE: f"_v{place}", US: f"_u{place}"})
            for place, frame in enumerate((left, right))
        ]
        both = named[0].join(named[1], KEY, "full_outer")
        value = self._pairing.value(F.col("_v0"), F.col("_v1"), 0)
        rows = both.select(KEY, value.alias(VALUE), F.greatest("_u0", "_u1").alias(US))
        return rows.where(F.col(VALUE).isNotNull())

    def find_latest(self, asked: DataFrame, *, few: bool = False) -> DataFrame:
        left, right = self._pairing.sides
        # The right side may be such a view too, and must not mistake columns found here for its own.
        kept, kept_us = (beside(name, asked.columns, "_") for name in ("_left", "_left_us"))
        found = left.find_latest(asked, few=few).withColumnsRenamed({FOUND: kept, FOUND_US: kept_us})
        # Without ``few``, which uses the asked rows twice, and so would compute the first look-up twice.
        found = right.find_latest(found)
        value = self._pairing.value(F.col(kept), F.col(FOUND), 0)
        us = F.greatest(kept_us, FOUND_US)
        joined = found.withColumns({FOUND: value, FOUND_US: us}).drop(kept, kept_us)
        return joined.withColumn(FOUND_US, F.when(F.col(FOUND).isNotNull(), F.col(FOUND_US)))


class TableTableJoinOperator(StoringOperator[TableTableJoin]):
    """Joins the latest values of two tables (Kafka: ``KTableKTableJoin``).

    The result's ts is the larger of the two sides', including tombstones of versioned sides. A record that is out of
    order on a versioned side has no result (R151).
    """

    def __init__(self, node: TableTableJoin, left: LookupTable, right: LookupTable) -> None:
        super().__init__(node, None if node.materialized is None else store_of(node, node.materialized))
        self._pairing = Pairing(node, left, right)
        self.state: LookupTable = self.store or JoinedView(self._pairing)
        self._inputs: list[Flow] = []

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        self._inputs = [flow for flow in inputs if not flow.is_empty]
        sides = [
            self._results(flow.frame, side, few=batch.has_few(flow))
            for side, flow in enumerate(inputs)
            if not flow.is_empty
        ]
        if not sides:
            return self.stored(batch, Flow(self._results(inputs[0].frame, 0), {}))
        return self.stored(batch, Flow(batch.cut(reduce(DataFrame.unionByName, sides)), most=most_of(self._inputs)))

    def tally(self) -> DataFrame | None:
        if not self._inputs:
            return None
        return reduce(DataFrame.unionByName, (count_ignored(flow.frame) for flow in self._inputs))

    def _results(self, changes: DataFrame, side: int, *, few: bool = False) -> DataFrame:
        key_type = self._pairing.sides[0].key_type
        if self.node.kind == "outer" and side == 1:
            check_outer_keys(self.node.name, key_type, changes.schema[KEY].dataType)
        mine = changes.where(F.col(LATEST)).withColumn(KEY, key_as(changes, key_type))
        met = self._pairing.sides[1 - side].find_latest(mine, few=few)
        says_something = F.col(FOUND).isNotNull()
        if not needs_other(self.node.kind, side):
            says_something = says_something | F.col(VALUE).isNotNull() | F.col(OLD).isNotNull()
        told = met.where(says_something)
        results = {
            VALUE: self._pairing.value(F.col(VALUE), F.col(FOUND), side),
            OLD: self._pairing.value(F.col(OLD), F.col(FOUND), side),
            US: F.greatest(US, FOUND_US),
            LATEST: F.lit(True),
        }
        return told.withColumns(results).select(*map(F.col, CHANGE))
