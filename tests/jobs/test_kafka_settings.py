"""Kafka in settings: what is said becomes a source and a sink, and what is wrong is told with its path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from jobs.dry_run import dry_run
from jobs.job_plan import plan_of
from jobs.kafka_settings import KafkaSinkSettings, KafkaSourceSettings
from jobs.run import source_of
from jobs.settings import parse
from jobs.strict import validated
from streams.spark import KafkaSink
from versioned.errors import ConfigurationError

#: A topic in the settings of a job.
_PRICES = {"servers": "localhost:9092", "topic": "prices", "key": "item STRING", "value": "price DOUBLE"}
_SAID = {"servers": "a:9092,b:9092", "topic": "prices", "value": "price DOUBLE"}
_OUT = {"servers": "localhost:9092", "topic": "out"}


def test_a_source_has_its_options_and_those_that_are_given_win() -> None:
    said = validated(
        KafkaSourceSettings, {**_SAID, "options": {"startingOffsets": "latest", "maxOffsetsPerTrigger": "9"}}
    )
    source = said.source()
    assert (source.format, source.scope_column, source.order_column) == ("kafka", "partition", "offset")
    assert source.options == {
        "kafka.bootstrap.servers": "a:9092,b:9092",
        "subscribe": "prices",
        "startingOffsets": "latest",
        "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": "9",
    }


def test_a_sink_is_what_is_said() -> None:
    said = validated(KafkaSinkSettings, {"servers": "a:1", "topic": "out", "key_format": "text"})
    assert said.sink() == KafkaSink("a:1", "out", "text", {})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"servers": "a"}, "servers: should be host:port, several separated by commas"),
        ({"servers": "a:1, b:2"}, "without spaces"),
        ({"topic": "a topic"}, "topic: should be 1 to 249 letters"),
        ({"key_format": "avro"}, "key_format"),
        ({"ts_unit": "ns"}, "ts_unit"),
        ({"valeu": "price DOUBLE"}, 'valeu: unknown key; did you mean "value"'),
        ({"value": None}, "value"),
    ],
)
def test_what_is_wrong_is_told_with_its_path(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(reason)):
        validated(KafkaSourceSettings, {**_SAID, **change})


def _job(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"application": "a", "plan": "jobs.quickstart_plan:build", "root": "r", "sources": {"s": source}, **more}


def test_a_topic_is_read_with_its_partitions_as_scopes_and_its_offsets_as_the_sequence() -> None:
    settings = parse(_job({"kafka": _PRICES, "contract": {"max_bytes": 10}}))
    source = source_of("s", settings.sources["s"], Path())
    assert (source.format, source.options["subscribe"]) == ("kafka", "prices")
    assert (source.scope_column, source.order_column, source.contract.max_bytes) == ("partition", "offset", 10)


def test_a_changelog_is_sent_to_a_topic() -> None:
    said = {"servers": "localhost:9092", "topic": "out", "key_format": "text"}
    (sink,) = parse(_job({"format": "rate"}, kafka={"changes": said})).kafka.values()
    assert (sink.sink().topic, sink.sink().key_format) == ("out", "text")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({}, "give either a format, a table or kafka"),
        ({"format": "rate", "kafka": _PRICES}, "give either a format, a table or kafka"),
        ({"kafka": _PRICES, "sequence_by": "offset"}, "sequence_by: kafka says these itself"),
        ({"kafka": {**_PRICES, "servers": "nowhere"}}, "sources.s.kafka.servers"),
    ],
)
def test_a_source_that_says_too_little_or_too_much_is_refused(source: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse(_job(source))


def test_a_dry_run_names_the_topics_that_are_read_and_sent_to(tmp_path: Path) -> None:
    said = _job(
        {"kafka": {**_PRICES, "servers": "a:9092,b:9092"}},
        plan={
            "prices": {"op": "stream", "topic": "s", "key": "item"},
            "changes": {"op": "to_changelog", "from": "prices"},
        },
        kafka={"changes": {"servers": "localhost:9092", "topic": "price_changes"}},
    )
    tried = dry_run(parse(said), plan_of(parse(said)), tmp_path)
    assert tried.kafka == (
        "prices: reads Kafka topic prices at a:9092,b:9092",
        "changes: sends what has landed to Kafka topic price_changes at localhost:9092, at least once",
    )
    assert str(tried).endswith("\n".join(["Kafka:", *(f"  {line}" for line in tried.kafka)]))


def test_a_dry_run_without_kafka_says_nothing_of_it(tmp_path: Path) -> None:
    said = _job({"format": "rate"}, plan={"s": {"op": "stream", "key": "value"}})
    tried = dry_run(parse(said), plan_of(parse(said)), tmp_path)
    assert tried.kafka == ()
    assert "Kafka" not in str(tried)


def test_a_dry_run_refuses_to_send_what_is_no_changelog(tmp_path: Path) -> None:
    said = _job({"format": "rate"}, plan={"s": {"op": "stream", "key": "value"}}, kafka={"s": _OUT})
    with pytest.raises(ConfigurationError, match=r"kafka: \['s'\] are no changelog sinks"):
        dry_run(parse(said), plan_of(parse(said)), tmp_path)


def test_a_dry_run_names_the_tables_of_a_catalog_that_are_read(tmp_path: Path) -> None:
    said = _job({"table": "main.sales.orders"}, plan={"sold": {"op": "stream", "topic": "s", "key": "item"}})
    tried = dry_run(parse(said), plan_of(parse(said)), tmp_path)
    assert tried.catalog == ("sold: reads table main.sales.orders of the catalog",)
    assert str(tried).endswith("\n".join(["", "Catalog:", f"  {tried.catalog[0]}"]))
