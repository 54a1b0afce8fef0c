"""What is put aside behind a group has the key that it came with, as in the driver: by that ``erase`` finds it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from both_engines import Input, on_spark
from pyspark.sql import SparkSession

from streams.functions import lit, when
from streams.nodes import Topology
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.windows import SessionWindows, TimeWindows

_Told = list[tuple[str, str, str | None, str | None]]


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
        driver.pipe_input(record.topic, record.k, {"v": record.v}, record.ms * 1_000, partition=record.partition)
    return sorted((each.node, each.reason, each.key["k"], each.value["v"]) for each in driver.rejects)


def _on_spark(spark: SparkSession, folder: Path, topology: Topology, records: list[Input]) -> _Told:
    app = on_spark(spark, folder, topology, records, [len(records)])
    rows = spark.read.format("delta").load(str(app.table("rejects"))).collect()
    told = [(row["node"], row["reason"], json.loads(row["record"])) for row in rows]
    return sorted((node, reason, record["key"]["k"], record["value"]["v"]) for node, reason, record in told)


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
    assert {(node, key) for node, _, key, _ in wanted} == {
        ("counts", "bob"), ("windows", "bob"), ("sessions", "bob"),
        ("windows", "dan"), ("sessions", "dan"), ("windows", "eve"), ("sessions", "eve"),
    }  # fmt: skip
    assert _on_spark(spark, tmp_path, topology, records) == wanted
