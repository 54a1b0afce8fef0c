"""Queries on the tables of a running topology (Kafka: interactive queries, ``VersionedKeyValueStore``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from streams.driver.keys import key_parts, one_form
from streams.driver.processor import Processor
from streams.driver.table_state import StoringProcessor, VersionedState
from streams.fields import WINDOW_FIELDS
from streams.key_fields import has_window_key
from streams.nodes import Node
from streams.plan_facts import is_versioned
from streams.rows import Row
from versioned.errors import ConfigurationError, RecordError
from versioned.given import given_instant_us
from versioned.store_rules import Version


class StoreView:
    """A table of the running topology, to be queried.

    Give a key as a single value if it has one field, or as a mapping of its fields. Give instants, also the bounds of
    windows in keys, as datetimes (UTC if they have no zone) or as microseconds.
    """

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._names = processor.key_fields
        self._instants = WINDOW_FIELDS if has_window_key(processor.node) else ()

    def get(self, key: Any) -> tuple[Row, int] | None:
        """The latest value of a key and its timestamp in microseconds; ``None`` if it is unknown or deleted.

        Raises:
            ConfigurationError: the node is not a table.
            RecordError: the key has other fields than the table.
        """
        self._check_table()
        value, ts_us = self._processor.get(self._row(key)) or (None, 0)
        return None if value is None else (value, ts_us)

    def as_of(self, key: Any, at: datetime | int) -> Row | None:
        """The value valid at an instant, as a stream-table join finds it; ``None`` before the history, or if deleted.

        How far the history reaches follows from the stream time of the key's own partition.

        Raises:
            ConfigurationError: the node is not a table.
            RecordError: the key has other fields than the table.
        """
        self._check_table()
        with self._processor.context.asked():
            return self._processor.find(self._row(key), given_instant_us("as_of", at)).value

    def history(
        self,
        key: Any,
        start: datetime | int | None = None,
        end: datetime | int | None = None,
        *,
        ascending: bool = True,
    ) -> list[Version]:
        """The versions, without tombstones, that were valid at some instant of [start, end].

        Raises:
            ConfigurationError: the table keeps no versions, or the range ends before it begins.
            RecordError: the key has other fields than the table.
        """
        state = self._processor.state if isinstance(self._processor, StoringProcessor) else None
        if not isinstance(state, VersionedState):
            raise ConfigurationError(_no_history(self._processor.node))
        row = self._row(key)
        start_us, end_us = _maybe_us("start", start), _maybe_us("end", end)
        found = state.store.history(key_parts(row), start_us, end_us, ascending=ascending)
        return [replace(version, key=row) for version in found]

    def items(self) -> Iterator[tuple[Row, Row | None, int]]:
        """Every key with its latest value and timestamp.

        Raises:
            ConfigurationError: the node has no store of its own.
        """
        return self._processor.items()

    def _check_table(self) -> None:
        if type(self._processor).get is Processor.get:
            raise ConfigurationError(f"{self._processor.node.name} is no table that a key can be looked up in.")

    def _row(self, key: Any) -> Row:
        node, names = self._processor.node.name, self._names
        if not isinstance(key, Mapping):
            if names is not None and len(names) != 1:
                raise RecordError(f"{node}: the key has the fields {list(names)}; give a mapping, not {key!r}.")
            key = {(names or ("key",))[0]: key}
        elif names is not None and set(key) != set(names):
            raise RecordError(f"{node}: the key has the fields {list(names)}, not {list(key)}.")
        lacking = [name for name in self._instants if name not in key]
        if lacking:
            raise RecordError(
                f"{node}: the key lacks {lacking} of its window; give a mapping with its fields and with these."
            )
        # Stores find a key by its parts in order, and a mapping may have them in another one.
        row: Row = one_form(Row({name: self._part(name, key[name]) for name in names or key}))
        return row

    def _part(self, name: str, value: Any) -> Any:
        return given_instant_us(name, value) if name in self._instants else value


def _no_history(node: Node) -> str:
    if is_versioned(node):
        return (
            f"{node.name} is a view of the versions of {node.parents[0].name}, without a store of its own to list them "
            "from. Give it Materialized.versioned(...), or use as_of."
        )
    return f"{node.name} keeps no versions, so it has no history. Give it Materialized.versioned(...), or use get."


def _maybe_us(option: str, at: datetime | int | None) -> int | None:
    return None if at is None else given_instant_us(option, at)
