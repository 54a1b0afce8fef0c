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

    ``new`` is the value, null = tombstone; ``old`` (tables only) the value valid at ``ts_us`` just before;
    ``is_latest`` is false for a record that is out of order in a versioned table. ``reason`` says why a stream-table
    join found nothing. ``op`` and ``cause`` are set by joins with complete history: what happened to the start of a
    result (``insert``, ``update``, ``retract``), and the record that did it, as ``side@microseconds``.
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
    """What a look-up gave: a value, or the reason why there is none."""

    value: Row | None
    reason: str | None = None


@dataclass(frozen=True)
class Reject:
    """A record that a node did not take, and why: never dropped in silence."""

    node: str
    reason: str
    key: Row | None
    value: Row | None
    ts_us: int | None
    partition: int
    offset: int


@dataclass
class Context:
    """What operators share: the plan, the place of the current record, the wall clock as data, rejects, each other."""

    topology: Topology = field(default_factory=lambda: Topology(()))
    now_us: int = 0
    partition: int = 0
    offset: int = 0
    suppressed_retention_us: int | None = None
    #: Whether the node at hand looks a table up by the slowest of its stream times.
    asks_across: bool = False
    #: Whether somebody asks from outside: then each key goes by the stream time of its own last put.
    is_asked: bool = False
    rejects: list[Reject] = field(default_factory=list)
    processors: dict[str, Processor] = field(default_factory=dict)

    @contextmanager
    def at(
        self, *, partition: int | None = None, offset: int | None = None, across: bool | None = None
    ) -> Iterator[None]:
        """Another place while the block runs: that of what goes on there instead of the current record's."""
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
        """Questions from outside while the block runs, whatever record came last."""
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
    """One operator of a running topology: takes changes one by one, gives the changes that follow from each."""

    def __init__(self, node: Any, context: Context) -> None:
        self.node: Node = node
        self.context = context
        materialized = materialized_of(node)
        self.key_fields = key_fields(self.node)
        store = None if materialized is None else materialized.name
        self.metrics = NodeMetrics(node.name, store, window_store_type(node))

    @abstractmethod
    def process(self, change: Change, parent: int = 0) -> Iterable[Change]:
        """Take one change from the parent of that index."""

    def tick(self, now_us: int) -> Iterable[Change]:
        """The wall clock has come to ``now_us``; nothing by default (KIP-539: ``insertNullRecord``, R119)."""
        return ()

    def own_key(self, key: Row) -> Row:
        """A key of another operator under this one's names: sides of a join may call the same key differently.

        Raises:
            RecordError: it has another number of fields, or the same ones in another order.
        """
        if self.key_fields is None or self.key_fields == tuple(key):
            return key
        fault = key_fault(tuple(key), self.key_fields)
        if fault is not None:
            keyed = f"{self.node.name} is keyed by ({', '.join(self.key_fields)})"
            raise RecordError(f"the key {key!r} cannot be looked up: {keyed}. {fault}")
        return Row(dict(zip(self.key_fields, key.values(), strict=True)))

    def get(self, key: Row) -> Dated | None:
        """The latest value of a key in the table that the operator makes, for joins and queries; none if unknown."""
        return None

    def find(self, key: Row, at_us: int) -> Found:
        """The value of a key at an instant, for stream-table joins; a table without versions only knows the latest."""
        dated = self.get(key)
        return Found(None, NO_MATCH) if dated is None or dated[0] is None else Found(dated[0])

    def items(self) -> Iterator[tuple[Row, Row | None, int]]:
        """Every key of the table that the operator stores, with its latest value and timestamp.

        Raises:
            ConfigurationError: it stores none.
        """
        raise ConfigurationError(f"{self.node.name} has no store of its own. Give it a Materialized.")

    def observe(self, times: StreamTimes, key: Row | None, ts_us: int) -> int:
        """Let a record move a stream time, and measure how late it is; gives the stream time after it."""
        stream_time_us = times.advance(self.context.partition, key, ts_us)
        self.metrics.observe_lateness(lateness_us(stream_time_us, ts_us))
        return stream_time_us

    def skip(self, change: Change, reason: str) -> None:
        """An invalid record: counted as skipped and kept in the rejects, never dropped in silence."""
        self.metrics.count("skipped")
        self.metrics.count("dropped")
        self.context.reject(self.node, change, reason)

    def count_late(self, ts_us: int, what: str) -> None:
        """A record that is late is no fault: counted, and told at DEBUG (R23)."""
        self.metrics.count("late")
        _LOG.debug("%s: late record at %d us %s", self.node.name, ts_us, what)
