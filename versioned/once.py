"""Values that several threads may ask for, worked out once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """A value worked out by whoever asks first; others who ask meanwhile wait for it.

    ``functools.cached_property`` has no lock since Python 3.12, and before it one for all objects together: of two
    threads each could hold one of these and wait for the other.

    >>> asked = []
    >>> value = Once(lambda: asked.append("once") or 42)
    >>> value(), value(), asked
    (42, 42, ['once'])
    """

    def __init__(self, work_out: Callable[[], T]) -> None:
        self._work_out: Callable[[], T] | None = work_out
        self._lock = threading.Lock()
        self._found: list[T] = []

    def __call__(self) -> T:
        """The value; what working it out raises is raised to each who asks."""
        with self._lock:
            if self._work_out is not None:
                self._found.append(self._work_out())
                # It often refers to whoever holds this value: such circles wait long for Python to find them.
                self._work_out = None
            return self._found[0]
