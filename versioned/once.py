"""Values that several threads may ask for, computed once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """A value that the first caller computes; others who ask meanwhile wait for it.

    ``functools.cached_property`` has no lock since Python 3.12, and before that had one shared by all objects: two
    threads could each hold such a lock and wait for the other.

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
        """Return the value. If computing it raises an error, so does this call, and the next one tries again."""
        with self._lock:
            if self._work_out is not None:
                self._found.append(self._work_out())
                # The function often refers to the owner of this value, a reference cycle that Python would find late.
                self._work_out = None
            return self._found[0]
