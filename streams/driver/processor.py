"""The operator interface of the test driver, and what passes between operators."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from streams.driver.stream_times import StreamTimes
from streams.field_checks import key_fault
from streams.key_fields import key_fields
from streams.metrics import NodeMetrics, window_store_type
from streams.nodes import Node, Topology, materialized_of
from streams.reasons import NO_MATCH
from streams.rows import Row
from suppress.window_rules import lateness_us
from versioned.errors import ConfigurationError, RecordError

_LOG: Final = logging.getLogger(__name__)
#: Value and timestamp of a key in a table; a value of ``None`` is a tombstone whose timestamp is known.
Dated = tuple[Row | None, int]


@dataclass(frozen=True)
class Change:
    """A record of a stream, or a change of a table (Kafka: ``Record<K, Change<V>>``).

    ``new`` is the value (null is a tombstone); ``old``, for tables only, the value that was valid at ``ts_us`` just
    before. ``is_latest`` is false for a record that is out of order in a versioned table. ``reason`` says why a
    stream-table join found nothing. ``op`` and ``cause`` are set by joins with complete history: what happened to the
    start of a result (``insert``, ``update``, ``retract``), and the record that caused it, as ``side@microseconds``.
    """

    key: Row | None
    new: Row | None
    old: Row | None
    ts_us: int
    is_latest: bool = True
    reason: str | None = None
    op: str | None = None
    cause: str | None = None


@dataclass(frozen=True)
class Found:
    """The result of a lookup: a value, or the reason why there is none."""

    value: Row | None
    reason: str | None = None


@dataclass(frozen=True)
class Reject:
    """A record that a node put aside instead of dropping it silently, with the reason."""

    node: str
    reason: str
    key: Row | None
    value: Row | None
    ts_us: int | None
    partition: int
    offset: int


@dataclass
class Context:
    """What operators share: the plan, the current record's place, the wall clock, the rejects, and one another."""

    topology: Topology = field(default_factory=lambda: Topology(()))
    now_us: int = 0
    partition: int = 0
    offset: int = 0
    suppressed_retention_us: int | None = None
    #: Whether the current node looks its table up by the slowest of the table's stream times.
    asks_across: bool = False
    #: Whether a query comes from outside: it looks each key up by the stream time of the scope of its last put.
    is_asked: bool = False
    rejects: list[Reject] = field(default_factory=list)
    processors: dict[str, Processor] = field(default_factory=dict)

    @contextmanager
    def at(
        self, *, partition: int | None = None, offset: int | None = None, across: bool | None = None
    ) -> Iterator[None]:
        """Use another place than the current record's while the block runs, for the changes processed there."""
        before = (self.partition, self.offset, self.asks_across)
        self.partition = self.partition if partition is None else partition
        self.offset = self.offset if offset is None else offset
        self.asks_across = self.asks_across if across is None else across
        try:
            yield
        finally:
            self.partition, self.offset, self.asks_across = before

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Treat lookups as queries from outside while the block runs, whatever record came last."""
        self.is_asked = True
        try:
            yield
        finally:
            self.is_asked = False

    def reject(self, node: Node, change: Change, reason: str) -> None:
        """Put a record aside, with the reason."""
        self.rejects.append(
            Reject(node.name, reason, change.key, change.new, change.ts_us, self.partition, self.offset)
        )

    def processor(self, name: str) -> Processor:
        """The operator that runs the node of that name."""
        return self.processors[name]


class Processor(ABC):
    """One operator of a running topology: takes changes one by one, and returns the changes that follow from each."""

    def __init__(self, node: Any, context: Context) -> None:
        self.node: Node = node
        self.context = context
        materialized = materialized_of(node)
        self.key_fields = key_fields(self.node)
        store = None if materialized is None else materialized.name
        self.metrics = NodeMetrics(node.name, store, window_store_type(node))

    @abstractmethod
    def process(self, change: Change, parent: int = 0) -> Iterable[Change]:
        """Process one change from the parent with that index."""

    def tick(self, now_us: int) -> Iterable[Change]:
        """React to the wall clock, which is now at ``now_us``; by default not at all (KIP-539, R119)."""
        return ()

    def own_key(self, key: Row) -> Row:
        """Another operator's key under this one's field names: sides of a join may name the same key differently.

        Raises:
            RecordError: the key has another number of fields, or the same fields in another order.
        """
        if self.key_fields is None or self.key_fields == tuple(key):
            return key
        fault = key_fault(tuple(key), self.key_fields)
        if fault is not None:
            keyed = f"{self.node.name} is keyed by ({', '.join(self.key_fields)})"
            raise RecordError(f"the key {key!r} cannot be looked up: {keyed}. {fault}")
        return Row(dict(zip(self.key_fields, key.values(), strict=True)))

    def get(self, key: Row) -> Dated | None:
        """A key's latest value and timestamp in the operator's table, for joins and queries; ``None`` if unknown."""
        return None

    def find(self, key: Row, at_us: int) -> Found:
        """A key's value at an instant, for stream-table joins; a table without versions only knows the latest."""
        dated = self.get(key)
        return Found(None, NO_MATCH) if dated is None else Found(dated[0])

    def items(self) -> Iterator[tuple[Row, Row | None, int]]:
        """Every key of the table that the operator stores, with its latest value and timestamp.

        Raises:
            ConfigurationError: the operator stores no table.
        """
        raise ConfigurationError(f"{self.node.name} has no store of its own. Give it a Materialized.")

    def observe(self, times: StreamTimes, key: Row | None, ts_us: int) -> int:
        """Advance stream time by a record, measure how late the record is, and return the new stream time."""
        stream_time_us = times.advance(self.context.partition, key, ts_us)
        self.metrics.observe_lateness(lateness_us(stream_time_us, ts_us))
        return stream_time_us

    def skip(self, change: Change, reason: str) -> None:
        """Count an invalid record as skipped and keep it in the rejects, so that it is not dropped silently."""
        self.metrics.count("skipped")
        self.metrics.count("dropped")
        self.context.reject(self.node, change, reason)

    def count_late(self, ts_us: int, what: str) -> None:
        """Count a late record, and log it only at DEBUG since lateness is not a fault (R23)."""
        self.metrics.count("late")
        _LOG.debug("%s: late record at %d us %s", self.node.name, ts_us, what)
