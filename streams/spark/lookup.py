"""Looks stream records up in a versioned table *as the table was at the record's place*, within one batch.

A record sees the table's state before the batch and, of the batch itself, exactly the puts before its own place, never
those after it.

If there are many records, most are paired with stored versions (``lookup_pairs.py``). Otherwise everything about a key
is put on one timeline, ordered by event time: the stored versions, the batch's puts and the asking records. One sort of
that line answers nearly every record: its version is the last one before it, however many versions and records a key
has. Only a record whose last put on the line came *after* it is looked up among the puts separately.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, Window

from streams.reasons import EXPIRED, NO_MATCH, TOMBSTONE
from streams.spark.flow import FOUND, PLACE, REASON, SCOPE, US, VALUE, lookup_times, place_among_scopes, stream_time_at
from streams.spark.key_types import with_keys_as
from streams.spark.lookup_pairs import STORED, version, with_versions
from streams.spark.of_keys import Amount
from versioned import spark_functions as F
from versioned.identifiers import quote
from versioned.neighbours import newest_before
from versioned.put import PutBatch
from versioned.spec import VersionedTableSpec

#: Columns of a point on the timeline: its instant, its kind, and its place in the batch.
_AT, _KIND, _AT_PLACE = "_at_us", "_kind", "_at_place"
#: At one instant, versions come before the records that ask for them.
_IS_STORED, _IS_PUT, _IS_ASK = 0, 1, 2
_ASK, _PUT = "_ask", "_put"
_VERSION, _LATER, _CURRENT_US, _OBSERVED_US = "_version", "_later", "_current_us", "_observed_us"
_LATER_PLACE, _NEWEST_US, _BEST, _PUT_PLACE = "_later_place", "_newest_us", "_best", "_put_place"
#: Column: the rank that decides between several puts of one instant.
_RANK: Final = "_rank"
_HELPERS: Final = (STORED, _PUT, _VERSION, _LATER, _CURRENT_US, _OBSERVED_US, _LATER_PLACE, _NEWEST_US)
#: With more puts in a batch, records that came before their latest put are sorted with the puts, not joined.
MANY_PUTS: Final = 1_000
_Find = Callable[[DataFrame, DataFrame, list[str]], DataFrame]


def lookup_versioned(
    stream: DataFrame,
    spec: VersionedTableSpec,
    puts: PutBatch,
    has_puts: bool,
    oldest_us: int,
    keys: list[str],
    cut: Callable[[DataFrame], DataFrame],
    amount: Amount,
    *,
    sends: Callable[[], bool],
    across: bool,
) -> DataFrame:
    """Each stream record with the version valid at its ``_us``, known at its place (R138-R142).

    Args:
        stream: Flat key columns ``keys`` (in the order of the table's), ``_us``, ``_scope``, ``_place`` and others.
        spec: The table's contract.
        puts: The table's puts in this batch and its state before it.
        has_puts: Whether the batch has any puts.
        oldest_us: The oldest ``_us`` of the stream's records; limits the closed history that is read.
        keys: The stream's key columns.
        cut: Computes a frame once (:meth:`Batch.cut <streams.spark.operator.Batch.cut>`).
        amount: How many records the stream has: for few, only versions of their keys are shuffled; for many, most are
            paired with versions (:mod:`streams.spark.lookup_pairs`).
        sends: Whether to broadcast keys and instants of many records, so that only versions which one of them finds are
            shuffled; called only if records are paired.
        across: Whether the slowest of the table's stream times counts instead of that of a record's scope.

    Returns:
        The stream's columns with ``_found`` (value struct or null) and ``_reason`` (null where found).
    """
    hides = _horizon_may_hide(spec, puts, has_puts, oldest_us)
    stored = with_keys_as(puts.current().unionByName(puts.closed(oldest_us)), spec.keys, stream, keys)
    new = with_keys_as(_accepted(puts), spec.keys, stream, keys) if has_puts else None
    if amount == "many" and not hides:
        lines = partial(_lined, spec=spec, keys=keys)
        found = with_versions(stream, stored, keys, spec.keys, cut, lines, sends=sends())
        if new is not None:
            found = _last_before(_line(found, None, new, spec, keys), len(keys), (_PUT,), False, spec)
    else:
        line = _line(stream, stored, new, spec, keys, few=amount == "few")
        found = _last_before(line, len(keys), (STORED, _PUT) if has_puts else (STORED,), hides, spec)
    if new is not None:
        find = _among_blocks if puts.counts.accepted > MANY_PUTS else _among_all
        found = _only_puts_before(cut(found), spec, new, keys, find)
    found = _with_version(found, has_puts)
    best = F.col(_VERSION)
    reason = F.when(best.isNull(), NO_MATCH).when(best.getField("value").isNull(), TOMBSTONE)
    if hides:
        found = _with_stream_time(found, spec, puts, has_puts, cut, across=across)
        hidden = (F.col(US) < F.col(_OBSERVED_US) - _retention(spec)) & F.col(_LATER)
        reason = F.when(hidden, EXPIRED).otherwise(reason)
    value = F.when(F.col(REASON).isNull(), best.getField("value"))
    return found.withColumn(REASON, reason).withColumn(FOUND, value).drop(*_HELPERS)


def _lined(stream: DataFrame, stored: DataFrame, spec: VersionedTableSpec, keys: list[str]) -> DataFrame:
    """The asking records with the last stored version at or before their instant."""
    return _last_before(_line(stream, stored, None, spec, keys), len(keys), (STORED,), False, spec)


def _line(
    stream: DataFrame,
    stored: DataFrame | None,
    puts: DataFrame | None,
    spec: VersionedTableSpec,
    keys: list[str],
    *,
    few: bool = False,
) -> DataFrame:
    """The timeline: stored versions, puts and asking records as points in time of their keys."""
    line = asks = _points(stream, keys, _IS_ASK, F.col(PLACE), F.struct("*").alias(_ASK))
    if stored is not None:
        versions = _points(stored, spec.keys, _IS_STORED, F.lit(None).cast("array<bigint>"), version())
        if few:
            named = [f"_k{number}" for number in range(len(keys))]
            versions = versions.join(F.broadcast(asks.select(*named)), named, "left_semi")
        line = line.unionByName(versions, allowMissingColumns=True)
    if puts is not None:
        put = F.struct(F.col(US).alias("us"), F.col(VALUE).alias("value"), F.col(PLACE).alias("place")).alias(_PUT)
        # Of puts at the same place, the table keeps the one of the greatest scope.
        new = _points(puts, spec.keys, _IS_PUT, place_among_scopes(), put)
        line = line.unionByName(new, allowMissingColumns=True)
    return line


def _points(frame: DataFrame, keys: list[str] | tuple[str, ...], kind: int, place: Column, what: Column) -> DataFrame:
    # Numbered names, since the stream's key fields may have other names than the table's.
    named = [F.col(quote(name)).alias(f"_k{number}") for number, name in enumerate(keys)]
    return frame.select(*named, F.col(US).alias(_AT), F.lit(kind).alias(_KIND), place.alias(_AT_PLACE), what)


def _last_before(
    line: DataFrame, width: int, sought: tuple[str, ...], hides: bool, spec: VersionedTableSpec
) -> DataFrame:
    """The asking records with the last stored version, the last put, or both, at or before their instant."""
    of_key = Window.partitionBy(*(f"_k{number}" for number in range(width)))
    before = (Window.unboundedPreceding, 0)
    by_time = of_key.orderBy(_AT, _KIND, _AT_PLACE).rowsBetween(*before)
    told = {name: F.last(name, ignorenulls=True).over(by_time) for name in sought}
    if hides:
        current = F.when(F.col(STORED).getField("to_us").isNull(), F.col(STORED).getField("us"))
        told[_CURRENT_US] = F.max(current).over(of_key)
    if hides and _PUT in sought:
        # The first place at which the batch put a later version; and the key's newest ts at the record's place.
        from_the_end = of_key.orderBy(F.desc(_AT), F.desc(_KIND)).rowsBetween(*before)
        told[_LATER_PLACE] = F.min(F.col(_PUT).getField("place")).over(from_the_end)
        if spec.time_scope == "key":
            by_place = of_key.orderBy(_AT_PLACE, F.desc(_KIND)).rowsBetween(*before)
            told[_NEWEST_US] = F.max(F.col(_PUT).getField("us")).over(by_place)
    asked = line.withColumns(told).where(F.col(_KIND) == _IS_ASK)
    return asked.select(f"{_ASK}.*", *told)


def _only_puts_before(
    found: DataFrame, spec: VersionedTableSpec, puts: DataFrame, keys: list[str], find: _Find
) -> DataFrame:
    """Replace puts that came after their record by the last one that came before it."""
    came_after = F.coalesce(F.col(_PUT).getField("place") >= F.col(PLACE), F.lit(False))
    put = F.struct(F.col(_PUT).getField("us").alias("us"), F.col(_PUT).getField("value").alias("value"))
    known = found.where(~came_after).withColumn(_PUT, F.when(F.col(_PUT).isNotNull(), put))
    unknown = found.where(came_after).drop(_PUT)
    new = puts.select(
        *(F.col(quote(name)).alias(to) for name, to in zip(spec.keys, keys, strict=True)),
        US,
        PLACE,
        VALUE,
        place_among_scopes().alias(_RANK),
    )
    best = find(unknown.select(*keys, SCOPE, PLACE, US), new, keys)
    return known.unionByName(unknown.join(best, [SCOPE, PLACE], "left"))


def _among_all(asks: DataFrame, puts: DataFrame, keys: list[str]) -> DataFrame:
    """The puts found by comparing each record with all puts of its key: ``_scope _place _put``."""
    put = F.struct(F.col(US).alias("us"), F.col(VALUE).alias("value")).alias(_BEST)
    pairs = asks.join(puts.select(*keys, put, F.col(PLACE).alias(_PUT_PLACE), _RANK), keys)
    # Compare whole places: after a fork, a record's place has further parts, so it comes after its own put.
    in_time = (F.col(_PUT_PLACE) < F.col(PLACE)) & (F.col(_BEST).getField("us") <= F.col(US))
    newest = F.max_by(_BEST, F.struct(F.col(_BEST).getField("us"), F.col(_RANK)))
    return pairs.where(in_time).groupBy(SCOPE, PLACE).agg(newest.alias(_PUT))


def _among_blocks(asks: DataFrame, puts: DataFrame, keys: list[str]) -> DataFrame:
    """The same by sorting: for a key with very many records and puts, the pairs would be their product."""
    return newest_before(asks, puts, keys).select(SCOPE, PLACE, F.col("_pred").alias(_PUT))


def _with_version(found: DataFrame, has_puts: bool) -> DataFrame:
    """Add the version that is valid for the record, and whether its key has a later one."""
    stored, until = F.col(STORED), F.col(STORED).getField("to_us")
    is_valid = stored.isNotNull() & (until.isNull() | (F.col(US) < until))
    valid = F.when(is_valid, F.struct(stored.getField("us").alias("us"), stored.getField("value").alias("value")))
    found = found.withColumns({_VERSION: valid, _LATER: is_valid & until.isNotNull()})
    if _CURRENT_US in found.columns:
        # No version was valid then, but one is current: that one is later.
        found = found.withColumn(_LATER, F.col(_LATER) | (F.col(_VERSION).isNull() & F.col(_CURRENT_US).isNotNull()))
    if not has_puts:
        return found
    put = F.col(_PUT)
    is_newer = put.isNotNull() & (F.col(_VERSION).isNull() | (put.getField("us") >= F.col(_VERSION).getField("us")))
    found = found.withColumn(_VERSION, F.when(is_newer, put).otherwise(F.col(_VERSION)))
    if _LATER_PLACE not in found.columns:
        return found
    return found.withColumn(_LATER, F.col(_LATER) | F.coalesce(F.col(_LATER_PLACE) < F.col(PLACE), F.lit(False)))


def _horizon_may_hide(spec: VersionedTableSpec, puts: PutBatch, has_puts: bool, oldest_us: int) -> bool:
    times = puts.stream_times if has_puts else puts.observed
    if spec.time_scope == "key":
        return True
    return any(oldest_us < us - spec.history_retention_us for us in times.values())


def _with_stream_time(
    found: DataFrame,
    spec: VersionedTableSpec,
    puts: PutBatch,
    has_puts: bool,
    cut: Callable[[DataFrame], DataFrame],
    *,
    across: bool,
) -> DataFrame:
    """Add the table's stream time at each record's place."""
    if spec.time_scope == "key":
        newest = F.greatest(_CURRENT_US, _NEWEST_US) if has_puts else F.col(_CURRENT_US)
        return found.withColumn(_OBSERVED_US, newest)
    # Records keep their own scopes, even if the table has a single stream time.
    across = across or spec.time_scope == "store"
    slowest = F.lit(min(puts.observed.values(), default=None)).cast("long")
    before, scope = (slowest, F.lit(0)) if across else (lookup_times(puts.observed), F.col(SCOPE))
    if not has_puts:
        return found.withColumn(_OBSERVED_US, before)
    if across and len(puts.stream_times) > 1:
        return _with_slowest(cut(found), spec, puts)
    both = found.withColumn("_asks", F.lit(True)).unionByName(_moved(puts), allowMissingColumns=True)
    timed = both.withColumn(_OBSERVED_US, stream_time_at(before, "_put_us", scope))
    return timed.where(F.col("_asks")).drop("_asks", "_put_us")


def _with_slowest(found: DataFrame, spec: VersionedTableSpec, puts: PutBatch) -> DataFrame:
    """Add the least of several stream times at each record's place; null where none can hide a version."""
    newest_us = max(puts.stream_times.values())
    asks = found.where(F.col(US) < newest_us - spec.history_retention_us)
    scopes = F.from_json(F.lit(str([*puts.stream_times])), "ARRAY<INT>")
    of_each = asks.select(PLACE, F.col(SCOPE).alias("_asks"), F.explode(scopes).alias(SCOPE))
    both = of_each.unionByName(_moved(puts), allowMissingColumns=True)
    timed = both.withColumn(_OBSERVED_US, stream_time_at(lookup_times(puts.observed), "_put_us"))
    asked = timed.where(F.col("_asks").isNotNull()).groupBy(F.col("_asks").alias(SCOPE), PLACE)
    # A partition from which nothing has come yet does not count.
    return found.join(asked.agg(F.min(_OBSERVED_US).alias(_OBSERVED_US)), [SCOPE, PLACE], "left")


def _moved(puts: PutBatch) -> DataFrame:
    """The instants and places of the puts that advance the table's stream times in the batch."""
    return _accepted(puts).select(SCOPE, PLACE, F.col(US).alias("_put_us"))


def _accepted(puts: PutBatch) -> DataFrame:
    return puts.judged.where(~F.col("_refused"))


def _retention(spec: VersionedTableSpec) -> Column:
    return F.lit(spec.history_retention_us).cast("long")
