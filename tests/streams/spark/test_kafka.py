"""Kafka for real: a source and a sink against a broker, across two deaths of the driver.

One application reads a topic of two partitions as a versioned table and as a stream, and sends its answers to another
topic. The topic also has a record that its producer took back, which no table may tell. The application's first start
cannot reach Kafka with its answers; its second dies right after a batch was sent, before the ledger has it; its third
runs to the end.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from broker import has_jars, running_broker
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from streams.nodes import Topology
from streams.spark import (
    BatchReport,
    KafkaFormat,
    KafkaSink,
    SparkSource,
    StreamingApplication,
    kafka_source,
    without_replays,
)
from streams.testing import TopologyTestDriver
from streams.topology import Materialized, StreamsBuilder
from versioned import faults
from versioned.errors import ConfigurationError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_jars(), reason="Kafka's jars were not fetched"),
]

_MINUTE = 60_000_000
_START = 1_767_225_600_000_000  # 2026-01-01
_FORMAT = KafkaFormat("price DOUBLE, ts BIGINT", key="item STRING", key_format="text", ts_unit="us", deleted="gone")
#: (partition, key, price or None, minutes). Partition 0 is an hour ahead of partition 1 from its second record on.
_RECORDS: list[tuple[int, str, float | None, int]] = [
    (0, "tea", 1.0, 10),
    (1, "oil", 2.0, 10),
    (0, "tea", 3.0, 70),
    (0, "tea", 4.0, 65),  # out of order, within the grace of 20 minutes
    (1, "oil", 5.0, 12),  # late by the clock of partition 0, not by its own
    (0, "tea", 6.0, 20),  # too late: it comes after minute 70, though its time is before
    (1, "oil", 7.0, 11),
    (1, "salt", 8.0, 13),
    (0, "rum", 9.0, 71),
    (0, "tea", 10.0, 72),
    (1, "oil", 11.0, 14),
    (0, "rum", 12.0, 69),
]
_BROKEN = [(0, "tea", "{no json"), (1, "oil", '{"price": "much", "ts": 1}')]


def _topology() -> Topology:
    builder = StreamsBuilder()
    kept = Materialized.versioned("1 hour", grace="20 minutes", late_policy="side_table")
    table = builder.table("events", kept, key="item", value="price", deleted="gone", name="prices")
    stream = builder.stream("events", key="item", value="price", deleted="gone", name="reads")
    stream.left_join(table, lambda left, right: {"read": left.price, "price": right.price}, name="joined").to_changelog(
        "priced"
    )
    table.to_changelog("changes")
    return builder.build()


@dataclass
class Story:
    """What is left when all three starts are over."""

    app: StreamingApplication
    sent: DataFrame
    first_error: str
    reports: list[BatchReport]


def _application(
    spark: SparkSession, servers: str, folder: Path, sinks: str, reports: list[BatchReport]
) -> StreamingApplication:
    few = {"maxOffsetsPerTrigger": "6"}
    # A sink that is not reachable is given up after a second.
    given_up = {"kafka.max.block.ms": "1000", "kafka.delivery.timeout.ms": "1000", "kafka.request.timeout.ms": "500"}
    options = {} if sinks == servers else given_up
    return StreamingApplication(
        spark,
        "shop",
        _topology(),
        str(folder / "tables"),
        {"events": kafka_source(servers, "events", _FORMAT, few)},
        order="sequence",
        kafka={
            "priced": KafkaSink(sinks, "priced", "text", options),
            "changes": KafkaSink(sinks, "changes", "json", options),
        },
        on_batch=reports.append,
    )


def _produce(spark: SparkSession, servers: str) -> None:
    values = [
        (partition, key, None if price is None else json.dumps({"price": price, "ts": _START + minutes * _MINUTE}))
        for partition, key, price, minutes in _RECORDS
    ]
    rows = [(number, *row) for number, row in enumerate([*values, *_BROKEN])]
    # One task, so that each partition has its records in this order.
    frame = spark.createDataFrame(rows, "n INT, partition INT, key STRING, value STRING").coalesce(1)
    records = frame.sortWithinPartitions("n").drop("n")
    records.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "events").save()


def _take_back(spark: SparkSession, servers: str) -> None:
    """Send a price in a transaction that is aborted: it stays in the topic."""
    text = "org.apache.kafka.common.serialization.StringSerializer"
    said = {"key.serializer": text, "value.serializer": text, "transactional.id": "undecided"}
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    for name, value in {"bootstrap.servers": servers, **said}.items():
        options.put(name, value)
    kafka = jvm.org.apache.kafka.clients.producer
    producer = kafka.KafkaProducer(options)
    producer.initTransactions()
    producer.beginTransaction()
    price = json.dumps({"price": 99.0, "ts": _START + 73 * _MINUTE})
    producer.send(kafka.ProducerRecord("events", 0, "tea", price))
    producer.flush()
    producer.abortTransaction()
    producer.close()


def _dies_after(point: str, batch: int) -> Any:
    passed = Counter[str]()

    def action(name: str) -> None:
        passed[name] += 1
        if name == point and passed[name] == batch:
            raise RuntimeError("the driver dies")

    return action


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("kafka")
    reports: list[BatchReport] = []
    with running_broker(folder) as servers:
        _produce(spark, servers)
        _take_back(spark, servers)
        with pytest.raises(StreamingQueryException) as unreachable:
            _application(spark, servers, folder, "127.0.0.1:9", reports).run()
        again = _application(spark, servers, folder, servers, reports)
        with faults.armed(_dies_after("after:priced/kafka", 2)), pytest.raises(StreamingQueryException, match="dies"):
            again.run()
        app = _application(spark, servers, folder, servers, reports)
        app.run()
        options = {"kafka.bootstrap.servers": servers, "subscribe": "priced,changes", "includeHeaders": "true"}
        sent = spark.read.format("kafka").options(**options).load().localCheckpoint()
    return Story(app, sent, str(unreachable.value), reports)


def _table(spark: SparkSession, story: Story, name: str) -> list[Row]:
    frame = spark.read.format("delta").load(str(story.app.table(name)))
    return frame.withColumn("us", F.unix_micros("ts")).collect()


@pytest.fixture
def driver() -> TopologyTestDriver:
    """The same records, one by one, without Spark."""
    driver = TopologyTestDriver(_topology())
    offsets = Counter[int]()
    for partition, key, price, minutes in _RECORDS:
        value = None if price is None else {"price": price}
        at = _START + minutes * _MINUTE
        driver.pipe_input("events", key, value, at, partition=partition, offset=offsets[partition])
        offsets[partition] += 1
    return driver


def test_a_sink_that_kafka_does_not_take_ends_the_batch_with_what_to_do(story: Story) -> None:
    assert "DeliveryError" in story.first_error
    assert "Nothing is lost: start again once Kafka answers" in story.first_error


def test_the_input_was_read_in_several_batches_and_each_was_done_once(story: Story) -> None:
    ids = [report.batch_id for report in story.reports]
    assert ids == sorted(set(ids))
    assert len(ids) >= 3
    assert sum(report.records for report in story.reports) == len(_RECORDS) + len(_BROKEN)


@pytest.mark.parametrize(("sink", "fields"), [("priced", ("read", "price")), ("changes", ("price",))])
def test_tables_are_as_those_of_a_run_without_deaths(
    spark: SparkSession, story: Story, driver: TopologyTestDriver, sink: str, fields: tuple[str, ...]
) -> None:
    got = Counter((row["item"], row["us"], *(row[name] for name in fields)) for row in _table(spark, story, sink))
    wanted = Counter(
        (record.key.item, record.ts_us, *(getattr(record.value, name) for name in fields))
        for record in driver.read_output(sink)
    )
    assert got == wanted


def test_a_partition_is_a_scope_and_its_offsets_are_the_order(
    spark: SparkSession, story: Story, driver: TopologyTestDriver
) -> None:
    late = [
        (row["node"], row["scope"], (row["us"] - _START) // _MINUTE)
        for row in _table(spark, story, "rejects")
        if row["reason"] == "LATE"
    ]
    # Minute 20 is before minute 65 in time, and after it in partition 0; minute 11 is late nowhere.
    assert late == [("prices", 0, 20)]
    assert driver.counters("prices")["late"] == 1
    times = spark.read.format("delta").load(f"{story.app.root}/ledger").orderBy(F.desc("batch_id")).first()
    assert times is not None
    reached = {scope: at.timestamp() * 1e6 for scope, at in times["stream_times"]["prices"].items()}
    assert {scope: (us - _START) / _MINUTE for scope, us in reached.items()} == {0: 72.0, 1: 14.0}


def test_what_is_no_json_or_has_another_type_is_kept_as_text(spark: SparkSession, story: Story) -> None:
    rows = [row for row in _table(spark, story, "rejects") if row["reason"] == "BAD_TYPE"]
    assert len(rows) == len(_BROKEN) * 2  # once per node that reads the topic
    assert all(any(text in row["record"].replace("\\", "") for _, _, text in _BROKEN) for row in rows)


def test_every_row_was_sent_and_a_batch_that_was_sent_twice_has_the_same_ids_and_content(
    spark: SparkSession, story: Story
) -> None:
    for sink in ("priced", "changes"):
        sent = _sent(story, sink)
        by_id: dict[Any, list[Any]] = defaultdict(list)
        for identity, content in sent:
            by_id[identity].append(content)
        assert all(len(set(contents)) == 1 for contents in by_id.values())
        rows = _table(spark, story, sink)
        assert len(by_id) == len(rows)
        again = {identity[1] for identity, contents in by_id.items() if len(contents) > 1}
        assert again == {"1"}
        assert {batch for (_, batch, _, _), _ in sent} == {str(row["_batch_id"]) for row in rows}


def _sent(story: Story, sink: str) -> list[tuple[tuple[str, ...], tuple[Any, ...]]]:
    rows = story.sent.where(F.col("topic") == sink).orderBy("partition", "offset").collect()
    told = []
    for row in rows:
        headers = {header["key"]: bytes(header["value"]).decode() for header in row["headers"]}
        key = bytes(row["key"]).decode()
        identity = (headers["versioned-sink"], headers["versioned-batch"], headers["versioned-nth"], key)
        value = None if row["value"] is None else bytes(row["value"]).decode()
        told.append((identity, (value, headers["versioned-ts"], row["partition"])))
    return told


def test_a_consumer_without_the_replays_has_each_change_once_in_the_order_of_its_key(
    spark: SparkSession, story: Story, driver: TopologyTestDriver
) -> None:
    kept = without_replays(story.sent.where(F.col("topic") == "priced")).orderBy("partition", "offset").collect()
    got: dict[str, list[Any]] = defaultdict(list)
    for row in kept:
        value = json.loads(bytes(row["value"]))
        got[bytes(row["key"]).decode()].append((value["read"], value["price"], value["ts"]))
    wanted: dict[str, list[Any]] = defaultdict(list)
    for record in driver.read_output("priced"):
        minutes = (record.ts_us - _START) // _MINUTE
        at = f"2026-01-01T{minutes // 60:02d}:{minutes % 60:02d}:00.000000Z"
        wanted[record.key.item].append((record.value.read, record.value.price, at))
    assert got == wanted


def test_a_key_of_several_fields_is_a_json_object_and_a_tombstone_has_no_value(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES (1, 'x', 2.5D, TIMESTAMP '2026-01-01 00:00:00.000001', false, 7L, 0, array(1L)), "
        "(1, NULL, NULL, TIMESTAMP '2026-01-02', true, 7L, 0, array(2L)) "
        "AS t(a, b, v, ts, deleted, _batch_id, _scope, _seq)"
    )
    told = KafkaSink("none:1", "t").records(rows, "app/out", ["a", "b"], of_table=True).collect()
    by_key = {row["key"]: (row["value"], [bytes(h["value"]).decode() for h in row["headers"]]) for row in told}
    assert by_key == {
        '{"a":1,"b":"x"}': (
            '{"v":2.5,"ts":"2026-01-01T00:00:00.000001Z"}',
            ["app/out", "7", "1", str(_START + 1)],
        ),
        '{"a":1,"b":null}': (None, ["app/out", "7", "1", str(_START + 24 * 60 * _MINUTE)]),
    }


def test_only_changelogs_can_be_sent(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\['prices'\] are no changelog sinks"):
        StreamingApplication(
            spark,
            "a",
            _topology(),
            str(tmp_path),
            {"events": SparkSource("rate")},
            kafka={"prices": KafkaSink("h:1", "t")},
        )
