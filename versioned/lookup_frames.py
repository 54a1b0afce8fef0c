"""Reading versions, DataFrame to DataFrame: current, as of an instant, between two, and looked up per row.

``rows`` are stored rows of a versioned table (``versioned.spec``); ``horizon`` is the oldest instant whose lookups are
promised (stream time minus history retention), as a Column of ``rows`` or of the looked-up frame, or None for no limit.
Older lookups find only the latest version, if it was valid already (R184: the latest version never expires).
"""

from __future__ import annotations

from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from versioned.identifiers import quote
from versioned.spec import CURRENT, DELETED, VersionedTableSpec

NO_MATCH: Final = "NO_MATCH"
TOMBSTONE: Final = "TOMBSTONE"
EXPIRED: Final = "EXPIRED"
How = Literal["inner", "left"]


def visible(rows: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Stored rows without the library's own columns; tombstones left out."""
    columns = [*spec.keys, spec.valid_from, spec.valid_to, *spec.values]
    return rows.where(~F.col(DELETED)).select(*map(quote, columns))


def current_frame(rows: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """The latest version of each key that is not deleted."""
    return visible(rows.where(F.col(CURRENT)), spec)


def as_of_frame(rows: DataFrame, spec: VersionedTableSpec, at: Column, horizon: Column | None = None) -> DataFrame:
    """The version of each key that was valid at an instant."""
    start, end = F.col(quote(spec.valid_from)), F.col(quote(spec.valid_to))
    valid = (start <= at) & (end.isNull() | (at < end))
    if horizon is not None:
        valid = valid & (end.isNull() | F.coalesce(at >= horizon, F.lit(True)))
    return visible(rows.where(valid), spec)


def between_frame(rows: DataFrame, spec: VersionedTableSpec, start: Column | None, end: Column | None) -> DataFrame:
    """Every stored version valid at some instant of [start, end], the one that began before ``start`` included."""
    kept = rows
    if end is not None:
        kept = kept.where(F.col(quote(spec.valid_from)) <= end)
    if start is not None:
        until = F.col(quote(spec.valid_to))
        kept = kept.where(until.isNull() | (until > start))
    return visible(kept, spec)


def lookup_frame(
    asked: DataFrame,
    rows: DataFrame,
    spec: VersionedTableSpec,
    at: str,
    how: How = "left",
    horizon: Column | None = None,
) -> DataFrame:
    """Each row of ``asked`` with the version of its key that was valid at its instant.

    One equi-join with a range condition; closed history is read only from the oldest instant asked for on, where the
    caller prunes it.

    Args:
        asked: Has the key columns and ``at``; its other columns must not be named as the table's.
        rows: The table's stored rows.
        spec: The table.
        at: Name of the timestamp column.
        how: ``inner`` leaves out what finds nothing; ``left`` keeps it, with nulls.
        horizon: Column of ``asked``, or a literal.

    Returns:
        asked + value columns, validFrom, validTo and ``reason``: null where found, else ``NO_MATCH``, ``TOMBSTONE``
        (the key was deleted then) or ``EXPIRED`` (older than the history, and the key has later versions only).
    """
    instant = F.col(f"a.{quote(at)}")
    start, end = F.col(f"t.{quote(spec.valid_from)}"), F.col(f"t.{quote(spec.valid_to)}")
    same_key = F.lit(True)
    for name in spec.keys:
        same_key = same_key & (F.col(f"a.{quote(name)}") == F.col(f"t.{quote(name)}"))
    limit = None if horizon is None else asked.withColumn("_horizon", horizon)
    left = (asked if limit is None else limit).alias("a")
    found = left.join(rows.alias("t"), same_key & (start <= instant) & (end.isNull() | (instant < end)), "left")
    found = found.select(
        "a.*", *(F.col(f"t.{quote(name)}") for name in _told(spec)), F.col(f"t.{DELETED}").alias("_dead")
    )
    reason = F.when(F.col("_dead").isNull(), NO_MATCH).when(F.col("_dead"), TOMBSTONE)
    if limit is not None:
        found = _with_later(found, rows, spec)
        too_old = F.coalesce(F.col(quote(at)) < F.col("_horizon"), F.lit(False))
        closed = F.col("_dead").isNotNull() & F.col(quote(spec.valid_to)).isNotNull()
        later_only = F.col("_dead").isNull() & F.col("_has_current")
        reason = F.when(too_old & (closed | later_only), EXPIRED).otherwise(reason)
    told = found.withColumn("reason", reason)
    hidden = [F.when(F.col("reason").isNull(), F.col(quote(name))).alias(name) for name in _told(spec)]
    kept = told if how == "left" else told.where(F.col("reason").isNull())
    return kept.select(*(F.col(quote(name)) for name in asked.columns), *hidden, "reason")


def _told(spec: VersionedTableSpec) -> list[str]:
    return [*spec.values, spec.valid_from, spec.valid_to]


def _with_later(found: DataFrame, rows: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Mark the rows whose key is in the table at all."""
    keys = rows.where(F.col(CURRENT)).select(*map(quote, spec.keys), F.lit(True).alias("_current_key"))
    joined = found.join(keys, list(spec.keys), "left")
    return joined.withColumn("_has_current", F.coalesce("_current_key", F.lit(False))).drop("_current_key")
