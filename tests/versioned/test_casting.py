"""A value comes in the type of its column, whatever the session says of casts; one that has none there is rejected."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, TimestampNTZType, TimestampType

from versioned.casting import in_type
from versioned.put_records import shape_records
from versioned.session_settings import session_settings
from versioned.spec import VersionedTableSpec
from versioned.table import VersionedTable


def test_a_text_without_a_day_is_no_instant_of_today(spark: SparkSession) -> None:
    of_today = ["09:30", "9:30", " 9:30", "\n1:2:3.5", "\x7f9:30", "T9", "T09:30", "09:30:00Z", "09:30:00+01:00", "now"]
    of_a_day = ["2026", "2026-01", " 2026-01-01", "2026-01-01 09:30", "2026-01-01T09:30:00Z"]
    frame = spark.createDataFrame([(text,) for text in (*of_today, *of_a_day)], "v STRING")
    told = frame.where(in_type(F.col("v"), StringType(), TimestampType()).isNotNull())
    assert [row["v"] for row in told.collect()] == of_a_day


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_value_that_its_column_does_not_hold_is_rejected_whatever_the_session_says_of_casts(
    spark: SparkSession, tmp_path: Path, ansi: str
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING, v INT", keys="k", history_retention="1 day")
    with session_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        for kind, values in {"BIGINT": [1, 2**40, None], "STRING": ["2", "two", None]}.items():
            rows = [(f"{kind}{place}", value, place) for place, value in enumerate(values)]
            records = spark.createDataFrame(rows, f"k STRING, v {kind}, s INT")
            told = table.put(records.withColumn("ts", F.timestamp_seconds("s")))
            assert [(row["k"], row["reason"]) for row in told.rejected.collect()] == [(f"{kind}1", "BAD_TYPE")]
    stored = {row["k"]: row["v"] for row in table.current().collect()}
    assert stored == {"BIGINT0": 1, "BIGINT2": None, "STRING0": 2, "STRING2": None}


def test_a_number_too_large_for_a_float_is_rejected_and_an_infinite_one_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = "k STRING, v FLOAT, ts TIMESTAMP"
    table = VersionedTable.create(spark, f"{tmp_path}/t", columns, keys="k", history_retention="1 day")
    rows = [("fits", 1.5), ("beyond", -1e39), ("infinite", float("inf")), ("none", float("nan")), ("null", None)]
    records = spark.createDataFrame(rows, "k STRING, v DOUBLE").withColumn("ts", F.timestamp_seconds(F.lit(1)))
    told = table.put(records)
    assert [(row["k"], row["reason"]) for row in told.rejected.collect()] == [("beyond", "BAD_TYPE")]
    stored = {row["k"]: str(row["v"]) for row in table.current().collect()}
    assert stored == {"fits": "1.5", "infinite": "inf", "none": "nan", "null": "None"}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_text_is_infinite_only_if_it_says_so(spark: SparkSession, tmp_path: Path, ansi: str) -> None:
    columns = "k STRING, d DOUBLE, f FLOAT"
    table = VersionedTable.create(spark, f"{tmp_path}/t", columns, keys="k", history_retention="1 day")
    texts = {
        "1e400": None, "-1e400": None, "1e39": "1e+39", "1.5": "1.5", " Infinity ": "inf", "-inf": "-inf", "NaN": "nan",
        "1e-400": "0.0", "many": None,
    }  # fmt: skip
    records = spark.createDataFrame([(text, text) for text in texts], "k STRING, d STRING")
    asked = records.selectExpr("k", "d", "CASE WHEN k <> '1e39' THEN d END AS f", "timestamp_seconds(1) AS ts")
    with session_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        told = table.put(asked)
        assert told.counts.accepted == 6
        beyond = spark.sql("SELECT 'x' AS k, NULL AS d, '1e39' AS f, timestamp_seconds(1) AS ts")
        assert [row["reason"] for row in table.put(beyond).rejected.collect()] == ["BAD_TYPE"]
    stored = {row["k"]: str(row["d"]) for row in table.current().collect()}
    assert stored == {text: number for text, number in texts.items() if number is not None}


def test_a_text_is_a_date_only_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k DATE, v DATE", keys="k", history_retention="1 day")
    whole = {"2020-01-01": "2020-01-01", " 2020-1-2\n": "2020-01-02"}
    cut = [
        "2020-03",
        "2021",
        "2020-01-01T10:00:00",
        "2020-01-01 10:00:00",
        "2020-01-01 junk",
        "2020-01-01T",
        "2020-13-01",
        "soon",
    ]
    records = spark.createDataFrame([(text,) for text in (*whole, *cut)], "k STRING")
    told = table.put(records.selectExpr("k", "k AS v", "timestamp_seconds(1) AS ts"))
    assert (told.rejected_count, {row["reason"] for row in told.rejected.collect()}) == (len(cut), {"BAD_TYPE"})
    stored = {str(row["k"]): str(row["v"]) for row in table.current().collect()}
    assert stored == {date: date for date in whole.values()}


def test_a_text_with_an_offset_is_no_time_without_a_zone(spark: SparkSession) -> None:
    with_more = ["2026-01-01T10:00:00+05:00", "2026-01-01 10:00:00.5Z", "2026-01-01 10:00 Europe/Berlin", "10:00"]
    whole = ["2026", " 2026-1-1\t", "2026-01-01T10", "2026-01-01 10:00", "2026-01-01T10:00:00.123456 "]
    frame = spark.createDataFrame([(text,) for text in (*with_more, *whole)], "v STRING")
    told = frame.where(in_type(F.col("v"), StringType(), TimestampNTZType()).isNotNull())
    assert [row["v"] for row in told.collect()] == whole


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("given", ["STRING", "DOUBLE", "FLOAT", "DECIMAL(20, 3)"])
def test_a_key_that_would_be_rounded_is_rejected_and_a_value_is_rounded(
    spark: SparkSession, ansi: str, given: str
) -> None:
    columns = StructType.fromDDL("k DECIMAL(9, 2), v DECIMAL(9, 2)")
    spec = VersionedTableSpec.of(keys="k", values="v", history_retention="1 day")
    texts = ["1.001", "1.004", "-0.105", "7.1", "7.100", "0", "1234567.89", "99999999", None]
    rows = spark.createDataFrame([(text,) for text in texts], "t STRING")
    with session_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        records = rows.select("t", F.col("t").cast(given).alias("k"), F.lit(1.005).alias("v"))
        if given == "FLOAT":
            records = records.where("t IS NULL OR length(t) < 9")  # It has seven digits.
        told = shape_records(records.withColumn("ts", F.timestamp_seconds(F.lit(1))), columns, spec, "ts").collect()
    taken = {str(row["k"]) for row in told if row["_reason"] is None}
    assert taken == {"7.10", "0.00"} | ({"1234567.89"} if given != "FLOAT" else set())
    assert {str(row["_value"]["v"]) for row in told} == {"1.01"}
    reasons = Counter(row["_reason"] for row in told if row["_reason"] is not None)
    assert reasons == {"BAD_TYPE": 4, "NULL_KEY": 1}


@pytest.mark.parametrize(
    ("stored", "given", "taken"),
    [
        ("TIMESTAMP_NTZ", ["TIMESTAMP '2026-11-01 05:30:00Z'", "TIMESTAMP '2026-11-01 06:30:00Z'"], 1),
        ("TIMESTAMP", ["TIMESTAMP_NTZ '2026-03-08 02:30:00'", "TIMESTAMP_NTZ '2026-03-08 03:30:00'"], 1),
        ("TIMESTAMP", ["DATE '2026-11-01'", "DATE '2026-03-08'"], 2),
        ("STRING", ["TIMESTAMP '2026-11-01 05:30:00Z'", "TIMESTAMP '2026-11-01 06:30:00Z'"], 1),
    ],
    ids=["an hour that comes twice", "an hour that is left out", "days", "as a text"],
)
def test_a_time_that_would_be_the_key_of_another_one_is_rejected_where_clocks_change(
    spark: SparkSession, stored: str, given: list[str], taken: int
) -> None:
    columns = StructType.fromDDL(f"k {stored}, v INT")
    spec = VersionedTableSpec.of(keys="k", values="v", history_retention="1 day")
    with session_settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        keys = " UNION ALL ".join(f"SELECT {key} AS k, 1 AS v, timestamp_seconds(1) AS ts" for key in given)
        told = shape_records(spark.sql(keys), columns, spec, "ts").collect()
    reasons = sorted(str(row["_reason"]) for row in told)
    assert reasons == ["BAD_TYPE"] * (2 - taken) + ["None"] * taken


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_key_of_which_a_part_would_be_another_one_is_rejected(spark: SparkSession, ansi: str) -> None:
    columns = StructType.fromDDL("k STRUCT<a: DECIMAL(9, 1), b: ARRAY<INT>>, v INT")
    spec = VersionedTableSpec.of(keys="k", values="v", history_retention="1 day")
    parts = {"1.01, array(1L)": False, "1.00, array(1L, NULL)": True, "NULL, array(4294967297L)": False}
    keys = [f"named_struct('a', {first}, 'b', {second})" for first, second in (one.split(", ", 1) for one in parts)]
    with session_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        asked = (f"SELECT {n} AS v, {key} AS k, timestamp_seconds(1) AS ts" for n, key in enumerate(keys))
        told = {
            row["_value"]["v"]: row
            for row in shape_records(spark.sql(" UNION ALL ".join(asked)), columns, spec, "ts").collect()
        }
    assert [told[n]["_reason"] for n in range(3)] == [None if fits else "BAD_TYPE" for fits in parts.values()]
    assert (str(told[1]["k"]["a"]), told[1]["k"]["b"]) == ("1.0", [1, None])
