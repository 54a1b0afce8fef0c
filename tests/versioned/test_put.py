"""How a put chooses where its late records go."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from versioned.put import has_at_most


@pytest.mark.parametrize(("most", "told"), [(9, False), (10, True), (1_900_000, True)])
def test_few_rows_are_counted_as_they_are(spark: SparkSession, most: int, told: bool) -> None:
    assert has_at_most(most, spark.range(10).toDF("n")) is told


@pytest.mark.parametrize(("most", "told"), [(1_900_000, False), (2_100_000, True)])
def test_where_many_rows_are_allowed_a_sample_tells_whether_there_are_more(
    spark: SparkSession, most: int, told: bool
) -> None:
    assert has_at_most(most, spark.range(2_000_000).toDF("n")) is told
