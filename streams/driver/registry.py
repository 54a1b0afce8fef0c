"""From plan nodes to operators of the test driver: which class runs which kind of node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streams import nodes
from streams.driver.correction_feed import CorrectionFeedProcessor
from streams.driver.foreign_key_join import ForeignKeyJoinProcessor
from streams.driver.global_table_join import StreamGlobalTableJoinProcessor
from streams.driver.processor import Context, Processor
from streams.driver.stateless import (
    ChangelogSinkProcessor,
    SelectKeyProcessor,
    StreamFilterProcessor,
    StreamMapValuesProcessor,
    StreamSourceProcessor,
    ToStreamProcessor,
)
from streams.driver.stream_aggregate import StreamAggregateProcessor
from streams.driver.stream_stream_join import StreamStreamJoinProcessor
from streams.driver.stream_table_join import StreamTableJoinProcessor
from streams.driver.suppress import SuppressProcessor
from streams.driver.table_aggregate import TableAggregateProcessor
from streams.driver.table_sink import TableSinkProcessor
from streams.driver.table_source import TableSourceProcessor
from streams.driver.table_table_join import table_table_join
from streams.driver.table_views import table_filter, table_map_values
from streams.driver.windowed_aggregate import WindowedAggregateProcessor

Factory = Callable[[Any, Context], Processor]

OPERATORS: Final[dict[type[nodes.Node], Factory]] = {
    nodes.StreamSource: StreamSourceProcessor,
    nodes.ChangelogSink: ChangelogSinkProcessor,
    nodes.TableSink: TableSinkProcessor,
    nodes.TableSource: TableSourceProcessor,
    nodes.ToTable: TableSourceProcessor,
    nodes.GlobalTableSource: TableSourceProcessor,
    nodes.StreamTableJoin: StreamTableJoinProcessor,
    nodes.CorrectionFeed: CorrectionFeedProcessor,
    nodes.StreamGlobalTableJoin: StreamGlobalTableJoinProcessor,
    nodes.ForeignKeyJoin: ForeignKeyJoinProcessor,
    nodes.TableFilter: table_filter,
    nodes.TableMapValues: table_map_values,
    nodes.TableAggregate: TableAggregateProcessor,
    nodes.TableTableJoin: table_table_join,
    nodes.StreamFilter: StreamFilterProcessor,
    nodes.StreamMapValues: StreamMapValuesProcessor,
    nodes.SelectKey: SelectKeyProcessor,
    nodes.ToStream: ToStreamProcessor,
    nodes.StreamAggregate: StreamAggregateProcessor,
    nodes.WindowedAggregate: WindowedAggregateProcessor,
    nodes.Suppress: SuppressProcessor,
    nodes.StreamStreamJoin: StreamStreamJoinProcessor,
}


def processor_for(node: nodes.Node, context: Context) -> Processor:
    """The operator of a node, registered in the context under the node's name."""
    processor = OPERATORS[type(node)](node, context)
    context.processors[node.name] = processor
    return processor
