"""Streams of the DSL (Kafka Streams: ``KStream``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, overload

from streams.graph import (
    FieldOrFunction,
    Function,
    Graph,
    Joiner,
    KeyOrFunction,
    called,
    joined_value,
    key_function,
    plain_function,
    predicate_function,
    row_function,
    store_name,
)
from streams.grouped import KGroupedStream
from streams.ktable import GlobalKTable, KTable
from streams.nodes import (
    ChangelogSink,
    CorrectionFeed,
    Emit,
    Joined,
    JoinKind,
    Materialized,
    Node,
    SelectKey,
    StreamFilter,
    StreamGlobalTableJoin,
    StreamMapValues,
    StreamStreamJoin,
    StreamTableJoin,
    TableSink,
    ToTable,
)
from suppress.windows import JoinWindows
from versioned.durations import Duration, duration
from versioned.errors import ArgumentError, TopologyError
from versioned.given import check_kind, told


class KStream:
    """A stream of records (Kafka: ``KStream``).

    Functions passed to its methods take ``(value)`` or ``(key, value)``, and are traced once, into an expression (see
    ``streams.expressions``).

    Example:
        >>> from streams.topology import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> flights = builder.stream("flights", key="tail", value=("origin", "delay"))
        >>> flights.filter(lambda value: value.delay > 60).to_changelog("delayed")
        >>> [node.name for node in builder.build()]
        ['stream-flights', 'stream-filter-1', 'delayed']
    """

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node

    def filter(self, predicate: Function, *, name: str | None = None) -> KStream:
        """The records for which the predicate is true; null is not true (Kafka: ``filter``)."""
        return self._filter("stream-filter", predicate, False, name)

    def filter_not(self, predicate: Function, *, name: str | None = None) -> KStream:
        """The records for which the predicate is false; null is not false (Kafka: ``filterNot``)."""
        return self._filter("stream-filter-not", predicate, True, name)

    def map_values(self, mapper: FieldOrFunction, *, name: str | None = None) -> KStream:
        """The records with new values; a dict becomes a row (Kafka: ``mapValues``)."""
        node = StreamMapValues(self.graph.name("stream-map-values", name), (self.node,), row_function(mapper))
        return KStream(self.graph, self.graph.add(node))

    def transform_values(self, function: Function, returns: str, *, name: str | None = None) -> KStream:
        """New values from a Python function of ``(key, value)`` or ``(value)`` (Kafka: ``transformValues``; R167).

        Args:
            function: Returns a mapping, or a single value. Both engines call it in Python, so prefer ``map_values``.
            returns: The DDL of its result: ``"price double, label string"``.
            name: Name of the node.
        """
        mapper = plain_function(function, returns)
        node = StreamMapValues(self.graph.name("stream-transform-values", name), (self.node,), mapper)
        return KStream(self.graph, self.graph.add(node))

    def select_key(self, key: KeyOrFunction, *, name: str | None = None) -> KStream:
        """The records under a new key, in new stream-time scopes (Kafka: ``selectKey``).

        Args:
            key: A function, or the names of value fields. A single value becomes a key with one field, which has the
                name of the value field, or ``key`` if the value is computed.
            name: Name of the node.
        """
        node = SelectKey(self.graph.name("select-key", name), (self.node,), key_function(key))
        return KStream(self.graph, self.graph.add(node))

    def to_table(
        self, materialized: Materialized | None = None, *, reorder: Duration | None = None, name: str | None = None
    ) -> KTable:
        """The records as changes to a table (Kafka: ``toTable``; R133, R134).

        Args:
            materialized: How the table is stored. It is versioned only if this says so.
            reorder: Hold records this long and release them in order of time per key (R169).
            name: Name of the node.
        """
        node_name = self.graph.name("to-table", name, store_name(materialized))
        held = None if reorder is None else duration(reorder)
        return KTable(self.graph, self.graph.add(ToTable(node_name, (self.node,), materialized, held)))

    def group_by_key(self) -> KGroupedStream:
        """Group by the current key of the records (Kafka: ``groupByKey``)."""
        return KGroupedStream(self.graph, self.node, None)

    def group_by(self, key: KeyOrFunction) -> KGroupedStream:
        """Group by a new key; records whose new key is null are skipped and counted (Kafka: ``groupBy``)."""
        return KGroupedStream(self.graph, self.node, key_function(key))

    @overload
    def join(
        self, other: KTable, joiner: Joiner | None = ..., *, joined: Joined | None = ..., name: str | None = ...
    ) -> KStream: ...
    @overload
    def join(
        self, other: GlobalKTable, joiner: Joiner | None = ..., *, key: KeyOrFunction, name: str | None = ...
    ) -> KStream: ...
    @overload
    def join(
        self, other: KStream, joiner: Joiner | None = ..., *, windows: JoinWindows, name: str | None = ...
    ) -> KStream: ...
    def join(self, other: Any, joiner: Joiner | None = None, **options: Any) -> KStream:
        """Inner join with a table, a global table or a stream (Kafka: ``join``; KIP-914, KIP-923).

        Args:
            other: A table, looked up at the record's time if it is versioned (R138), otherwise in its current state; a
                global table; or a stream.
            joiner: A function of ``(left, right)`` or ``(key, left, right)``. Default: all fields of both.
            joined: For a table: the grace, and what to do with expired lookups.
            key: For a global table: the key to look up, from this record.
            windows: For a stream: how far apart two records may be.
            name: Name of the node.

        Raises:
            TopologyError: a grace with an unversioned table, or larger than its history retention; or a stream cannot
                join the other side.
            ArgumentError: an option that does not apply to the other side, or a missing one.
        """
        return self._join("inner", other, joiner, **options)

    @overload
    def left_join(
        self, other: KTable, joiner: Joiner | None = ..., *, joined: Joined | None = ..., name: str | None = ...
    ) -> KStream: ...
    @overload
    def left_join(
        self, other: GlobalKTable, joiner: Joiner | None = ..., *, key: KeyOrFunction, name: str | None = ...
    ) -> KStream: ...
    @overload
    def left_join(
        self, other: KStream, joiner: Joiner | None = ..., *, windows: JoinWindows, name: str | None = ...
    ) -> KStream: ...
    def left_join(self, other: Any, joiner: Joiner | None = None, **options: Any) -> KStream:
        """Like :meth:`join`, but records without a match are kept, with nulls (Kafka: ``leftJoin``; R140, R141)."""
        return self._join("left", other, joiner, **options)

    def corrections(self, *, name: str | None = None) -> KStream:
        """Corrections of this stream-table join: results that a late table change altered.

        The join's own output is never changed.

        The join needs ``Joined.with_corrections(retention)``: results are remembered that long, in stream time of the
        table. A correction has the join's key and the result's ts. Its value has ``original_scope`` and
        ``original_seq`` (the place of the result in the output), ``revision`` (1, 2, ...), ``old`` and ``new`` (the
        joined rows; null for none) and ``cause`` (the table record's ts, in microseconds).

        Raises:
            TopologyError: this is not a stream-table join with corrections.
        """
        node = self.node
        if not isinstance(node, StreamTableJoin) or node.joined.correction_retention is None:
            raise TopologyError(
                "corrections", node.name,
                "only a stream-table join with Joined.with_corrections(retention) can be corrected.",
            )  # fmt: skip
        made = CorrectionFeed(self.graph.name("corrections", name), (node, node.parents[1]))
        return KStream(self.graph, self.graph.add(made))

    def outer_join(
        self, other: KStream, joiner: Joiner | None = None, *, windows: JoinWindows, name: str | None = None
    ) -> KStream:
        """Like :meth:`join` of two streams, but unmatched records of either side are kept (Kafka: ``outerJoin``).

        Raises:
            TopologyError: the other side is not a stream.
        """
        if not isinstance(other, KStream):
            raise TopologyError(
                "join-sides", self.node.name,
                f"a stream has an outer join with a stream only; got {called(other)}. Use left_join for a table.",
            )  # fmt: skip
        return self._join_stream("outer", other, joiner, windows=windows, name=name)

    def to_changelog(self, name: str, *, emit: Emit = "every") -> None:
        """Append the records to the sink table ``name`` (Kafka: ``to``)."""
        self.graph.add(ChangelogSink(name, (self.node,), emit))

    def to_latest(self, name: str) -> None:
        """Keep the last record of each key in the sink table ``name``."""
        self.graph.add(TableSink(name, (self.node,)))

    def _filter(self, kind: str, predicate: Function, negated: bool, name: str | None) -> KStream:
        expr = predicate_function(predicate)
        node = StreamFilter(self.graph.name(kind, name), (self.node,), ~expr if negated else expr)
        return KStream(self.graph, self.graph.add(node))

    def _join(self, kind: JoinKind, other: Any, joiner: Joiner | None, **options: Any) -> KStream:
        if isinstance(other, KTable):
            _check_options(other, options, "joined")
            return self._join_table(kind, other, joiner, **options)
        if isinstance(other, GlobalKTable):
            _check_options(other, options, "key", needed=True)
            return self._join_global(kind, other, joiner, **options)
        if isinstance(other, KStream):
            _check_options(other, options, "windows", needed=True)
            return self._join_stream(kind, other, joiner, **options)
        raise TopologyError(
            "join-sides", self.node.name, f"a stream joins a table, a global table or a stream; got {called(other)}."
        )

    def _join_table(
        self,
        kind: JoinKind,
        other: KTable,
        joiner: Joiner | None,
        *,
        joined: Joined | None = None,
        name: str | None = None,
    ) -> KStream:
        wanted = "what Joined gives, such as Joined.with_grace_period(...)"
        options = Joined() if joined is None else joined
        check_kind("joined", options, Joined, wanted)
        node_name = self.graph.name("stream-table-join", name, options.name)
        value = joined_value(joiner, node_name, self.node, other.node)
        node = StreamTableJoin(node_name, (self.node, other.node), kind, value, options)
        return KStream(self.graph, self.graph.add(node))

    def _join_global(
        self,
        kind: JoinKind,
        other: GlobalKTable,
        joiner: Joiner | None,
        *,
        key: KeyOrFunction,
        name: str | None = None,
    ) -> KStream:
        node_name = self.graph.name("global-table-join", name)
        value = joined_value(joiner, node_name, self.node, other.node)
        node = StreamGlobalTableJoin(node_name, (self.node, other.node), kind, key_function(key), value)
        return KStream(self.graph, self.graph.add(node))

    def _join_stream(
        self, kind: JoinKind, other: KStream, joiner: Joiner | None, *, windows: JoinWindows, name: str | None = None
    ) -> KStream:
        node_name = self.graph.name("stream-stream-join", name)
        if not isinstance(windows, JoinWindows):
            raise TopologyError(
                "join-windows", node_name, f"a join of two streams needs JoinWindows; got {told(windows)}."
            )
        value = joined_value(joiner, node_name, self.node, other.node)
        node = StreamStreamJoin(node_name, (self.node, other.node), kind, windows, value)
        return KStream(self.graph, self.graph.add(node))


#: The options of joins besides the name, as messages show them.
_OPTIONS: Final = {
    "joined": "joined=Joined.with_grace_period(...)",
    "key": "key=, the table's key from this stream's record",
    "windows": 'windows=JoinWindows.of("5 minutes")',
}


def _check_options(other: Any, given: Mapping[str, object], own: str, *, needed: bool = False) -> None:
    """Refuse options that do not go with the other side of a join, and a needed one that is missing."""
    goes_with = f"A join of a stream with {called(other)}, takes {_OPTIONS[own]}, and name="
    for option in given:
        if option not in (own, "name"):
            raise ArgumentError(f"{goes_with}; got {option}=.")
    if needed and own not in given:
        raise ArgumentError(f"{goes_with}; {own}= is missing.")
