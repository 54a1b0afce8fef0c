"""Tables without versions on Spark: the latest value per key by arrival.

State: a Delta table with the key columns, ``ts`` and the value columns, named after its store. A tombstone deletes the
row; where the ts of a deleted key still matters, tombstones are kept as rows with ``deleted``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql.types import StructType

from streams.spark.flow import CHANGE, KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE, Flow, newest_of_keys, value_columns
from streams.spark.lookup_table import LookupTable, check_fields_apart, latest_at_place
from streams.spark.of_keys import of_keys
from streams.spark.operator import Batch, StepOf
from streams.spark.stored_shape import (
    aggregate_properties,
    check_aggregate,
    check_known_columns,
    check_plain,
    check_types,
    key_properties,
    nulls_of,
)
from versioned import spark_functions as F
from versioned.commit import Write
from versioned.identifiers import TableRef, check_columns, quote
from versioned.put_frames import present
from versioned.reading import read_table
from versioned.spec import DELETED, PRESENT
from versioned.table_details import properties_of
from versioned.upsert import upsert

#: Column: the ts of a key's last result, deleted or not.
LAST_US: Final = "_last_us"
_TS: Final = "ts"
_GONE: Final = "_gone"
_IS_LAST: Final = "_is_last"
_FEED: Final = "delta.enableChangeDataFeed"


class PlainStore(LookupTable):
    """Keeps the latest value per key.

    Args:
        node: The operator that owns the table.
        table: The table's name.
        keeps_tombstones: Whether a deleted key stays as a row, with its ts.
        extra: Columns of the changes that are stored beside the value.
        aggregate: The kind of aggregate, if the values are results of one.
        taken: A digest of what the aggregate takes of a table's row.
        properties: Table properties to set when the table is made.
    """

    def __init__(
        self,
        node: str,
        table: str,
        *,
        keeps_tombstones: bool = False,
        extra: tuple[str, ...] = (),
        aggregate: str | None = None,
        taken: str | None = None,
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._node = node
        self._table = table
        self._keeps_tombstones = keeps_tombstones
        self._extra = extra
        self._aggregate, self._taken = aggregate, taken
        said = {} if aggregate is None else aggregate_properties(aggregate, taken)
        self._made_with = {**properties, **said}
        self._batch: Batch | None = None
        self._input: Flow | None = None
        #: The batch's changes, once somebody has asked for them.
        self._told: DataFrame | None = None
        #: The rows before the batch; several readers share this plan, since finding a table's files takes time.
        self._rows: DataFrame | None = None
        self._is_ready = False
        self._said: Mapping[str, str] | None = None
        #: Columns of the table that the plan no longer has.
        self._left_out: list[Column] = []

    def target(self, root: TableRef) -> TableRef:
        """The store's table."""
        return root.child(self._table)

    def steps(self, root: TableRef) -> list[StepOf]:
        """The writes that a batch may make to the table."""
        return [(self.target(root), self._node, "main")]

    def typed(self) -> DataFrame:
        return self._frame

    def put(self, batch: Batch, flow: Flow) -> Flow:
        """Take the batch's changes, which :meth:`write` commits.

        Args:
            batch: The batch.
            flow: Records with a key, or changes of another table.

        Returns:
            The table's own changes, with the value that each replaced in ``_old``.
        """
        self._batch, self._input, self._rows, self._told = batch, flow, None, None
        self._make_ready(batch)
        return Flow(self._tell, flow.bounds, most=flow.most)

    def rows(self) -> DataFrame:
        return self.dated().where(F.col(VALUE).isNotNull())

    def dated(self) -> DataFrame:
        """The rows before the batch, including tombstones that are kept (as null values)."""
        assert self._batch is not None
        if self._rows is None:
            self._rows = self.before(self._batch, self.key_type.names, self.value_type.names)
        assert self._rows is not None
        return self._rows

    def before(self, batch: Batch, keys: list[str], values: list[str]) -> DataFrame | None:
        """The rows before the batch, for an operator that computes the batch's changes; None if there is no table yet.

        Returns:
            ``_key``, ``_value``, ``_us`` and the columns stored beside the value.

        Raises:
            ConfigurationError: the plan was changed, and the table lacks a column that is needed, or has rows of
                another key, results of another aggregate, versions, or tombstones that the plan does not keep.
        """
        target = self.target(batch.root)
        if not self._is_ready and batch.is_missing(target):
            return None
        # A value without columns is either there or deleted, and no column says that it is there.
        stored = value_columns(values)
        value = F.struct(*map(F.col, map(quote, stored))) if stored else present()
        if self._keeps_tombstones:
            value = F.when(~F.col(DELETED), value)
        key = F.struct(*map(F.col, map(quote, keys)))
        own = (DELETED,) if self._keeps_tombstones else ()
        rows = read_table(batch.session, target)
        if not self._is_ready:
            self._check(batch, rows, keys, (*keys, _TS, *stored, *self._extra, *own))
        return rows.select(key.alias(KEY), value.alias(VALUE), F.unix_micros(_TS).alias(US), *self._extra)

    def last_times(self, batch: Batch, keys: list[str]) -> DataFrame | None:
        """``_key`` and ``_last_us`` of every row before the batch; None if there is no table yet."""
        rows = self.before(batch, keys, [])
        return None if rows is None else rows.select(KEY, F.col(US).alias(LAST_US))

    def find_latest(self, asked: DataFrame, *, few: bool = False) -> DataFrame:
        assert self._input is not None
        changes = None if self._input.is_empty else self._frame
        return latest_at_place(asked, self.dated(), changes, dated_tombstones=self._keeps_tombstones, few=few)

    def properties(self, batch: Batch) -> Mapping[str, str]:
        """The properties of the table, which must exist, as they were when first read."""
        if self._said is None:
            self._said = properties_of(batch.session, self.target(batch.root))
        return self._said

    def write(self, batch: Batch) -> None:
        """Commit the newest change of each key."""
        assert self._input is not None
        if not self._input.is_empty:
            batch.commit(self.target(batch.root), self._upsert, self._node, "main")

    @property
    def _frame(self) -> DataFrame:
        assert self._input is not None
        return self._input.frame

    def _make_ready(self, batch: Batch) -> None:
        target = self.target(batch.root)
        if not self._is_ready and batch.is_missing(target):
            check_fields_apart(self._node, self.key_type.names, self.value_type.names)
            check_columns((*self.key_type.names, *value_columns(self.value_type.names), _TS))
            empty = self._stored(self._frame).limit(0)
            batch.create(target, empty, {**self._made_with, **key_properties(self.key_type.names)})
        elif not self._is_ready:
            made = self._stored(self._frame)
            rows = read_table(batch.session, target)
            # An aggregate gets no new columns: it goes on from its stored ones, which must not be null.
            new = StructType() if self._aggregate is not None else batch.addable(rows.schema, made.schema)
            self._check(batch, rows, self.key_type.names, (name for name in made.columns if name not in new.names))
            # Columns beside an aggregate may have wider types from batch to batch, as sums of decimals do.
            check_types(self._node, self._table, rows.schema, made.drop(*self._extra).schema)
            batch.add_columns(target, new)
            self._left_out = nulls_of(rows.schema, made.columns)
        self._is_ready = True

    def _check(self, batch: Batch, rows: DataFrame, keys: Iterable[str], names: Iterable[str]) -> None:
        """Refuse a table that does not fit the plan, or lacks columns."""
        said, keeps = self.properties(batch), self._keeps_tombstones
        check_plain(self._node, self._table, said, rows.columns, keys, keeps_tombstones=keeps)
        if self._aggregate is not None:
            check_aggregate(self._node, self._table, said, self._aggregate, self._taken)
        check_known_columns(self._node, self._table, rows.columns, names)

    def _stored(self, frame: DataFrame, *more: Column) -> DataFrame:
        columns: list[Column | str] = [f"{KEY}.*", F.timestamp_micros(US).alias(_TS), f"{VALUE}.*", *self._extra]
        if self._keeps_tombstones:
            columns.append(F.col(VALUE).isNull().alias(DELETED))
        return frame.select(*columns, *more).drop(PRESENT)

    def _upsert(self) -> Write:
        assert self._batch is not None
        newest = self._newest()
        gone = [] if self._keeps_tombstones else [F.col(VALUE).isNull().alias(_GONE)]
        # Set columns that the plan left out to null: else rows would keep former values there, which would come back
        # once the plan has the columns again.
        rows, target = self._stored(newest, *self._left_out, *gone), self.target(self._batch.root)
        is_small = self._batch.is_small and not self._tells_changes(self._batch)
        return upsert(target, rows, self.key_type.names, _GONE if gone else None, is_small=is_small)

    def _newest(self) -> DataFrame:
        """The last change of each key; taken from the batch's changes if these were already ordered."""
        if self._told is not None and not self._extra:
            return self._told.where(_IS_LAST)
        return newest_of_keys(self._frame)

    def _tells_changes(self, batch: Batch) -> bool:
        """Whether the table has a change data feed, which would also show unchanged rows that are rewritten."""
        return self.properties(batch).get(_FEED, "false").lower() == "true"

    def _tell(self) -> DataFrame:
        assert self._batch is not None
        assert self._input is not None
        changes = self._changes()
        if not self._input.is_empty:
            self._told = changes = self._batch.cut(changes)
        return changes.select(*map(F.col, CHANGE))

    def _changes(self) -> DataFrame:
        assert self._batch is not None
        assert self._input is not None
        before = self.rows().select(KEY, F.col(VALUE).alias("_before"))
        if self._batch.has_few(self._input):
            before = of_keys(before, self._frame, few=True)
        so_far = Window.partitionBy(KEY).orderBy(PLACE, SCOPE)
        is_first = F.row_number().over(so_far) == 1
        changed = self._frame.join(before, KEY, "left")
        old = F.when(is_first, F.col("_before")).otherwise(F.lag(VALUE).over(so_far))
        is_last = F.lead(LATEST).over(so_far).isNull()
        told = changed.withColumns({OLD: old, LATEST: F.lit(True)})
        return told.withColumn(_IS_LAST, is_last).select(*map(F.col, CHANGE), _IS_LAST)
