"""Which operator runs which kind of node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from streams import nodes
from streams.driver.processor import Context, Processor
from streams.driver.stateless import (
    SelectKeyProcessor,
    StreamFilterProcessor,
    StreamMapValuesProcessor,
    PassThroughProcessor,
    ToStreamProcessor,
)
from streams.driver.stream_aggregate import StreamAggregateProcessor
from streams.driver.stream_stream_join import StreamStreamJoinProcessor
from streams.driver.suppress import SuppressProcessor
from streams.driver.windowed_aggregate import WindowedAggregateProcessor
from versioned.errors import TopologyError

Factory = Callable[[Any, Context], Processor]

OPERATORS: Final[dict[type[nodes.Node], Factory]] = {
    nodes.StreamSource: PassThroughProcessor,
    nodes.ChangelogSink: PassThroughProcessor,
    nodes.TableSink: PassThroughProcessor,
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
    """The operator of a node, registered in the context under the node's name.

    Raises:
        TopologyError: the driver has no operator for this kind of node.
    """
    factory = OPERATORS.get(type(node))
    if factory is None:
        raise TopologyError("unknown-node", node.name, f"the test driver cannot run a {type(node).__name__}.")
    processor = factory(node, context)
    context.processors[node.name] = processor
    return processor
