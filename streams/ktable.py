"""Tables of the DSL (Kafka Streams: ``KTable``, ``GlobalKTable``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from streams.expressions import Expr
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
from streams.nodes import (
    ChangelogSink,
    Emit,
    ForeignKeyJoin,
    GlobalTableSource,
    History,
    JoinKind,
    Materialized,
    Node,
    Suppress,
    TableFilter,
    TableMapValues,
    TableSink,
    TableTableJoin,
    ToStream,
)
from streams.plan_facts import is_versioned
from suppress.suppressed import AnySuppressed, Suppressed
from versioned.choices import check_choice
from versioned.errors import ArgumentError, TopologyError
from versioned.given import told

if TYPE_CHECKING:
    from streams.grouped import KGroupedTable
    from streams.kstream import KStream


class GlobalKTable:
    """A table that every scope sees as a whole, looked up regardless of time (Kafka: ``GlobalKTable``)."""

    def __init__(self, graph: Graph, node: GlobalTableSource) -> None:
        self.graph = graph
        self.node = node


class KTable:
    """A changing table: the latest value per key, or every version (Kafka: ``KTable``).

    Functions passed to its methods take ``(value)`` or ``(key, value)``, and are traced once, into an expression (see
    ``streams.expressions``). A ``name`` is that of the step, and of its table unless the ``materialized`` has its own.

    Example:
        >>> from streams.topology import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", Materialized.versioned("7 days"), key="item", value=("price",))
        >>> prices.filter(lambda value: value.price > 10).is_versioned
        True
    """

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node

    @property
    def is_versioned(self) -> bool:
        """Whether the table is versioned, judged by its store and its ancestors only (R127-R137)."""
        return is_versioned(self.node)

    def filter(
        self, predicate: Function, *, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable:
        """The rows for which the predicate is true; others become tombstones (Kafka: ``filter``; R160-R162)."""
        return self._filter("filter", predicate_function(predicate), materialized, name)

    def filter_not(
        self, predicate: Function, *, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable:
        """The rows for which the predicate is false; null is not false (Kafka: ``filterNot``)."""
        return self._filter("filter-not", ~predicate_function(predicate), materialized, name)

    def map_values(
        self, mapper: FieldOrFunction, *, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable:
        """The rows with new values; a dict becomes a row, null a tombstone (Kafka: ``mapValues``; R167)."""
        return self._map_values("map-values", row_function(mapper), materialized, name)

    def transform_values(
        self,
        function: Function,
        returns: str,
        *,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """New values from a Python function of ``(key, value)`` or ``(value)`` (Kafka: ``transformValues``; R167).

        Args:
            function: Returns a mapping, or a single value. Both engines call it in Python, so prefer ``map_values``. It
                is not called for deletions, which stay deletions.
            returns: The DDL of its result: ``"price double, label string"``.
            materialized: How the result is stored. Default: not at all.
            name: Name of the node.
        """
        return self._map_values("transform-values", plain_function(function, returns), materialized, name)

    def to_stream(self, *, name: str | None = None) -> KStream:
        """The changes of the table as a stream of new values; tombstones are null values (Kafka: ``toStream``)."""
        from streams.kstream import KStream

        return KStream(self.graph, self.graph.add(ToStream(self.graph.name("to-stream", name), (self.node,))))

    def group_by(self, key: KeyOrFunction, value: FieldOrFunction | None = None) -> KGroupedTable:
        """Group the rows for an aggregate, which subtracts old values and adds new ones (Kafka: ``groupBy``; R163).

        Args:
            key: A function, or the names of value fields. A row whose group key is null, or has a null part, belongs to
                no group. It is not rejected, and counts as accepted: it stays in its table.
            value: What is aggregated. Default: the whole value.
        """
        from streams.grouped import KGroupedTable

        grouped = None if value is None else row_function(value)
        return KGroupedTable(self.graph, self.node, key_function(key), grouped)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable:
        """Hold updates back: emit final results only, or limit the rate of updates (KIP-328, KIP-539; R24-R60).

        Raises:
            TopologyError: the table is versioned or emits older results (R165); or final results are asked for, and it
                has no windows that close.
            ArgumentError: the argument is not a ``Suppressed`` (R26).
        """
        if not isinstance(suppressed, AnySuppressed):
            raise ArgumentError(f"suppress takes what a Suppressed factory gives; got {told(suppressed)}.")
        node = Suppress(self.graph.name("suppress", name, suppressed.name), (self.node,), suppressed)
        return KTable(self.graph, self.graph.add(node))

    def join(
        self,
        other: KTable,
        joiner: Joiner | None = None,
        *,
        foreign_key: KeyOrFunction | None = None,
        materialized: Materialized | None = None,
        history: History = "latest",
        name: str | None = None,
    ) -> KTable:
        """Inner join on the key, or on a foreign key in this table's value (Kafka: ``join``; KIP-914, KIP-213).

        Args:
            other: The right table.
            joiner: A function of ``(left, right)`` or ``(key, left, right)``. Default: all fields of both.
            foreign_key: The other table's key: a function of this table's row, or the names of value fields.
            materialized: How the result is stored. It is versioned only if this says so (R132).
            history: ``complete`` re-emits older results that a late record changes (R150); both sides must be
                versioned.
            name: Name of the node.

        Raises:
            TopologyError: the other side is not a table, or can never be joined to this one.
        """
        return self._join("inner", other, joiner, foreign_key, materialized, history, name)

    def left_join(
        self,
        other: KTable,
        joiner: Joiner | None = None,
        *,
        foreign_key: KeyOrFunction | None = None,
        materialized: Materialized | None = None,
        history: History = "latest",
        name: str | None = None,
    ) -> KTable:
        """Like :meth:`join`, but rows without a match are kept, with nulls (Kafka: ``leftJoin``)."""
        return self._join("left", other, joiner, foreign_key, materialized, history, name)

    def outer_join(
        self,
        other: KTable,
        joiner: Joiner | None = None,
        *,
        materialized: Materialized | None = None,
        history: History = "latest",
        name: str | None = None,
    ) -> KTable:
        """Like :meth:`join` on the key, but unmatched rows of either side are kept (Kafka: ``outerJoin``)."""
        return self._join("outer", other, joiner, None, materialized, history, name)

    def to_changelog(self, name: str, *, emit: Emit = "every") -> None:
        """Append the changes to the sink table ``name`` (Kafka: ``toStream().to``)."""
        self.graph.add(ChangelogSink(name, (self.node,), emit))

    def to_latest(self, name: str) -> None:
        """Keep the latest state in the sink table ``name``: one row per key, none after a tombstone."""
        self.graph.add(TableSink(name, (self.node,)))

    def _filter(self, kind: str, predicate: Expr, materialized: Materialized | None, name: str | None) -> KTable:
        node_name = self.graph.name(kind, name, store_name(materialized))
        return KTable(self.graph, self.graph.add(TableFilter(node_name, (self.node,), predicate, materialized)))

    def _map_values(self, kind: str, mapper: Expr, materialized: Materialized | None, name: str | None) -> KTable:
        node_name = self.graph.name(kind, name, store_name(materialized))
        return KTable(self.graph, self.graph.add(TableMapValues(node_name, (self.node,), mapper, materialized)))

    def _join(
        self,
        kind: JoinKind,
        other: KTable,
        joiner: Joiner | None,
        foreign_key: KeyOrFunction | None,
        materialized: Materialized | None,
        history: History,
        name: str | None,
    ) -> KTable:
        if not isinstance(other, KTable):
            self._refuse(other)
        check_choice("history", history, History)
        label = "table-join" if foreign_key is None else "foreign-key-join"
        node_name = self.graph.name(label, name, store_name(materialized))
        parents = (self.node, other.node)
        value = joined_value(joiner, node_name, *parents)
        if foreign_key is None:
            primary = TableTableJoin(node_name, parents, kind, value, materialized, history)
            return KTable(self.graph, self.graph.add(primary))
        if history != "latest":
            raise TopologyError("R150", node_name, 'history="complete" is for joins on the primary key.')
        node = ForeignKeyJoin(node_name, parents, kind, key_function(foreign_key), value, materialized)
        return KTable(self.graph, self.graph.add(node))

    def _refuse(self, other: Any) -> NoReturn:
        remedy = "Read the other side with StreamsBuilder.table."
        if type(other).__name__ == "KStream":
            remedy = f"Make it one with to_table(), or join from the stream: {other.node.name} with {self.node.name}."
        if isinstance(other, GlobalKTable):
            remedy = "Only streams join a global table; read its topic with StreamsBuilder.table."
        raise TopologyError("join-sides", self.node.name, f"a table joins a table; got {called(other)}. {remedy}")
