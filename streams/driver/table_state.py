"""The stored state of a table in the driver: all versions, or the latest value per key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from streams.driver.keys import Key, key_parts
from streams.driver.processor import Change, Context, Dated, Found, Processor
from streams.nodes import Materialized, Node, materialized_of, takes_late
from streams.plan_facts import tells_older_results
from streams.reasons import LATE, NO_MATCH
from streams.rows import Row
from versioned.durations import duration_us
from versioned.store_rules import Reason, Version, VersionedStore


class PlainState:
    """An unversioned table: the latest record by arrival wins (Kafka: a timestamped key-value store)."""

    def __init__(self) -> None:
        self._rows: dict[Key, tuple[Row, int]] = {}

    def put(self, key: Row, change: Change, partition: int) -> Change | None:
        """Store a change, and return it with the old value."""
        parts = key_parts(key)
        before = self._rows.get(parts)
        if change.new is None:
            self._rows.pop(parts, None)
        else:
            self._rows[parts] = (change.new, change.ts_us)
        return replace(change, old=None if before is None else before[0], is_latest=True)

    def get(self, key: Row) -> Dated | None:
        """Value and timestamp of a key."""
        return self._rows.get(key_parts(key))

    def find(self, key: Row, at_us: int, partition: int | None, *, slowest: bool = False) -> Found:
        """The latest value, whatever the instant (R144)."""
        row = self._rows.get(key_parts(key))
        return Found(None, NO_MATCH) if row is None else Found(row[0])

    def items(self) -> Iterator[tuple[Key, Row, int]]:
        """Every key with its value and timestamp."""
        return ((parts, value, ts_us) for parts, (value, ts_us) in self._rows.items())


class VersionedState:
    """A versioned table; ``store`` is the pure rule behind it."""

    def __init__(self, store: VersionedStore, unit_us: int) -> None:
        self.store = store
        self._unit_us = unit_us

    def put(self, key: Row, change: Change, partition: int) -> Change | None:
        """Store a change, and return it with the value that was valid at its time; ``None`` if it is too late."""
        ts_us = change.ts_us // self._unit_us * self._unit_us
        old = self.store.value_at(key_parts(key), ts_us)
        outcome = self.store.take(key_parts(key), change.new, ts_us, partition)
        return None if outcome.is_refused else replace(change, ts_us=ts_us, old=old, is_latest=outcome.is_latest)

    def get(self, key: Row) -> Dated | None:
        """Value and timestamp of the latest version, a tombstone included."""
        version = self.store.latest(key_parts(key))
        return None if version is None else (version.value, version.valid_from_us)

    def find(self, key: Row, at_us: int, partition: int | None, *, slowest: bool = False) -> Found:
        """The value valid at an instant, or why there is none (R138, R184)."""
        version = self.store.as_of(key_parts(key), at_us, partition, slowest=slowest)
        return Found(None, version.value) if isinstance(version, Reason) else Found(version.value)

    def items(self) -> Iterator[tuple[Key, Row, int]]:
        """Every key that is not deleted, with its latest value and timestamp."""
        latest = map(self.store.get, self.store.keys())
        return ((_key(found), found.value, found.valid_from_us) for found in latest if found is not None)


def _key(version: Version) -> Key:
    key: Any = version.key
    return tuple(key)


def table_state(materialized: Materialized | None) -> PlainState | VersionedState:
    """The state for a table that is stored like this; a plain one unless a history retention is given."""
    if materialized is None or materialized.history_retention is None:
        return PlainState()
    grace_us = None if materialized.grace is None else duration_us(materialized.grace)
    store = VersionedStore(duration_us(materialized.history_retention), grace_us, materialized.time_scope)
    return VersionedState(store, materialized.time_resolution.value)


class StoringProcessor(Processor):
    """An operator whose table is stored, or is a view that :meth:`_view_get` and :meth:`_view_find` compute.

    A change that a versioned store refuses is not forwarded (R174): it is late, and rejected if the policy says so. If
    a join with complete history emits an older result again, a store without versions ignores it, and it is forwarded.
    """

    def __init__(self, node: Node, context: Context, *, always_stored: bool = False) -> None:
        super().__init__(node, context)
        self._materialized = materialized_of(node)
        is_stored = always_stored or self._materialized is not None
        self.state: PlainState | VersionedState | None = table_state(self._materialized) if is_stored else None
        self._keeps_latest = isinstance(self.state, PlainState) and tells_older_results(node)

    def get(self, key: Row) -> Dated | None:
        return self._view_get(key) if self.state is None else self.state.get(key)

    def find(self, key: Row, at_us: int) -> Found:
        if self.state is None:
            return self._view_find(key, at_us)
        partition = None if self.context.is_asked else self.context.partition
        return self.state.find(key, at_us, partition, slowest=self.context.asks_across)

    def items(self) -> Iterator[tuple[Row, Row | None, int]]:
        if self.state is None:
            yield from super().items()
        else:
            yield from ((self._row(parts), value, ts_us) for parts, value, ts_us in self.state.items())

    def _row(self, parts: Key) -> Row:
        # If the plan does not know the names, the field of a single-field key is called as in computed keys.
        unknown = ("key",) if len(parts) == 1 else tuple(f"key{place}" for place in range(len(parts)))
        return Row(dict(zip(self.key_fields or unknown, parts, strict=True)))

    def _view_get(self, key: Row) -> Dated | None:
        return None

    def _view_find(self, key: Row, at_us: int) -> Found:
        return super().find(key, at_us)

    def _stored(self, key: Row, change: Change) -> Change | None:
        """Store a change, and return it with the store's old value; ``None`` if the store refused it."""
        if self.state is None or (self._keeps_latest and not change.is_latest):
            return change
        taken = self.state.put(key, change, self.context.partition)
        if taken is None:
            self._refuse(change)
        return taken

    def _refuse(self, change: Change) -> None:
        self.count_late(change.ts_us, "is older than the grace allows and was refused")
        self.metrics.count("dropped", int(not takes_late(self.node)))
        if self._materialized is not None and self._materialized.late_policy == "side_table":
            self.context.reject(self.node, change, LATE)
