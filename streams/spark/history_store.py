"""Versioned tables on Spark: records are puts into a versioned table (KIP-914, "put").

State: the versioned table, named after its store. One batch of puts is at most two commits, ``splice`` and ``main``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from streams.nodes import Materialized
from streams.reasons import LATE
from streams.spark.flow import (
    CHANGE,
    KEY,
    LATEST,
    OLD,
    PLACE,
    SCOPE,
    US,
    VALUE,
    WAS_US,
    Bounds,
    Flow,
    NodeReport,
    flat_keys,
    in_one_scope,
    lookup_times,
    stream_time_at,
    struct_fields,
    struct_keys,
    value_columns,
)
from streams.spark.lookup import lookup_versioned
from streams.spark.lookup_table import LookupTable, check_fields_apart, latest_at_place
from streams.spark.of_keys import Amount
from streams.spark.operator import Batch, StepOf
from streams.spark.plain_store import LAST_US
from streams.spark.repeated_tombstones import without_repeated_tombstones
from streams.spark.stored_shape import GETS_COLUMNS, check_types, without_versions
from versioned import put_frames
from versioned import spark_functions as F
from versioned.adding import add_values
from versioned.durations import Resolution
from versioned.errors import ConfigurationError, NotAVersionedTableError
from versioned.identifiers import TableRef, quote
from versioned.once import Once
from versioned.put import PutBatch
from versioned.put_frames import PUT_RESULT, floor_to_resolution
from versioned.reading import in_full, read_table
from versioned.schema import columns_of
from versioned.sent_rows import pays
from versioned.spec import CURRENT, PRESENT, SPEC_PROPERTY, VersionedTableSpec, known_target
from versioned.sql_types import sql_properties, sql_type
from versioned.system_history import make_versioned
from versioned.table import VersionedTable
from versioned.table_log import newest_own
from versioned.written import SPLICE

#: The parts of a table's contract that come from the plan, by their names in the table's spec.
_PROMISED: Final = ("history_retention_us", "grace_us", "time_scope", "time_resolution", "system_history")


class HistoryStore(LookupTable):
    """Puts changes into a versioned table.

    Args:
        node: The operator that owns the table.
        table: The table's name.
        materialized: Retention, grace and the rest of its contract.
        drops_repeats: Whether tombstones that follow a tombstone are left out (R160).
    """

    def __init__(self, node: str, table: str, materialized: Materialized, *, drops_repeats: bool = False) -> None:
        self._node = node
        self._table_name = table
        self._materialized = materialized
        self._drops_repeats = drops_repeats
        self._table: VersionedTable | None = None
        self._puts: PutBatch | None = None
        self._outcomes: Once[DataFrame] | None = None
        self._batch: Batch | None = None
        #: The batch's records as they arrived.
        self._arrived: Flow | None = None
        self._is_empty = True

    def target(self, root: TableRef) -> TableRef:
        """The store's table."""
        return root.child(self._table_name)

    def tables(self, root: TableRef) -> list[TableRef]:
        """The table, and its system history if it keeps one."""
        target = self.target(root)
        return [target, known_target(target)] if self._materialized.system_history else [target]

    def steps(self, root: TableRef) -> list[StepOf]:
        """The writes that a batch may make to these tables, in their order."""
        target, node = self.target(root), self._node
        known = [(known_target(target), node, "known")] if self._materialized.system_history else []
        return [*known, (target, node, SPLICE), (target, node, "main")]

    @property
    def spec(self) -> VersionedTableSpec:
        """The contract of the table."""
        assert self._table is not None
        return self._table.spec

    def typed(self) -> DataFrame:
        return struct_keys(self.puts.judged, self.spec.keys)

    @property
    def puts(self) -> PutBatch:
        """The puts of this batch, with the table's state before them."""
        assert self._puts is not None
        return self._puts

    def check_promise(self, target: TableRef, properties: Mapping[str, str]) -> None:
        """Refuse a plan that asks for another retention, grace, scope, resolution or system history than its table has.

        Args:
            target: The table.
            properties: Its table properties; a table that is missing or has no versions is not checked.

        Raises:
            ConfigurationError: they differ; says what to do.
        """
        if SPEC_PROPERTY in properties:
            has = VersionedTableSpec.from_properties(properties, str(target))
            wanted = VersionedTableSpec.of(keys=has.keys, values=has.values, **_promise(self._materialized))
            _check_promised(target, has, wanted)

    def put(self, batch: Batch, flow: Flow) -> Flow:
        """Take the batch's changes, which :meth:`write` commits.

        Returns:
            The table's own changes: the value that each accepted put replaced, and whether it is now the latest.
        """
        self._is_empty = flow.is_empty
        self._arrived = flow = self.scoped(flow)
        table = self._opened(batch, flow.frame)
        spec = table.spec
        target, times = self.target(batch.root), batch.times_of(self._node)
        value = _as_stored(flow.frame, spec)
        records = flow.frame.select(KEY, value, floor_to_resolution(F.col(US), spec).alias(US), SCOPE, PLACE)
        if self._drops_repeats and not flow.is_empty:
            rows = read_table(batch.session, target).where(F.col(CURRENT))
            latest = struct_keys(put_frames.versions(rows, spec), spec.keys).select(KEY, VALUE, US)
            few = batch.has_few(flow)
            cut = None if few or batch.is_small else batch.cut
            records = batch.cut(without_repeated_tombstones(records, latest, spec, times, few=few, cut=cut))
        self._batch = batch
        count = None if flow.bounds is None else flow.count
        floored, names = _floored(flow.bounds, spec), table.names_keys
        bounds = _spans(floored) if spec.time_scope == "partition" else None
        puts = PutBatch(target, spec, flat_keys(records), times, bounds, count, names_keys=names)
        self._puts = puts
        # Computed once, since every consumer of the changes reads it.
        self._outcomes = Once(lambda: batch.cut(puts.outcomes().where(~F.col("_refused"))))
        return Flow(self._changes, floored, most=flow.most)

    def scoped(self, flow: Flow) -> Flow:
        """Records with their scopes and places in this table: all in one scope, unless each partition has its own."""
        return flow if self._materialized.time_scope == "partition" else flow.in_one_scope(in_one_scope)

    def rows(self) -> DataFrame:
        return self._current().where(F.col(VALUE).isNotNull())

    def history(self, after_us: int) -> DataFrame:
        versions = self.puts.current().unionByName(self.puts.closed(after_us))
        return struct_keys(versions, self.spec.keys).select(KEY, VALUE, US)

    def spans(self) -> DataFrame:
        accepted = self._accepted_puts()
        unit = self.spec.time_resolution.value
        until = F.when(~F.col(LATEST), F.col(PUT_RESULT) * unit)
        table_us = stream_time_at(lookup_times(self.puts.observed))
        told = accepted.withColumns({"_until_us": until, "_table_us": table_us})
        flat = told.select(*self.spec.keys, VALUE, US, "_until_us", SCOPE, PLACE, "_table_us")
        return struct_keys(flat, self.spec.keys)

    def stream_times(self) -> dict[int, int]:
        return self.puts.stream_times

    def horizon(self, batch: Batch, records: DataFrame) -> Column:
        """The ts before which a put at a record's place is refused; null while none is, or if stream time is per key.

        Args:
            batch: The batch.
            records: Records that advance stream time as the puts will: ``_key _us _scope _place``.
        """
        spec = VersionedTableSpec.of(keys=struct_fields(records, KEY), values=(), **_promise(self._materialized))
        if spec.time_scope == "key":
            return F.lit(None).cast("long")
        times = batch.times_of(self._node)
        is_one = spec.time_scope == "store"
        observed, scope = (F.lit(times.get(0)), F.lit(0)) if is_one else (lookup_times(times), F.col(SCOPE))
        return put_frames.horizon_at(put_frames.stream_time_before(observed.cast("long"), [scope], spec), spec)

    def last_times(self, batch: Batch, keys: list[str]) -> DataFrame | None:
        """``_key`` and ``_last_us`` of every key before the batch; None if there is no table yet."""
        target = self.target(batch.root)
        if batch.is_missing(target):
            return None
        start = F.unix_micros(self._open(batch, target).spec.valid_from)
        rows = read_table(batch.session, target, self._version_before(batch, target)).where(F.col(CURRENT))
        return rows.select(F.struct(*map(quote, keys)).alias(KEY), start.alias(LAST_US))

    def _version_before(self, batch: Batch, target: TableRef) -> int | None:
        """The table's version before this batch if the batch's puts landed before a crash; None = the newest.

        Needed because the caller writes its own table after this one. A splice alone changes no key's last time.
        """
        landed = newest_own(batch.session, target, batch.step(self._node, "main").identity) if batch.is_replay else None
        return None if landed is None else landed.version - 1

    def find_latest(self, asked: DataFrame, *, few: bool = False) -> DataFrame:
        changes = None if self._is_empty else self._accepted(F.col(LATEST))
        return latest_at_place(asked, self._current(), changes, dated_tombstones=True, few=few)

    def find_valid(
        self, asked: DataFrame, oldest_us: int | None, amount: Amount = "unknown", *, across: bool = False
    ) -> DataFrame:
        if oldest_us is None:
            # The flow's times are not known: one small job finds how far back closed history must be read.
            oldest_us = asked.agg(F.min(US)).collect()[0][0] or 0
        keys = struct_fields(asked, KEY)
        assert self._batch is not None
        flat, cut, has_puts = flat_keys(asked), self._batch.cut, not self._is_empty
        sends = partial(pays, flat, self.target(self._batch.root), keys)
        by = partial(lookup_versioned, sends=sends, across=across)
        found = by(flat, self.spec, self.puts, has_puts, oldest_us, keys, cut, amount)
        return struct_keys(found, keys)

    def report(self, batch: Batch) -> NodeReport:
        """Counts and stream times of the puts; also rejects the late ones if the policy says so."""
        if self._is_empty:
            return NodeReport(stream_times=self.puts.observed)
        counts = self.puts.counts
        if self._materialized.late_policy == "side_table" and counts.refused:
            batch.reject(self._node, struct_keys(self._late(), self.spec.keys), F.lit(LATE))
        told = {"input": counts.accepted + counts.refused, "accepted": counts.accepted, "late": counts.refused}
        told |= {"out_of_order": counts.out_of_order, "spliced": counts.spliced}
        return NodeReport(told, self.puts.stream_times)

    def write(self, batch: Batch) -> None:
        """Commit the batch's puts."""
        if not self._is_empty and self.puts.counts.accepted:
            known = (batch.clock_us, batch.number)
            landed = self.puts.write(
                partial(batch.step, self._node),
                batch.details,
                known,
                is_replay=batch.is_replay,
                in_one_task=batch.is_small,
            )
            target = self.target(batch.root)
            known_landed, spliced = self.puts.landed_known, self.puts.landed_before
            for table, each in ((known_target(target), known_landed), (target, spliced), (target, landed)):
                if each is not None:
                    batch.note(table, each)

    def release(self) -> None:
        """Release what was cached for the batch."""
        if self._puts is not None:
            self._puts.release()
        self._outcomes = None

    def _accepted_puts(self) -> DataFrame:
        """The outcomes of the accepted puts."""
        assert self._outcomes is not None
        return self._outcomes()

    def _late(self) -> DataFrame:
        """The refused records, with their instants from before they were floored to the table's resolution."""
        assert self._arrived is not None
        late, place = self.puts.judged.where(F.col("_refused")), (*self.spec.keys, SCOPE, PLACE)
        if self.spec.time_resolution is Resolution.MICROSECOND:
            return late
        arrived = flat_keys(self._arrived.frame).select(*map(F.col, place), F.col(US).alias(WAS_US))
        # Distinct, since the same row may occur twice.
        return late.join(arrived.distinct(), [*place])

    def _current(self) -> DataFrame:
        return struct_keys(self.puts.current(), self.spec.keys).select(KEY, VALUE, US)

    def _accepted(self, condition: object) -> DataFrame:
        accepted = self.puts.judged.where(~F.col("_refused")).where(condition)  # type: ignore[arg-type]
        return struct_keys(accepted, self.spec.keys).select(KEY, VALUE, US, SCOPE, PLACE)

    def _changes(self) -> DataFrame:
        accepted = self._accepted_puts()
        old = F.col(OLD).getField("value").alias(OLD)
        flat = accepted.select(*self.spec.keys, VALUE, old, LATEST, US, SCOPE, PLACE)
        return struct_keys(flat, self.spec.keys).select(*map(F.col, CHANGE))

    def _opened(self, batch: Batch, records: DataFrame) -> VersionedTable:
        if self._table is None:
            target = self.target(batch.root)
            is_new = batch.is_missing(target)
            if is_new:
                check_fields_apart(self._node, struct_fields(records, KEY), struct_fields(records, VALUE))
                is_new = _create(batch, target, records, self._materialized)
            opened = self._open(batch, target)
            if not is_new:
                there, made = read_table(batch.session, target).schema, _flat(records).schema
                new = batch.addable(there, made)
                _check_promise(opened, records, self._materialized, new.names)
                # A put uses the wider of two types of numbers, so that must be the table's.
                check_types(self._node, self._table_name, there, made, or_wider=True)
                if new.fields:
                    batch.add_columns(target, new, partial(_add_values, spec=opened.spec, owner=batch.application))
                    opened = self._open(batch, target)
            self._table = opened
        return self._table

    def _open(self, batch: Batch, target: TableRef) -> VersionedTable:
        try:
            return VersionedTable.open(batch.session, target)
        except NotAVersionedTableError as error:
            raise without_versions(self._node, self._table_name) from error


def _as_stored(records: DataFrame, spec: VersionedTableSpec) -> Column:
    """The value with its fields in the table's order; the plan may have changed the order since."""
    names = struct_fields(records, VALUE)
    if not spec.values or tuple(names) == spec.values:
        return F.col(VALUE)
    value = F.struct(*(F.col(VALUE).getField(name).alias(name) for name in spec.values))
    return F.when(F.col(VALUE).isNotNull(), value).alias(VALUE)


def _floored(bounds: Mapping[int, Bounds] | None, spec: VersionedTableSpec) -> Mapping[int, Bounds] | None:
    """The bounds of records after their instants are floored to the table's resolution."""
    if bounds is None:
        return None
    unit = spec.time_resolution.value
    return {
        scope: Bounds(b.oldest_us // unit * unit, b.newest_us // unit * unit, b.count) for scope, b in bounds.items()
    }


def _spans(bounds: Mapping[int, Bounds] | None) -> Mapping[int, tuple[int, int]] | None:
    return None if bounds is None else {scope: (b.oldest_us, b.newest_us) for scope, b in bounds.items()}


def _check_promise(table: VersionedTable, records: DataFrame, materialized: Materialized, new: Collection[str]) -> None:
    """Refuse a changed plan whose columns or contract differ from those of its table, which may get ``new`` columns.

    Raises:
        ConfigurationError: the columns or the contract differ; says what to do.
    """
    has, names = table.spec, value_columns(struct_fields(records, VALUE))
    wanted = VersionedTableSpec.of(keys=struct_fields(records, KEY), values=names, **_promise(materialized))
    # Keys are compared by position, values by name.
    if has.keys != wanted.keys or sorted((*has.values, *new)) != sorted(wanted.values):
        raise ConfigurationError(
            f"{table.target} has the keys {list(has.keys)} and the values {list(has.values)}, but the plan now gives "
            f"{list(wanted.keys)} and {list(wanted.values)}. Give the plan the former ones, the keys in that order, or "
            f"the store another name. {GETS_COLUMNS}"
        )
    _check_promised(table.target, has, wanted)


def _check_promised(target: TableRef, has: VersionedTableSpec, wanted: VersionedTableSpec) -> None:
    told = [
        f"{name} {getattr(has, name)}, asked for {getattr(wanted, name)}"
        for name in _PROMISED
        if getattr(has, name) != getattr(wanted, name)
    ]
    if told:
        lasting = replace(has, history_retention_us=wanted.history_retention_us, grace_us=wanted.grace_us)
        raise ConfigurationError(
            f"{target} promises something else than the plan now asks for: {'; '.join(told)}. Give the plan the "
            "former values, or the store another name. To let the table promise another retention and grace "
            "(what a purge has removed stays away): "
            f"ALTER TABLE {target.sql} SET {sql_properties(lasting.to_properties())}"
        )


def _create(batch: Batch, target: TableRef, records: DataFrame, materialized: Materialized) -> bool:
    """Make the table; False if another driver of the application has just made it, perhaps by another plan."""
    flat = _flat(records)
    columns = columns_of(", ".join(f"{quote(field.name)} {sql_type(field.dataType)}" for field in flat.schema.fields))
    keys = struct_fields(records, KEY)
    values = [name for name in columns.names if name not in keys]
    spec = VersionedTableSpec.of(keys=keys, values=values, **_promise(materialized))
    # The columns with personal data are those of the whole plan, so some may not be in this table.
    place = in_full(batch.session, target)
    made = make_versioned(batch.session, place, columns, spec, batch.pii_columns, or_take=True)
    batch.there.add(target)
    return made


def _add_values(
    session: SparkSession, target: TableRef, columns: StructType, spec: VersionedTableSpec, owner: str
) -> None:
    add_values(session, target, spec, columns, owner, hidden=())


def _flat(records: DataFrame) -> DataFrame:
    """The fields of keys and values as the table's columns."""
    return records.select(f"{KEY}.*", f"{VALUE}.*").drop(PRESENT)


def _promise(materialized: Materialized) -> dict[str, Any]:
    """The contract that a plan asks of its versioned table."""
    assert materialized.history_retention is not None
    return {
        "history_retention": materialized.history_retention,
        "grace": materialized.grace,
        "time_scope": materialized.time_scope,
        "time_resolution": materialized.time_resolution,
        "system_history": materialized.system_history,
    }
