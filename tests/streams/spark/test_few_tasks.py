"""What is put together from many parts is read in few tasks."""

from __future__ import annotations

from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.spark.few_tasks import in_few_tasks


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
