"""What is put together from many parts is read in few tasks."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.spark import SparkSource, StreamingApplication, started_query
from streams.spark.arrival import Arrived, arrived
from streams.spark.few_tasks import in_few_tasks
from streams.topology import StreamsBuilder


def _union(spark: SparkSession, parts: int) -> DataFrame:
    return reduce(DataFrame.unionByName, [spark.range(n, n + 3).repartition(3) for n in range(parts)])


@pytest.mark.parametrize("parts", [1, 4])
def test_a_union_has_no_more_tasks_than_a_shuffle(spark: SparkSession, parts: int) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert _union(spark, parts).rdd.getNumPartitions() > 2
    assert in_few_tasks(_union(spark, parts)).rdd.getNumPartitions() == 2


def test_its_rows_stay(spark: SparkSession) -> None:
    told = sorted(row["id"] for row in in_few_tasks(_union(spark, 3)).collect())
    assert told == [0, 1, 1, 2, 2, 2, 3, 3, 4]


def test_a_tick_in_front_leaves_the_records_to_two_tasks(spark: SparkSession) -> None:
    tick, records = spark.range(0, 1, 1, 1), spark.range(10, 20, 1, 2)
    rows_of_tasks = in_few_tasks(tick.unionByName(records), more=1).rdd.glom().map(len).collect()
    assert sorted(rows_of_tasks) == [1, 5, 5]


def test_an_application_reads_a_batch_of_two_pieces_in_two_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of_tasks: list[list[int]] = []

    def counted(rows: DataFrame) -> dict[str, Arrived]:
        rows_of_tasks.append(sorted(rows.rdd.glom().map(len).collect()))
        return arrived(rows)

    monkeypatch.setattr(started_query, "arrived", counted)
    records = spark.range(0, 6, 1, 2).selectExpr("id AS k", "id AS n", "timestamp_seconds(id) AS ts")
    records.write.parquet(str(tmp_path / "in"))
    builder = StreamsBuilder()
    builder.stream("in", key="k", value=["n"]).to_changelog("out")
    source = SparkSource("parquet", {"path": str(tmp_path / "in")}, schema="k LONG, n LONG, ts TIMESTAMP")
    StreamingApplication(spark, "two", builder.build(), str(tmp_path / "out"), {"in": source}).run()
    assert rows_of_tasks == [[1, 3, 3]]
