"""What is put together from many parts is read in few tasks."""

from __future__ import annotations

from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.spark.few_tasks import in_few_tasks


def _union(spark: SparkSession, parts: int) -> DataFrame:
    return reduce(DataFrame.unionByName, [spark.range(n, n + 1, numPartitions=1) for n in range(parts)])


@pytest.mark.parametrize(("parts", "tasks"), [(1, 1), (2, 2), (7, 2)])
def test_a_union_has_no_more_tasks_than_a_shuffle(spark: SparkSession, parts: int, tasks: int) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert in_few_tasks(_union(spark, parts)).rdd.getNumPartitions() == tasks


def test_its_rows_stay(spark: SparkSession) -> None:
    assert sorted(row["id"] for row in in_few_tasks(_union(spark, 7)).collect()) == list(range(7))
