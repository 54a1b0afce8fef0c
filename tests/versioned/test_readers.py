"""Readers outside Spark give the answers that the library gives, on tables that it wrote."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from versioned.table import VersionedTable

_ROWS = [
    ("a", "x", 10), ("a", "y", 30),
    ("a", "late", 20), ("b", "p", 10), ("b", None, 25), ("ä", None, 5), ("c", "q", 40),
]  # fmt: skip
_INSTANTS = (4, 5, 10, 19, 20, 24, 25, 39, 40, 99)


def _at(second: int) -> datetime:
    return datetime.fromtimestamp(second, timezone.utc)


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> VersionedTable:
    path = f"{tmp_path_factory.mktemp('readers')}/rates"
    made = VersionedTable.create(spark, path, "k STRING, v STRING", keys="k", history_retention="1 day")
    for rows in (_ROWS[:2], _ROWS[2:]):
        shaped = [(key, value, second, value is None) for key, value, second in rows]
        frame = spark.createDataFrame(shaped, "k STRING, v STRING, s LONG, dead BOOLEAN")
        made.put(frame.withColumn("ts", F.timestamp_seconds("s")), deleted="dead")
    return made


@pytest.fixture(scope="module")
def expected(table: VersionedTable) -> dict[str, list[Any]]:
    """What the library says: ``current``, and each instant under its second."""
    asked = {"current": table.current(), **{str(second): table.as_of(_at(second)) for second in _INSTANTS}}
    return {name: sorted(tuple(row) for row in frame.select("k", "v").collect()) for name, frame in asked.items()}


def test_deltalake_answers_in_sql_as_the_library_does(table: VersionedTable, expected: dict[str, list[Any]]) -> None:
    query = QueryBuilder().register("rates", DeltaTable(str(table.target)))

    def asked(condition: str) -> list[Any]:
        rows = query.execute(f"SELECT k, v FROM rates WHERE NOT deleted AND {condition}").read_all()
        return sorted((row["k"], row["v"]) for row in rows.to_struct_array().to_pylist())

    assert asked("_current") == expected["current"]
    for second in _INSTANTS:
        at = f"to_timestamp({second})"
        assert asked(f'"validFrom" <= {at} AND ("validTo" IS NULL OR {at} < "validTo")') == expected[str(second)]


def test_polars_answers_as_the_library_does(table: VersionedTable, expected: dict[str, list[Any]]) -> None:
    versions = pl.scan_delta(str(table.target)).filter(~pl.col("deleted"))
    assert sorted(versions.filter(pl.col("_current")).select("k", "v").collect().rows()) == expected["current"]
    for second in _INSTANTS:
        began = pl.col("validFrom") <= _at(second)
        lasts = pl.col("validTo").is_null() | (pl.col("validTo") > _at(second))
        assert sorted(versions.filter(began & lasts).select("k", "v").collect().rows()) == expected[str(second)]


def test_duckdb_joins_as_of_as_the_library_does(table: VersionedTable, expected: dict[str, list[Any]]) -> None:
    duck = duckdb.connect()
    duck.register("rates", DeltaTable(str(table.target)).to_pyarrow_dataset())
    current = duck.sql("SELECT k, v FROM rates WHERE _current AND NOT deleted ORDER BY k")
    assert current.fetchall() == expected["current"]
    seconds = ", ".join(f"({second})" for second in _INSTANTS)
    found = duck.sql(
        f"""
        WITH asked AS (SELECT DISTINCT k, s, to_timestamp(s) AS moment FROM rates, (VALUES {seconds}) AS seconds(s))
        SELECT s, asked.k, v FROM asked ASOF JOIN rates ON asked.k = rates.k AND moment >= validFrom
        WHERE NOT deleted ORDER BY ALL
        """
    ).fetchall()
    assert found == [(second, *row) for second in _INSTANTS for row in expected[str(second)]]


def test_both_read_the_table_as_it_was_before_the_late_change(spark: SparkSession, table: VersionedTable) -> None:
    place = str(table.target)
    commits = spark.sql(f"DESCRIBE HISTORY delta.`{place}`").select("version", "operation").collect()
    first = min(row["version"] for row in commits if row["operation"] == "WRITE")
    assert sorted(pl.read_delta(place, version=first)["v"]) == ["x", "y"]
    assert DeltaTable(place, version=first).to_pyarrow_table().num_rows == 2


def test_readers_outside_spark_are_told_instants_that_nanoseconds_cannot_hold(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(
        spark, str(tmp_path / "far"), "k STRING, v STRING", keys="k", history_retention="1 day"
    )
    for year in ("0101", "1600", "2500", "9998"):
        row = spark.createDataFrame([("a", year)], "k STRING, v STRING")
        table.put(row.withColumn("ts", F.expr(f"TIMESTAMP '{year}-07-01 12:00:00.000001'")))
    table.optimize()
    versions = pl.scan_delta(str(table.target)).select("v", pl.col("validFrom").dt.to_string("%Y-%m-%d %H:%M:%S%.6f"))
    assert sorted(versions.collect().rows()) == [
        (year, f"{year}-07-01 12:00:00.000001") for year in ("0101", "1600", "2500", "9998")
    ]
