"""The test driver: runs a topology in plain Python, record by record, without Spark (Kafka: ``TopologyTestDriver``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streams.driver.processor import Change, Context, Processor, Reject
from streams.driver.records import has_time_beyond, key_row, timestamp_us, value_row
from streams.driver.registry import processor_for
from streams.driver.store_view import StoreView
from streams.driver.suppress import SuppressProcessor
from streams.key_fields import changes_key
from streams.metrics import COUNTERS, MetricValue
from streams.nodes import (
    SOURCES,
    ChangelogSink,
    Node,
    SourceNode,
    StreamSource,
    TableSink,
    Topology,
    check_plan,
    materialized_of,
)
from streams.reasons import FUTURE_TS, NULL_TS, TS_RANGE
from streams.rows import Row
from streams.stream_time_scopes import asks_across, gathers, nodes_in_one_scope
from streams.user_functions import calls_user, giving_declared, told_with
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US, Duration, duration_us, optional_span_us
from versioned.errors import ArgumentError, ConfigurationError, RecordError, VersionedError
from versioned.given import check_flag, check_kind, check_optional, given_instant_us, no_such, told


@dataclass(frozen=True)
class OutputRecord:
    """A record that arrived at a sink.

    ``old`` is set for tables, ``reason`` for results of a stream's join with a table without a match, ``op`` and
    ``cause`` for joins with complete history.
    """

    key: Row | None
    value: Row | None
    ts_us: int
    old: Row | None = None
    reason: str | None = None
    op: str | None = None
    cause: str | None = None
    is_latest: bool = True


@dataclass(frozen=True)
class _Edge:
    child: Node
    index: int


class TopologyTestDriver:
    """Runs a topology record by record, with a wall clock that only the test moves.

    Args:
        topology: The plan that ``StreamsBuilder.build()`` returned.
        start: The wall clock at the start: a datetime, or microseconds since the epoch.
        max_future_skew: How far ahead of the wall clock a timestamp may be; records beyond it are rejected. ``None``
            (default) accepts any, since the wall clock stands still unless the test moves it.
        keys_cross_partitions: Whether records share one stream-time scope once their key has changed (default), or
            keep that of their partition.
        suppressed_record_retention: ``suppressed.record.retention.ms`` of the application (KIP-539); off by default.

    Example:
        >>> from streams.topology import Materialized, StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", Materialized.versioned("1 day"), key="item", value="price")
        >>> builder.stream("orders", key="item", value="amount").join(prices).to_changelog("priced")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("prices", "pen", 2, 1_000)
        >>> driver.pipe_input("prices", "pen", 3, 2_000)
        >>> driver.pipe_input("orders", "pen", 10, 1_999)
        >>> [record.value.price for record in driver.read_output("priced")]
        [2]
    """

    def __init__(
        self,
        topology: Topology,
        *,
        start: datetime | int = 0,
        max_future_skew: Duration | None = None,
        suppressed_record_retention: Duration | None = None,
        keys_cross_partitions: bool = True,
    ) -> None:
        check_plan("TopologyTestDriver", topology)
        check_flag("keys_cross_partitions", keys_cross_partitions)
        topology = giving_declared(topology)
        retention_us = optional_span_us("suppressed_record_retention", suppressed_record_retention)
        now_us = given_instant_us("start", start)
        self._context = Context(topology=topology, now_us=now_us, suppressed_retention_us=retention_us)
        self._skew_us = optional_span_us("max_future_skew", max_future_skew)
        self._topology = topology
        self._in_one_scope = nodes_in_one_scope(topology, keys_cross_partitions)
        self._asking_across = {node.name for node in topology if asks_across(node, self._in_one_scope)}
        self._gathering = {node.name for node in topology if self._gathers(node, keys_cross_partitions)}
        self._sources: dict[str, list[SourceNode]] = {}
        self._outputs: dict[str, list[OutputRecord]] = {}
        self._edges: dict[str, list[_Edge]] = {node.name: [] for node in topology}
        self._offsets: dict[tuple[str, int], int] = {}
        self.stores: Mapping[str, StoreView] = {}
        self._wire()

    def pipe_input(
        self, topic: str, key: Any, value: Any, ts: Any, *, partition: int = 0, offset: int | None = None
    ) -> None:
        """Process one record through the whole topology.

        Args:
            topic: The topic; every source that reads it gets the record.
            key: A single value if the source has one key field, otherwise a mapping; may be null.
            value: Likewise; null is a tombstone.
            ts: Event time: a datetime (UTC if it has no zone), or an int of microseconds.
            partition: Its partition, the stream-time scope.
            offset: Its offset in the partition; by default one more than that of the record before.

        Raises:
            RecordError: no source reads the topic, or key, value or ts do not fit the source.
            ConfigurationError: the partition or the offset is not a number.
            BufferFullError: a strict suppression buffer is over its bound.
        """
        sources = self._sources.get(topic)
        if sources is None:
            raise RecordError(f'Nobody reads the topic "{topic}"; there are {sorted(self._sources)}.')
        check_kind("partition", partition, int, "a number")
        check_optional("offset", offset, int, "a number")
        self._context.partition = partition
        self._context.offset = self._offsets.get((topic, partition), 0) if offset is None else offset
        self._offsets[topic, partition] = self._context.offset + 1
        for source in sources:
            self._pipe(source, key, value, ts)

    def advance_wall_clock(self, duration: Duration) -> None:
        """Advance the wall clock and tick every operator; stream time does not change (R123).

        Raises:
            ConfigurationError: the duration is negative: clocks do not go back.
        """
        passed_us = duration_us(duration)
        if passed_us < 0:
            raise ConfigurationError(f"advance_wall_clock takes time that passes; got {told(duration)}.")
        self._context.now_us += passed_us
        for processor in self._in_order_of_ticks():
            for change in processor.tick(self._context.now_us):
                self._forward(processor.node, change)

    def drain(self, suppress: str) -> None:
        """Emit everything that a suppression holds, partition by partition, oldest first (R59).

        Raises:
            UnknownNameError: there is no such node.
            ArgumentError: the node is not a suppression.
        """
        processor = self.processor(suppress)
        if not isinstance(processor, SuppressProcessor):
            raise ArgumentError(f"{suppress} is a {type(processor).__name__}; only a suppression can be drained.")
        for change in processor.drain():
            self._forward(processor.node, change)

    def read_output(self, sink: str) -> list[OutputRecord]:
        """Return what has arrived at a sink since the last call, in order of arrival.

        Raises:
            UnknownNameError: there is no such sink (also a KeyError).
        """
        records = self._outputs.get(sink)
        if records is None:
            raise no_such("sink", sink, self._outputs)
        self._outputs[sink] = []
        return records

    @property
    def rejects(self) -> list[Reject]:
        """Every record that a node put aside, with the reason."""
        return self._context.rejects

    @property
    def metrics(self) -> tuple[MetricValue, ...]:
        """The metrics of every node (R61-R78); rates are measured since the previous reading."""
        readings = (self._context.processor(node.name).metrics.report(self._context.now_us) for node in self._topology)
        return tuple(value for reading in readings for value in reading)

    def counters(self, node: str) -> Mapping[str, int]:
        """The counters of one node: ``input``, ``accepted``, ``dropped`` and what they are made of.

        Every input record is either accepted or dropped. Dropped records are those ``skipped`` as invalid, those that
        are ``late``, those that a join of versioned tables does not take because they are out of order (``ignored``),
        and those that ``on_expired="side_table"`` puts aside. An aggregate of a table accepts what it ignores. A join
        of two streams accepts late records, and so do nodes that may give several results for one record. Other
        counters are ``expired``, ``suppressed``, ``emitted``, ``match``, ``no_match`` and so on. A counter of what did
        not occur is 0.

        Raises:
            UnknownNameError: there is no such node; the mapping returned raises it for a name that is not a counter.
        """
        return _Counts(self.processor(node).metrics.counters)

    def total(self, counter: str) -> int:
        """The sum of a counter over all nodes.

        Raises:
            UnknownNameError: there is no such counter.
        """
        return sum(self.counters(node.name)[counter] for node in self._topology)

    def processor(self, node: str) -> Processor:
        """The running operator of a node, for tests that inspect it.

        Raises:
            UnknownNameError: there is no such node.
        """
        if node not in self._edges:
            raise no_such("node", node, self._edges)
        return self._context.processor(node)

    def _wire(self) -> None:
        stores = _Stores()
        for node in self._topology:
            processor = processor_for(node, self._context)
            materialized = materialized_of(node)
            stores[node.name] = StoreView(processor)
            if materialized is not None and materialized.name is not None:
                stores[materialized.name] = stores[node.name]
            for index, parent in enumerate(node.parents):
                self._edges[parent.name].append(_Edge(node, index))
            if isinstance(node, SOURCES):
                self._sources.setdefault(node.topic, []).append(node)
            if isinstance(node, (ChangelogSink, TableSink)):
                self._outputs[node.name] = []
        for sources in self._sources.values():
            # A record reaches tables before streams, and otherwise sources in the order of the plan.
            sources.sort(key=lambda source: isinstance(source, StreamSource))
        self.stores = stores

    def _pipe(self, source: SourceNode, key: Any, value: Any, ts: Any) -> None:
        ts_us = timestamp_us(source, ts)
        record = (key_row(source, key), value_row(source, value))
        if ts_us is not None and not FIRST_INSTANT_US <= ts_us <= LAST_INSTANT_US:
            self._refuse(source, record, None, TS_RANGE)
            return
        if any(map(has_time_beyond, record)):
            self._refuse(source, record, ts_us, TS_RANGE)
            return
        too_far = self._skew_us is not None and ts_us is not None and ts_us > self._context.now_us + self._skew_us
        if ts_us is None or too_far:
            self._refuse(source, record, ts_us, NULL_TS if ts_us is None else FUTURE_TS)
            return
        self._run(source, Change(record[0], record[1], None, ts_us), 0)

    def _refuse(
        self, source: SourceNode, record: tuple[Row | None, Row | None], ts_us: int | None, reason: str
    ) -> None:
        context = self._context
        metrics = context.processor(source.name).metrics
        for counter in ("input", "skipped", "dropped"):
            metrics.count(counter)
        context.rejects.append(Reject(source.name, reason, *record, ts_us, context.partition, context.offset))

    def _run(self, node: Node, change: Change, index: int) -> None:
        processor = self._context.processor(node.name)
        counters = processor.metrics.counters
        dropped = counters["dropped"]
        partition = 0 if node.name in self._gathering else None
        with self._context.at(partition=partition, across=node.name in self._asking_across):
            for result in _results(node, change, lambda: processor.process(change, index)):
                self._forward(node, result)
        processor.metrics.count("input")
        processor.metrics.count("accepted", int(counters["dropped"] == dropped))

    def _gathers(self, node: Node, keys_cross_partitions: bool) -> bool:
        return gathers(node, self._in_one_scope) or (keys_cross_partitions and changes_key(node))

    def _in_order_of_ticks(self) -> Iterator[Processor]:
        """The operators in the order in which they see the wall clock advance.

        Suppressions of final results go first, from the last of the plan to the first. So what another suppression
        emits at the same moment gets into no window that is already due (R117).
        """
        processors = [self._context.processor(node.name) for node in self._topology]
        closing = [found for found in processors if isinstance(found, SuppressProcessor) and found.rule.final]
        yield from reversed(closing)
        yield from (processor for processor in processors if processor not in closing)

    def _forward(self, node: Node, change: Change) -> None:
        # Depth first, children in plan order, as Kafka forwards.
        if node.name in self._outputs:
            self._outputs[node.name].append(_output(change))
        with self._context.at(partition=0 if node.name in self._in_one_scope else None):
            for edge in self._edges[node.name]:
                self._run(edge.child, change, edge.index)


def _results(node: Node, change: Change, process: Callable[[], Iterable[Change]]) -> Iterator[Change]:
    """The changes that an operator makes of one change; errors of records are raised with the operator's name.

    So are errors in user functions. An assertion is raised as it is, since it may be the test's own.
    """
    try:
        with told_with(node.name):
            yield from process()
    except Exception as error:
        if isinstance(error, (AssertionError, VersionedError)) or not calls_user(node):
            raise
        raise RecordError(
            f"{node.name}: its function failed with {type(error).__name__} ({error}) at a record of {change.key!r}, "
            f"{change.ts_us} us."
        ) from error


class _Counts(Mapping[str, int]):
    """A live view of a node's counters; for an unknown name the error lists those that there are."""

    def __init__(self, counted: Mapping[str, int]) -> None:
        self._counted = counted

    def __getitem__(self, name: str) -> int:
        if name not in self._counted and name not in COUNTERS:
            raise no_such("counter", name, {*COUNTERS, *self._counted})
        return self._counted.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._counted)

    def __len__(self) -> int:
        return len(self._counted)

    def __repr__(self) -> str:
        return repr(self._counted)


class _Stores(dict[str, StoreView]):
    """The tables by name; for an unknown name the error lists those that there are."""

    def __missing__(self, name: str) -> StoreView:
        raise no_such("node or store", name, self)


def _output(change: Change) -> OutputRecord:
    return OutputRecord(
        change.key, change.new, change.ts_us, change.old, change.reason, change.op, change.cause, change.is_latest
    )
