"""What is put aside has the key and the instant that it came with, as in the driver: by its key ``erase`` finds it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from both_engines import Input, on_spark
from pyspark.sql import SparkSession

from streams.functions import lit, when
from streams.nodes import Materialized, Topology
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.windows import SessionWindows, TimeWindows
from versioned.durations import Resolution

_Told = list[tuple[str, str, str | None, str | None, int]]


def _topology() -> Topology:
    builder = StreamsBuilder()
    readings = builder.stream("a", key="k", value="v", deleted="dead", name="readings")
    kinds = readings.group_by(lambda key, value: when(value.v != "unknown", value.v).otherwise(lit(None)))
    kinds.count(name="counts")
    hours = TimeWindows.of(timedelta(milliseconds=10)).grace(timedelta(0))
    kinds.windowed_by(hours, late_policy="side_table").count(name="windows")
    gaps = SessionWindows.of(timedelta(milliseconds=10)).grace(timedelta(0))
    kinds.windowed_by(gaps, late_policy="side_table").count(name="sessions")
    return builder.build()


def _on_driver(topology: Topology, records: list[Input]) -> _Told:
    driver = TopologyTestDriver(topology)
    for record in records:
        driver.pipe_input(record.topic, record.k, {"v": record.v}, record.ts_us, partition=record.partition)
    told = ((each.node, each.reason, each.key, each.value["v"], each.ts_us) for each in driver.rejects)
    return sorted((node, reason, key and key["k"], value, us) for node, reason, key, value, us in told)


def _on_spark(spark: SparkSession, folder: Path, topology: Topology, records: list[Input]) -> _Told:
    app = on_spark(spark, folder, topology, records, [len(records)])
    rows = spark.read.format("delta").load(str(app.table("rejects"))).selectExpr("*", "unix_micros(ts) AS us").collect()
    told = [(row["node"], row["reason"], json.loads(row["record"]), row["us"]) for row in rows]
    return sorted((node, reason, record["key"].get("k"), record["value"]["v"], us) for node, reason, record, us in told)


def test_a_record_that_is_put_aside_behind_a_group_keeps_its_own_key(spark: SparkSession, tmp_path: Path) -> None:
    records = [
        Input("a", "ann", "x", 0),
        Input("a", "bob", "unknown", 1),
        Input("a", "cyd", "x", 1_000),
        Input("a", "dan", "x", 500, 0),
        Input("a", "eve", "x", 2, 1),
    ]
    topology = _topology()
    wanted = _on_driver(topology, records)
    assert {(node, key) for node, _, key, _, _ in wanted} == {
        ("counts", "bob"), ("windows", "bob"), ("sessions", "bob"),
        ("windows", "dan"), ("sessions", "dan"), ("windows", "eve"), ("sessions", "eve"),
    }  # fmt: skip
    assert _on_spark(spark, tmp_path, topology, records) == wanted


def _in_milliseconds() -> Topology:
    builder = StreamsBuilder()
    source, stored = {"key": "k", "value": "v", "deleted": "dead"}, Materialized(time_resolution=Resolution.MILLISECOND)
    versions = Materialized.versioned(
        timedelta(0), name="versions", late_policy="side_table", time_resolution=Resolution.MILLISECOND
    )
    builder.table("a", versions, name="table", **source)
    readings = builder.stream("a", name="readings", **source)
    windows = TimeWindows.of(timedelta(milliseconds=10)).grace(timedelta(0))
    for name, grouped in (("own", readings.group_by_key()), ("others", readings.group_by(lambda value: value.v))):
        grouped.windowed_by(windows, late_policy="side_table").count(name=name, materialized=stored)
    return builder.build()


@pytest.mark.slow
def test_a_record_that_is_put_aside_keeps_the_instant_that_its_store_would_floor(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [
        Input("a", "ann", "x", 900),
        Input("a", "bob", "x", 100, us=777),
        Input("a", "bob", "y", 100, 1, us=1),
        Input("a", None, "x", 901, us=778),
    ]
    topology = _in_milliseconds()
    wanted = _on_driver(topology, records)
    late, other, no_key = 100_777, 100_001, 901_778
    assert {(node, us) for node, _, _, _, us in wanted} == {
        ("table", late), ("own", late), ("others", late), ("others", other), ("table", no_key), ("own", no_key),
    }  # fmt: skip
    assert _on_spark(spark, tmp_path, topology, records) == wanted
