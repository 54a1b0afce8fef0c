"""Tables from topics or streams: versioned, plain, or without a store of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from streams.driver.processor import Change, Context, Dated, Processor
from streams.nodes import Materialized
from streams.rows import Row
from versioned.durations import duration_us
from versioned.errors import ConfigurationError
from versioned.store_rules import LATEST, REFUSED, VersionedStore

_LOG: Final = logging.getLogger(__name__)


class PlainTable:
    """An unversioned table: the latest record by arrival wins (Kafka: a timestamped key-value store)."""

    def __init__(self) -> None:
        self._rows: dict[Row, tuple[Row, int]] = {}

    def put(self, change: Change) -> Change:
        """Store a change; gives it back with the old value."""
        key = change.key
        if key is None:
            raise ConfigurationError("A table cannot hold a record without a key.")
        before = self._rows.get(key)
        if change.new is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = (change.new, change.ts_us)
        return replace(change, old=None if before is None else before[0])

    def get(self, key: Row) -> Dated | None:
        """Value and timestamp of a key."""
        return self._rows.get(key)


def versioned_store(materialized: Materialized) -> VersionedStore | None:
    """The store of a versioned table; none if it is not versioned."""
    if materialized.history_retention is None:
        return None
    grace = None if materialized.grace is None else duration_us(materialized.grace)
    return VersionedStore(duration_us(materialized.history_retention), grace, materialized.time_scope)


class TableSourceProcessor(Processor):
    """Records as changes of a table (Kafka: ``KTableSource``); also a stream that becomes one (``to_table``).

    A record that the versioned store refuses goes nowhere (R174); one that is out of order flows on with
    ``is_latest = False``. A null key is rejected.
    """

    def __init__(self, node: object, context: Context) -> None:
        super().__init__(node, context)
        stored: Materialized = getattr(node, "materialized", None) or Materialized()
        self._late_policy = stored.late_policy
        self._unit_us = stored.time_resolution.value
        self._plain = PlainTable()
        self._store = versioned_store(stored)

    @property
    def store(self) -> VersionedStore | None:
        """The versions, if the table is versioned."""
        return self._store

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if change.key is None:
            self.metrics.count("skipped")
            self.metrics.count("dropped")
            self.context.reject(self.node, change, "null key")
            return
        if self._store is None:
            yield self._plain.put(replace(change, old=None, is_latest=True))
            return
        ts_us = change.ts_us // self._unit_us * self._unit_us
        yield from self._put(self._store, replace(change, ts_us=ts_us), change.key)

    def get(self, key: Row) -> Dated | None:
        if self._store is None:
            return self._plain.get(key)
        version = self._store.latest(key)
        return None if version is None else (version.value, version.valid_from_us)

    def _put(self, store: VersionedStore, change: Change, key: Row) -> Iterator[Change]:
        old = store.value_at(key, change.ts_us)
        outcome = store.put(key, change.new, change.ts_us, self.context.partition)
        if outcome == REFUSED:
            self._refuse(change)
            return
        yield replace(change, old=old, is_latest=outcome == LATEST)

    def _refuse(self, change: Change) -> None:
        self.metrics.count("late")
        self.metrics.count("dropped")
        _LOG.debug("%s: record at %d us is older than the grace allows and was refused", self.node.name, change.ts_us)
        if self._late_policy == "side_table":
            self.context.reject(self.node, change, "late")
