"""How a put chooses where its late records go, and which of the records of one unit of time stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from versioned.durations import Resolution
from versioned.put import has_at_most
from versioned.session_settings import UNIONS
from versioned.table import VersionedTable


@pytest.mark.parametrize(("most", "told"), [(9, False), (10, True), (1_900_000, True)])
def test_few_rows_are_counted_as_they_are(spark: SparkSession, most: int, told: bool) -> None:
    assert has_at_most(most, spark.range(10).toDF("n")) is told


@pytest.mark.parametrize(("most", "told"), [(1_900_000, False), (2_100_000, True)])
def test_where_many_rows_are_allowed_a_sample_tells_whether_there_are_more(
    spark: SparkSession, most: int, told: bool
) -> None:
    assert has_at_most(most, spark.range(2_000_000).toDF("n")) is told


def test_of_records_of_one_millisecond_the_last_by_their_own_times_stays(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(
        spark, f"{tmp_path}/t", "k BIGINT, v STRING", keys="k", history_retention="1 day",
        time_resolution=Resolution.MILLISECOND,
    )  # fmt: skip
    records = spark.range(20).crossJoin(spark.sql("SELECT * FROM VALUES ('first', 1100), ('last', 1900) AS t(v, us)"))
    table.put(records.selectExpr("id AS k", "v", "timestamp_micros(us) AS ts"))
    assert [row["v"] for row in table.current().collect()] == ["last"] * 20


def test_unions_are_sound_in_the_session_of_a_table_and_in_that_of_the_records_of_a_put(
    spark: SparkSession, tmp_path: Path
) -> None:
    of_table, of_records = spark.newSession(), spark.newSession()
    for session in (of_table, of_records):
        session.conf.set(UNIONS, "true")
    table = VersionedTable.create(of_table, str(tmp_path), "k STRING, v INT", keys="k", history_retention="1 day")
    assert of_table.conf.get(UNIONS) == "false"
    table.put(of_records.sql("SELECT 'a' AS k, 1 AS v, timestamp_micros(1) AS ts"))
    assert of_records.conf.get(UNIONS) == "false"
