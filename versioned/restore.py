"""Restores a table to an older version."""

from __future__ import annotations

from pyspark.sql import SparkSession

from versioned import spark_functions as F
from versioned.commit import with_retry
from versioned.errors import RetentionError
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.session_settings import with_sound_reads

_GONE = ("FILE_NOT_EXIST", "FAILED_READ_FILE", "FileNotFound", "DELTA_VERSION_NOT_FOUND", "DELTA_CANNOT_RESTORE")


def check_version(spark: SparkSession, target: TableRef, version: int) -> None:
    """Read every file of an older version, so that restoring an application does not fail half way.

    Raises:
        RetentionError: VACUUM has removed some of them, or Delta has cleaned the log.
    """
    with_sound_reads(spark)
    try:
        frame = read_table(spark, target, version)
        # Statistics hold no hashes of values, so this reads the files themselves; as JSON, any column can be hashed.
        column = F.xxhash64(F.to_json(F.struct(quote(frame.columns[0]))))
        frame.agg(F.bit_xor(column)).collect()
    except Exception as error:  # the class differs between classic and Connect sessions
        if not any(name in f"{type(error).__name__} {error}" for name in _GONE):
            raise
        raise RetentionError(
            f"Version {version} of {target} cannot be restored: its files or its log are gone, which a vacuum or "
            "Delta's own cleaning has removed. Name a later batch, or restore a copy."
        ) from error


def restore(spark: SparkSession, target: TableRef, version: int) -> None:
    """Take a table back to a version. Delta's transaction ids stay: what has landed still counts as landed.

    Delta gives up if upkeep commits anything meanwhile, so the restore is retried.

    Args:
        spark: The session.
        target: The table.
        version: The Delta version.

    Raises:
        CommitError: the table stayed in conflict after six tries.
    """
    with_retry(target, lambda: spark.sql(f"RESTORE TABLE {target.sql} TO VERSION AS OF {int(version)}"))
