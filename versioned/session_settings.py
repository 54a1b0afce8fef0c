"""Settings that a session needs: for a write, then taken off again so that no other write meets them; or for good."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from versioned.errors import ConfigurationError, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

#: Whether what lies above a union may rely on the partitions of its parts (Spark 4.1 and later). In plans that use an
#: exchange twice it relied on some that were not there, and told a key twice (decision 0017).
UNIONS: Final = "spark.sql.unionOutputPartitioning"
#: Whether Delta (4.4) refuses a version that is not the newest and older than ``delta.deletedFileRetentionDuration``
#: (seven days) though its files are there: the version before a weekly put, say, which the outcomes of that put and a
#: batch that is begun again look at.
OLD_VERSIONS: Final = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
#: Whether Spark reads on, without a word, where a file is damaged or gone: a put would write back what is left.
DAMAGED_FILES: Final = "spark.sql.files.ignoreCorruptFiles"
MISSING_FILES: Final = "spark.sql.files.ignoreMissingFiles"
#: With which what is read is right, and found.
SOUND_READS: Final[Mapping[str, str]] = {
    UNIONS: "false", OLD_VERSIONS: "false", DAMAGED_FILES: "false", MISSING_FILES: "false"
}  # fmt: skip
_KIND: Final = "spark.sql.timestampType"
_ZONE: Final = "spark.sql.session.timeZone"
#: What begins so is set for a moment only, to see which sessions see it.
_PROBE: Final = "spark.versioned.probe"


@contextmanager
def session_settings(session: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Settings for the length of one write, put back as they were; None = not set."""
    before: dict[str, str | None] = {}
    try:
        for name, value in settings.items():
            former = session.conf.get(name, None)
            put_back(session, name, value)
            before[name] = former
        yield
    finally:
        for name, former in before.items():
            put_back(session, name, former)


def put_back(session: SparkSession, name: str, former: str | None) -> None:
    """Give a setting its former value; None = it had none of its own."""
    if former is None:
        session.conf.unset(name)
    else:
        session.conf.set(name, former)


def with_sound_reads(session: SparkSession) -> None:
    """Let what this session reads from now on be right and be found (:data:`SOUND_READS`).

    They stay set: what is read from a table runs when the user asks for it. What is so by default is not touched, which
    some services do not allow.

    Raises:
        ConfigurationError: the session refuses one of them, or takes timestamps for local ones in a zone where Delta
            cannot compare those.
    """
    _refuse_local_instants(session)
    for name, value in SOUND_READS.items():
        if _of(session, name) != value:
            try:
                session.conf.set(name, value)
            except Exception as error:  # the class differs between classic and Connect sessions
                raise ConfigurationError(
                    f"The session refuses {name} = {value}, without which what is read may be wrong: "
                    f"{first_line(error)} Use a session that takes it, such as "
                    "one on classic compute of Databricks instead of serverless compute, or have it set where the "
                    "session's server is configured."
                ) from error


def _refuse_local_instants(session: SparkSession) -> None:
    """Where literals have no zone Delta moves bounds of its statistics by the session's, beyond the last instant."""
    if _of(session, _KIND) == "TIMESTAMP_NTZ" and is_east(zone := _of(session, _ZONE) or "UTC"):
        raise ConfigurationError(
            f"The session has {_KIND} = TIMESTAMP_NTZ in the time zone {zone}, east of UTC: there Delta ends reads of "
            f'tables with instants by "long overflow". Set {_ZONE} to UTC, or {_KIND} to TIMESTAMP_LTZ.'
        )


def is_east(zone: str) -> bool:
    """Whether the clocks of a time zone are ever ahead of UTC, by its rules of today.

    >>> [is_east(zone) for zone in ("UTC", "America/New_York", "Europe/Berlin", "Europe/London", "+02:00", "-05:00")]
    [False, False, True, True, True, False]
    """
    try:
        rules = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return "+" in zone
    ahead = (rules.utcoffset(datetime(2100, month, 1, tzinfo=timezone.utc)) for month in (1, 7))
    return any(offset is not None and offset > timedelta(0) for offset in ahead)


def _of(session: SparkSession, name: str) -> str | None:
    """What a session has a setting at, its default too; None if it does not know it."""
    try:
        return session.conf.get(name)
    except Exception:  # the class differs between classic and Connect sessions
        return None


@dataclass(eq=False)
class _Use(Generic[T]):
    """What a session has while it is used, and by how many."""

    session: SparkSession
    held: T
    users: int = 0


class _OfEachSession(Generic[T]):
    """What each session has one of, whichever of its objects it comes by: from the first who uses it to the last.

    Args:
        begin: Makes it for a session.
        end: Gives it back.
    """

    def __init__(
        self, begin: Callable[[SparkSession], T], end: Callable[[SparkSession, T], None] = lambda *_: None
    ) -> None:
        self._begin, self._end = begin, end
        self._lock = threading.Lock()
        self._uses: list[_Use[T]] = []

    @contextmanager
    def of(self, session: SparkSession) -> Iterator[T]:
        """That of this session, while the block runs."""
        with self._lock:
            use = next((use for use in self._uses if are_one(use.session, session)), None)
            if use is None:
                use = _Use(session, self._begin(session))
                self._uses.append(use)
            use.users += 1
        try:
            yield use.held
        finally:
            with self._lock:
                use.users -= 1
                if use.users == 0:
                    self._uses.remove(use)
                    self._end(use.session, use.held)


class SessionLock:
    """One at a time in each session, whichever of its objects it comes by; a thread that has its turn may enter again.

    Other sessions do not wait.
    """

    def __init__(self) -> None:
        self._turns = _OfEachSession(lambda _: threading.RLock())

    @contextmanager
    def of(self, session: SparkSession) -> Iterator[None]:
        """Alone in this session while the block runs."""
        with self._turns.of(session) as alone, alone:
            yield


class SharedSetting:
    """A setting that several writes of a session need at the same time: the last one puts it back.

    A session that Spark clones meanwhile, as for a query that starts, has the value from then on: there it cannot be
    told from one that the user gave. It is the value that each write sets, so no write is the worse for it.
    """

    def __init__(self, name: str, value: str) -> None:
        def begin(session: SparkSession) -> str | None:
            former: str | None = session.conf.get(name, None)
            session.conf.set(name, value)
            return former

        self._formers = _OfEachSession(begin, lambda session, former: put_back(session, name, former))

    @contextmanager
    def of(self, session: SparkSession) -> Iterator[None]:
        """Set it in this session while the block runs."""
        with self._formers.of(session):
            yield


def are_one(known: SparkSession, session: SparkSession) -> bool:
    """Whether two objects stand for one session: what is set in the one is seen in the other.

    A mark that stays would be cloned with the session. So it is made anew each time; and only asked for where another
    object writes at the same time.
    """
    if known is session:
        return True
    probe = f"{_PROBE}.{uuid.uuid4().hex}"
    try:
        session.conf.set(probe, "true")
        try:
            return known.conf.get(probe, None) is not None
        finally:
            session.conf.unset(probe)
    except Exception:  # whatever a session says that is over, or bars settings that it does not know
        return False
