"""Settings that a write needs on its session, put there and taken off again, so that no other write meets them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What begins so is set for a moment only, to see which sessions see it.
_PROBE: Final = "spark.versioned.probe"


@contextmanager
def session_settings(session: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Settings for the length of one write, put back as they were; None = not set."""
    before = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        put_back(session, name, value)
    try:
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
