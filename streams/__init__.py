"""Topologies over streams and tables, and the engines that run them.

This module exports everything that a plan is written with. None of it needs Spark.

>>> from streams import BufferConfig, Materialized, StreamsBuilder, Suppressed, TimeWindows
>>> builder = StreamsBuilder()
>>> clicks = builder.stream("clicks", key="user", value=("page",))
>>> hourly = clicks.group_by_key().windowed_by(TimeWindows.of("1 hour").grace("10 minutes")).count(name="hourly")
>>> hourly.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_changelog("final")
>>> [node.name for node in builder.build()]
['stream-clicks', 'hourly', 'suppress-1', 'final']
"""

from streams import functions
from streams.rows import Row
from streams.topology import (
    GlobalKTable,
    Joined,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Materialized,
    StreamsBuilder,
    Topology,
    WindowedKStream,
)
from suppress.buffer_config import BufferConfig, EagerBufferConfig, StrictBufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from versioned.durations import Resolution
from versioned.errors import TopologyError

__all__ = [
    "BufferConfig",
    "EagerBufferConfig",
    "GlobalKTable",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Materialized",
    "Resolution",
    "Row",
    "SessionWindows",
    "SlidingWindows",
    "StreamsBuilder",
    "StrictBufferConfig",
    "Suppressed",
    "TimeWindows",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "WindowedKStream",
    "functions",
]
