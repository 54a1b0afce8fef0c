"""Reads versions, DataFrame to DataFrame: current, as of an instant, between two instants, and looked up per row.

``rows`` are stored rows of a versioned table (``versioned.spec``). The *horizon* is the oldest instant whose lookups
are promised: stream time minus history retention. It is one instant for the table or, with ``time_scope="key"``, one
per key, derived from the key's own latest version. Older lookups find only the latest version, if it was already valid
(R184: the latest version never expires). The result does not depend on whether history was purged.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import reduce
from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StringType

from versioned import spark_functions as F
from versioned.asked_keys import asked_keys, check_asked
from versioned.choices import check_choice
from versioned.durations import instant_us
from versioned.errors import SchemaError
from versioned.frame_checks import check_column_names, check_frame, check_instants
from versioned.identifiers import beside, named_twice, quote
from versioned.spec import CURRENT, DELETED, VersionedTableSpec

NO_MATCH: Final = "NO_MATCH"
TOMBSTONE: Final = "TOMBSTONE"
EXPIRED: Final = "EXPIRED"
REASON: Final = "reason"
How = Literal["inner", "left"]

#: Column with the horizon of a row; null if there is none yet.
HORIZON: Final = "_horizon"
_DEAD: Final = "_dead"
_WHY: Final = "_why"
_LATEST_FROM: Final = "_latest_from"


def visible(rows: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Stored rows without tombstones and without the library's own columns."""
    return rows.where(~F.col(DELETED)).select(*map(quote, spec.shown))


def instant_column(at: datetime) -> Column:
    """An instant (naive = UTC) as a literal."""
    return F.timestamp_micros(F.lit(instant_us(at)))


def bound_column(at: datetime | None) -> Column | None:
    """Like :func:`instant_column`; None = no bound."""
    return None if at is None else instant_column(at)


def valid_at(spec: VersionedTableSpec, at: Column, alias: str = "") -> Column:
    """Whether a row is valid at an instant, however old; ``alias`` qualifies its columns, as in ``t.``."""
    start, end = F.col(f"{alias}{quote(spec.valid_from)}"), F.col(f"{alias}{quote(spec.valid_to)}")
    return (start <= at) & (end.isNull() | (at < end))


def current_frame(rows: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """The latest version of each key that is not deleted (Kafka: ``get(key)``)."""
    return visible(rows.where(F.col(CURRENT)), spec)


def as_of_frame(rows: DataFrame, spec: VersionedTableSpec, at: Column, horizon: Column | None = None) -> DataFrame:
    """The version of each key that was valid at an instant (Kafka: ``get(key, asOf)``).

    Args:
        rows: The table's stored rows.
        spec: The table.
        at: The instant.
        horizon: The horizon of all keys, or None for no limit; with ``time_scope="key"`` each key's own is used.
    """
    valid = rows.where(valid_at(spec, at))
    if spec.time_scope == "key":
        valid = valid.join(key_horizons(rows, spec), list(spec.keys), "left")
        horizon = F.col(HORIZON)
    if horizon is not None:
        valid = valid.where(F.col(quote(spec.valid_to)).isNull() | F.coalesce(at >= horizon, F.lit(True)))
    return visible(valid, spec)


def between_frame(rows: DataFrame, spec: VersionedTableSpec, start: Column | None, end: Column | None) -> DataFrame:
    """Every stored version valid at some instant of [start, end], the one that began before ``start`` included.

    Complete from the horizon on; older versions are included until they are purged (Kafka: MultiVersionedKeyQuery).
    """
    return visible(rows_between(rows, spec, start, end), spec)


def rows_between(rows: DataFrame, spec: VersionedTableSpec, start: Column | None, end: Column | None) -> DataFrame:
    """The stored rows behind :func:`between_frame`, unchanged and with tombstones."""
    if end is not None:
        rows = rows.where(F.col(quote(spec.valid_from)) <= end)
    if start is not None:
        until = F.col(quote(spec.valid_to))
        rows = rows.where(until.isNull() | (until > start))
    return rows


def history_frame(versions: DataFrame, spec: VersionedTableSpec, keys: DataFrame | None, ascending: bool) -> DataFrame:
    """Versions from :func:`between_frame` of some keys, or of all, sorted by key and validFrom.

    Raises:
        SchemaError: ``keys`` lacks a key column, or has one that cannot be compared exactly.
    """
    if keys is not None:
        wanted = keys_frame(keys, versions, spec)
        versions = versions.join(wanted, list(spec.keys), "left_semi")
    start = F.col(quote(spec.valid_from))
    return versions.orderBy(*map(quote, spec.keys), start.asc() if ascending else start.desc())


def keys_frame(keys: DataFrame, rows: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """The distinct keys that a frame asks for, in the types of the table.

    Raises:
        SchemaError: as for :func:`~versioned.asked_keys.asked_keys`; or ``keys`` is not a DataFrame.
    """
    check_frame("keys", keys)
    return keys.select(*(key.alias(name) for name, key in asked_keys(keys, rows, spec).items())).distinct()


def lookup_frame(
    asked: DataFrame,
    rows: DataFrame,
    spec: VersionedTableSpec,
    at: str,
    how: How = "left",
    horizon: Column | None = None,
    *,
    sends: Callable[[], bool] = lambda: False,
) -> DataFrame:
    """Each row of ``asked`` with the version of its key that was valid at its instant (KIP-914, stream-table join).

    This is one equi-join with a range condition. Below the horizon only the key's current row is joined, whenever it
    begins: either it is the version found, or it shows that the lookup is too old. With ``time_scope="key"`` each key
    has its own horizon, which takes one more join with the current rows.

    Args:
        asked: Has the key columns, in any letter case, and ``at``; a null key or instant finds nothing.
        rows: The table's stored rows.
        spec: The table.
        at: Name of the timestamp column.
        how: ``inner`` leaves out rows that find nothing; ``left`` keeps them, with nulls. For an inner lookup of few
            rows, Spark may broadcast them and then moves no versions.
        horizon: A literal or a Column of ``asked``; None for no limit. With ``time_scope="key"`` each key's own is
            used instead.
        sends: Whether to broadcast keys and instants of ``asked``, so that only versions are moved that one of them
            finds (:func:`versioned.sent_rows.sends`); called only for left lookups, once the columns are checked.

    Returns:
        asked + value columns, validFrom, validTo and ``reason``: null if found, else ``NO_MATCH``, ``TOMBSTONE``
        (the key was deleted then) or ``EXPIRED`` (older than the history, and the key has later versions). If the
        table itself has a column ``reason``, this one is called ``lookup_reason``.

    Raises:
        SchemaError: ``asked`` lacks a column, or has one that the result would have twice; a key cannot be compared
            exactly with the table's; or ``at`` is not a column of instants.
        ConfigurationError: ``how`` is neither of the two.
    """
    check_choice("how", how, How)
    _check_asked(asked, spec, at)
    sent = how == "left" and sends()
    reason = F.when(F.col(_DEAD).isNull(), NO_MATCH).when(F.col(_DEAD), TOMBSTONE)
    # Only a key's latest version outlives the horizon: below it, a lookup from before that version is expired.
    if spec.time_scope == "key":
        found = _with_latest_start(_join_valid(asked, rows, spec, at, how, None, sent), rows, spec)
        too_old = F.col(quote(at)) < F.least(_less_retention(F.col(_LATEST_FROM), spec), F.col(_LATEST_FROM))
        reason = F.when(too_old, EXPIRED).otherwise(reason)
    elif horizon is not None:
        bounded = asked.withColumn(HORIZON, horizon)
        found = _join_valid(bounded, rows, spec, at, how, F.col(f"a.{HORIZON}"), sent)
        reason = F.when(F.col(quote(at)) < F.col(quote(spec.valid_from)), EXPIRED).otherwise(reason)
    else:
        found = _join_valid(asked, rows, spec, at, how, None, sent)
    told = found.withColumn(_WHY, reason)
    hidden = [F.when(F.col(_WHY).isNull(), F.col(quote(name))).alias(name) for name in _told(spec)]
    kept = told if how == "left" else told.where(F.col(_WHY).isNull())
    return kept.select(*map(quote, asked.columns), *hidden, F.col(_WHY).alias(_reason_of(spec)))


def reachable(rows: DataFrame, spec: VersionedTableSpec, horizon: Column | None) -> DataFrame:
    """The rows that a promised lookup can find, as if purged; file statistics keep the others out of the scan.

    Args:
        rows: The table's stored rows.
        spec: The table.
        horizon: A literal; None = everything may be found.
    """
    if horizon is None or spec.time_scope == "key":
        return rows
    return rows.where(F.col(CURRENT) | (F.col(quote(spec.valid_to)) > horizon))


def key_horizons(rows: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Each key with its own horizon; its stream time is the start of its latest version."""
    latest = F.col(quote(spec.valid_from))
    return rows.where(F.col(CURRENT)).select(*map(quote, spec.keys), _less_retention(latest, spec).alias(HORIZON))


def _less_retention(instant: Column, spec: VersionedTableSpec) -> Column:
    retention = F.lit(spec.history_retention_us).cast("long")
    return F.timestamp_micros(F.unix_micros(instant) - retention)


def _with_latest_start(found: DataFrame, rows: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Add to each asked row the start of its key's latest version."""
    start = F.col(quote(spec.valid_from)).alias(_LATEST_FROM)
    starts = rows.where(F.col(CURRENT)).select(*map(quote, spec.keys), start)
    told = found.alias("a").join(starts.alias("t"), _same_keys(found, rows, spec), "left")
    return told.select("a.*", F.col(f"t.{_LATEST_FROM}"))


def _same_keys(asked: DataFrame, rows: DataFrame, spec: VersionedTableSpec) -> Column:
    """Whether a row of ``a`` asks for the key of a row of ``t``."""
    keys = asked_keys(asked, rows, spec, "a.")
    return reduce(Column.__and__, (key == F.col(f"t.{quote(name)}") for name, key in keys.items()))


def _join_valid(
    asked: DataFrame,
    rows: DataFrame,
    spec: VersionedTableSpec,
    at: str,
    how: How,
    horizon: Column | None,
    sent: bool,
) -> DataFrame:
    """Join each asked row with the version valid at its instant or, below the horizon, with its key's current row."""
    finds = _same_keys(asked, rows, spec) & _is_valid(spec, F.col(f"a.{quote(at)}"), horizon)
    if sent:
        needed = [name for name in asked.columns if name.lower() in {at.lower(), HORIZON, *map(str.lower, spec.keys)}]
        asks = asked.select(*map(quote, needed)).alias("a")
        rows = rows.alias("t").join(F.broadcast(asks), finds, "left_semi")
    told = [F.col(f"t.{quote(name)}") for name in _told(spec)]
    found = asked.alias("a").join(rows.alias("t"), finds, how)
    return found.select("a.*", *told, F.col(f"t.{quote(DELETED)}").alias(_DEAD))


def _is_valid(spec: VersionedTableSpec, instant: Column, horizon: Column | None) -> Column:
    """Whether a row of ``t`` is the one to join for an instant."""
    valid = valid_at(spec, instant, "t.")
    if horizon is None:
        return valid
    is_old = F.coalesce(instant < horizon, F.lit(False))
    # A current row has no end; asking that instead of ``_current`` saves moving that column.
    return F.when(is_old, F.col(f"t.{quote(spec.valid_to)}").isNull()).otherwise(valid)


def _told(spec: VersionedTableSpec) -> list[str]:
    return [*spec.values, spec.valid_from, spec.valid_to]


def _reason_of(spec: VersionedTableSpec) -> str:
    return beside(REASON, (*spec.keys, *_told(spec)), "lookup_")


def _check_asked(asked: DataFrame, spec: VersionedTableSpec, at: str) -> None:
    check_frame("frame", asked)
    if asked.isStreaming:
        # The horizon would stay that of the moment at which the query was built, for as long as it runs.
        raise SchemaError("The looked-up rows are a stream. Look up each of its batches, in writeStream.foreachBatch.")
    check_column_names(at=at)
    check_asked(asked, spec.keys, at)
    given = {name.lower() for name in (*_told(spec), _reason_of(spec), HORIZON, _DEAD, _LATEST_FROM, _WHY)}
    own = set(named_twice(asked.columns))
    twice = [name for name in asked.columns if name.lower() in given or name in own]
    if twice:
        raise SchemaError(f"The result of the lookup would have the columns {twice} twice. Rename them beforehand.")
    check_instants(asked, at)
    if isinstance(asked.schema[at].dataType, StringType):
        # A put rejects texts that are not instants; here they would go unnoticed.
        raise SchemaError(
            f'The timestamp "{at}" is text, and one that is no instant would find nothing. Make it a timestamp first, '
            "with to_timestamp."
        )
