"""Reads the log of a table: its newest commits, which of them are this library's, and what they record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from versioned.durations import instant_us
from versioned.identifiers import TableRef
from versioned.log_files import commit_infos
from versioned.replay import without_origin

if TYPE_CHECKING:
    from pyspark.sql import Column, Row, SparkSession

#: The columns that are read from the history of a table.
_TOLD: Final = ("version", "timestamp", "operation", "operationParameters", "operationMetrics", "userMetadata")
#: How many commits back a search goes at most, and how many of them are looked at at a time.
_MOST: Final = 100_000
_PAGE: Final = 10_000
_COMPACTION: Final = "OPTIMIZE"
#: Operations that change rows of a table, by this library or by others.
_CHANGING: Final = frozenset({"WRITE", "STREAMING UPDATE", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "COPY INTO"})
#: The version at which this process last saw a table; only a hint where to look first.
_SEEN: Final[dict[TableRef, int]] = {}
#: How many commits after that are looked at before the history is asked.
_LOOKED_AHEAD: Final = 3


@dataclass(frozen=True)
class Landed:
    """A commit that is in the table: its version, its details, and when it was made, in microseconds.

    That time is after the landing of the last commit that it waited for or was retried for. The log has it by the
    writer's clock, the history by that of the file system, which may be some milliseconds behind.
    """

    version: int
    details: Mapping[str, Any] = field(default_factory=dict)
    at_us: int = field(default=0, compare=False)


def remember(target: TableRef, version: int) -> None:
    """Remember the version at which this process last saw a table; its next commit is first looked for after it."""
    _SEEN[target] = version


def recall(target: TableRef, version: int) -> None:
    """Remember where another process last saw a table, unless this process has seen it itself, which is newer."""
    _SEEN.setdefault(target, version)


def next_own(session: SparkSession, target: TableRef, identity: Mapping[str, Any]) -> Landed | None:
    """The newest commit of a write among the few after the version seen last; the history takes three times as long.

    None does not mean that it is not there: the table may have been replaced, or written many times by others.
    """
    if target not in _SEEN:
        return None
    found: Landed | None = None
    versions = range(_SEEN[target] + 1, _SEEN[target] + 2 + _LOOKED_AHEAD)
    infos = commit_infos(session, target, versions, _SEEN[target])
    for version in versions:
        info = infos.get(version)
        if info is None:
            return found
        said = own_details(info)
        if said is not None and said["versioned"] == identity:
            found = Landed(version, said.get("details", {}), _made_us(info))
    return None


def recent(session: SparkSession, target: TableRef, back: int) -> list[Mapping[str, Any]] | None:
    """The newest commits, newest first, from the log's files: beginning ``back`` versions before the one seen last.

    Returns:
        None if only the history has them: for a table not seen yet, or written many times by others since.
    """
    seen = _SEEN.get(target)
    if seen is None:
        return None
    asked = range(max(seen - back, 0), seen + 2 + _LOOKED_AHEAD)
    infos = commit_infos(session, target, asked, seen)
    newest = max(infos, default=-1)
    # A missing one may be a commit without any info; after the last one there may be more.
    if newest < seen or newest == asked[-1] or newest - min(infos) >= len(infos):
        return None
    remember(target, newest)
    return [{**infos[version], "version": version} for version in sorted(infos, reverse=True)]


def newest_commits(session: SparkSession, target: TableRef, number: int) -> Sequence[Row | Mapping[str, Any]]:
    """The ``number`` newest commits, or a few more, newest first: from :func:`recent`, or else from the history."""
    told = recent(session, target, number)
    if told is not None:
        return told
    asked = history(session, target, number)
    if asked:
        remember(target, asked[0]["version"])
    return asked


def newest_own(session: SparkSession, target: TableRef, identity: Mapping[str, Any] | None = None) -> Landed | None:
    """The newest commit of this library, or of the write with that identity; maintenance may have come after it."""
    for rows in back_in_time(session, target, (3, 100, 100_000)):
        for row in rows:
            said = own_details(row)
            if said is not None and identity in (None, said["versioned"]):
                return Landed(int(row["version"]), said.get("details", {}), _made_us(row))
    return None


def commits_between(session: SparkSession, target: TableRef, known: int, landed: int) -> list[Row | Mapping[str, Any]]:
    """The commits between two versions of a table, newest first, as far as its log has them.

    Args:
        session: The session.
        target: The table.
        known: The older version, exclusive. If nothing lies between the two, nothing is read.
        landed: The newer version, exclusive.
    """
    asked = range(known + 1, landed)
    infos = commit_infos(session, target, asked, asked[-1]) if asked else {}
    if len(infos) == len(asked):
        return [{**infos[version], "version": version} for version in reversed(asked)]
    rows: list[Row] = []
    for rows in back_in_time(session, target, (len(asked) + _LOOKED_AHEAD, _MOST)):
        if rows[-1]["version"] <= known + 1:
            break
    return [row for row in rows if row["version"] in asked]


def told_so_far(session: SparkSession, target: TableRef) -> dict[str, Any]:
    """The details of the newest commit of this library, without those of its batch; the next commit repeats them."""
    newest = newest_own(session, target)
    return {} if newest is None else without_origin(newest.details)


def back_in_time(session: SparkSession, target: TableRef, limits: Iterable[int]) -> Iterator[list[Row]]:
    """The newest commits, more at each step, until these are all; the caller stops when it has enough."""
    for limit in limits:
        rows = history(session, target, limit)
        yield rows
        if len(rows) < limit:
            return


def history(session: SparkSession, target: TableRef, limit: int, only: Column | None = None) -> list[Row]:
    """The newest commits of a table, newest first: version, timestamp, operation with all about it, userMetadata.

    Args:
        session: The session.
        target: The table.
        limit: How many are looked at.
        only: A condition on those that are returned, at the cost of one small Spark job; None = all.
    """
    told = session.sql(f"DESCRIBE HISTORY {target.sql} LIMIT {int(limit)}")
    return (told if only is None else told.where(only)).select(*_TOLD).collect()


def every_commit(session: SparkSession, target: TableRef) -> Iterator[Row]:
    """All commits of a table, newest first: version, operation and userMetadata.

    As Python objects all of them could take gigabytes, so they come page by page, and the caller keeps what it needs.
    Each page after the first is a small Spark job or two, so pages are large.
    """
    told = session.sql(f"DESCRIBE HISTORY {target.sql} LIMIT {_MOST}").select("version", "operation", "userMetadata")
    below = told
    while True:
        page = below.limit(_PAGE).collect()
        yield from page
        if len(page) < _PAGE:
            return
        below = told.where(told["version"] < page[-1]["version"])


def own_details(row: Row | Mapping[str, Any]) -> dict[str, Any] | None:
    """The metadata of a commit of this library; None for any other commit, whatever metadata it has.

    While a MERGE or maintenance has set metadata in its session, other commits of that session carry it too: a table
    that another thread makes, and Delta's own compaction after a write. These are told apart: no CREATE of this library
    has metadata, and none of its OPTIMIZE commits belongs to a write.
    """
    operation = str(row["operation"])
    try:
        said = json.loads(row["userMetadata"] or "null")
    except ValueError:
        return None
    is_own = isinstance(said, dict) and isinstance(said.get("versioned"), dict)
    if is_own and ("CREATE" in operation or (operation == _COMPACTION and said["versioned"])):
        return None
    return said if is_own and isinstance(said.get("details", {}), dict) else None


def _made_us(row: Row | Mapping[str, Any]) -> int:
    """When a commit was made: the log has milliseconds, the history an instant collected in this process's zone."""
    told = row["timestamp"]
    return instant_us(told.astimezone(timezone.utc)) if isinstance(told, datetime) else (told or 0) * 1_000


def takes_back(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit gave a table the rows of another version or of another table.

    >>> takes_back({"operation": "RESTORE"}), takes_back({"operation": "CLONE"}), takes_back({"operation": "WRITE"})
    (True, True, False)
    """
    operation = str(row["operation"])
    return operation in ("RESTORE", "CLONE") or operation.startswith(("REPLACE TABLE", "CREATE OR REPLACE TABLE"))


def is_foreign(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit changed rows and is not of this library.

    >>> is_foreign({"operation": "DELETE", "userMetadata": None}), is_foreign({"operation": "OPTIMIZE"})
    (True, False)
    """
    return str(row["operation"]) in _CHANGING and own_details(row) is None


def restored_version(row: Row | Mapping[str, Any]) -> int | None:
    """The version that a RESTORE restored; None if it was given an instant, or the commit is not a RESTORE."""
    # It is a number in the log, and text in the history.
    version = str((row["operationParameters"] or {}).get("version"))
    return int(version) if version.isdigit() else None


def is_append(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit only added rows."""
    return row["operation"] == "WRITE" and (row["operationParameters"] or {}).get("mode") == "Append"
