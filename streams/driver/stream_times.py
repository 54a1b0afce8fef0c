"""Stream time of one node: the running maximum of ts per scope (docs/concepts/stream-time.md)."""

from __future__ import annotations

from collections.abc import Hashable

from streams.nodes import TimeScope


class StreamTimes:
    """The largest timestamp so far per partition, for the whole store, or per key.

    Example:
        >>> times = StreamTimes("key")
        >>> times.advance(0, "a", 9), times.advance(0, "b", 3), times.advance(0, "a", 5)
        (9, 3, 9)
    """

    def __init__(self, scope: TimeScope = "partition") -> None:
        self.scope = scope
        self._times: dict[Hashable, int] = {}

    def of(self, partition: int, key: Hashable) -> Hashable:
        """The scope that a record belongs to."""
        return {"partition": partition, "store": None, "key": key}[self.scope]

    def advance(self, partition: int, key: Hashable, ts_us: int) -> int:
        """Advance the stream time of a record's scope, and return it."""
        scope = self.of(partition, key)
        self._times[scope] = max(ts_us, self._times.get(scope, ts_us))
        return self._times[scope]

    def get(self, partition: int, key: Hashable) -> int | None:
        """The stream time of a record's scope; ``None`` before its first record."""
        return self._times.get(self.of(partition, key))

    def slowest(self) -> int | None:
        """The smallest stream time of all scopes, if there is any: what has expired by it no scope still needs."""
        return min(self._times.values(), default=None)
