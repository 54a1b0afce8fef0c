"""Reads the files of Delta's log directly, in a third of the time that the table history takes.

By Delta's protocol, version n of a table is the file with that number in its log, with one action per line. Nothing can
be read this way for a table that is known only by its catalog name, whose log may be elsewhere, nor for one whose
commits are kept by the catalog.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from versioned.identifiers import TableRef

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

#: The action that says who committed, and why; its line begins with it.
_INFO: Final = "commitInfo"
#: What a writer may leave out of it.
_UNTOLD: Final = dict.fromkeys(("timestamp", "operation", "operationParameters", "operationMetrics", "userMetadata"))


def log_files(target: TableRef, versions: Iterable[int]) -> str | None:
    """The log files of some versions of a table, as one pattern; None if only a catalog knows where the log is.

    Each alternative includes the folder: Hadoop then looks up these files one by one, instead of listing a log that may
    have hundreds of thousands.

    >>> log_files(TableRef.parse("/data/prices"), (7, 8))
    '/data/prices/{_delta_log/00000000000000000007,_delta_log/00000000000000000008}.json'
    """
    names = ",".join(f"_delta_log/{version:020}" for version in versions)
    return None if target.path is None else f"{target.path}/{{{names}}}.json"


def versions_there(session: SparkSession, asked: Mapping[TableRef, Iterable[int]]) -> list[int] | None:
    """Those of some versions that are in the logs of their tables, sorted; without a Spark job.

    Args:
        session: The session.
        asked: The versions to look for, by table.

    Returns:
        None if a table has none of its versions, or if this cannot be found out.
    """
    patterns = [log_files(target, versions) for target, versions in asked.items()]
    known = [pattern for pattern in patterns if pattern is not None]
    if not known or len(known) < len(patterns):
        return None
    try:
        # Spark fails on missing files that are named, but takes what a pattern matches, and lists each file once.
        return sorted(map(_version_of, _lines(session, known * 2 if len(known) == 1 else known).inputFiles()))
    except Exception:  # the class differs between classic and Connect sessions
        return None


def commit_infos(
    session: SparkSession, target: TableRef, versions: Collection[int], there: int
) -> Mapping[int, Mapping[str, Any]]:
    """The commit infos of versions, such as ``operation`` and ``userMetadata``, which may be None; one small job.

    Args:
        session: The session.
        target: The table.
        versions: The versions to read.
        there: A version that is in the log; if it is not, nothing is found.

    Returns:
        The infos by version; without versions that are not in the log, or whose info cannot be read.
    """
    pattern, known = log_files(target, versions), log_files(target, (there,))
    if pattern is None or known is None:
        return {}
    try:
        lines = _lines(session, [pattern, known])
        is_info = lines["value"].startswith(f'{{"{_INFO}"')
        told = lines.where(is_info).select("value", "_metadata.file_name").collect()
    except Exception:  # of any kind: callers then ask the table's history, which raises if it is missing as well
        return {}
    read = ((_version_of(row["file_name"]), _info_of(row["value"])) for row in told)
    return {version: info for version, info in read if info is not None and version in versions}


def _lines(session: SparkSession, patterns: list[str]) -> DataFrame:
    """The lines of files that match some patterns, at least two of them.

    For a single one Spark checks whether it is the folder of a file sink, and warns, with a stack trace of ninety
    lines, that there is no such file.
    """
    return session.read.format("text").load(patterns)


def _version_of(file: str) -> int:
    return int(file.rsplit("/", 1)[-1].partition(".")[0])


def _info_of(line: str) -> Mapping[str, Any] | None:
    try:
        return {**_UNTOLD, **json.loads(line)[_INFO]}
    except ValueError:
        return None
