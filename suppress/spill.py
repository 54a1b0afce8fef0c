"""Where a buffer spills rows beyond its memory bound: a private temporary file.

It is a work file of one process, not the durable state, which is in the buffer's Delta table.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, cast

from suppress.order import canonical_order

if TYPE_CHECKING:
    from suppress.buffer_rules import BufferedRow


class SpillFile:
    """Buffered rows on disk, found by key, by buffer time and by arrival.

    Example:
        >>> len(SpillFile())
        0
    """

    def __init__(self) -> None:
        # An empty name makes a temporary database: a small cache, and a file that vanishes with the connection.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute(
            "CREATE TABLE spilled (id BLOB PRIMARY KEY, buffer_us INTEGER, arrived_us INTEGER, rank BLOB, row BLOB)"
        )
        self._database.execute("CREATE INDEX by_buffer_time ON spilled (buffer_us, rank)")
        self._database.execute("CREATE INDEX by_arrival ON spilled (arrived_us, rank)")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, row: BufferedRow) -> None:
        """Store a row whose key is not in the file yet."""
        self._database.execute(
            "INSERT INTO spilled VALUES (?, ?, ?, ?, ?)",
            (canonical_order(row.key), row.buffer_us, row.arrived_us, row.order, pickle.dumps(row)),
        )
        self._count += 1

    def get(self, key: Hashable) -> BufferedRow | None:
        """The row of a key, or ``None``."""
        return self._first("SELECT row FROM spilled WHERE id = ?", canonical_order(key))

    def remove(self, key: Hashable) -> None:
        """Delete the row of a key."""
        self._count -= self._database.execute("DELETE FROM spilled WHERE id = ?", (canonical_order(key),)).rowcount

    def oldest(self) -> BufferedRow | None:
        """The first row in order of buffer time."""
        return self._first("SELECT row FROM spilled ORDER BY buffer_us, rank LIMIT 1")

    def longest_held(self) -> BufferedRow | None:
        """The row that arrived first by the wall clock."""
        return self._first("SELECT row FROM spilled ORDER BY arrived_us, rank LIMIT 1")

    def rows(self) -> Iterator[BufferedRow]:
        """Every row, in order of buffer time."""
        for (row,) in self._database.execute("SELECT row FROM spilled ORDER BY buffer_us, rank"):
            yield pickle.loads(row)  # noqa: S301 - written by this process, in a file nobody else sees

    def _first(self, query: str, *arguments: bytes) -> BufferedRow | None:
        found = self._database.execute(query, arguments).fetchone()
        return cast("BufferedRow", pickle.loads(found[0])) if found else None  # noqa: S301
