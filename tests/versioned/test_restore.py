"""Taking a table back beside upkeep."""

from __future__ import annotations

from typing import Any

from versioned.identifiers import TableRef
from versioned.restore import restore


class ConcurrentWriteException(Exception):
    """Stands for Delta's, which is told by its name."""


class _Session:
    """Meets other commits for the first few times."""

    def __init__(self, conflicts: int) -> None:
        self._conflicts = conflicts
        self.asked: list[str] = []

    def sql(self, text: str) -> None:
        self.asked.append(text)
        if len(self.asked) <= self._conflicts:
            raise ConcurrentWriteException


def test_a_restoration_that_upkeep_came_before_is_tried_again() -> None:
    session: Any = _Session(conflicts=1)
    restore(session, TableRef.parse("/data/prices"), 7)
    assert session.asked == ["RESTORE TABLE delta.`/data/prices` TO VERSION AS OF 7"] * 2
