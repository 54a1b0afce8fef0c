"""Looking into Delta's log itself: what the history tells too, in a third of its time.

By Delta's protocol version n of a table is the file of that number in its log, one action a line. Of a table that only
a catalog knows, whose log may lie elsewhere, nothing can be told so; neither of one whose commits a catalog keeps.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from versioned.identifiers import TableRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

#: How the line begins that tells who committed, and why.
_INFO: Final = "commitInfo"


def log_file(target: TableRef, version: int) -> str | None:
    """Where the log of a table has a version; None if only a catalog knows.

    >>> log_file(TableRef.parse("/data/prices"), 7)
    '/data/prices/_delta_log/00000000000000000007.json'
    """
    return None if target.path is None else f"{target.path}/_delta_log/{version:020}.json"


def has_version(session: SparkSession, target: TableRef, version: int) -> bool | None:
    """Whether the log has a version, without a Spark job; None if that cannot be told."""
    path = log_file(target, version)
    if path is None:
        return None
    try:
        # Spark looks for a file when it is asked for its columns.
        return bool(session.read.format("text").load(path).columns)
    except Exception as error:  # the class differs between classic and Connect sessions
        return False if "PATH_NOT_FOUND" in str(error) else None


def commit_info(session: SparkSession, target: TableRef, version: int) -> Mapping[str, Any] | None:
    """What a version says of itself, such as ``userMetadata``, which may be None; one small Spark job.

    Returns:
        None if the log does not have the version, or it cannot be told.
    """
    path = log_file(target, version)
    if path is None:
        return None
    try:
        lines = session.read.format("text").load(path)
        told = lines.where(lines["value"].startswith(f'{{"{_INFO}"')).collect()
        return {"userMetadata": None, **json.loads(told[0]["value"])[_INFO]} if told else None
    except Exception:  # of whatever kind: the table's history tells it too, and raises if that is missing as well
        return None
