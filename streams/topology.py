"""``StreamsBuilder``: where a topology starts (Kafka Streams: ``StreamsBuilder``).

One topology runs on both engines: on Spark, and record by record in ``streams.testing.TopologyTestDriver``.
"""

from __future__ import annotations

from streams.graph import Graph, Names, columns, key_columns, store_name
from streams.grouped import KGroupedStream, KGroupedTable, WindowedKStream
from streams.kstream import KStream
from streams.ktable import GlobalKTable, KTable
from streams.nodes import GlobalTableSource, Joined, Materialized, StreamSource, TableSource, Topology
from streams.plan_checks import check_plan
from versioned.durations import Duration, duration
from versioned.given import check_kind, check_name

__all__ = [
    "GlobalKTable",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Materialized",
    "StreamsBuilder",
    "Topology",
    "WindowedKStream",
]


class StreamsBuilder:
    """Declares sources and builds the plan (Kafka: ``StreamsBuilder``). Only what is declared runs.

    Example:
        >>> builder = StreamsBuilder()
        >>> weather = builder.table("weather", Materialized.versioned("7 days"), key="origin", value=("temp",))
        >>> flights = builder.stream("flights", key="origin", value=("tail",))
        >>> flights.left_join(weather, name="flights-with-weather").to_changelog("flights_weather")
        >>> print(builder.build().describe().splitlines()[0])
        weather: table of topic weather, key (origin), time ts, versioned, history 7 days, grace 7 days, value (temp)
    """

    def __init__(self) -> None:
        self._graph = Graph()

    def stream(
        self,
        topic: str,
        *,
        key: Names = "key",
        timestamp: str = "ts",
        value: Names | None = None,
        deleted: str | None = None,
        name: str | None = None,
    ) -> KStream:
        """The records of a topic as a stream (Kafka: ``stream``).

        Args:
            topic: The input; several sources may read the same topic.
            key: The key columns.
            timestamp: The column with the event time.
            value: The value columns. Default: all columns, or those that the source's contract declares, except for the
                key, the event time, ``deleted``, and the columns that the source uses for scope and sequence.
            deleted: A boolean column that is true for null values.
            name: Name of the node. Default: ``stream-<topic>``.
        """
        _check_names(topic, timestamp, deleted)
        node = StreamSource(
            self._graph.name("stream", name, f"stream-{topic}"),
            topic=topic,
            key=key_columns(key),
            timestamp=timestamp,
            value=None if value is None else columns("value", value),
            deleted=deleted,
        )
        return KStream(self._graph, self._graph.add(node))

    def table(
        self,
        topic: str,
        materialized: Materialized | None = None,
        *,
        key: Names = "key",
        timestamp: str = "ts",
        value: Names | None = None,
        deleted: str | None = None,
        reorder: Duration | None = None,
        name: str | None = None,
    ) -> KTable:
        """The records of a topic as changes to a table (Kafka: ``table``; KIP-889 and KIP-914 if versioned).

        Args:
            topic: The input.
            materialized: How the table is stored: ``Materialized.versioned("7 days")`` or
                ``Materialized.key_value()``. Without it the table is a plain one, and repeated tombstones pass.
            key: The key columns.
            timestamp: The column with the event time, from which a version is valid.
            value: The value columns. Default: as for :meth:`stream`.
            deleted: A boolean column that is true for tombstones.
            reorder: Hold records this long and release them in order of time per key (R169).
            name: Name of the node. Default: the store's name, or else the topic.
        """
        stored = store_name(materialized)
        _check_names(topic, timestamp, deleted)
        node = TableSource(
            self._graph.name("table", name, stored, topic),
            topic=topic,
            key=key_columns(key),
            timestamp=timestamp,
            value=None if value is None else columns("value", value),
            deleted=deleted,
            materialized=materialized,
            reorder=None if reorder is None else duration(reorder),
        )
        return KTable(self._graph, self._graph.add(node))

    def global_table(
        self,
        topic: str,
        materialized: Materialized | None = None,
        *,
        key: Names = "key",
        timestamp: str = "ts",
        value: Names | None = None,
        deleted: str | None = None,
        name: str | None = None,
    ) -> GlobalKTable:
        """A table that every scope sees as a whole, looked up regardless of time (Kafka: ``globalTable``).

        Takes the arguments of :meth:`table`, except for ``reorder``.

        Raises:
            TopologyError: the store is versioned (R170).
        """
        stored = store_name(materialized)
        _check_names(topic, timestamp, deleted)
        node = GlobalTableSource(
            self._graph.name("table", name, stored, topic),
            topic=topic,
            key=key_columns(key),
            timestamp=timestamp,
            value=None if value is None else columns("value", value),
            deleted=deleted,
            materialized=materialized,
        )
        return GlobalKTable(self._graph, self._graph.add(node))

    def build(self) -> Topology:
        """The plan, checked (Kafka: ``build``).

        Raises:
            TopologyError: the plan can never work; the message names the rule and the node.
        """
        check_plan(self._graph.nodes)
        return Topology(tuple(self._graph.nodes))


def _check_names(topic: object, timestamp: object, deleted: object) -> None:
    check_kind("topic", topic, str, "a text")
    check_kind("timestamp", timestamp, str, "the name of a column")
    check_name("deleted", deleted)
