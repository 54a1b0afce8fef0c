"""From a plan to operators: which module runs which node on Spark."""

from __future__ import annotations

from typing import Any

from streams.nodes import (
    ChangelogSink,
    Node,
    StreamFilter,
    StreamMapValues,
    StreamSource,
    StreamTableJoin,
    Suppress,
    TableSink,
    TableSource,
    Topology,
    ToStream,
    WindowedAggregate,
)
from streams.spark.key_value_table import KeyValueTableOperator
from streams.spark.operator import Operator
from streams.spark.sinks import ChangelogSinkOperator, TableSinkOperator
from streams.spark.source import StreamSourceOperator
from streams.spark.stateless import StreamFilterOperator, StreamMapValuesOperator, ToStreamOperator
from streams.spark.stream_table_join import StreamTableJoinOperator
from streams.spark.suppress import FinalResultsOperator
from streams.spark.table_source import VersionedTableSourceOperator
from streams.spark.windowed_aggregate import WindowedAggregateOperator
from suppress.suppressed import UntilWindowCloses
from suppress.windows import TimeWindows
from versioned.errors import TopologyError

Operators = dict[str, Operator[Any]]


def operators_of(topology: Topology) -> Operators:
    """One operator per node, by name, in plan order.

    Raises:
        TopologyError: a node that this engine does not run yet.
    """
    made: Operators = {}
    for node in topology:
        made[node.name] = _operator(node, [made[parent.name] for parent in node.parents])
    return made


def _operator(node: Node, parents: list[Operator[Any]]) -> Operator[Any]:
    simple: dict[type[Node], type[Operator[Any]]] = {
        StreamSource: StreamSourceOperator,
        StreamFilter: StreamFilterOperator,
        StreamMapValues: StreamMapValuesOperator,
        ToStream: ToStreamOperator,
        ChangelogSink: ChangelogSinkOperator,
        TableSink: TableSinkOperator,
    }
    if type(node) in simple:
        return simple[type(node)](node)
    if isinstance(node, TableSource) and node.reorder is None:
        versioned = node.materialized is not None and node.materialized.is_versioned
        return VersionedTableSourceOperator(node) if versioned else KeyValueTableOperator(node)
    if isinstance(node, StreamTableJoin):
        return _stream_table_join(node, parents[1])
    if isinstance(node, WindowedAggregate):
        return _windowed_aggregate(node)
    if isinstance(node, Suppress) and isinstance(node.suppressed, UntilWindowCloses):
        return _final_results(node, parents[0])
    raise _unavailable(node, type(node).__name__)


def _stream_table_join(node: StreamTableJoin, table: Operator[Any]) -> Operator[Any]:
    if node.joined.grace is not None or node.joined.correction_retention is not None:
        raise _unavailable(node, "a stream-table join with grace or a correction feed")
    if not isinstance(table, (VersionedTableSourceOperator, KeyValueTableOperator)):
        raise _unavailable(node, "a join with a derived table")
    return StreamTableJoinOperator(node, table)


def _windowed_aggregate(node: WindowedAggregate) -> Operator[Any]:
    if not isinstance(node.windows, TimeWindows) or node.aggregation.kind in ("reduce", "aggregate"):
        raise _unavailable(node, f"{type(node.windows).__name__} with {node.aggregation.kind}")
    return WindowedAggregateOperator(node)


def _final_results(node: Suppress, windows: Operator[Any]) -> Operator[Any]:
    suppressed = node.suppressed
    assert isinstance(suppressed, UntilWindowCloses)
    bounded = suppressed.buffer.max_records is not None or suppressed.buffer.max_bytes is not None
    if bounded or suppressed.close_idle or not isinstance(windows, WindowedAggregateOperator):
        raise _unavailable(node, "a bounded or idle-closing final-result buffer, or one behind another operator")
    return FinalResultsOperator(node, windows)


def _unavailable(node: Node, what: str) -> TopologyError:
    return TopologyError(
        "spark",
        node.name,
        f"the Spark engine does not run {what} yet. Run it on the TopologyTestDriver, or leave it out.",
    )
