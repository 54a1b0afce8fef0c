"""What a table of the plan holds in a batch, for the operators that look records up in it.

Every look-up sees the table *as it was at the asking record's place*: the state before the batch plus exactly those
changes of the batch that come before that place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql.types import StructType

from streams.reasons import NO_MATCH, TOMBSTONE
from streams.spark.flow import FOUND, FOUND_US, KEY, PLACE, REASON, SCOPE, US, VALUE
from streams.spark.key_types import key_as
from streams.spark.of_keys import Amount, of_keys
from versioned import spark_functions as F
from versioned.errors import ConfigurationError, TopologyError

#: A function from key and value to another value: null = the row is not in the view. Null for a null value.
RowFunction = Callable[[Column, Column], Column]
_VERSION: Final = "_version"


class LookupTable(ABC):
    """A table, stored or computed. Frames of rows are ``_key``, ``_value``, ``_us``."""

    _key_type: StructType | None = None
    _value_type: StructType | None = None

    @property
    def key_type(self) -> StructType:
        """The type of a key; cached, since types never change. Two threads may both compute it, which does no harm."""
        if self._key_type is None:
            self._key_type = _struct(self.typed(), KEY)
        return self._key_type

    @property
    def value_type(self) -> StructType:
        """The type of a value."""
        if self._value_type is None:
            self._value_type = _struct(self.typed(), VALUE)
        return self._value_type

    @property
    def is_dated_by_changes(self) -> bool:
        """Whether a row's ts is that of the change that made it; otherwise only a look-up finds it."""
        return True

    def typed(self) -> DataFrame:
        """Any frame with this table's ``_key`` and ``_value``."""
        return self.rows()

    @abstractmethod
    def rows(self) -> DataFrame:
        """Every key that is not deleted, with its latest value before the batch."""

    def history(self, after_us: int) -> DataFrame:
        """Every version before the batch that is valid at some instant after ``after_us``; tombstones have null values.

        Raises:
            TopologyError: the table keeps no versions.
        """
        raise TopologyError("R150", type(self).__name__, "a join with complete history needs versions on both sides.")

    def spans(self) -> DataFrame:
        """The batch's accepted puts, each with the span of time for which it was valid when it came.

        Returns:
            ``_key``, ``_value``, ``_us``, ``_until_us`` (null = for ever), ``_scope``, ``_place``, and ``_table_us``:
            the table's stream time after it.

        Raises:
            TopologyError: the table keeps no versions.
        """
        raise TopologyError("corrections", type(self).__name__, "corrections need a versioned table.")

    def stream_times(self) -> dict[int, int]:
        """A versioned table's stream time per scope after the batch, in microseconds."""
        return {}

    @abstractmethod
    def find_latest(self, asked: DataFrame, *, few: bool = False) -> DataFrame:
        """Each record with the latest value of its key at its place.

        Args:
            asked: The records: ``_key``, ``_scope``, ``_place`` and others.
            few: Whether there are few of them: then only table rows of their keys may be shuffled.

        Returns:
            asked + ``_found`` (null if there is none) and ``_found_us`` (its ts; for a versioned table also that of a
            tombstone).
        """

    def find_valid(
        self, asked: DataFrame, oldest_us: int | None, amount: Amount = "unknown", *, across: bool = False
    ) -> DataFrame:
        """Each record with the value valid at its ``_us``; a table without versions only knows the latest (R144).

        Args:
            asked: The records: ``_key``, ``_us``, ``_scope``, ``_place`` and others.
            oldest_us: The oldest ``_us`` asked for, if known.
            amount: How many records there are: for few, only table rows of their keys may be shuffled; for many, the
                table may choose a method that only then pays.
            across: Whether the slowest of the table's stream times counts instead of that of a record's partition.

        Returns:
            asked + ``_found`` and ``_reason`` (null where found).
        """
        found = self.find_latest(asked, few=amount == "few").drop(FOUND_US)
        return found.withColumn(REASON, F.when(F.col(FOUND).isNull(), NO_MATCH))


class LookupView(LookupTable):
    """A function of each row of another table; it stores nothing.

    Args:
        table: The other table.
        function: The function of its key and value.
        dates_tombstones: Whether the table is versioned: then a row that a filter removes still has a ts.
    """

    def __init__(self, table: LookupTable, function: RowFunction, *, dates_tombstones: bool) -> None:
        self._table = table
        self._function = function
        self._dates_tombstones = dates_tombstones

    @property
    def is_dated_by_changes(self) -> bool:
        return self._table.is_dated_by_changes

    def typed(self) -> DataFrame:
        return self._applied(self._table.typed(), VALUE)

    def rows(self) -> DataFrame:
        return self._applied(self._table.rows(), VALUE).where(F.col(VALUE).isNotNull())

    def history(self, after_us: int) -> DataFrame:
        return self._applied(self._table.history(after_us), VALUE)

    def spans(self) -> DataFrame:
        return self._applied(self._table.spans(), VALUE)

    def stream_times(self) -> dict[int, int]:
        return self._table.stream_times()

    def find_latest(self, asked: DataFrame, *, few: bool = False) -> DataFrame:
        found = self._applied(self._table.find_latest(asked, few=few), FOUND)
        if self._dates_tombstones:
            return found
        return found.withColumn(FOUND_US, F.when(F.col(FOUND).isNotNull(), F.col(FOUND_US)))

    def find_valid(
        self, asked: DataFrame, oldest_us: int | None, amount: Amount = "unknown", *, across: bool = False
    ) -> DataFrame:
        found = self._applied(self._table.find_valid(asked, oldest_us, amount, across=across), FOUND)
        # To a look-up, a value that a filter removes is a deleted one.
        reason = F.coalesce(F.col(REASON), F.when(F.col(FOUND).isNull(), TOMBSTONE))
        return found.withColumn(REASON, reason)

    def _applied(self, frame: DataFrame, column: str) -> DataFrame:
        return frame.withColumn(column, self._function(F.col(KEY), F.col(column)))


def check_fields_apart(node: str, keys: Iterable[str], values: Iterable[str]) -> None:
    """Refuse a field that is both in the key and in the value, which a table stores side by side.

    Raises:
        ConfigurationError: there is one.
    """
    both = sorted(set(keys) & set(values))
    if both:
        raise ConfigurationError(
            f'"{node}" would hold {both} twice, in its key and in its value. Leave them out of the value with '
            "map_values."
        )


def _struct(frame: DataFrame, column: str) -> StructType:
    kind = frame.schema[column].dataType
    assert isinstance(kind, StructType), f"{column} is {kind.simpleString()}, not a struct"
    return kind


def latest_at_place(
    asked: DataFrame,
    rows: DataFrame,
    changes: DataFrame | None,
    *,
    dated_tombstones: bool = False,
    few: bool = False,
) -> DataFrame:
    """Each record with the latest value of its key at its place: from the batch's changes, else from the rows before.

    Args:
        asked: The records: ``_key``, ``_scope``, ``_place`` and others.
        rows: The table before the batch: ``_key``, ``_value``, ``_us``, one row per key.
        changes: The batch's changes: the same with ``_scope`` and ``_place``; None if there are none.
        dated_tombstones: Whether a deleted key still has a ts.
        few: Whether to shuffle only rows of the keys asked for.

    Returns:
        asked + ``_found`` and ``_found_us``.
    """
    key_type = asked.schema[KEY].dataType
    version = F.struct(F.col(VALUE).alias("value"), F.col(US).alias("us")).alias(_VERSION)
    # Key fields are matched by position: two tables may name them differently.
    versions = rows.select(key_as(rows, key_type).alias(KEY), version)
    if few:
        versions = of_keys(versions, asked, few=True)
    found = asked.join(versions, KEY, "left").select(*map(F.col, asked.columns), _VERSION)
    if changes is not None:
        change = version.alias("_change")
        new = changes.select(key_as(changes, key_type).alias(KEY), SCOPE, PLACE, change)
        both = found.withColumn("_asks", F.lit(True)).unionByName(new, allowMissingColumns=True)
        order = (F.col(PLACE), F.col(SCOPE), F.coalesce("_asks", F.lit(False)))
        so_far = Window.partitionBy(KEY).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
        newest = F.coalesce(F.last("_change", ignorenulls=True).over(so_far), _VERSION)
        found = both.withColumn(_VERSION, newest).where(F.col("_asks")).drop("_asks", "_change")
    value, us = F.col(_VERSION).getField("value"), F.col(_VERSION).getField("us")
    dated = us if dated_tombstones else F.when(value.isNotNull(), us)
    return found.withColumns({FOUND: value, FOUND_US: dated}).drop(_VERSION)
