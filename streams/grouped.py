"""Grouped streams and tables of the DSL, and their aggregates (Kafka: ``KGroupedStream``, ``KGroupedTable``).

``count``, ``sum``, ``avg``, ``min`` and ``max`` are built in: expressions, computed set-wise on Spark. ``reduce`` and
``aggregate`` take plain Python functions over rows, called record by record on both engines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from streams.expressions import Expr
from streams.graph import FieldOrFunction, Graph, store_name, value_function
from streams.ktable import KTable
from streams.nodes import (
    Aggregation,
    LatePolicy,
    Materialized,
    Node,
    StreamAggregate,
    TableAggregate,
    WindowedAggregate,
)
from suppress.windows import JoinWindows, Windows
from versioned.choices import check_choice
from versioned.errors import ConfigurationError
from versioned.given import check_kind

_WINDOWS: Final = get_args(Windows)
BuiltIn = Literal["count", "sum", "avg", "min", "max"]
Reducer = Callable[[Any, Any], Any]
AggregateFunction = Callable[[Any, Any, Any], Any]


class _Grouped:
    """The built-in aggregates of all grouped streams and tables."""

    def __init__(self, graph: Graph, node: Node, key: Expr | None) -> None:
        self.graph = graph
        self.node = node
        self.key = key

    def count(
        self,
        value: FieldOrFunction | None = None,
        *,
        output: str = "count",
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Number of records, or of records whose ``value`` is not null (Kafka: ``count``).

        Args:
            value: A function of the row, or the name of a field.
            output: Name of the result field.
            materialized: How the table is stored.
            name: Name of the node.
        """
        return self._built_in("count", value, output, materialized, name)

    def sum(
        self,
        value: FieldOrFunction,
        *,
        output: str = "sum",
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Sum of the non-null values, which must be numbers, not durations; arguments as for :meth:`count`."""
        return self._built_in("sum", value, output, materialized, name)

    def avg(
        self,
        value: FieldOrFunction,
        *,
        output: str = "avg",
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Mean of the non-null values, as a double; arguments as for :meth:`count`."""
        return self._built_in("avg", value, output, materialized, name)

    def min(
        self,
        value: FieldOrFunction,
        *,
        output: str = "min",
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Smallest of the non-null values; arguments as for :meth:`count`.

        Arrays and structs are compared by the first part in which they differ; a null part is the smallest. Maps have
        no order.
        """
        return self._built_in("min", value, output, materialized, name)

    def max(
        self,
        value: FieldOrFunction,
        *,
        output: str = "max",
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Largest of the non-null values, in the order of :meth:`min`; arguments as for :meth:`count`."""
        return self._built_in("max", value, output, materialized, name)

    def _built_in(
        self,
        kind: BuiltIn,
        value: FieldOrFunction | None,
        output: str,
        materialized: Materialized | None,
        name: str | None,
    ) -> KTable:
        if value is None and kind != "count":
            raise ConfigurationError(f"{kind} takes a field or a function of the row; got None.")
        operand = None if value is None else value_function(value)
        return self._add(Aggregation(kind, output, operand), materialized, name)

    def _add(self, aggregation: Aggregation, materialized: Materialized | None, name: str | None) -> KTable:
        check_kind("output", aggregation.output, str, "a text")
        kind = f"{self._label()}{aggregation.kind}"
        node_name = self.graph.name(kind, name, store_name(materialized))
        return KTable(self.graph, self.graph.add(self._node(node_name, aggregation, materialized)))

    def _label(self) -> str:
        return ""

    def _node(self, name: str, aggregation: Aggregation, materialized: Materialized | None) -> Node:
        raise AssertionError("each kind of group makes its own node")


class _GroupedStream(_Grouped):
    """User-written aggregates of a stream: values are only added."""

    def reduce(
        self,
        reducer: Reducer,
        *,
        schema: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Combine the values of a group two at a time (Kafka: ``reduce``).

        Args:
            reducer: ``(aggregate, value) -> aggregate``, over plain rows; the first value is the first aggregate.
            schema: DDL of the aggregate, if it differs from the value's.
            materialized: How the table is stored.
            name: Name of the node.
        """
        return self._add(Aggregation("reduce", "value", adder=reducer, schema=schema), materialized, name)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: AggregateFunction,
        *,
        schema: str | None = None,
        merger: AggregateFunction | None = None,
        output: str = "value",
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Aggregate a group with user code (Kafka: ``aggregate``).

        Args:
            initializer: Returns the initial aggregate, before any record.
            adder: ``(key, value, aggregate) -> aggregate``, over plain rows.
            schema: DDL of the aggregate, for Spark: the fields of a mapping, ``"total double, places array<string>"``;
                or the type of a single value, ``"double"``. A result that does not fit, such as a fraction for a
                ``bigint`` or a field of another name, ends the batch (``RecordError``).
            merger: ``(key, left, right) -> aggregate``; required for session windows, since sessions merge.
            output: Name of the result field, if the aggregate is a single value.
            materialized: How the table is stored.
            name: Name of the node.

        Raises:
            TopologyError: session windows without a merger.
        """
        aggregation = Aggregation(
            "aggregate", output, initializer=initializer, adder=adder, merger=merger, schema=schema
        )
        return self._add(aggregation, materialized, name)


class KGroupedStream(_GroupedStream):
    """A stream grouped by key (Kafka: ``KGroupedStream``).

    Example:
        >>> from streams.topology import StreamsBuilder
        >>> from suppress.windows import TimeWindows
        >>> flights = StreamsBuilder().stream("flights", key="tail", value=("origin", "delay"))
        >>> hourly = flights.group_by("origin").windowed_by(TimeWindows.of("1 hour")).count(name="departures")
        >>> hourly.node.name, hourly.is_versioned
        ('departures', False)
    """

    def windowed_by(self, windows: Windows, *, late_policy: LatePolicy = "drop") -> WindowedKStream:
        """One aggregate per key and window (Kafka: ``windowedBy``).

        Args:
            windows: ``TimeWindows``, ``SlidingWindows``, ``SessionWindows`` or ``UnlimitedWindows``.
            late_policy: What to do with records whose windows have closed: ``drop`` counts and drops them,
                ``side_table`` also keeps them in the rejects table.

        Raises:
            ConfigurationError: the argument is not windows, or there is no such policy.
        """
        wanted = 'windows, such as TimeWindows.of("1 hour") or SessionWindows.of("5 minutes")'
        if isinstance(windows, JoinWindows):
            wanted += " (JoinWindows are for joins of two streams)"
        check_kind("windowed_by", windows, _WINDOWS, wanted)
        return WindowedKStream(self.graph, self.node, self.key, windows, late_policy)

    def _node(self, name: str, aggregation: Aggregation, materialized: Materialized | None) -> Node:
        return StreamAggregate(name, (self.node,), aggregation, self.key, materialized)


class WindowedKStream(_GroupedStream):
    """A stream grouped by key and window (Kafka: ``TimeWindowedKStream``, ``SessionWindowedKStream``).

    The keys of its aggregates are the fields of the group, followed by ``windowStart`` and ``windowEnd``.
    """

    def __init__(self, graph: Graph, node: Node, key: Expr | None, windows: Windows, late_policy: LatePolicy) -> None:
        super().__init__(graph, node, key)
        check_choice("late_policy", late_policy, LatePolicy)
        self.windows = windows
        self.late_policy = late_policy

    def _label(self) -> str:
        return "windowed-"

    def _node(self, name: str, aggregation: Aggregation, materialized: Materialized | None) -> Node:
        late_policy = self.late_policy
        if materialized is not None and materialized.late_policy != "drop":
            late_policy = materialized.late_policy
        return WindowedAggregate(name, (self.node,), self.windows, aggregation, self.key, materialized, late_policy)


class KGroupedTable(_Grouped):
    """A table grouped by a new key: updates subtract old values and add new ones (Kafka: ``KGroupedTable``)."""

    def __init__(self, graph: Graph, node: Node, key: Expr, value: Expr | None) -> None:
        super().__init__(graph, node, key)
        self.value = value

    def reduce(
        self,
        adder: Reducer,
        subtractor: Reducer,
        *,
        schema: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Combine values with user code (Kafka: ``reduce``; R163, R164).

        Args:
            adder: ``(aggregate, value) -> aggregate``, over plain rows.
            subtractor: The same, for a value that leaves the group.
            schema: DDL of the aggregate, if it differs from the value's.
            materialized: How the table is stored. It is versioned only if this says so (R130).
            name: Name of the node.
        """
        aggregation = Aggregation("reduce", "value", adder=adder, subtractor=subtractor, schema=schema)
        return self._add(aggregation, materialized, name)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: AggregateFunction,
        subtractor: AggregateFunction,
        *,
        schema: str | None = None,
        output: str = "value",
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """Aggregate with user code (Kafka: ``aggregate``; R163, R164).

        Args:
            initializer: Returns the initial aggregate, before any value.
            adder: ``(key, value, aggregate) -> aggregate``, over plain rows.
            subtractor: The same, for a value that leaves the group.
            schema: DDL of the aggregate, for Spark.
            output: Name of the result field, if the aggregate is a single value.
            materialized: How the table is stored. It is versioned only if this says so (R130).
            name: Name of the node.
        """
        aggregation = Aggregation(
            "aggregate", output, initializer=initializer, adder=adder, subtractor=subtractor, schema=schema
        )
        return self._add(aggregation, materialized, name)

    def _label(self) -> str:
        return "table-"

    def _node(self, name: str, aggregation: Aggregation, materialized: Materialized | None) -> Node:
        return TableAggregate(name, (self.node,), aggregation, self.key, self.value, materialized)
