"""The same topology and records on both engines: what each sink got, in order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streams.nodes import ChangelogSink, Topology
from streams.rows import Row
from streams.spark import SparkSource, StreamingApplication
from streams.spark.places import Order
from streams.testing import TopologyTestDriver
from versioned.side_by_side import side_by_side

#: A sink's rows, in order: key, value, microseconds.
Told = list[tuple[Any, Any, int]]
_SCHEMA = "k STRING, v {}, ts TIMESTAMP, seq LONG, part INT, dead BOOLEAN"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@dataclass(frozen=True)
class Input:
    """One record. Key and value are of the fields ``k`` and ``v``; a value of None is a tombstone, ``ms`` None no time.

    Its sequence on Spark is its number among the records, unless one is told; ``us`` is how far behind ``ms`` it is.
    """

    topic: str
    k: str | None
    v: str | int | float | Decimal | None
    ms: int | None
    partition: int = 0
    sequence: int | None = None
    us: int = 0

    @property
    def ts_us(self) -> int | None:
        """Its instant; None if it has no time."""
        return None if self.ms is None else self.ms * 1000 + self.us


def on_driver(topology: Topology, records: Sequence[Input]) -> dict[str, Told]:
    """What the changelog sinks of the test driver got."""
    driver = TopologyTestDriver(topology)
    for number, record in enumerate(records):
        value = None if record.v is None else {"v": record.v}
        driver.pipe_input(record.topic, record.k, value, record.ts_us, partition=record.partition, offset=number)
    return {
        sink: [(_parts(r.key), _parts(r.value), r.ts_us) for r in driver.read_output(sink)] for sink in sinks(topology)
    }


def on_spark(
    spark: SparkSession,
    folder: Path,
    topology: Topology,
    records: Sequence[Input],
    ends: Sequence[int],
    value_type: str = "STRING",
    by_arrival: bool = False,
    **options: Any,
) -> StreamingApplication:
    """Run the records through the Spark engine, one micro-batch up to each of ``ends``, each in a query of its own."""
    app = application(spark, folder, topology, value_type, by_arrival=by_arrival, **options)
    for first, end in zip([0, *ends], ends, strict=False):
        write_records(spark, folder, topology, records[first:end], first, value_type)
        app.run()
    return app


def in_two_batches(spark: SparkSession, folder: Path, rows: Iterable[Any], schema: str, second: int) -> SparkSource:
    """Rows of any schema as a source.

    Args:
        spark: The session.
        folder: Where they are written.
        rows: As the schema has them, but their ``ts`` in milliseconds.
        schema: Has ``ts TIMESTAMP``, and ``seq``, by which they are in order.
        second: The ``seq`` with which the second batch begins.
    """
    frame = spark.createDataFrame(rows, schema.replace("ts TIMESTAMP", "ts LONG"))
    timed = frame.withColumn("ts", F.timestamp_millis("ts"))
    for part in (F.col("seq") < second, F.col("seq") >= second):
        timed.where(part).coalesce(1).write.mode("append").parquet(str(folder / "s"))
    return SparkSource("parquet", {"path": str(folder / "s"), "maxFilesPerTrigger": "1"}, schema, sequence_by="seq")


def in_one_query(
    spark: SparkSession, folder: Path, topology: Topology, records: Sequence[Input], ends: Sequence[int], **options: Any
) -> StreamingApplication:
    """As :func:`on_spark`, with all batches in one query: each reads one file of each topic."""
    for first, end in zip([0, *ends], ends, strict=False):
        write_records(spark, folder, topology, records[first:end], first)
    app = application(spark, folder, topology, files_per_batch=1, **options)
    app.run()
    return app


def in_two_queries(
    spark: SparkSession, folder: Path, topology: Topology, records: Sequence[Input], ends: Sequence[int], **options: Any
) -> StreamingApplication:
    """As :func:`in_one_query`, with a restart before the last batch."""
    app = in_one_query(spark, folder, topology, records, ends[:-1], **options)
    write_records(spark, folder, topology, records[ends[-2] : ends[-1]], ends[-2])
    app.run()
    return app


def application(
    spark: SparkSession,
    folder: Path,
    topology: Topology,
    value_type: str = "STRING",
    files_per_batch: int | None = None,
    by_arrival: bool = False,
    root: str | None = None,
    in_partitions: bool | None = None,
    **options: Any,
) -> StreamingApplication:
    """The application over the files of ``folder``, one folder per topic; its tables lie there too, if no root is told.

    By arrival, each topic has one scope unless told otherwise: then only the records of one topic come in the order in
    which they stand.
    """
    schema = _SCHEMA.format(value_type)
    at_once = {} if files_per_batch is None else {"maxFilesPerTrigger": str(files_per_batch)}
    sources = {
        topic: SparkSource(
            "parquet",
            {"path": str(folder / topic), **at_once},
            schema,
            partition_by="part" if (not by_arrival if in_partitions is None else in_partitions) else None,
            sequence_by="seq",
        )
        for topic in _topics(topology)
    }
    for topic in sources:
        (folder / topic).mkdir(parents=True, exist_ok=True)
    order: Order = "arrival" if by_arrival else "sequence"
    return StreamingApplication(spark, "both", topology, root or str(folder / "out"), sources, order=order, **options)


def write_records(
    spark: SparkSession,
    folder: Path,
    topology: Topology,
    records: Sequence[Input],
    first: int = 0,
    value_type: str = "STRING",
) -> None:
    """Records as files, numbered from ``first``."""
    for topic in _topics(topology):
        rows = [
            (r.k, r.v, r.ts_us, number if r.sequence is None else r.sequence, r.partition, r.v is None)
            for number, r in enumerate(records, first)
            if r.topic == topic
        ]
        frame = spark.createDataFrame(rows, _SCHEMA.format(value_type).replace("ts TIMESTAMP", "ts LONG"))
        timed = frame.selectExpr("k", "v", "timestamp_micros(ts) AS ts", "seq", "part", "dead")
        timed.coalesce(1).write.mode("append").parquet(str(folder / topic))


def _topics(topology: Topology) -> list[str]:
    return sorted({node.topic for node in topology if hasattr(node, "topic")})


def sink_rows(spark: SparkSession, app: StreamingApplication, topology: Topology) -> dict[str, Told]:
    """What the changelog sinks of the Spark engine got, in order."""
    told: dict[str, Told] = {}

    def read(sink: str) -> None:
        told[sink] = _rows(spark, app, sink, _key_names(topology, sink))

    side_by_side([partial(read, sink) for sink in sinks(topology)], spark)
    return told


def sinks(topology: Topology) -> list[str]:
    """The changelog sinks of a plan."""
    return [node.name for node in topology if isinstance(node, ChangelogSink)]


def _rows(spark: SparkSession, app: StreamingApplication, sink: str, keys: Sequence[str]) -> Told:
    frame = spark.read.format("delta").load(str(app.table(sink))).orderBy("_batch_id", "_seq", "_scope")
    own = {"ts", "reason", "deleted", "_batch_id", "_scope", "_seq"}
    # Values of corrections have fields of the same names.
    own |= {"op", "old", "cause"} if "op" in frame.columns else set()
    told: Told = []
    for row in frame.collect():
        fields = row.asDict()
        key = tuple(_plain(fields[name]) for name in keys)
        values = {name: _plain(value) for name, value in fields.items() if name not in {*keys, *own}}
        value = None if fields.get("deleted") else _told(values.values())
        told.append((None if all(part is None for part in key) else key, value, _plain(fields["ts"])))
    return told


def _key_names(topology: Topology, sink: str) -> tuple[str, ...]:
    from streams.key_fields import key_fields

    return key_fields(topology.node(sink)) or ("key",)


def _parts(row: Row | Mapping[str, Any] | None) -> Any:
    return None if row is None else _told(_plain(part) for part in row.values())


def _told(parts: Iterable[Any]) -> tuple[Any, ...] | None:
    """A row's fields; a changelog of a stream shows a null value as a row of nulls, so the two count as the same."""
    told = tuple(parts)
    return None if all(part is None for part in told) else told


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return (value.astimezone(dt.timezone.utc) - _EPOCH) // dt.timedelta(microseconds=1)
    return value


def unwrapped(value: Any) -> Any:
    """What the test driver gave, with mappings as dictionaries all the way down, as rows of Spark are collected."""
    if isinstance(value, Mapping):
        return {name: unwrapped(part) for name, part in value.items()}
    return type(value)(map(unwrapped, value)) if type(value) in (list, tuple) else value
