"""The rules of a put, set-wise: DataFrame to DataFrame, without input or output.

The same rules, record by record, are in ``versioned.store_rules``; a property test compares the two.

Shapes (columns besides the key columns, which keep their names; ``_us`` is an instant in microseconds):

=========  ==========================================================================================
records    ``_scope`` int, ``_place`` (sortable, unique in its scope), ``_us``, ``_value`` struct or null
versions   ``_us`` (validFrom), ``_to_us`` (validTo or null), ``_value``
judged     records + ``_refused``, ``_stream_us`` (stream time after the record), ``_is_latest``,
           ``_old`` struct(us, value) for latest ones, ``_is_again`` (it is accepted, and so was an equal one just
           before it), ``_stored_us`` (validFrom of the stored current row)
=========  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql.types import StructType

from versioned import neighbours
from versioned import spark_functions as F
from versioned.identifiers import beside, quote
from versioned.spec import CURRENT, DELETED, PRESENT, VersionedTableSpec
from versioned.store_rules import LATEST, REFUSED

#: The result of a put, as in ``Outcome.result``. Not named as the column that callers see, since a key may be.
PUT_RESULT: Final = "_put_result"
#: Column of accepted records: how late they may be, in microseconds, by the stream time of their key at the write.
GRACE: Final = "_grace_us"
_BEFORE: Final = (Window.unboundedPreceding, -1)
_IS_CLOSED: Final = "_to_us IS NOT NULL"


def value_struct(values: tuple[str, ...]) -> Column:
    """The value columns as one struct; for a table without value columns, a presence mark."""
    return F.struct(*map(F.col, values)) if values else present()


def present() -> Column:
    """The presence mark: the value in a table without value columns."""
    return F.struct(F.lit(True).alias(PRESENT))


def versions(rows: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Stored rows in the shape *versions*."""
    return rows.select(
        *spec.keys,
        F.unix_micros(spec.valid_from).alias("_us"),
        F.unix_micros(spec.valid_to).alias("_to_us"),
        F.when(~F.col(DELETED), value_struct(spec.values)).alias("_value"),
    )


def stored_rows(frame: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Versions in the shape *versions* as rows of the table."""
    return frame.select(
        *spec.keys,
        F.timestamp_micros("_us").alias(spec.valid_from),
        F.timestamp_micros("_to_us").alias(spec.valid_to),
        *(F.col("_value").getField(name).alias(name) for name in spec.values),
        F.col("_value").isNull().alias(DELETED),
        F.col("_to_us").isNull().alias(CURRENT),
    )


def floor_to_resolution(us: Column, spec: VersionedTableSpec) -> Column:
    """An instant floored to the table's resolution."""
    return floored(us, spec.time_resolution.value)


def floored(us: Column, unit_us: int) -> Column:
    """An instant floored to whole units."""
    return us if unit_us == 1 else us - F.pmod(us, F.lit(unit_us))


def tombstones(
    keys: DataFrame, columns: StructType, spec: VersionedTableSpec, named: Mapping[str, str | None]
) -> DataFrame:
    """Keys as records of a put: with null values, and ``_dead`` set.

    Args:
        keys: A frame with the key columns and those of ``named``.
        columns: The columns of the table.
        spec: The table.
        named: For each other column its new name, and its present one, which may be that of a value, too.
    """
    own = (F.col(quote(name)).alias(to) for to, name in named.items() if name is not None)
    values = (F.lit(None).cast(columns[name].dataType).alias(name) for name in spec.values)
    return keys.select(*map(quote, spec.keys), *own, *values, F.lit(True).alias("_dead"))


def replaced_values(outcomes: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """The result of ``VersionedTable.delete``: keys, ``ts``, ``put_result``, and the version that was valid there.

    Args:
        outcomes: From :func:`outcomes`.
        spec: The table.
    """
    value = F.col("_old").getField("value")
    record = (F.timestamp_micros("_us"), F.col(PUT_RESULT))
    told = (*map(F.col, spec.keys), *record, replaced_since(), *map(value.getField, spec.values))
    return outcomes.select(*(column.alias(name) for column, name in zip(told, replaced_names(spec), strict=True)))


def replaced_names(spec: VersionedTableSpec) -> list[str]:
    """The column names of :func:`replaced_values`, all different.

    >>> replaced_names(VersionedTableSpec.of(keys="id", values=["ts", "old_ts"], history_retention="1 s"))
    ['id', 'ts', 'put_result', 'validFrom', 'old_old_ts', 'old_ts']
    """
    record = [spec.beside_keys("ts"), spec.beside_keys("put_result")]
    version = (spec.valid_from, *spec.values)
    names = [*spec.keys, *record]
    for name in version:
        is_own = name.lower() not in map(str.lower, record)
        names.append(name if is_own else beside(f"old_{name}", [*names, *version], "old_"))
    return names


def replaced_since() -> Column:
    """The start of ``_old`` of a judged record; null if that is a tombstone, which has no value."""
    was = F.col("_old")
    return F.when(was.getField("value").isNotNull(), F.timestamp_micros(was.getField("us")))


def in_resolution(us: Column, spec: VersionedTableSpec) -> Column:
    """An instant as an integer in the table's resolution (exact: instants are floored already)."""
    unit = spec.time_resolution.value
    # Longs would be divided as doubles, which are not precise enough for instants far from 1970.
    return us if unit == 1 else (us.cast("decimal(20,0)") / F.lit(unit)).cast("long")


def refuse_late(
    records: DataFrame, observed: DataFrame, current: DataFrame, spec: VersionedTableSpec, *, by_time: bool
) -> DataFrame:
    """Mark each record that is older than stream time minus grace *at its place* (R182).

    A refused record never moves stream time; since it lies below it, the plain running maximum is the same.

    Args:
        records: All valid records of the batch.
        observed: (``_scope``, ``_observed_us``): stream time before the batch; scopes not seen before are absent.
        current: The stored current versions, read only when stream time is per key.
        spec: The table.
        by_time: Whether the records are in order of their instants: then none is late because of another one of the
            batch, and they need not be sorted, which takes one task per scope.
    """
    if spec.time_scope == "key":
        before = current.select(*spec.keys, F.col("_us").alias("_observed_us"))
        timed = records.join(before, list(spec.keys), "left")
        scope = list(spec.keys)
    else:
        timed = records.join(F.broadcast(observed), "_scope", "left")
        scope = ["_scope"]
    observed_us = F.col("_observed_us")
    before_us = _before_batch(observed_us, spec) if by_time else stream_time_before(observed_us, scope, spec)
    return (
        timed.withColumn("_before_us", before_us)
        .withColumn("_refused", F.coalesce(F.col("_us") < F.col("_before_us") - _grace(spec), F.lit(False)))
        .withColumn("_stream_us", F.greatest("_before_us", "_us"))
        .drop("_before_us", "_observed_us")
    )


def stream_time_before(
    observed_us: Column, scope: Iterable[str | Column], spec: VersionedTableSpec, us: str | Column = "_us"
) -> Column:
    """Stream time before each record at its place, of rows with ``_us``, ``_place`` and ``_scope``.

    Args:
        observed_us: Stream time before the batch.
        scope: The columns that identify the scope of a stream time.
        spec: The table.
        us: The instant that moves stream time; null in rows that do not move it.
    """
    # If several scopes share one stream time, records of them may be at the same place.
    order = Window.partitionBy(*scope).orderBy("_place", "_scope").rowsBetween(*_BEFORE)
    return F.greatest(_before_batch(observed_us, spec), F.max(us).over(order))


def _before_batch(observed_us: Column, spec: VersionedTableSpec) -> Column:
    return F.greatest(observed_us, F.lit(spec.first_stream_time_us).cast("long"))


def horizon_at(stream_us: Column, spec: VersionedTableSpec) -> Column:
    """The first instant that is not refused at a stream time; neither needs to be floored to the resolution."""
    oldest = floor_to_resolution(stream_us, spec) - _grace(spec)
    return oldest + F.pmod(-oldest, F.lit(spec.time_resolution.value))


def accept_all(records: DataFrame) -> DataFrame:
    """Return the shape of :func:`refuse_late` for a batch in which no record can be late."""
    return records.withColumn("_refused", F.lit(False)).withColumn("_stream_us", F.lit(None).cast("long"))


def judge(
    timed: DataFrame, current: DataFrame | None, spec: VersionedTableSpec, *, few: bool = False, with_old: bool = True
) -> DataFrame:
    """Determine for each accepted record whether it is the latest of its key at its place, and what it replaces.

    One window by key over the batch and the stored current rows of its keys: no closed history is read.

    Args:
        timed: The batch, as returned by :func:`refuse_late` or :func:`accept_all`.
        current: The stored current versions; None if all of them are known to begin before the batch.
        spec: The table.
        few: Whether the batch's keys may be broadcast; then only the current rows of these keys are shuffled.
        with_old: Whether to add what a record replaces, as ``_old`` and ``_is_again``; without, only instants are read
            and compared.
    """
    keys = list(spec.keys)
    both = timed.withColumn("_stored", F.lit(False))
    if current is not None:
        stored = current.select(*keys, "_us", *(["_value"] if with_old else []), F.lit(True).alias("_stored"))
        touched = stored.join(_sent(timed.select(*keys), few), keys, "left_semi")
        both = both.unionByName(touched, allowMissingColumns=True)
    # Refused records change nothing, so they take part without an instant.
    us = F.when(~F.coalesce("_refused", F.lit(False)), F.col("_us"))
    by_place = Window.partitionBy(*keys).orderBy(F.col("_place").asc_nulls_first(), "_scope")
    before = by_place.rowsBetween(*_BEFORE)
    whole = Window.partitionBy(*keys)
    judged = both.withColumn("_prev_us", F.max(us).over(before)).withColumn(
        "_is_latest", us.isNotNull() & F.coalesce(us >= F.col("_prev_us"), F.lit(True))
    )
    if with_old:
        judged = judged.withColumn("_version", F.when(F.col("_is_latest"), _version())).withColumn(
            "_old", F.last("_version", ignorenulls=True).over(before)
        )
        place = F.struct("_place", "_scope")
        is_same = F.coalesce(F.lag(place).over(by_place) == place, F.lit(False))
        judged = judged.withColumn("_is_again", us.isNotNull() & is_same)
    return (
        judged.withColumn("_stored_us", F.max(F.when(F.col("_stored"), F.col("_us"))).over(whole))
        .where(~F.col("_stored"))
        .drop("_stored", "_prev_us", "_version")
    )


def outcomes(judged: DataFrame, known: DataFrame | None, spec: VersionedTableSpec, *, many: bool = False) -> DataFrame:
    """Add the put result and the replaced version to every judged record.

    Args:
        judged: The batch.
        known: Stored versions (current and closed) of the keys that have out-of-order records, as far back as
            needed; None if the batch has no out-of-order record.
        spec: The table.
        many: Whether there are too many out-of-order records to compare each with all records of its key.

    Returns:
        judged + ``_put_result`` (R172-R174) and ``_old`` struct(us, value) also for out-of-order records.
    """
    in_order = judged.withColumn(
        PUT_RESULT, F.when(F.col("_refused"), F.lit(REFUSED)).when(F.col("_is_latest"), F.lit(LATEST)).cast("long")
    ).withColumn("_old", F.when(~F.col("_refused"), F.col("_old")))
    if known is None:
        return in_order.drop("_is_again")
    # The neighbours found for records at one place, which are equal, are those before the first of them.
    before = F.when(F.col("_is_again"), _version()).otherwise(F.col("_pred"))
    spliced = _splices(judged, known, spec, many=many)
    return (
        in_order.withColumnRenamed("_old", "_old_latest")
        .join(spliced, [*spec.keys, "_scope", "_place"], "left")
        .withColumn(PUT_RESULT, F.coalesce(PUT_RESULT, in_resolution(F.col("_succ_us"), spec)))
        .withColumn("_old", F.when(F.col("_is_latest"), F.col("_old_latest")).otherwise(before))
        .drop("_is_again", "_old_latest", "_pred", "_succ_us")
    )


def _version() -> Column:
    """The version that a record makes: its start and its value."""
    return F.struct(F.col("_us").alias("us"), F.col("_value").alias("value"))


def _splices(judged: DataFrame, known: DataFrame, spec: VersionedTableSpec, *, many: bool) -> DataFrame:
    """For each out-of-order record: the version before it and the start of the one after it, at its place."""
    columns = (*spec.keys, "_us", "_value")
    is_late = (~F.col("_is_latest")).alias(neighbours.LATE)
    # Of records of several scopes at one place, the scope decides which is first.
    place = F.struct("_place", "_scope").alias("_place")
    accepted = judged.where(~F.col("_refused")).select(*columns, "_scope", place, is_late)
    find = neighbours.among_blocks if many else neighbours.among_all
    found = find(accepted, known.select(*columns), spec)
    return found.withColumn("_place", F.col("_place").getField("_place"))


def next_current(current: DataFrame, accepted: DataFrame, spec: VersionedTableSpec, *, few: bool) -> DataFrame:
    """The current rows after the batch together with the rows that it closes, in the shape *versions*.

    The stored rows are read once: each ends where the first record of its key begins; rows of other keys go from scan
    to write unchanged. The ends of the records come from the records alone. Records older than the stored current row
    of their key are left out: :func:`next_closed` splices them into closed history.

    Args:
        current: The stored current versions.
        accepted: The accepted records, with ``_stored_us``; without it, all are known to be no older than what is
            stored.
        spec: The table.
        few: Whether the instants of the batch may be broadcast; then the stored rows are not shuffled.
    """
    keys = list(spec.keys)
    records = accepted.where(_was_newest(accepted))
    ends = records.groupBy(*keys).agg(F.min("_us").alias("_end_us"))
    kept = current.join(_sent(ends, few), keys, "left").where(_is_kept("_end_us"))
    added = records.withColumn("_next_us", _next_us(spec)).where(_is_kept("_next_us"))
    return kept.select(*keys, "_us", F.col("_end_us").alias("_to_us"), "_value").unionByName(
        added.select(*keys, "_us", F.col("_next_us").alias("_to_us"), "_value")
    )


def next_closed(
    closed: DataFrame, current: DataFrame, late: DataFrame, spec: VersionedTableSpec, *, few: bool
) -> DataFrame:
    """The closed rows after the batch that were closed before it or are late records of it, in the shape *versions*.

    These are the versions that :func:`changes` returns for the late records, and the closed versions that stay.

    Args:
        closed: Stored closed versions; for the keys of late records, all that end after the oldest late record.
        current: The stored current versions, where the last of the late records end; only their starts are read.
        late: Accepted records older than the stored current row of their key.
        spec: The table.
        few: Whether the keys of late records may be broadcast; then only their versions are shuffled.
    """
    keys, of_versions = list(spec.keys), (*spec.keys, "_us", "_to_us", "_value")
    stored = closed.select(*of_versions).unionByName(starts(current, spec))
    if not few:
        return next_versions(stored, late, spec).where(_IS_CLOSED)
    touched = _sent(late.select(*keys), few)
    untouched = closed.join(touched, keys, "left_anti").select(*of_versions)
    spliced = next_versions(stored.join(touched, keys, "left_semi"), late, spec)
    return spliced.where(_IS_CLOSED).unionByName(untouched)


def starts(current: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """The starts of current versions, in the shape *versions* with null values."""
    said_nothing = F.lit(None).cast(current.schema["_value"].dataType).alias("_value")
    return current.select(*spec.keys, "_us", F.lit(None).cast("long").alias("_to_us"), said_nothing)


def next_versions(stored: DataFrame, accepted: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """The stored versions and the accepted records as they are after the batch, in the shape *versions*.

    Args:
        stored: All stored versions of each key of the batch, from its oldest record on.
        accepted: The accepted records.
        spec: The table.
    """
    ended = _with_end(stored, accepted, spec)
    return ended.select(*spec.keys, "_us", F.col("_end_us").alias("_to_us"), "_value")


def _with_end(stored: DataFrame, accepted: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Stored versions and accepted records with ``_end_us``, without those that are replaced."""
    of_key = Window.partitionBy(*spec.keys)
    both = _stored_and_batch(stored, accepted, spec).withColumn("_next_us", _next_us(spec))
    # As in :func:`next_current`: a current row that others put meanwhile after a record that was judged the newest ends
    # before it begins, which the table refuses. It may have closed a row that is not among these.
    first_us = F.min("_newest_us").over(of_key)
    too_new = F.col("_stored") & F.col("_to_us").isNull() & (F.col("_us") > first_us)
    # A stored version never gets a later end: the one that followed it may have been purged.
    ends = [F.col("_to_us"), F.col("_next_us"), F.when(too_new, first_us)]
    if "_stored_us" in accepted.columns:
        both = both.withColumn("_judged_by_us", F.max("_judged_by_us").over(of_key))
        is_there = F.max(F.col("_stored") & (F.col("_us") == F.col("_judged_by_us"))).over(of_key)
        # A late record whose key's current row was purged meanwhile is refused too: it ends where it begins.
        is_late = ~F.col("_stored") & (F.col("_us") < F.col("_judged_by_us"))
        ends.append(F.when(is_late & ~F.coalesce("_is_there", F.lit(False)), F.col("_us")))
        both = both.withColumn("_is_there", is_there)
        if GRACE in accepted.columns:
            # So is one that is too late by the current row that its key has now.
            newest_us = F.max(F.when(F.col("_stored") & F.col("_to_us").isNull(), F.col("_us"))).over(of_key)
            both = both.withColumn("_now_us", newest_us)
            ends.append(F.when(is_late & (F.col("_us") < F.col("_now_us") - F.col(GRACE)), F.col("_us")))
    return both.where(_is_kept("_next_us")).withColumn("_end_us", F.least(*ends))


def _was_newest(records: DataFrame) -> Column:
    """Whether a record was no older than anything stored of its key when judged; true without ``_stored_us``."""
    if "_stored_us" not in records.columns:
        return F.lit(True)
    return F.col("_stored_us").isNull() | (F.col("_us") >= F.col("_stored_us"))


def _next_us(spec: VersionedTableSpec) -> Column:
    order = ("_us", F.col("_place").asc_nulls_first(), "_scope")
    return F.lead("_us").over(Window.partitionBy(*spec.keys).orderBy(*order))


def _is_kept(following: str) -> Column:
    # Of several puts at the same instant, the last by place replaces the others (R183).
    return F.col(following).isNull() | (F.col(following) != F.col("_us"))


def changes(stored: DataFrame, accepted: DataFrame, spec: VersionedTableSpec, *, few: bool = False) -> DataFrame:
    """The versions that records add, replace or shorten, in the shape *versions*.

    Args:
        stored: All stored versions from the oldest record on; other keys may be among them.
        accepted: The accepted records.
        spec: The table.
        few: Whether the keys of the records may be broadcast; then only their versions are shuffled.
    """
    touched = stored.join(_sent(accepted.select(*spec.keys), few), list(spec.keys), "left_semi")
    ended = _with_end(touched, accepted, spec)
    changed = ended.where(~F.col("_stored") | ~F.col("_end_us").eqNullSafe(F.col("_to_us")))
    return changed.select(*spec.keys, "_us", F.col("_end_us").alias("_to_us"), "_value")


def _sent(of_batch: DataFrame, few: bool) -> DataFrame:
    """The side of a join with stored rows that comes from the batch: broadcast if there are few records."""
    return F.broadcast(of_batch) if few else of_batch


def _stored_and_batch(stored: DataFrame, batch: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    old = stored.select(*spec.keys, "_us", "_to_us", "_value", F.lit(True).alias("_stored"))
    judged_by = [F.col("_stored_us").alias("_judged_by_us")] if "_stored_us" in batch.columns else []
    judged_by += [F.col(GRACE)] if GRACE in batch.columns else []
    told = (F.lit(False).alias("_stored"), F.when(_was_newest(batch), F.col("_us")).alias("_newest_us"), *judged_by)
    new = batch.select(*spec.keys, "_us", "_value", "_place", "_scope", *told)
    return old.unionByName(new, allowMissingColumns=True)


def _grace(spec: VersionedTableSpec) -> Column:
    return F.lit(spec.grace_us).cast("long")
