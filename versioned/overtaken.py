"""Whether other writers overtook a put by hand, so that it must be judged again.

Each attempt of a write reads the stored rows again, but the outcomes of the records were computed before, from the
table as it was and from its stream times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from versioned.durations import LONGEST_US
from versioned.errors import OvertakenError, VersionedError
from versioned.identifiers import TableRef
from versioned.schema import INTERVAL
from versioned.spec import VersionedTableSpec
from versioned.stream_times import commits_that_tell, stream_times_of
from versioned.written import are_newest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
_BY_OTHERS: Final = (
    "Somebody else wrote newer versions to {}, or purged it, while this batch was under way. Its "
    "current rows are as they were; put the batch again. One application, or one job at a time, should write "
    "to a table."
)


@contextmanager
def never_overtaken(target: TableRef) -> Iterator[None]:
    """Raise ``OvertakenError`` if the table's constraint refuses rows because others came in between.

    A version that came meanwhile and begins after a record that was judged the latest would end where that record
    begins, which the constraint refuses. It also refuses a late record whose key's current row was meanwhile purged, or
    moved on so that the key's own stream time makes it too late: such records end where they begin. Apart from this,
    only stream times matter that moved meanwhile (:class:`JudgedBy`).
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, VersionedError) or INTERVAL not in str(error):
            raise
        raise OvertakenError(_BY_OTHERS.format(target)) from error


@dataclass(frozen=True)
class JudgedBy:
    """The stream times by which the records of a put by hand were judged.

    Records that others have made too late meanwhile may be at the same instant as what those others put, or in history
    that was purged since. Then what is stored would match neither order, the put before the others nor after them.

    Args:
        session: The session.
        target: The table.
        spec: Its contract.
        times: Its stream times, microseconds.
        version: The table version at which they were read; None = no second check, as in the batch of a stream.
    """

    session: SparkSession
    target: TableRef
    spec: VersionedTableSpec
    times: Mapping[int, int]
    version: int | None

    def after(self, landed: int) -> JudgedBy:
        """The same after the batch itself has written a version that moves no stream time."""
        return replace(self, version=landed) if self.version == landed - 1 else self

    def unless_moved(self, oldest: Mapping[int, int], build: Callable[[], T]) -> Callable[[], T]:
        """Wrap the function that builds a write, to check first whether these are still the table's stream times.

        The check looks for two files of the log, without a job, and reads more only if others have written. It does not
        see what lands in the few milliseconds between it and the beginning of Delta's own transaction.

        Args:
            oldest: The oldest instant, by scope, of the accepted records that are to be written.
            build: Makes the write.

        Raises:
            OvertakenError: (when the function is called) one of the records would be refused by now, or a RESTORE took
                stream time back.
        """

        def built() -> T:
            if self._have_moved(oldest):
                raise OvertakenError(_BY_OTHERS.format(self.target))
            return build()

        return built

    def _have_moved(self, oldest: Mapping[int, int]) -> bool:
        version, grace_us = self.version, self.spec.grace_us
        # With a stream time per key, the rows hold it, and the constraint refuses rows if it has moved.
        if version is None or self.spec.time_scope == "key" or grace_us >= LONGEST_US:
            return False
        if are_newest(self.session, {self.target: version}):
            return False
        commits = commits_that_tell(self.session, self.target)
        if commits and commits[0]["version"] == version:
            return False  # For a table in a catalog, only its history says so.
        now = stream_times_of(self.session, self.target, self.spec, commits)
        return is_overtaken(self.times, now, oldest, grace_us)


def is_overtaken(before: Mapping[int, int], now: Mapping[int, int], oldest: Mapping[int, int], grace_us: int) -> bool:
    """Whether records that were accepted by the stream times ``before`` must be judged again by those of ``now``.

    >>> is_overtaken({0: 50}, {0: 90}, {0: 80}, grace_us=10), is_overtaken({0: 50}, {0: 91}, {0: 80}, grace_us=10)
    (False, True)
    >>> is_overtaken({0: 50}, {0: 40}, {0: 80}, grace_us=10)
    True
    """
    is_back = any(us > now.get(scope, us - 1) for scope, us in before.items())
    return is_back or any(us < now.get(scope, us) - grace_us for scope, us in oldest.items())
