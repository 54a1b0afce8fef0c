"""Remains of earlier erasures: files with removed rows, which stay until a vacuum deletes them.

The log of a table shows that an erasure rewrote it, but not whose rows were removed. So anyone without rows in a table
may have had some, for as long as the log shows an erasure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

from pyspark.sql import Row, SparkSession

from versioned import spark_functions as F
from versioned.identifiers import TableRef
from versioned.replay import ERASED
from versioned.table_log import history, own_details

#: So far ahead of UTC is the place on earth where a day begins first.
_FIRST_OF_ALL: Final = timedelta(hours=14)
_VACUUM: Final = "VACUUM"
_BEGUN: Final = f"{_VACUUM} START"
_ENDED: Final = f"{_VACUUM} END"
#: How long a vacuum kept files: as the table's property says, or as RETAIN did. By which of both it went is not told.
_KEPT: Final = ("defaultRetentionMillis", "specifiedRetentionMillis")
#: How many commits are looked at first, and then: Delta lists all of them in the driver's memory.
_LIMITS: Final = (1_000, 100_000)


def gone_on(at: datetime, retention: timedelta) -> date:
    """The first day that lies wholly after the time that something is kept, wherever on earth that day is read.

    Args:
        at: From when on it is kept, in UTC.
        retention: How long.

    >>> gone_on(datetime(2026, 1, 1, 9), timedelta(days=7)), gone_on(datetime(2026, 1, 1, 20), timedelta(days=7))
    (datetime.date(2026, 1, 9), datetime.date(2026, 1, 10))
    """
    return (at + retention + _FIRST_OF_ALL).date() + timedelta(days=1)


@dataclass(frozen=True)
class Vacuum:
    """A vacuum that came to its end: when it began to delete, in UTC, and for how long it kept files at most."""

    at: datetime
    kept: timedelta


@dataclass(frozen=True)
class PastErasure:
    """The newest erasure of a table: when it was committed, in UTC, and the vacuums that ended since."""

    at: datetime
    vacuums: tuple[Vacuum, ...] = ()

    def files_gone(self, retention: timedelta) -> date | None:
        """From this day on a vacuum leaves no file with the rows; None = one has removed them.

        Before it deletes, a vacuum lists all files, and tells neither when it began with that. So one counts only from
        the day on that is told here: that lies hours behind the time for which the files were kept.

        Args:
            retention: For how long the table keeps replaced files.
        """
        if any(vacuum.at.date() >= gone_on(self.at, max(retention, vacuum.kept)) for vacuum in self.vacuums):
            return None
        return gone_on(self.at, retention)


def past_erasure(spark: SparkSession, target: TableRef, newest: int) -> PastErasure | None:
    """The newest erasure that the log of a table tells of; None if it tells of none, no more, or not lately.

    Args:
        spark: The session.
        target: The table.
        newest: Its newest version, by which it is known whether there are more commits to look at.
    """
    told = F.col("operation").startswith(_VACUUM) | F.col("userMetadata").contains(f'"{ERASED}"')
    for limit in _LIMITS:
        found = newest_erasure(history(spark, target, limit, told))
        if found is not None or newest < limit:
            return found
    return None


def newest_erasure(commits: Iterable[Row | Mapping[str, Any]]) -> PastErasure | None:
    """The newest erasure among commits, newest first, with the vacuums behind it.

    >>> said = '{"versioned": {}, "details": {"erased": true}}'
    >>> at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    >>> newest_erasure([{"operation": "MERGE", "userMetadata": said, "timestamp": at}]).files_gone(timedelta(days=7))
    datetime.date(2026, 1, 9)
    """
    vacuums, has_ended = list[Vacuum](), False
    for row in commits:
        operation, said = row["operation"], own_details(row) or {}
        if operation == _ENDED:
            has_ended = row["operationParameters"].get("status") == "COMPLETED"
        elif operation == _BEGUN:
            if has_ended:
                vacuums.append(Vacuum(_at(row), _kept(row["operationParameters"])))
            has_ended = False
        elif ERASED in said.get("details", {}):
            return PastErasure(_at(row), tuple(vacuums))
    return None


def _at(row: Row | Mapping[str, Any]) -> datetime:
    # The history tells an instant, collected in this process's zone.
    at: datetime = row["timestamp"]
    return at.astimezone(timezone.utc)


def _kept(parameters: Mapping[str, str]) -> timedelta:
    return timedelta(milliseconds=max(int(parameters.get(name) or 0) for name in _KEPT))
