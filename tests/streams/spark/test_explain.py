"""What ``explain`` tells: every table that a batch reads or writes, operator by operator."""

from __future__ import annotations

import pytest
from random_plans import random_topology

from streams.spark.engine import operators_of
from streams.spark.explain import explain
from streams.spark.kafka_sink import KafkaSink
from streams.spark.sinks import send_to_kafka
from streams.spark.sources import SparkSource
from streams.topology import StreamsBuilder
from versioned.identifiers import TableRef

_ROOT = TableRef.parse("/tables/app")


@pytest.mark.parametrize("seed", range(30))
def test_every_table_of_an_operator_is_named_with_how_it_is_committed(seed: int) -> None:
    operators = operators_of(random_topology([seed]))
    told = explain(operators, _ROOT)
    for operator in operators.values():
        for table in operator.tables(_ROOT):
            assert f"commits {table.short_name}: " in told


def test_closed_history_is_read_only_as_far_back_as_the_batch_reaches() -> None:
    told = [explain(operators_of(random_topology([seed])), _ROOT) for seed in range(30)]
    closed = [line for text in told for line in text.splitlines() if "_current = false" in line]
    assert closed
    assert all("validTo > the oldest" in line for line in closed)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"subscribe": "orders,returns"}, "Kafka topic orders,returns at a:9092"),
        ({"subscribePattern": "orders.*"}, "Kafka topic orders.* at a:9092"),
        ({"Assign": '{"orders":[0]}'}, 'Kafka topic {"orders":[0]} at a:9092'),
    ],
)
def test_topics_of_kafka_are_named_at_who_reads_them_and_who_sends_to_them(options: dict[str, str], place: str) -> None:
    builder = StreamsBuilder()
    builder.stream("orders", key="item").to_changelog("sent")
    operators = operators_of(builder.build())
    send_to_kafka(operators, {"sent": KafkaSink("b:9092", "orders_sent")})
    sources = {"orders": SparkSource("kafka", {"kafka.bootstrap.servers": "a:9092", **options})}
    told = explain(operators, _ROOT, sources).splitlines()
    source, sink = (next(at for at, line in enumerate(told) if line.startswith(name)) for name in ("stream-", "sent"))
    assert told[source + 1] == f"    reads {place}"
    assert told[sink + 1] == "    sends what has landed to Kafka topic orders_sent at b:9092, at least once"


def test_files_and_tables_are_no_topics_of_kafka() -> None:
    builder = StreamsBuilder()
    builder.stream("orders", key="item").to_changelog("sent")
    told = explain(operators_of(builder.build()), _ROOT, {"orders": SparkSource("json", {"path": "in"})})
    assert "Kafka" not in told


def test_a_table_of_a_catalog_is_named_at_who_reads_it() -> None:
    builder = StreamsBuilder()
    builder.stream("orders", key="item", name="sold").to_changelog("sent")
    told = explain(operators_of(builder.build()), _ROOT, {"orders": SparkSource(table="main.sales.orders")})
    lines = told.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("sold"))
    assert lines[at + 1] == "    reads table main.sales.orders of the catalog"
