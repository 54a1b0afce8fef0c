"""Upkeep of a versioned table: dropping expired history, compacting files, removing old ones.

Nothing here may take away what a lookup is promised or what a replay needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from versioned.commit import Landed, Merge, commit
from versioned.durations import Duration, duration
from versioned.errors import RetentionError
from versioned.identifiers import TableRef, quote
from versioned.put import read_table
from versioned.spec import CURRENT, DELETED, VersionedTableSpec

#: Files of replaced versions stay at least this long: readers and replays may still hold them (R188).
LEAST_FILE_RETENTION: Final = timedelta(days=7)


def expired(spec: VersionedTableSpec, horizon: Column) -> Column:
    """Rows that no promised lookup can find: closed by the horizon, or a tombstone that began before it.

    A version that is still valid at the horizon stays, and so does every latest value, however old.
    """
    closed = ~F.col(CURRENT) & (F.col(quote(spec.valid_to)) <= horizon)
    forgotten = F.col(CURRENT) & F.col(DELETED) & (F.col(quote(spec.valid_from)) < horizon)
    return closed | forgotten


def purge(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, horizon_us: int, details: Mapping[str, object]
) -> Landed | None:
    """Delete expired rows in one commit; None if there are none."""
    gone = read_table(spark, target).where(expired(spec, F.timestamp_micros(F.lit(horizon_us))))
    keys = [*spec.keys, spec.valid_from]
    if gone.isEmpty():
        return None
    same = F.lit(True)
    for name in keys:
        same = same & (F.col(f"t.{quote(name)}") == F.col(f"s.{quote(name)}"))
    return commit(
        target, lambda: Merge(gone.select(*map(quote, keys)), same, lambda m: m.whenMatchedDelete()), None, details
    )


def optimize(spark: SparkSession, target: TableRef, *, current: bool = False) -> None:
    """Compact small files: of closed history, which never conflicts with a running batch; of current rows if asked."""
    where = "" if current else f" WHERE {quote(CURRENT)} = false"
    spark.sql(f"OPTIMIZE {target.sql}{where}")


def vacuum(spark: SparkSession, target: TableRef, retain: Duration = LEAST_FILE_RETENTION) -> None:
    """Remove files that no version younger than ``retain`` needs.

    Raises:
        RetentionError: ``retain`` is shorter than seven days; a reader, a replay or time travel may need the files.
    """
    kept = duration(retain)
    if kept < LEAST_FILE_RETENTION:
        raise RetentionError(
            f"Files must be kept for at least {LEAST_FILE_RETENTION.days} days; got {kept}. Readers, replays and time "
            "travel still need them."
        )
    hours = -(-kept // timedelta(hours=1))
    spark.sql(f"VACUUM {target.sql} RETAIN {hours} HOURS")
