"""Settings that a write needs on its session, put there and taken off again, so that no other write meets them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


@dataclass(eq=False)
class _Turns:
    """The turns that are taken in a session: who has one or waits for one, and what they wait for."""

    session: SparkSession
    takers: int = 0
    alone: threading.RLock = field(default_factory=threading.RLock)


class SessionLock:
    """One at a time in each session, whichever of its objects it comes by; a thread that has its turn may enter again.

    Other sessions do not wait.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: list[_Turns] = []

    @contextmanager
    def of(self, session: SparkSession) -> Iterator[None]:
        """Alone in this session while the block runs."""
        with self._lock:
            turns = next((turns for turns in self._turns if are_one(turns.session, session)), None)
            if turns is None:
                turns = _Turns(session)
                self._turns.append(turns)
            turns.takers += 1
        try:
            with turns.alone:
                yield
        finally:
            with self._lock:
                turns.takers -= 1
                if turns.takers == 0:
                    self._turns.remove(turns)


@dataclass(eq=False)
class _Use:
    """A session in which a shared setting is set: what it was before, and for how many writes it is set."""

    session: SparkSession
    former: str | None
    writes: int = 0


class SharedSetting:
    """A setting that several writes of a session need at the same time: the last one puts it back.

    A session that Spark clones meanwhile, as for a query that starts, has the value from then on: there it cannot be
    told from one that the user gave. It is the value that each write sets, so no write is the worse for it.
    """

    def __init__(self, name: str, value: str) -> None:
        self._name, self._value = name, value
        self._lock = threading.Lock()
        self._uses: list[_Use] = []

    @contextmanager
    def of(self, session: SparkSession) -> Iterator[None]:
        """Set it in this session while the block runs."""
        with self._lock:
            use = next((use for use in self._uses if are_one(use.session, session)), None)
            if use is None:
                use = _Use(session, session.conf.get(self._name, None))
                session.conf.set(self._name, self._value)
                self._uses.append(use)
            use.writes += 1
        try:
            yield
        finally:
            with self._lock:
                use.writes -= 1
                if use.writes == 0:
                    self._uses.remove(use)
                    put_back(session, self._name, use.former)


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
