"""The rules of a put, set-wise: DataFrame to DataFrame, no input or output.

The same rules record by record are in ``versioned.store_rules``; a property test ties the two.

Shapes (columns beside the key columns, which keep their names; ``_us`` is an instant in microseconds):

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

#: What a put says of a record, as ``Outcome.result`` does; a key may be called as the column that callers see.
PUT_RESULT: Final = "_put_result"
#: Beside accepted records: how late they may be by the stream time that their key has when they are written, in
#: microseconds.
GRACE: Final = "_grace_us"
_BEFORE: Final = (Window.unboundedPreceding, -1)
_IS_CLOSED: Final = "_to_us IS NOT NULL"


def value_struct(values: tuple[str, ...]) -> Column:
    """The value columns as one struct; a table without value columns has only a presence mark."""
    return F.struct(*map(F.col, values)) if values else present()


def present() -> Column:
    """The value of a table without value columns: that it is there."""
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
    """The shape *versions* as rows of the table."""
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
    """Keys as records of a put: the values null, and ``_dead``.

    Args:
        keys: They have the key columns and those named.
        columns: The columns of the table.
        spec: The table.
        named: Of other columns the name that each is to have, and the one that it has, which may be a value's too.
    """
    own = (F.col(quote(name)).alias(to) for to, name in named.items() if name is not None)
    values = (F.lit(None).cast(columns[name].dataType).alias(name) for name in spec.values)
    return keys.select(*map(quote, spec.keys), *own, *values, F.lit(True).alias("_dead"))


def replaced_values(outcomes: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """What ``VersionedTable.delete`` tells: keys, ``ts``, ``put_result``, and the version that was valid there.

    Args:
        outcomes: As of :func:`outcomes`.
        spec: The table.
    """
    value = F.col("_old").getField("value")
    record = (F.timestamp_micros("_us"), F.col(PUT_RESULT))
    told = (*map(F.col, spec.keys), *record, replaced_since(), *map(value.getField, spec.values))
    return outcomes.select(*(column.alias(name) for column, name in zip(told, replaced_names(spec), strict=True)))


def replaced_names(spec: VersionedTableSpec) -> list[str]:
    """What the columns of :func:`replaced_values` are called, no two alike.

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
    """Since when ``_old`` of a judged record held; null where that is a tombstone, which told no value."""
    was = F.col("_old")
    return F.when(was.getField("value").isNotNull(), F.timestamp_micros(was.getField("us")))


def in_resolution(us: Column, spec: VersionedTableSpec) -> Column:
    """An instant as an integer in the table's resolution (exact: instants are floored already)."""
    unit = spec.time_resolution.value
    # Longs would be divided as doubles, which cannot tell far instants apart.
    return us if unit == 1 else (us.cast("decimal(20,0)") / F.lit(unit)).cast("long")


def refuse_late(
    records: DataFrame, observed: DataFrame, current: DataFrame, spec: VersionedTableSpec, *, by_time: bool
) -> DataFrame:
    """Mark each record that is older than stream time minus grace *at its place* (R182).

    A refused record never moves stream time; since it lies below it, the plain running maximum says the same.

    Args:
        records: All valid records of the batch.
        observed: (``_scope``, ``_observed_us``): stream time before the batch; scopes not seen yet are absent.
        current: The stored current versions, read only when stream time is per key.
        spec: The table.
        by_time: Whether the records are in the order of their instants: then none is late by another one of the batch,
            and they need not be put in order, by one task for each scope.
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
        scope: What has a stream time of its own.
        spec: The table.
        us: What moves it; null in rows that do not.
    """
    # Records of several scopes that have one stream time may be at the same place.
    order = Window.partitionBy(*scope).orderBy("_place", "_scope").rowsBetween(*_BEFORE)
    return F.greatest(_before_batch(observed_us, spec), F.max(us).over(order))


def _before_batch(observed_us: Column, spec: VersionedTableSpec) -> Column:
    return F.greatest(observed_us, F.lit(spec.first_stream_time_us).cast("long"))


def horizon_at(stream_us: Column, spec: VersionedTableSpec) -> Column:
    """The first instant that is not refused at a stream time; instants and stream time need not be floored."""
    oldest = floor_to_resolution(stream_us, spec) - _grace(spec)
    return oldest + F.pmod(-oldest, F.lit(spec.time_resolution.value))


def accept_all(records: DataFrame) -> DataFrame:
    """The same shape as :func:`refuse_late` when nothing in the batch can be late."""
    return records.withColumn("_refused", F.lit(False)).withColumn("_stream_us", F.lit(None).cast("long"))


def judge(
    timed: DataFrame, current: DataFrame | None, spec: VersionedTableSpec, *, few: bool = False, with_old: bool = True
) -> DataFrame:
    """Tell for each accepted record whether it is the latest of its key at its place, and what it replaces.

    One window by key over the stored current rows of the batch's keys and the batch: no closed history is read.

    Args:
        timed: The batch, as :func:`refuse_late` or :func:`accept_all` gives it.
        current: The stored current versions; None if all of them are known to begin before the batch.
        spec: The table.
        few: Whether the batch's keys may be sent to every task; then the current rows are not shuffled.
        with_old: Whether what a record replaces is told, as ``_old`` and ``_is_again``; else only instants are read and
            compared.
    """
    keys = list(spec.keys)
    both = timed.withColumn("_stored", F.lit(False))
    if current is not None:
        stored = current.select(*keys, "_us", *(["_value"] if with_old else []), F.lit(True).alias("_stored"))
        touched = stored.join(_sent(timed.select(*keys), few), keys, "left_semi")
        both = both.unionByName(touched, allowMissingColumns=True)
    # Refused records change nothing: they take part without an instant.
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
    """put_result, old value and validTo of every judged record.

    Args:
        judged: The batch.
        known: Stored versions (current and closed) of the keys that have out-of-order records, as far back as
            needed; None when the batch has no out-of-order record.
        spec: The table.
        many: Whether out-of-order records are too many to be compared with all records of their keys.

    Returns:
        judged + ``_put_result`` (R172-R174) and ``_old`` struct(us, value) also for out-of-order records.
    """
    in_order = judged.withColumn(
        PUT_RESULT, F.when(F.col("_refused"), F.lit(REFUSED)).when(F.col("_is_latest"), F.lit(LATEST)).cast("long")
    ).withColumn("_old", F.when(~F.col("_refused"), F.col("_old")))
    if known is None:
        return in_order.drop("_is_again")
    # What is found for records at one place, which are equal, is what was there before the first of them.
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
    """What a record makes valid, and since when."""
    return F.struct(F.col("_us").alias("us"), F.col("_value").alias("value"))


def _splices(judged: DataFrame, known: DataFrame, spec: VersionedTableSpec, *, many: bool) -> DataFrame:
    """For each out-of-order record: the version before it and the start of the one after it, at its place."""
    columns = (*spec.keys, "_us", "_value")
    is_late = (~F.col("_is_latest")).alias(neighbours.LATE)
    # At one place of several scopes, the scope tells which record is first.
    place = F.struct("_place", "_scope").alias("_place")
    accepted = judged.where(~F.col("_refused")).select(*columns, "_scope", place, is_late)
    find = neighbours.among_blocks if many else neighbours.among_all
    found = find(accepted, known.select(*columns), spec)
    return found.withColumn("_place", F.col("_place").getField("_place"))


def next_current(current: DataFrame, accepted: DataFrame, spec: VersionedTableSpec, *, few: bool) -> DataFrame:
    """The current rows after the batch together with the rows that close in it, in the shape *versions*.

    The stored rows are read once: each ends where the first record of its key begins, the others go from scan to write
    as they are. The records follow one another by themselves. Those older than the stored current row of their key are
    left out: they are spliced into closed history by :func:`next_closed`.

    Args:
        current: The stored current versions.
        accepted: The accepted records, with ``_stored_us``; without it, all are known to be no older than what is
            stored.
        spec: The table.
        few: Whether the instants of the batch may be sent to every task; then the stored rows are not shuffled.
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
    """The closed rows after the batch that were closed before it or are records of it, in the shape *versions*.

    What :func:`changes` tells of them, and the closed versions between that stay.

    Args:
        closed: Stored closed versions; of the keys of late records all that end after the oldest of these.
        current: The stored current versions, by which the last of these records end; of them only starts are read.
        late: Accepted records older than the stored current row of their key.
        spec: The table.
        few: Whether the keys of late records may be sent to every task; then only their versions are shuffled.
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
    """Where current versions begin, in the shape *versions*, without what they say."""
    said_nothing = F.lit(None).cast(current.schema["_value"].dataType).alias("_value")
    return current.select(*spec.keys, "_us", F.lit(None).cast("long").alias("_to_us"), said_nothing)


def next_versions(stored: DataFrame, accepted: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Stored versions and the accepted records after the batch, in the shape *versions*.

    Args:
        stored: Of each key of the batch all stored versions from its oldest record on.
        accepted: The accepted records.
        spec: The table.
    """
    ended = _with_end(stored, accepted, spec)
    return ended.select(*spec.keys, "_us", F.col("_end_us").alias("_to_us"), "_value")


def _with_end(stored: DataFrame, accepted: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Both, with ``_end_us``, without those that are replaced."""
    of_key = Window.partitionBy(*spec.keys)
    both = _stored_and_batch(stored, accepted, spec).withColumn("_next_us", _next_us(spec))
    # As in :func:`next_current`: a current row that came after a record that was the newest when it was judged ends
    # before it begins, which the table refuses. It may have closed a row that is not among these.
    first_us = F.min("_newest_us").over(of_key)
    too_new = F.col("_stored") & F.col("_to_us").isNull() & (F.col("_us") > first_us)
    # A stored version never grows: what followed it may have been purged.
    ends = [F.col("_to_us"), F.col("_next_us"), F.when(too_new, first_us)]
    if "_stored_us" in accepted.columns:
        both = both.withColumn("_judged_by_us", F.max("_judged_by_us").over(of_key))
        is_there = F.max(F.col("_stored") & (F.col("_us") == F.col("_judged_by_us"))).over(of_key)
        # Nor is there a place for a late record whose key's current row was purged since: it ends as it begins.
        is_late = ~F.col("_stored") & (F.col("_us") < F.col("_judged_by_us"))
        ends.append(F.when(is_late & ~F.coalesce("_is_there", F.lit(False)), F.col("_us")))
        both = both.withColumn("_is_there", is_there)
        if GRACE in accepted.columns:
            # Or for one that is too late by the current row that its key has now.
            newest_us = F.max(F.when(F.col("_stored") & F.col("_to_us").isNull(), F.col("_us"))).over(of_key)
            both = both.withColumn("_now_us", newest_us)
            ends.append(F.when(is_late & (F.col("_us") < F.col("_now_us") - F.col(GRACE)), F.col("_us")))
    return both.where(_is_kept("_next_us")).withColumn("_end_us", F.least(*ends))


def _was_newest(records: DataFrame) -> Column:
    """Whether a record was no older than all that was stored of its key when it was judged; all were, if not told."""
    if "_stored_us" not in records.columns:
        return F.lit(True)
    return F.col("_stored_us").isNull() | (F.col("_us") >= F.col("_stored_us"))


def _next_us(spec: VersionedTableSpec) -> Column:
    order = ("_us", F.col("_place").asc_nulls_first(), "_scope")
    return F.lead("_us").over(Window.partitionBy(*spec.keys).orderBy(*order))


def _is_kept(following: str) -> Column:
    # Of several puts at one instant the last by place replaces the others (R183).
    return F.col(following).isNull() | (F.col(following) != F.col("_us"))


def changes(stored: DataFrame, accepted: DataFrame, spec: VersionedTableSpec, *, few: bool = False) -> DataFrame:
    """The versions that records add, replace or shorten, in the shape *versions*.

    Args:
        stored: All stored versions from the oldest record on, of other keys too.
        accepted: The accepted records.
        spec: The table.
        few: Whether the keys of the records may be sent to every task; then only their versions are shuffled.
    """
    touched = stored.join(_sent(accepted.select(*spec.keys), few), list(spec.keys), "left_semi")
    ended = _with_end(touched, accepted, spec)
    changed = ended.where(~F.col("_stored") | ~F.col("_end_us").eqNullSafe(F.col("_to_us")))
    return changed.select(*spec.keys, "_us", F.col("_end_us").alias("_to_us"), "_value")


def _sent(of_batch: DataFrame, few: bool) -> DataFrame:
    """What is joined with the stored rows: of few records it is sent to every task."""
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
