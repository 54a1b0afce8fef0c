"""How a put chooses where its late records go, and which of the records of one unit of time stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from versioned import put_frames
from versioned.durations import Resolution
from versioned.errors import ConfigurationError
from versioned.put import has_at_most
from versioned.session_settings import UNIONS, session_settings
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


def _unordered(*_: object) -> None:
    raise AssertionError("one task would put all records in order")


def test_no_load_of_long_history_is_put_in_order_by_one_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(put_frames, "stream_time_before", _unordered)
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING, v INT", keys="k", history_retention="1 day")
    years = "SELECT 'a' AS k, id AS v, timestamp_seconds(id * 86400 * 300) AS ts FROM range(1, 4)"
    assert table.put(spark.sql(years)).counts.accepted == 3
    # By what was put before, and not by the batch itself, a record is late.
    late = table.put(spark.sql("SELECT 'a' AS k, 0 AS v, timestamp_seconds(s) AS ts FROM VALUES (9), (77760000) t(s)"))
    assert (late.counts.accepted, late.counts.refused) == (1, 1)
    assert table.backfill(spark.sql("SELECT 'b' AS k, 7 AS v, timestamp_seconds(5) AS ts")).counts["accepted"] == 1
    assert [(row["k"], row["v"]) for row in table.rows().orderBy("validFrom").collect()] == [
        ("b", 7), ("a", 1), ("a", 2), ("a", 0)
    ]  # fmt: skip


def test_a_session_in_which_only_partitions_are_replaced_puts_as_any_other(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING, v INT", keys="k", history_retention="1 day")
    with session_settings(spark, {"spark.databricks.delta.replaceWhere.dataColumns.enabled": "false"}):
        for second in (1, 2):
            table.put(spark.sql(f"SELECT 'a' AS k, {second} AS v, timestamp_seconds({second}) AS ts"))
    assert [row["v"] for row in table.rows().orderBy("validFrom").collect()] == [1, 2]


def test_records_may_not_have_to_be_older_than_now(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING, v INT", keys="k", history_retention="1 day")
    with pytest.raises(ConfigurationError, match="max_future_skew must not be negative"):
        table.put(spark.sql("SELECT 'a' AS k, 1 AS v, timestamp_seconds(1) AS ts"), max_future_skew="-1 hour")
