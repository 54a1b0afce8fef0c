"""Rows that differ have other hashes, and nothing of an instant is cut in what they are told by."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from versioned.hashing import row_hash
from versioned.sql_types import JSON_INSTANTS

_INSTANTS = ("timestamp_micros(id) AS at", "CAST(timestamp_micros(id) AS TIMESTAMP_NTZ) AS there")


@pytest.mark.parametrize("value", ["array(at)", "array(there)", "map('k', named_struct('there', there))"])
def test_rows_that_differ_by_a_microsecond_deep_inside_have_other_hashes(spark: SparkSession, value: str) -> None:
    rows = spark.range(3).selectExpr(*_INSTANTS).selectExpr(f"{value} AS v")
    assert rows.select(row_hash([(F.col("v"), rows.schema["v"].dataType)])).distinct().count() == 3


def test_instants_with_and_without_a_zone_are_whole_in_json(spark: SparkSession) -> None:
    row = spark.range(7, 8).selectExpr(*_INSTANTS).select(F.to_json(F.struct("*"), JSON_INSTANTS)).collect()[0]
    assert row[0] == '{"at":"1970-01-01T00:00:00.000007Z","there":"1970-01-01T00:00:00.000007"}'


@pytest.mark.parametrize(
    "value",
    [
        "map(CAST(CAST(id AS STRING) AS BINARY), 1)",
        "map(array(id), 1)",
        "map(named_struct('b', CAST(CAST(id AS STRING) AS BINARY)), 1)",
        "array(map('k', map(CAST(CAST(id AS STRING) AS BINARY), named_struct('at', 1))))",
        "named_struct('m', map(CAST(CAST(id AS STRING) AS BINARY), 1), 'n', CAST(NULL AS MAP<BINARY, INT>))",
    ],
)
def test_a_map_has_the_hash_of_its_content_whatever_its_keys_are(spark: SparkSession, value: str) -> None:
    rows = spark.range(2).selectExpr(f"{value} AS v", "id")
    hashed = rows.select("id", row_hash([(F.col("v"), rows.schema["v"].dataType)]).alias("hash"))
    first, again = ({row["id"]: row["hash"] for row in hashed.collect()} for _ in range(2))
    assert first == again
    assert len({*first.values()}) == 2


def test_the_hash_of_a_map_by_texts_stays_what_it_was(spark: SparkSession) -> None:
    rows = spark.sql("SELECT map('a', 1, 'b', 2) AS v")
    assert rows.select(row_hash([(F.col("v"), rows.schema["v"].dataType)])).collect()[0][0] == 9167892535375196857
