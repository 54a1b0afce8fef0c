"""Views and table functions of stored tables that no page of the documentation shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streams.spark.sql_views import register_application_sql, register_table_sql
from streams.spark.window_upkeep import window_store_properties
from versioned.errors import ConfigurationError
from versioned.sql_types import sql_properties
from versioned.table import VersionedTable


def _asked(spark: SparkSession, query: str) -> list[Any]:
    return [tuple(row) for row in spark.sql(query).collect()]


def test_an_average_is_put_together_from_its_parts(spark: SparkSession, tmp_path: Path) -> None:
    place, said = f"{tmp_path}/means", window_store_properties("means", None)
    spark.sql(
        f"CREATE TABLE delta.`{place}` (k STRING, windowStart TIMESTAMP, windowEnd TIMESTAMP, _sum DOUBLE, "
        f"_count LONG, maxTs TIMESTAMP, _scope INT, _open BOOLEAN) USING DELTA {sql_properties(said)}"
    )
    window = "timestamp_seconds(0), timestamp_seconds(60)"
    spark.sql(
        f"INSERT INTO delta.`{place}` VALUES ('a', {window}, 9, 2, timestamp_seconds(5), 0, true), "
        f"('b', {window}, 0, 0, timestamp_seconds(6), 0, false)"
    )
    assert register_table_sql(spark, place) == ["means_open", "means_final", "means_starting"]
    assert spark.table("means_open").columns == ["k", "windowStart", "windowEnd", "maxTs", "avg"]
    query = "SELECT k, avg, final FROM means_starting(timestamp_seconds({}), timestamp_seconds({})) ORDER BY k"
    assert _asked(spark, query.format(0, 1)) == [("a", 4.5, False), ("b", None, True)]
    assert _asked(spark, query.format(1, 60)) == []


@pytest.mark.parametrize(
    ("keys", "average", "final"),
    [
        (("final",), "avg", "is_final"),
        (("AVG",), "window_avg", "final"),
        (("avg", "final", "is_final"), "window_avg", "is_is_final"),
    ],
)
def test_a_key_may_be_called_as_a_column_of_the_views(
    spark: SparkSession, tmp_path: Path, keys: tuple[str, ...], average: str, final: str
) -> None:
    place, said = f"{tmp_path}/means", window_store_properties("means", None)
    spark.sql(
        f"CREATE TABLE delta.`{place}` ({', '.join(f'{key} STRING' for key in keys)}, windowStart TIMESTAMP, windowEnd "
        f"TIMESTAMP, _sum DOUBLE, _count LONG, maxTs TIMESTAMP, _open BOOLEAN) USING DELTA {sql_properties(said)}"
    )
    assert register_application_sql(spark, str(tmp_path)) == ["means", "means_open", "means_final", "means_starting"]
    window = ["windowStart", "windowEnd", "maxTs"]
    assert spark.table("means_final").columns == [*keys, *window, average]
    starting = spark.sql("SELECT * FROM means_starting(timestamp_seconds(0), timestamp_seconds(1))")
    assert starting.columns == [*keys, *window, average, final]


def test_tables_of_any_name_are_known_and_no_view_hides_one(spark: SparkSession, tmp_path: Path) -> None:
    VersionedTable.create(spark, f"{tmp_path}/to-table.1", "k STRING, v INT", keys="k", history_retention="1 day")
    VersionedTable.create(spark, f"{tmp_path}/prices", "k STRING, v INT", keys="k", history_retention="1 day")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/prices_current` USING DELTA AS SELECT 7 AS own")
    made = register_application_sql(spark, str(tmp_path))
    assert {"to-table.1", "to-table.1_current", "prices", "prices_history", "prices_current"} <= set(made)
    assert _asked(spark, "SELECT * FROM `to-table.1_current`") == []
    assert _asked(spark, "SELECT own FROM prices_current") == [(7,)]


def test_what_a_stream_stream_join_holds_is_a_view(spark: SparkSession, tmp_path: Path) -> None:
    place = f"{tmp_path}/met"
    row = (
        "SELECT 'a' AS k, 'left' AS side, named_struct('x', 1) AS left, CAST(NULL AS STRUCT<y: INT>) AS right, "
        "timestamp_seconds(5) AS ts, false AS matched, true AS padded, 1L AS _arrival, 0 AS _scope"
    )
    spark.sql(row).write.format("delta").save(place)
    assert register_table_sql(spark, place, "pairs") == ["pairs_held"]
    assert _asked(spark, "SELECT k, side, left.x, right.y, matched FROM pairs_held") == [("a", "left", 1, None, False)]
    assert register_table_sql(spark, place, "before", version=0) == ["before_held"]
    with pytest.raises(ConfigurationError, match="has 2 parts"):
        register_table_sql(spark, place, "sales.pairs")


def test_the_folder_of_an_application_may_be_named_as_an_address(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "out of #1"
    VersionedTable.create(spark, f"{folder}/prices", "k STRING, v INT", keys="k", history_retention="1 day")
    made = register_application_sql(spark, str(folder))
    assert "prices_current" in made
    assert [register_application_sql(spark, f"{scheme}{folder}") for scheme in ("file:", "file://")] == [made, made]


def test_a_table_with_a_damaged_log_is_left_out_and_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("sound", "torn"):
        spark.range(1).write.format("delta").save(f"{tmp_path}/{name}")
    (commit,) = (tmp_path / "torn" / "_delta_log").glob("*.json")
    commit.write_text('{"metaData": {', encoding="utf-8")
    assert register_application_sql(spark, str(tmp_path)) == ["sound"]
    assert f"{tmp_path}/torn cannot be opened" in caplog.text


@pytest.mark.parametrize("root", ["s3a://bucket/tables", "sales.shop", "file:/nowhere/tables"])
def test_an_application_whose_tables_cannot_be_listed_is_refused(spark: SparkSession, root: str) -> None:
    with pytest.raises(ConfigurationError, match="register_table_sql"):
        register_application_sql(spark, root)
