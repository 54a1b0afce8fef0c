"""One application's changelog as another's topic."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, application, on_spark, write_records
from pyspark.sql import SparkSession

from streams.functions import concat
from streams.nodes import Topology
from streams.spark import SparkSource, StreamingApplication
from streams.topology import StreamsBuilder


def _large_sums() -> Topology:
    """Sums whose event time hardly ever moves; down to zero their key is deleted."""
    builder = StreamsBuilder()
    sums = builder.stream("in", key="k", value="v").group_by_key().sum("v", name="sums")
    large = sums.filter(lambda value: value.sum > 0, name="large")
    large.to_changelog("changes")
    large.to_latest("latest")
    return builder.build()


def _copy() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("changes", key="k", value="sum", deleted="deleted", name="copy")
    table.to_changelog("changes_again")
    table.to_latest("latest")
    return builder.build()


def _told(spark: SparkSession, app: StreamingApplication, sink: str) -> list[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(str(app.table(sink))).orderBy("_batch_id", "_scope", "_seq")
    return [tuple(row) for row in rows.select("k", "sum", "deleted", "ts").collect()]


def _latest(spark: SparkSession, app: StreamingApplication) -> set[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(str(app.table("latest")))
    return {tuple(row) for row in rows.select("k", "sum", "ts").collect()}


def test_a_changelog_is_read_in_the_order_of_the_application_that_wrote_it(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(11)
    records = [Input("in", chance.choice("abcd"), chance.choice([-3, -1, 1, 2]), 10 + n // 40) for n in range(120)]
    first = on_spark(spark, tmp_path, _large_sums(), records, [50, 120], "INT")
    feed = SparkSource("delta", {"path": str(first.table("changes"))}, sequence_by=("_batch_id", "_scope", "_seq"))
    second = StreamingApplication(spark, "copy", _copy(), str(tmp_path / "copy"), {"changes": feed})
    second.run()
    changes = _told(spark, first, "changes")
    assert len({ts for *_, ts in changes}) < len(changes) / 10
    assert {gone for *_, gone, _ in changes} == {False, True}
    assert _told(spark, second, "changes_again") == changes
    assert _latest(spark, second) == _latest(spark, first)


def _fields(more: bool) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key="k", value="v")
    wide = stream.map_values(lambda value: {"v": value.v, "w": concat("w", value.v)} if more else {"v": value.v})
    wide.to_changelog("changes")
    return builder.build()


def _latest_fields(*value: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream("changes", key="k", value=list(value), name="copy").to_latest("latest")
    return builder.build()


@pytest.mark.slow
def test_a_changelog_that_gets_a_column_is_read_on_and_the_column_taken_where_a_start_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [
        Input("in", "a", "1", 10),
        Input("in", "b", "2", 20),
        Input("in", "a", "3", 30),
        Input("in", "c", "4", 40),
    ]
    first = on_spark(spark, tmp_path, _fields(False), records[:1], [1])
    feed = SparkSource("delta", {"path": str(first.table("changes"))}, sequence_by=("_batch_id", "_scope", "_seq"))

    def follow(*value: str, **options: Any) -> set[tuple[Any, ...]]:
        plan = _latest_fields(*value)
        app = StreamingApplication(spark, "copy", plan, str(tmp_path / "copy"), {"changes": feed}, **options)
        app.run()
        return {
            tuple(row)
            for row in spark.read.format("delta").load(str(app.table("latest"))).select("k", *value).collect()
        }

    assert follow("v") == {("a", "1")}
    write_records(spark, tmp_path, _fields(True), records[1:3], 1)
    application(spark, tmp_path, _fields(True), add_columns=True).run()
    assert follow("v") == {("a", "3"), ("b", "2")}
    write_records(spark, tmp_path, _fields(True), records[3:], 3)
    application(spark, tmp_path, _fields(True)).run()
    assert follow("v", "w", add_columns=True) == {("a", "3", None), ("b", "2", None), ("c", "4", "w4")}
