"""Looking into Delta's log itself: what the history tells too, in a third of its time.

By Delta's protocol version n of a table is the file of that number in its log, one action a line. Of a table that only
a catalog knows, whose log may lie elsewhere, nothing can be told so; neither of one whose commits a catalog keeps.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from versioned.identifiers import TableRef

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

#: How the line begins that tells who committed, and why.
_INFO: Final = "commitInfo"
#: What a writer need not tell.
_UNTOLD: Final = dict.fromkeys(("timestamp", "operation", "operationParameters", "operationMetrics", "userMetadata"))


def log_files(target: TableRef, versions: Iterable[int]) -> str | None:
    """Where the log of a table has versions, as one pattern; None if only a catalog knows.

    Each alternative names its folder: Hadoop then asks for these files one by one, and does not list a log that may
    have hundreds of thousands.

    >>> log_files(TableRef.parse("/data/prices"), (7, 8))
    '/data/prices/{_delta_log/00000000000000000007,_delta_log/00000000000000000008}.json'
    """
    names = ",".join(f"_delta_log/{version:020}" for version in versions)
    return None if target.path is None else f"{target.path}/{{{names}}}.json"


def versions_there(session: SparkSession, asked: Mapping[TableRef, Iterable[int]]) -> list[int] | None:
    """Which of some versions the logs of tables have, in order, without a Spark job.

    Args:
        session: The session.
        asked: The versions that are asked for, by table.

    Returns:
        None if a table has none of those asked of it, or it cannot be told.
    """
    patterns = [log_files(target, versions) for target, versions in asked.items()]
    known = [pattern for pattern in patterns if pattern is not None]
    if not known or len(known) < len(patterns):
        return None
    try:
        # Spark looks for files when it is given their names; of a pattern it takes what is there, and tells it once.
        return sorted(map(_version_of, _lines(session, known * 2 if len(known) == 1 else known).inputFiles()))
    except Exception:  # the class differs between classic and Connect sessions
        return None


def commit_infos(
    session: SparkSession, target: TableRef, versions: Collection[int], there: int
) -> Mapping[int, Mapping[str, Any]]:
    """What versions say of themselves, such as ``operation`` and ``userMetadata``, which may be None; one small job.

    Args:
        session: The session.
        target: The table.
        versions: Those that are asked for.
        there: A version that the log has; nothing can be told if it has not.

    Returns:
        By version; without those that the log does not have, and those of which it cannot be told.
    """
    pattern, known = log_files(target, versions), log_files(target, (there,))
    if pattern is None or known is None:
        return {}
    try:
        lines = _lines(session, [pattern, known])
        is_info = lines["value"].startswith(f'{{"{_INFO}"')
        told = lines.where(is_info).select("value", "_metadata.file_name").collect()
    except Exception:  # of whatever kind: the table's history tells it too, and raises if that is missing as well
        return {}
    read = ((_version_of(row["file_name"]), _info_of(row["value"])) for row in told)
    return {version: info for version, info in read if info is not None and version in versions}


def _lines(session: SparkSession, patterns: list[str]) -> DataFrame:
    """The lines of files, by two patterns at least.

    Of a single one Spark asks whether it is the folder of a file sink, and warns with a stack of ninety lines that no
    file has that name.
    """
    return session.read.format("text").load(patterns)


def _version_of(file: str) -> int:
    return int(file.rsplit("/", 1)[-1].partition(".")[0])


def _info_of(line: str) -> Mapping[str, Any] | None:
    try:
        return {**_UNTOLD, **json.loads(line)[_INFO]}
    except ValueError:
        return None
