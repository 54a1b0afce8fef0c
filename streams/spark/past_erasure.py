"""Remains of earlier erasures: files with removed rows, which stay until a vacuum deletes them.

A table's log shows that an erasure rewrote the table, but not whose rows were removed. So a subject without rows in a
table may have had some before, as long as the log shows an erasure.
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

#: How far ahead of UTC the place is where a day begins first.
_FIRST_OF_ALL: Final = timedelta(hours=14)
_VACUUM: Final = "VACUUM"
_BEGUN: Final = f"{_VACUUM} START"
_ENDED: Final = f"{_VACUUM} END"
#: How long a vacuum kept files: by the table's property, or by RETAIN. The log does not say which of both applied.
_KEPT: Final = ("defaultRetentionMillis", "specifiedRetentionMillis")
#: How many commits to read at first, and then at most: Delta lists all of them in the driver's memory.
_LIMITS: Final = (1_000, 100_000)


def gone_on(at: datetime, retention: timedelta) -> date:
    """The first day that lies wholly after a retention has ended, in every time zone on earth.

    Args:
        at: When the retention begins, in UTC.
        retention: How long it is.

    >>> gone_on(datetime(2026, 1, 1, 9), timedelta(days=7)), gone_on(datetime(2026, 1, 1, 20), timedelta(days=7))
    (datetime.date(2026, 1, 9), datetime.date(2026, 1, 10))
    """
    return (at + retention + _FIRST_OF_ALL).date() + timedelta(days=1)


@dataclass(frozen=True)
class Vacuum:
    """A completed vacuum: when it began to delete, in UTC, and how long it kept files at most."""

    at: datetime
    kept: timedelta


@dataclass(frozen=True)
class PastErasure:
    """The newest erasure of a table: when it was committed, in UTC, and the vacuums that ended since."""

    at: datetime
    vacuums: tuple[Vacuum, ...] = ()

    def files_gone(self, retention: timedelta) -> date | None:
        """The day from which on a vacuum leaves no file with the rows; None if one has removed them already.

        Before it deletes, a vacuum lists all files, and the log does not say when that began. So a vacuum only counts
        from the same day on, which is hours after the files' retention has ended.

        Args:
            retention: How long the table keeps replaced files.
        """
        if any(vacuum.at.date() >= gone_on(self.at, max(retention, vacuum.kept)) for vacuum in self.vacuums):
            return None
        return gone_on(self.at, retention)


def past_erasure(spark: SparkSession, target: TableRef, newest: int) -> PastErasure | None:
    """The newest erasure in the log of a table; None if it shows none, not any more, or not among the newest commits.

    Args:
        spark: The session.
        target: The table.
        newest: Its newest version, which shows whether there are more commits to read.
    """
    told = F.col("operation").startswith(_VACUUM) | F.col("userMetadata").contains(f'"{ERASED}"')
    for limit in _LIMITS:
        found = newest_erasure(history(spark, target, limit, told))
        if found is not None or newest < limit:
            return found
    return None


def newest_erasure(commits: Iterable[Row | Mapping[str, Any]]) -> PastErasure | None:
    """The newest erasure among commits (newest first), with the vacuums after it.

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
    # The history has instants, which are collected in this process's time zone.
    at: datetime = row["timestamp"]
    return at.astimezone(timezone.utc)


def _kept(parameters: Mapping[str, str]) -> timedelta:
    return timedelta(milliseconds=max(int(parameters.get(name) or 0) for name in _KEPT))
