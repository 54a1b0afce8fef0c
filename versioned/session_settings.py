"""Session settings that the library needs: set for one write and then reset, or set for good."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from versioned.errors import ConfigurationError, first_line
from versioned.zone_ids import zone_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

#: Whether operators above a union may rely on the partitioning of its parts (Spark 4.1 and later). In plans that reuse
#: an exchange they relied on partitioning that was not there, and a key appeared twice (decision 0017).
UNIONS: Final = "spark.sql.unionOutputPartitioning"
#: Whether Delta (4.4) refuses to read a version that is not the newest and is older than
#: ``delta.deletedFileRetentionDuration`` (seven days), although its files exist: the version before a weekly put, for
#: example, which the outcomes of that put need, and a batch that is begun again.
OLD_VERSIONS: Final = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
#: Whether Spark silently skips a file that is damaged or gone: a put would write back only what is left.
DAMAGED_FILES: Final = "spark.sql.files.ignoreCorruptFiles"
MISSING_FILES: Final = "spark.sql.files.ignoreMissingFiles"
#: Into how many rows at most Spark splits what Python gives it (-1 = not at all). Spark 4.2 gives most rows twice then.
OUTPUT_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerOutputBatch"
#: The values with which reads are complete and correct.
SOUND_READS: Final[Mapping[str, str]] = {
    UNIONS: "false", OLD_VERSIONS: "false", DAMAGED_FILES: "false", MISSING_FILES: "false",
    OUTPUT_ROWS: "-1",
}  # fmt: skip
#: By which rules Spark's readers of text take it for dates and times. By those of Spark 2 (``LEGACY``), 2026-02-30 is
#: the second of March, and the six digits of a fraction of a second count milliseconds; with ``EXCEPTION``, a text that
#: they take differently ends the batch.
TIME_TEXTS: Final = "spark.sql.legacy.timeParserPolicy"
#: The values with which text becomes only the dates and times that it says.
SOUND_TEXTS: Final[Mapping[str, str]] = {TIME_TEXTS: "CORRECTED"}
_KIND: Final = "spark.sql.timestampType"
_ZONE: Final = "spark.sql.session.timeZone"
#: Prefix of settings that are set only for a moment, to find out which session objects see them.
_PROBE: Final = "spark.versioned.probe"


@contextmanager
def session_settings(session: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Apply settings while the block runs, then put back the former ones; None = not set."""
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
    """Give a setting its former value; None = it was not set."""
    if former is None:
        session.conf.unset(name)
    else:
        session.conf.set(name, former)


def with_sound_reads(session: SparkSession) -> None:
    """Make all reads of this session complete and correct from now on (:data:`SOUND_READS`).

    The settings stay: a table is read lazily, when the user asks for rows. A setting that already has its value is left
    alone, since some services do not allow setting it.

    Raises:
        ConfigurationError: the session refuses one of them, or treats timestamps as local ones in a zone in which Delta
            cannot compare these.
    """
    _refuse_local_instants(session)
    _set_for_good(session, SOUND_READS)


def with_sound_texts(session: SparkSession) -> None:
    """Make what this session reads from text files and Kafka correct from now on (:data:`SOUND_TEXTS`).

    It is not part of :func:`with_sound_reads`, since it also changes what the user's own functions make of texts: a
    session that only has tables keeps its rules. The settings stay: texts are parsed when the rows are asked for.

    Raises:
        ConfigurationError: the session refuses one of them.
    """
    _set_for_good(session, SOUND_TEXTS)


def _set_for_good(session: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
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
    """Refuse literals without a zone east of UTC: Delta would shift the bounds of statistics past the last instant."""
    if _of(session, _KIND) == "TIMESTAMP_NTZ" and is_east(zone := _of(session, _ZONE) or "UTC"):
        raise ConfigurationError(
            f"The session has {_KIND} = TIMESTAMP_NTZ in the time zone {zone}, east of UTC: there Delta ends reads of "
            f'tables with instants by "long overflow". Set {_ZONE} to UTC, or {_KIND} to TIMESTAMP_LTZ.'
        )


def is_east(zone: str) -> bool:
    """Whether the clocks of a time zone are ever ahead of UTC, by its present rules.

    >>> [is_east(zone) for zone in ("UTC", "America/New_York", "Europe/Berlin", "Europe/London", "+02:00", "-05:00")]
    [False, False, True, True, True, False]
    >>> is_east("UTC+0"), is_east("JST")
    (False, True)
    """
    try:
        rules = zone_of(zone)
    except (LookupError, OSError, ValueError):
        return "+" in zone
    ahead = (rules.utcoffset(datetime(2100, month, 1, tzinfo=timezone.utc)) for month in (1, 7))
    return any(offset is not None and offset > timedelta(0) for offset in ahead)


def _of(session: SparkSession, name: str) -> str | None:
    """The value of a session's setting, or its default; None if the session does not know it."""
    try:
        return session.conf.get(name)
    except Exception:  # the class differs between classic and Connect sessions
        return None


@dataclass(eq=False)
class _Use(Generic[T]):
    """What a session holds, and how many users it has."""

    session: SparkSession
    held: T
    users: int = 0


class _OfEachSession(Generic[T]):
    """Something that each session has once, whichever Python object stands for it, from its first user to its last.

    Args:
        begin: Makes it for a session.
        end: Releases it.
    """

    def __init__(
        self, begin: Callable[[SparkSession], T], end: Callable[[SparkSession, T], None] = lambda *_: None
    ) -> None:
        self._begin, self._end = begin, end
        self._lock = threading.Lock()
        self._uses: list[_Use[T]] = []

    @contextmanager
    def of(self, session: SparkSession) -> Iterator[T]:
        """Provide what this session has while the block runs."""
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
    """A reentrant lock for each session, whichever Python object stands for it; other sessions do not wait."""

    def __init__(self) -> None:
        self._turns = _OfEachSession(lambda _: threading.RLock())

    @contextmanager
    def of(self, session: SparkSession) -> Iterator[None]:
        """Hold the lock of this session while the block runs."""
        with self._turns.of(session) as alone, alone:
            yield


class SharedSetting:
    """A setting that several writes of a session need at the same time; the last one puts it back.

    A session that Spark clones meanwhile, as for a query that starts, keeps the value: there it looks like one that the
    user has set. It is the value that each write sets anyway, so this harms no write.
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
    """Whether two objects stand for the same session: a setting made in one is seen in the other.

    A permanent mark would be cloned with the session. So a new one is made for each question, which arises only if
    another object writes at the same time.
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
    except Exception:  # any kind: the session has ended, or refuses settings that it does not know
        return False
