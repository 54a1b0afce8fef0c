"""Looking a stream record up in a versioned table *as the table was at the record's place*, within one batch.

A record sees the table's state before the batch and, of the batch itself, exactly the puts before its own place,
never those after it. The stored part is one equi-join with a range condition; the batch's part is a join of the few
keys that both sides touch.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from streams.reasons import EXPIRED, NO_MATCH, TOMBSTONE
from streams.spark.flow import FOUND, PLACE, SCOPE, US, VALUE, lookup_times
from versioned.identifiers import quote
from versioned.put import PutBatch
from versioned.spec import VersionedTableSpec

_AT: Final = "_at_us"
_LONGEST: Final = 2**62
_HELPERS: Final = (
    _AT, "_version", "_later", "_stored_found", "_observed_us", "_current_us", "_batch_newest_us"
)  # fmt: skip


def lookup_versioned(
    stream: DataFrame, spec: VersionedTableSpec, puts: PutBatch, has_puts: bool, oldest_us: int, keys: list[str]
) -> DataFrame:
    """Each stream record with the version valid at its ``_us``, known at its place (R138-R142).

    Args:
        stream: Flat key columns ``keys`` (in the order of the table's), ``_us``, ``_scope``, ``_place`` and others.
        spec: The table.
        puts: The table's puts in this batch and its state before it.
        has_puts: Whether the batch has any.
        oldest_us: The oldest ``_us`` of the stream's records; prunes the closed history that is read.
        keys: The stream's key columns.

    Returns:
        The stream's columns with ``_found`` (value struct or null) and ``_reason`` (null where found).
    """
    found = _stored(stream.withColumn(_AT, F.col(US)), spec, puts, oldest_us, keys)
    if has_puts:
        found = _with_batch(found, spec, puts, keys)
    version = F.col("_version")
    reason = F.when(version.isNull(), NO_MATCH).when(version.getField("value").isNull(), TOMBSTONE)
    if _horizon_may_hide(spec, puts, has_puts, oldest_us):
        found = _with_stream_time(found, spec, puts, has_puts, keys)
        hidden = (F.col(_AT) < F.col("_observed_us") - _retention(spec)) & F.col("_later")
        reason = F.when(hidden, EXPIRED).otherwise(reason)
    value = F.when(F.col("_reason").isNull(), version.getField("value"))
    return found.withColumn("_reason", reason).withColumn(FOUND, value).drop(*_HELPERS)


def _stored(asked: DataFrame, spec: VersionedTableSpec, puts: PutBatch, oldest_us: int, keys: list[str]) -> DataFrame:
    versions = puts.current().unionByName(puts.closed(oldest_us))
    table = versions.select(
        *_renamed(list(spec.keys), keys),
        F.col(US).alias("_from_us"),
        "_to_us",
        F.struct(F.col(US).alias("us"), F.col(VALUE).alias("value")).alias("_version"),
    )
    ahead = F.col("_to_us").isNull() | (F.col(_AT) < F.col("_to_us"))
    valid = (F.col("_from_us") <= F.col(_AT)) & ahead
    same = F.lit(True)
    for name in keys:
        same = same & (F.col(f"a.{quote(name)}") == F.col(f"t.{quote(name)}"))
    joined = asked.alias("a").join(table.alias("t"), same & valid, "left")
    columns = [F.col(f"a.{quote(name)}") for name in asked.columns]
    # A closed version is not the latest of its key.
    closed = F.col("_to_us").isNotNull().alias("_later")
    return joined.select(*columns, "_version", closed, F.col("_from_us").isNotNull().alias("_stored_found"))


def _with_batch(found: DataFrame, spec: VersionedTableSpec, puts: PutBatch, keys: list[str]) -> DataFrame:
    new = puts.judged.where(~F.col("_refused")).select(
        *_renamed(list(spec.keys), keys),
        F.col(US).alias("_new_us"),
        F.col(PLACE).alias("_new_place"),
        F.col(VALUE).alias("_new_value"),
    )
    asked = found.select(*keys, SCOPE, PLACE, _AT)
    pairs = asked.join(new, keys).where(F.col("_new_place") < F.col(PLACE))
    in_time = F.col("_new_us") <= F.col(_AT)
    version = F.when(in_time, F.struct(F.col("_new_us").alias("us"), F.col("_new_value").alias("value")))
    best = pairs.groupBy(SCOPE, PLACE).agg(
        F.max_by(version, F.when(in_time, F.struct("_new_us", "_new_place"))).alias("_batch_version"),
        F.bool_or(~in_time).alias("_batch_later"),
        F.max("_new_us").alias("_batch_newest_us"),
    )
    newer = F.col("_batch_version").getField("us") >= F.col("_version").getField("us")
    use_batch = F.col("_batch_version").isNotNull() & (F.col("_version").isNull() | newer)
    return (
        found.join(best, [SCOPE, PLACE], "left")
        .withColumn("_version", F.when(use_batch, F.col("_batch_version")).otherwise(F.col("_version")))
        .withColumn("_later", F.col("_later") | F.coalesce("_batch_later", F.lit(False)))
        .drop("_batch_version", "_batch_later")
    )


def _horizon_may_hide(spec: VersionedTableSpec, puts: PutBatch, has_puts: bool, oldest_us: int) -> bool:
    times = puts.stream_times if has_puts else puts.observed
    if spec.time_scope == "key":
        return True
    return any(oldest_us < us - spec.history_retention_us for us in times.values())


def _with_stream_time(
    found: DataFrame, spec: VersionedTableSpec, puts: PutBatch, has_puts: bool, keys: list[str]
) -> DataFrame:
    """Add the table's stream time at each record's place, and whether the key has any later version."""
    current = puts.current().select(*_renamed(list(spec.keys), keys), F.col(US).alias("_current_us"))
    known = found.join(current, keys, "left").withColumn(
        "_later", F.col("_later") | (~F.col("_stored_found") & F.col("_current_us").isNotNull())
    )
    if spec.time_scope == "key":
        newest = F.greatest("_current_us", "_batch_newest_us") if has_puts else F.col("_current_us")
        return known.withColumn("_observed_us", newest)
    before = lookup_times(puts.observed)
    if not has_puts:
        return known.withColumn("_observed_us", before)
    moved = puts.judged.where(~F.col("_refused")).select(SCOPE, PLACE, F.col(US).alias("_put_us"))
    both = known.withColumn("_asks", F.lit(True)).unionByName(moved, allowMissingColumns=True)
    so_far = Window.partitionBy(SCOPE).orderBy(PLACE).rowsBetween(Window.unboundedPreceding, 0)
    timed = both.withColumn("_observed_us", F.greatest(before, F.max("_put_us").over(so_far)))
    return timed.where(F.col("_asks")).drop("_asks", "_put_us")


def _retention(spec: VersionedTableSpec) -> Column:
    return F.lit(min(spec.history_retention_us, _LONGEST)).cast("long")


def _renamed(names: list[str], to: list[str]) -> list[Column]:
    return [F.col(name).alias(new) for name, new in zip(names, to, strict=True)]
