"""What the log of a table tells: its newest commits, which of them are this library's, and what they say."""

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

#: What is asked of the history of a table.
_TOLD: Final = ("version", "timestamp", "operation", "operationParameters", "operationMetrics", "userMetadata")
#: How far back a search goes at most, and so many of these commits are looked at at a time.
_MOST: Final = 100_000
_PAGE: Final = 10_000
_COMPACTION: Final = "OPTIMIZE"
#: What changes rows in place: by this library, or by others.
_CHANGING: Final = frozenset({"WRITE", "STREAMING UPDATE", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "COPY INTO"})
#: The version at which this process saw a table last; merely where to look first.
_SEEN: Final[dict[TableRef, int]] = {}
#: How many commits behind that are looked at before the history is asked.
_LOOKED_AHEAD: Final = 3


@dataclass(frozen=True)
class Landed:
    """A commit that is in the table: its version, what it said of itself, and when it was made, in microseconds.

    That lies behind the landing of the last commit that it had to wait for, or was made anew for. The log says it by
    the writer's clock, the history by that of the file system, which may be some milliseconds behind.
    """

    version: int
    details: Mapping[str, Any] = field(default_factory=dict)
    at_us: int = field(default=0, compare=False)


def remember(target: TableRef, version: int) -> None:
    """Where this process saw a table last; its next commit is looked for behind it first."""
    _SEEN[target] = version


def recall(target: TableRef, version: int) -> None:
    """Where another process saw a table last; what this one saw itself is newer."""
    _SEEN.setdefault(target, version)


def next_own(session: SparkSession, target: TableRef, identity: Mapping[str, Any]) -> Landed | None:
    """The write's newest commit among the next behind what was seen last; the history takes thrice as long.

    None says nothing: the table may have been replaced, or written by many others since.
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
    """The newest commits, newest first, as the log's files tell them: from ``back`` before the one seen here last.

    Returns:
        None where only the history tells them: of a table not seen yet, or written by many others since.
    """
    seen = _SEEN.get(target)
    if seen is None:
        return None
    asked = range(max(seen - back, 0), seen + 2 + _LOOKED_AHEAD)
    infos = commit_infos(session, target, asked, seen)
    newest = max(infos, default=-1)
    # One that is missing among them may be a commit that says nothing of itself; behind the last there may be more.
    if newest < seen or newest == asked[-1] or newest - min(infos) >= len(infos):
        return None
    remember(target, newest)
    return [{**infos[version], "version": version} for version in sorted(infos, reverse=True)]


def newest_commits(session: SparkSession, target: TableRef, number: int) -> Sequence[Row | Mapping[str, Any]]:
    """So many of the newest commits or a few more, newest first: as :func:`recent` tells them, else by the history."""
    told = recent(session, target, number)
    if told is not None:
        return told
    asked = history(session, target, number)
    if asked:
        remember(target, asked[0]["version"])
    return asked


def newest_own(session: SparkSession, target: TableRef, identity: Mapping[str, Any] | None = None) -> Landed | None:
    """The newest commit of this library, or of the one write of that identity; maintenance may lie on top of it."""
    for rows in back_in_time(session, target, (3, 100, 100_000)):
        for row in rows:
            said = own_details(row)
            if said is not None and identity in (None, said["versioned"]):
                return Landed(int(row["version"]), said.get("details", {}), _made_us(row))
    return None


def commits_between(session: SparkSession, target: TableRef, known: int, landed: int) -> list[Row | Mapping[str, Any]]:
    """The commits behind one version of a table and before another, newest first, as far as its log has them.

    Args:
        session: The session.
        target: The table.
        known: The older version. With nothing between the two, nothing is read.
        landed: The newer one.
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
    """What the newest commit of this library told, but not of which batch it was: the next one goes on telling it."""
    newest = newest_own(session, target)
    return {} if newest is None else without_origin(newest.details)


def back_in_time(session: SparkSession, target: TableRef, limits: Iterable[int]) -> Iterator[list[Row]]:
    """So many of the newest commits, and then more, until they are all; for who stops where they tell enough."""
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
        only: A condition on those that are told, for one small Spark job; None = all.
    """
    told = session.sql(f"DESCRIBE HISTORY {target.sql} LIMIT {int(limit)}")
    return (told if only is None else told.where(only)).select(*_TOLD).collect()


def every_commit(session: SparkSession, target: TableRef) -> Iterator[Row]:
    """All commits of a table, newest first: version, operation and userMetadata.

    Delta holds them all, which may be gigabytes as Python's objects; so they come page by page, and whoever looks at
    them keeps what is needed. Each page behind the first is a small Spark job or two, so pages are large.
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
    """What a commit of this library says of itself; None for any other commit, whatever it says.

    What Delta commits by itself in the session of a MERGE, or while maintenance says something there, carries their
    metadata too: a table that another thread makes, and the compaction behind a write. No CREATE of this library says
    anything, and no OPTIMIZE of it is a write's.
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
    """When a commit was made: the log tells milliseconds; the history an instant, collected in this process's zone."""
    told = row["timestamp"]
    return instant_us(told.astimezone(timezone.utc)) if isinstance(told, datetime) else (told or 0) * 1_000


def takes_back(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit gave a table the rows of another version or of another table, whatever was written before it.

    >>> takes_back({"operation": "RESTORE"}), takes_back({"operation": "CLONE"}), takes_back({"operation": "WRITE"})
    (True, True, False)
    """
    operation = str(row["operation"])
    return operation in ("RESTORE", "CLONE") or operation.startswith(("REPLACE TABLE", "CREATE OR REPLACE TABLE"))


def is_foreign(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit changed rows and is none of this library.

    >>> is_foreign({"operation": "DELETE", "userMetadata": None}), is_foreign({"operation": "OPTIMIZE"})
    (True, False)
    """
    return str(row["operation"]) in _CHANGING and own_details(row) is None


def restored_version(row: Row | Mapping[str, Any]) -> int | None:
    """The version that a RESTORE made a table's newest again; None if it was told an instant, or is no RESTORE."""
    # A number in the log, a text in the history.
    version = str((row["operationParameters"] or {}).get("version"))
    return int(version) if version.isdigit() else None


def is_append(row: Row | Mapping[str, Any]) -> bool:
    """Whether a commit only added rows."""
    return row["operation"] == "WRITE" and (row["operationParameters"] or {}).get("mode") == "Append"
