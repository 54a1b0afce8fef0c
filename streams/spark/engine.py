"""From plan nodes to operators: which module runs which node on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from itertools import chain
from typing import Any, Final

from pyspark.sql import DataFrame, Row

from streams.field_checks import check_apart
from streams.nodes import (
    VIEWS,
    ChangelogSink,
    CorrectionFeed,
    ForeignKeyJoin,
    GlobalTableSource,
    Node,
    SelectKey,
    StreamAggregate,
    StreamFilter,
    StreamGlobalTableJoin,
    StreamMapValues,
    StreamSource,
    StreamStreamJoin,
    StreamTableJoin,
    Suppress,
    TableAggregate,
    TableFilter,
    TableSink,
    TableSource,
    TableTableJoin,
    Topology,
    ToStream,
    ToTable,
    WindowedAggregate,
)
from streams.plan_facts import windowed_ancestor
from streams.repeated_tombstones import drops_repeated_tombstones
from streams.spark.aggregate_types import USER_CODE
from streams.spark.complete_join import CompleteJoinOperator
from streams.spark.correction_feed import CorrectionFeedOperator
from streams.spark.few_tasks import in_few_tasks
from streams.spark.flow import PLACE, Flow
from streams.spark.folded_windows import FoldedWindowsOperator
from streams.spark.foreign_key_join import ForeignKeyJoinOperator
from streams.spark.global_table_join import StreamGlobalTableJoinOperator
from streams.spark.kafka_sink import KafkaSink
from streams.spark.keyed_aggregate import KeyedAggregateOperator
from streams.spark.lookup_table import LookupTable
from streams.spark.metrics import summed_counts
from streams.spark.operator import Operator
from streams.spark.returned import returned_as
from streams.spark.sinks import ChangelogSinkOperator, TableSinkOperator, check_columns, send_to_kafka
from streams.spark.source import StreamSourceOperator
from streams.spark.stateless import (
    SelectKeyOperator,
    StreamFilterOperator,
    StreamMapValuesOperator,
    ToStreamOperator,
)
from streams.spark.store import table_name
from streams.spark.stream_stream_join import StreamStreamJoinOperator
from streams.spark.stream_table_join import StreamTableJoinOperator
from streams.spark.suppress import FinalResultsOperator, SuppressOperator
from streams.spark.table_source import TableOperator
from streams.spark.table_table_join import TableTableJoinOperator
from streams.spark.table_views import TableViewOperator
from streams.spark.time_windows import TimeWindowsOperator
from streams.spark.window_store import WindowStoreOperator
from streams.stream_time_scopes import asks_across, gathers, nodes_in_one_scope
from streams.user_functions import failing_by_name
from suppress.windows import TimeWindows, UnlimitedWindows
from versioned import spark_functions as F
from versioned.errors import TopologyError
from versioned.identifiers import TableRef
from versioned.side_by_side import side_by_side

Operators = dict[str, Operator[Any]]
#: From this many frames of counts on, two jobs read them side by side.
_MANY_FRAMES: Final = 8


_SIMPLE: Final[dict[type[Node], type[Operator[Any]]]] = {
    StreamSource: StreamSourceOperator,
    StreamFilter: StreamFilterOperator,
    StreamMapValues: StreamMapValuesOperator,
    SelectKey: SelectKeyOperator,
    ToStream: ToStreamOperator,
    TableSource: TableOperator,
    GlobalTableSource: TableOperator,
    ToTable: TableOperator,
    ChangelogSink: ChangelogSinkOperator,
    TableSink: TableSinkOperator,
}


def operators_of(
    topology: Topology, record_retention_us: int | None = None, keys_cross_partitions: bool = True
) -> Operators:
    """One operator per node, by name, in plan order.

    Args:
        topology: The plan.
        record_retention_us: ``suppressed.record.retention.ms``, in microseconds; None = off.
        keys_cross_partitions: Whether records under a new key share one stream-time scope.

    Raises:
        TopologyError: this engine does not run one of the nodes yet, or a node's table would have a field twice.
    """
    made: Operators = {}
    for node in topology:
        check_apart(node)
        parents = [made[parent.name] for parent in node.parents]
        if isinstance(node, Suppress):
            made[node.name] = _suppress(topology, node, made, record_retention_us)
        else:
            made[node.name] = _operator(topology, node, parents)
    shared = nodes_in_one_scope(topology, keys_cross_partitions)
    for position, operator in enumerate(made.values()):
        operator.position = position
        operator.keeps_scopes = not keys_cross_partitions
        operator.gathers = gathers(operator.node, shared)
        operator.asks_across = asks_across(operator.node, shared)
        operator.is_in_one_scope = operator.node.name in shared
    return made


def checked_operators(
    topology: Topology, record_retention_us: int | None, keys_cross_partitions: bool, kafka: Mapping[str, KafkaSink]
) -> Operators:
    """As :func:`operators_of`, after a check of the sinks' columns, with the changelogs that also go to Kafka.

    Args:
        topology: The plan.
        record_retention_us: ``suppressed.record.retention.ms``, in microseconds; None = off.
        keys_cross_partitions: Whether records under a new key share one stream-time scope.
        kafka: Changelog sink -> the Kafka topic that its rows are sent to.

    Raises:
        TopologyError: as :func:`operators_of`; or a sink's rows would have a column twice.
        ConfigurationError: ``kafka`` names no changelog sink.
    """
    made = operators_of(topology, record_retention_us, keys_cross_partitions)
    check_columns(made)
    send_to_kafka(made, kafka)
    return made


def tables_read(operators: Operators, root: TableRef) -> list[TableRef]:
    """The tables that a batch may have to read: all but changelogs, which are only appended to."""
    read = (operator for operator in operators.values() if not isinstance(operator, ChangelogSinkOperator))
    return [table for operator in read for table in operator.tables(root)]


def writers_of(operators: Operators, root: TableRef) -> dict[TableRef, str]:
    """The node that writes each table which is named after its node, its store, or the ``Joined`` of a join.

    The last are the tables of records that wait for the grace of a stream-table join.
    """
    named = {name: root.child(table_name(operator.node)) for name, operator in operators.items()}
    written = {table: name for name, table in named.items() if table in operators[name].tables(root)}
    joins = {name: operator for name, operator in operators.items() if isinstance(operator, StreamTableJoinOperator)}
    return written | {table: name for name, join in joins.items() for table in join.tables(root)}


def branched(topology: Topology, node: Node, outputs: Mapping[str, Flow]) -> list[Flow]:
    """The flows that reach a node from its parents.

    Where a parent feeds several inputs, a record runs down one branch to its end before the next begins, as in Kafka:
    the branch's number becomes the last part of its place.
    """
    inputs = []
    for index, parent in enumerate(node.parents):
        flow, number = outputs[parent.name], _branch(topology, node, index)
        inputs.append(flow if number is None else flow.map_each(_on_branch(number)))
    return inputs


def _branch(topology: Topology, node: Node, index: int = 0) -> int | None:
    """The number of this edge among all edges from the same parent; None if it is the only one."""
    parent = node.parents[index]
    edges = [(child.name, i) for child in topology for i, p in enumerate(child.parents) if p is parent]
    return None if len(edges) == 1 else edges.index((node.name, index))


def _on_branch(number: int) -> Callable[[DataFrame], DataFrame]:
    part = F.array(F.lit(number).cast("long"))
    return lambda frame: frame.withColumn(PLACE, F.concat(PLACE, part))


def tally(operators: Operators, more: Iterable[tuple[str, DataFrame | None]] = ()) -> None:
    """Read the counts of all operators, and further counts of some, in one job or two.

    Counts of one name are summed; of those whose name ends in ``_max`` the largest is taken.
    """
    told = [*((name, operator.tally()) for name, operator in operators.items()), *more]
    frames: dict[str, list[DataFrame]] = {}
    for name, frame in told:
        if frame is not None:
            counted = frame.select(F.lit(name).alias("node"), "what", F.col("n").cast("long").alias("n"))
            frames.setdefault(name, []).append(counted)
    counts: dict[str, dict[str, int]] = {name: {} for name in operators}
    for row in _summed(list(frames.values())):
        counts[row["node"]][row["what"]] = row["n"] or 0
    for name, operator in operators.items():
        operator.tallied = counts[name]


def _summed(nodes: list[list[DataFrame]]) -> list[Row]:
    """The counts by node and name; many frames are read in two jobs, since a single thread plans a query."""
    rows: list[Row] = []

    def read(part: list[list[DataFrame]]) -> None:
        together = in_few_tasks(reduce(DataFrame.unionByName, chain.from_iterable(part)))
        rows.extend(together.groupBy("node", "what").agg(summed_counts()).collect())

    # A node's frames stay together, so that its counts are added up in one place.
    parts = [nodes[::2], nodes[1::2]] if sum(map(len, nodes)) >= _MANY_FRAMES else [nodes]
    if nodes:
        side_by_side([partial(read, part) for part in parts if part], nodes[0][0].sparkSession)
    return rows


def _operator(topology: Topology, node: Node, parents: list[Operator[Any]]) -> Operator[Any]:
    named = failing_by_name(node, returned_as)
    if type(node) in _SIMPLE:
        return _SIMPLE[type(node)](named)
    if isinstance(named, VIEWS):
        drops = isinstance(node, TableFilter) and drops_repeated_tombstones(topology, node)
        return TableViewOperator(named, parents[0].state, drops)
    if type(node) in _MADE:
        return _MADE[type(node)](named, parents)
    raise _unavailable(node, type(node).__name__)


def _state(node: Node, table: Operator[Any]) -> LookupTable:
    if table.state is None:
        raise _unavailable(node, f"look-ups into {table.node.name}, a {type(table.node).__name__},")
    return table.state


def _stream_table_join(node: StreamTableJoin, parents: list[Operator[Any]]) -> Operator[Any]:
    return StreamTableJoinOperator(node, _state(node, parents[1]))


def _correction_feed(node: CorrectionFeed, parents: list[Operator[Any]]) -> Operator[Any]:
    join = parents[0]
    assert isinstance(join, StreamTableJoinOperator)
    return CorrectionFeedOperator(node, join, _state(node, parents[1]))


def _global_table_join(node: StreamGlobalTableJoin, parents: list[Operator[Any]]) -> Operator[Any]:
    return StreamGlobalTableJoinOperator(node, _state(node, parents[1]))


def _table_table_join(node: TableTableJoin, parents: list[Operator[Any]]) -> Operator[Any]:
    made = CompleteJoinOperator if node.history == "complete" else TableTableJoinOperator
    return made(node, _state(node, parents[0]), _state(node, parents[1]))


def _foreign_key_join(node: ForeignKeyJoin, parents: list[Operator[Any]]) -> Operator[Any]:
    return ForeignKeyJoinOperator(node, _state(node, parents[0]), _state(node, parents[1]))


def _windowed_aggregate(node: WindowedAggregate, parents: list[Operator[Any]]) -> Operator[Any]:
    built_in = node.aggregation.kind not in USER_CODE
    if built_in and isinstance(node.windows, (TimeWindows, UnlimitedWindows)):
        return TimeWindowsOperator(node)
    return FoldedWindowsOperator(node)


def _suppress(topology: Topology, node: Suppress, made: Operators, record_retention_us: int | None) -> Operator[Any]:
    parent = made[node.parents[0].name]
    is_looked_up = _is_looked_up(topology, node)
    source = windowed_ancestor(node.parents[0])
    windows = None if source is None else made[source.name]
    assert windows is None or isinstance(windows, WindowStoreOperator)
    operator = SuppressOperator(node, is_looked_up, record_retention_us, windows)
    rule = operator.rule
    if operator.closes_idle:
        assert windows is not None
        windows.closed_by_clock.append(operator.closed_windows)
        return operator
    holds_nothing_else = rule.final and rule.max_records is None and rule.max_bytes is None
    if holds_nothing_else and not is_looked_up and isinstance(parent, WindowStoreOperator):
        return FinalResultsOperator(node, parent, _branch(topology, node))
    return operator


def _is_looked_up(topology: Topology, node: Node) -> bool:
    """Whether some join looks into the node's table, directly or through views."""
    for child in topology.children(node):
        if isinstance(child, (TableTableJoin, ForeignKeyJoin)):
            return True
        if isinstance(child, (StreamTableJoin, StreamGlobalTableJoin)) and child.parents[1] is node:
            return True
        is_view = isinstance(child, VIEWS) and child.materialized is None
        if is_view and _is_looked_up(topology, child):
            return True
    return False


_MADE: Final[dict[type[Node], Callable[[Any, list[Operator[Any]]], Operator[Any]]]] = {
    StreamAggregate: lambda node, _: KeyedAggregateOperator(node),
    TableAggregate: lambda node, _: KeyedAggregateOperator(node),
    StreamTableJoin: _stream_table_join,
    CorrectionFeed: _correction_feed,
    StreamGlobalTableJoin: _global_table_join,
    TableTableJoin: _table_table_join,
    ForeignKeyJoin: _foreign_key_join,
    StreamStreamJoin: lambda node, _: StreamStreamJoinOperator(node),
    WindowedAggregate: _windowed_aggregate,
}


def _unavailable(node: Node, what: str) -> TopologyError:
    return TopologyError(
        "spark",
        node.name,
        f"the Spark engine does not run {what} yet. Run it on the TopologyTestDriver, or leave it out.",
    )
