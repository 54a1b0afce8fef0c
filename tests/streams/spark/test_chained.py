"""One application's changelog as another's topic."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from both_engines import Input, on_spark
from pyspark.sql import SparkSession

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
