"""Maintenance of a versioned table: deletes expired history, compacts files, removes old files.

Nothing here may remove what a lookup is promised or what a replay needs (R188).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession

from versioned import spark_functions as F
from versioned.commit import Merge, commit, is_conflict, same_keys, saying
from versioned.durations import Duration, duration, in_words
from versioned.errors import CommitError, ConfigurationError, RetentionError
from versioned.identifiers import TableRef, quote
from versioned.lookup_frames import HORIZON, key_horizons
from versioned.reading import read_table
from versioned.replay import without_origin
from versioned.session_settings import session_settings
from versioned.spec import CURRENT, DELETED, VersionedTableSpec
from versioned.stream_times import AsOf, give_up, said_times, stream_times_of
from versioned.table_details import detail_of, properties_of
from versioned.table_log import Landed, history, is_append, newest_own, told_so_far

#: Files of replaced versions stay at least this long: readers and replays may still hold them (R188).
LEAST_FILE_RETENTION: Final = timedelta(days=7)
_FILE_RETENTION: Final = "delta.deletedFileRetentionDuration"
#: Unless this is off, Delta 4.4 follows only the table's property, and removes files that RETAIN would keep.
_IGNORES_RETAIN: Final = "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled"
_TRIES: Final = 4
_LOG: Final = logging.getLogger(__name__)
#: In tables whose files are rewritten by batches, files below the first size are small and are packed up to the second;
#: no larger, since a batch that changes one row rewrites the whole file.
_SMALL_BYTES: Final = 16 * 1024**2
_PACKED_BYTES: Final = 128 * 1024**2
_PACKED: Final[Mapping[str, str]] = {
    "spark.databricks.delta.optimize.minFileSize": str(_SMALL_BYTES),
    "spark.databricks.delta.optimize.maxFileSize": str(_PACKED_BYTES),
}
#: Operations besides appends that occur on a table that only grows.
_HARMLESS: Final = frozenset(
    {
        "CREATE TABLE",
        "CREATE TABLE AS SELECT",
        "OPTIMIZE",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "ADD CONSTRAINT",
        "ADD COLUMNS",
    }
)
_LOOKED_AT: Final = 20


def expired(spec: VersionedTableSpec, horizon: Column) -> Column:
    """Whether no promised lookup can find a row: it was closed by the horizon, or is a latest tombstone from before it.

    A version that is still valid at the horizon stays, and so does every latest value, however old.
    """
    closed = ~F.col(CURRENT) & (F.col(quote(spec.valid_to)) <= horizon)
    forgotten = F.col(CURRENT) & F.col(DELETED) & (F.col(quote(spec.valid_from)) < horizon)
    return closed | forgotten


def expired_rows(rows: DataFrame, spec: VersionedTableSpec, horizon: Column | None) -> DataFrame:
    """Key and validFrom of the stored rows that are :func:`expired`.

    Args:
        rows: The table's stored rows.
        spec: The table.
        horizon: The horizon of all keys; with ``time_scope="key"`` each key's own is used instead.
    """
    if spec.time_scope == "key":
        rows = rows.join(key_horizons(rows, spec), list(spec.keys))
        horizon = F.col(HORIZON)
    gone = F.lit(False) if horizon is None else expired(spec, horizon)
    return rows.where(gone).select(*map(quote, spec.keys), quote(spec.valid_from))


def tell_held_back(target: TableRef, spec: VersionedTableSpec, stream_times: Mapping[int, int]) -> None:
    """Warn of a scope that is silent for so long that a purge removes little or nothing.

    Args:
        target: The table.
        spec: Its contract.
        stream_times: By scope, in microseconds.
    """
    silent = spec.held_back_by(stream_times)
    if silent is not None:
        _LOG.warning(
            "%s: the purge is held back by %s: history is kept from that stream time on, less the retention of %s. A "
            "record of that partition moves it on; or give the table time_scope=\"store\" when it is made anew.",
            target, silent, in_words(spec.history_retention_us),
        )  # fmt: skip


def purge(
    spark: SparkSession,
    target: TableRef,
    spec: VersionedTableSpec,
    times: Mapping[int, int],
    judged: AsOf,
) -> Landed | None:
    """Delete expired rows in one commit; None if there are none. Before that, the table records that they are given up.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        times: Its stream times, microseconds.
        judged: The table version at which they were read.
    """
    # Not limited by earlier purges: the stream looks up a partition that appeared since by its own stream time.
    horizon_us, details = spec.horizon_us(times), {**said_times(times), **judged}

    def gone(before_us: int | None) -> DataFrame:
        horizon = None if before_us is None else F.timestamp_micros(F.lit(before_us))
        return expired_rows(read_table(spark, target), spec, horizon)

    if gone(horizon_us).isEmpty():
        return None
    if horizon_us is not None:
        give_up(spark, target, spec, horizon_us, details)
    same = same_keys((*spec.keys, spec.valid_from))

    def merge() -> Merge:
        # Determined again for every try: rows may have changed, and a new partition keeps its own history.
        before_us = None if horizon_us is None else _earlier(horizon_us, spec, stream_times_of(spark, target, spec))
        return Merge(gone(before_us), same, lambda m: m.whenMatchedDelete())

    return commit(target, merge, None, details)


def _earlier(horizon_us: int, spec: VersionedTableSpec, times: Mapping[int, int]) -> int | None:
    """The horizon by the present stream times, but no later than the former one: history was given up only before that.

    >>> spec = VersionedTableSpec.of(keys="id", values=[], history_retention="10 microseconds")
    >>> _earlier(50, spec, {0: 90}), _earlier(50, spec, {0: 90, 1: 20}), _earlier(50, spec, {})
    (50, 10, None)
    """
    now_us = spec.horizon_us(times)
    return None if now_us is None else min(horizon_us, now_us)


def optimize(spark: SparkSession, target: TableRef, details: Mapping[str, object], *, current: bool = False) -> None:
    """Compact small files of closed history, and of current rows if asked.

    Compacting closed history conflicts with no running batch except one with late records, which is retried.

    Args:
        spark: The session.
        target: The table.
        details: Facts to travel with the commit: those of old commits are lost once Delta cleans its log.
        current: Whether current rows are compacted too.
    """
    optimize_where(spark, target, details, None if current else f"{quote(CURRENT)} = false")


def optimize_appended(spark: SparkSession, target: TableRef, least_files: int) -> bool:
    """Compact a table that only ever grows (a changelog, the ledger, rejects): appends do not conflict with this.

    Args:
        spark: The session.
        target: A table; if its newest commits do more than append, it is left as it is.
        least_files: A table with fewer files is left as it is.

    Returns:
        Whether it was compacted.
    """
    detail = detail_of(spark, target)
    if detail is None or detail["numFiles"] < least_files:
        return False
    if not all(map(_grows, history(spark, target, _LOOKED_AT))):
        return False
    optimize_where(spark, target, told_so_far(spark, target), None)
    return True


def optimize_merged(spark: SparkSession, target: TableRef, least_files: int) -> bool:
    """Compact the small files of a table into which batches merge: a plain table, an aggregate, a table sink.

    If a batch and this conflict on the same files, whichever comes second retries.

    Args:
        spark: The session.
        target: A table; one that this library has not written is left as it is, and so is one with large files.
        least_files: A table with fewer files is left as it is.

    Returns:
        Whether it was compacted. If batches came first at every try, it was not, and a warning is logged.
    """
    detail = detail_of(spark, target)
    if detail is None or detail["numFiles"] < least_files:
        return False
    if detail["sizeInBytes"] >= detail["numFiles"] * _SMALL_BYTES:
        return False
    told = newest_own(spark, target)
    if told is None:
        return False
    try:
        optimize_where(spark, target, without_origin(told.details), None, _PACKED)
    except CommitError as error:
        _LOG.warning("%s The next upkeep does.", error)
        return False
    return True


def _grows(commit: Row) -> bool:
    return is_append(commit) or commit["operation"] in _HARMLESS


def optimize_where(
    spark: SparkSession,
    target: TableRef,
    details: Mapping[str, object],
    partitions: str | None,
    settings: Mapping[str, str | None] | None = None,
) -> None:
    """Compact the small files of a table, or of some of its partitions.

    Args:
        spark: The session.
        target: The table.
        details: Facts to travel with the commit.
        partitions: A condition on columns that partition the table; None = all.
        settings: Settings of the session while this runs.

    Raises:
        CommitError: the table was changed during each of the tries.
    """
    where = "" if partitions is None else f" WHERE {partitions}"
    for attempt in range(1, _TRIES + 1):
        try:
            with saying(spark, details), session_settings(spark, settings or {}):
                spark.sql(f"OPTIMIZE {target.sql}{where}")
            return
        except Exception as error:
            if not is_conflict(error):
                raise
            if attempt == _TRIES:
                raise CommitError(
                    f"{target} was changed during each of {_TRIES} tries to compact it. It is as it was; try later."
                ) from error


def least_file_retention(spark: SparkSession, target: TableRef) -> timedelta:
    """How long replaced files must stay: seven days, or what the table's own properties promise if that is longer."""
    properties = properties_of(spark, target)
    try:
        promised = duration(properties.get(_FILE_RETENTION, "0 days"))
    except ConfigurationError:
        # Months have no fixed length; VACUUM itself checks them.
        promised = LEAST_FILE_RETENTION
    return max(promised, LEAST_FILE_RETENTION)


def vacuum(
    spark: SparkSession,
    target: TableRef,
    retain: Duration | None = None,
    details: Mapping[str, object] | None = None,
) -> None:
    """Remove files that no version younger than ``retain`` needs.

    Args:
        spark: The session.
        target: The table.
        retain: How long files are kept; None = the shortest time allowed.
        details: Facts to travel with the commit; None = those of the library's newest commit.

    Raises:
        RetentionError: ``retain`` is shorter than seven days, or than the table's own
            ``delta.deletedFileRetentionDuration``; a reader, a replay or time travel may need the files.
    """
    least = least_file_retention(spark, target)
    kept = least if retain is None else duration(retain)
    if kept < least:
        raise RetentionError(
            f"Files of {target} must be kept for at least {_days(least)}; got {_days(kept)}. Readers, replays and "
            f"time travel still need them. Keep them longer, or shorten {_FILE_RETENTION} (not below 7 days)."
        )
    hours = -(-kept // timedelta(hours=1))
    said = told_so_far(spark, target) if details is None else details
    with saying(spark, said), session_settings(spark, {_IGNORES_RETAIN: "false"}):
        spark.sql(f"VACUUM {target.sql} RETAIN {hours} HOURS")


def _days(length: timedelta) -> str:
    return f"{length / timedelta(days=1):g} days"
