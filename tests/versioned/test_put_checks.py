"""Records that a put would take for something else are refused by the types of their columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from versioned.durations import Resolution
from versioned.errors import SchemaError
from versioned.put import PutBatch
from versioned.put_checks import check_types
from versioned.put_records import shape_records
from versioned.session_settings import session_settings
from versioned.spec import VersionedTableSpec
from versioned.table import VersionedTable

_TABLE = "k STRING, v INT"


_NESTED = "k STRUCT<a: STRING, b: INT>, v ARRAY<STRUCT<x: INT, y: INT>>"


@pytest.mark.parametrize(
    ("stored", "columns", "reason"),
    [
        (_TABLE, "k STRING, v INT, ts BIGINT", "would be read as seconds.*timestamp_millis"),
        (_TABLE, "k STRING, v INT, ts DOUBLE", "would be read as seconds"),
        (_TABLE, "k STRING, v DOUBLE, ts TIMESTAMP", '"v" as double, the table as int: fractions'),
        (_TABLE, "k STRING, v DECIMAL(9, 2), ts TIMESTAMP", "fractions would be cut off"),
        (_TABLE, "k STRING, v TIMESTAMP, ts TIMESTAMP", '"v" as timestamp, the table as int: it would become seconds'),
        ("k TIMESTAMP, v INT", "k BIGINT, v INT, ts TIMESTAMP", '"k" as bigint, the table as timestamp: .*as seconds'),
        (
            "k STRING, v STRUCT<at: TIMESTAMP_NTZ>",
            "k STRING, v STRUCT<at: DOUBLE>, ts TIMESTAMP",
            "would be read as seconds",
        ),
        ("k DATE, v INT", "k TIMESTAMP, v INT, ts TIMESTAMP", "time of day would be cut off"),
        ("k STRING, v BOOLEAN", "k STRING, v INT, ts TIMESTAMP", "each number but 0 would be true"),
        (
            "k STRING, v BINARY",
            "k STRING, v INT, ts TIMESTAMP",
            '"v" as int, the table as binary: no value .* made one',
        ),
        ("k STRING, v STRUCT<x: INT>", "k STRING, v STRING, ts TIMESTAMP", '"v" as string, the table as struct<x:int>'),
        (_TABLE, "k STRING, v INT, ts ARRAY<INT>", '"ts" is array<int>, which tells no instant'),
        (
            _NESTED,
            "k STRUCT<b: STRING, a: INT>, v ARRAY<STRUCT<x: INT, y: INT>>, ts TIMESTAMP",
            '"k" as struct<b:string,a:int>.* places',
        ),
        (_NESTED, "k STRUCT<a: STRING>, v ARRAY<STRUCT<x: INT, y: INT>>, ts TIMESTAMP", "taken by their places"),
        (
            _NESTED,
            "k STRUCT<a: STRING, b: INT>, v ARRAY<STRUCT<y: INT, x: INT>>, ts TIMESTAMP",
            '"v" as array.* places',
        ),
        (
            _NESTED,
            "k STRUCT<a: STRING, b: DOUBLE>, v ARRAY<STRUCT<x: INT, y: INT>>, ts TIMESTAMP",
            "fractions would be cut off",
        ),
        (_TABLE, "k VARIANT, v INT, ts TIMESTAMP", '"k" as variant, the table as string: .* with variant_get'),
        (
            "k STRING, v STRUCT<x: INT>",
            "k STRING, v STRUCT<x: VARIANT>, ts TIMESTAMP",
            '"v" as struct<x:variant>.* with variant_get',
        ),
        (_TABLE, "k STRING, v INT, ts VARIANT", '"ts" is variant, .* with variant_get'),
        (_TABLE, "k STRUCT<a: STRING>, v INT, ts TIMESTAMP", '"k" as struct.* would be one text.* with to_json'),
        ("k STRING, v STRING", "k STRING, v ARRAY<INT>, ts TIMESTAMP", '"v" as array.* would be one text'),
        ("k STRING, v ARRAY<STRING>", "k STRING, v ARRAY<MAP<INT, INT>>, ts TIMESTAMP", "would be one text"),
    ],
)
def test_a_type_that_would_change_what_is_meant_is_refused(
    spark: SparkSession, stored: str, columns: str, reason: str
) -> None:
    types = {field.name: field.dataType for field in spark.createDataFrame([], stored).schema.fields}
    check_types(spark.createDataFrame([], f"{stored}, ts TIMESTAMP"), types, "ts")
    with pytest.raises(SchemaError, match=reason):
        check_types(spark.createDataFrame([], columns), types, "ts")


@pytest.mark.slow
def test_a_put_beyond_the_calendar_is_rejected_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", _TABLE, keys="k", history_retention="999999999 days")
    ends = [-62_135_596_800_000_000, 253_402_300_799_999_999]
    times = [ends[0] - 1, *ends, ends[1] + 1]
    rows = spark.createDataFrame([("a", n, us) for n, us in enumerate(times)], "k STRING, v INT, us BIGINT")
    told = table.put(rows.withColumn("ts", F.timestamp_micros("us")))
    assert (told.counts.accepted, told.rejected_count) == (2, 2)
    assert {row["reason"] for row in told.rejected.collect()} == {"TS_RANGE"}
    assert [row["v"] for row in table.current().collect()] == [2]
    assert table.backfill(rows.withColumn("ts", F.timestamp_micros("us"))).counts["rejected.TS_RANGE"] == 2


@pytest.mark.parametrize("resolution", Resolution)
def test_an_instant_at_the_ends_of_64_bits_is_rejected_whatever_the_resolution(
    spark: SparkSession, resolution: Resolution
) -> None:
    spec = VersionedTableSpec.of(keys="k", values="v", history_retention="1 day", time_resolution=resolution)
    rows = spark.createDataFrame(
        [("a", 1, -(2**63)), ("b", 1, 2**63 - 1), ("c", 1, 1_999)], "k STRING, v INT, us BIGINT"
    )
    with session_settings(spark, {"spark.sql.ansi.enabled": "true"}):
        shaped = shape_records(rows.withColumn("ts", F.timestamp_micros("us")), StructType.fromDDL(_TABLE), spec, "ts")
        told = {row["k"]: (row["_us"], row["_reason"]) for row in shaped.collect()}
    assert (told["a"][1], told["b"][1]) == ("TS_RANGE", "TS_RANGE")
    assert told["c"] == (1_999 // resolution.value * resolution.value, None)


def test_columns_that_no_put_reads_may_be_called_like_its_own_even_twice(spark: SparkSession) -> None:
    extra = "1 AS `_us`, 2 AS `_US`, true AS _dead, 'x' AS other, 'y' AS OTHER"
    records = spark.sql(f"SELECT 'a' AS k, 'v' AS v, timestamp_seconds(5) AS ts, {extra}")
    spec = VersionedTableSpec.of(keys="k", values="v", history_retention="1 day")
    told = shape_records(records, StructType.fromDDL("k STRING, v STRING"), spec, "ts").collect()
    assert [(row["_us"], row["_value"]["v"], row["_reason"]) for row in told] == [(5_000_000, "v", None)]


@pytest.mark.slow
def test_a_put_from_the_future_is_rejected_where_it_is_told_how_far_clocks_may_go(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", _TABLE, keys="k", history_retention="1 day")
    hours = {"a": 0, "b": 1, "c": 3}
    rows = spark.createDataFrame(list(hours.items()), "k STRING, v INT")
    ahead = rows.withColumn("ts", F.current_timestamp() + F.make_interval(hours=F.col("v")))
    told = table.put(ahead, max_future_skew="2 hours")
    assert [(row["k"], row["reason"]) for row in told.rejected.collect()] == [("c", "FUTURE_TS")]
    assert {row["k"] for row in table.current().collect()} == {"a", "b"}
    assert table.put(ahead, max_future_skew="999999999 days").counts.accepted == 3


def test_a_variant_is_taken_for_a_variant(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING, v VARIANT", keys="k", history_retention="1 day")
    table.put(spark.sql("SELECT 'a' AS k, parse_json('1.9') AS v, timestamp_seconds(1) AS ts"))
    assert [row["v"] for row in table.current().selectExpr("to_json(v) AS v").collect()] == ["1.9"]


@pytest.mark.parametrize("columns", ["k INT, v DECIMAL(9, 0), ts TIMESTAMP", "k STRING, v BIGINT, ts DATE"])
def test_other_types_are_cast_as_ever(spark: SparkSession, columns: str) -> None:
    types = {field.name: field.dataType for field in spark.createDataFrame([], _TABLE).schema.fields}
    check_types(spark.createDataFrame([], columns), types, "ts")


@pytest.mark.parametrize(
    ("columns", "how", "reason"),
    [
        ("dead INT", {"deleted": "dead"}, '"dead" is int, .* are deletions. Make it a boolean, as with dead = 1'),
        ("part STRING", {"partition": "part"}, '"part" is string, .* which partition. Make it an integer'),
        ("n MAP<INT, INT>", {"sequence": "n"}, '"n" is map<int,int>, which has no order, .* Make it a number'),
        ("n ARRAY<VARIANT>", {"sequence": "n"}, '"n" is array<variant>, which has no order'),
        ("K STRING", {}, r"have \['K', 'k'\], which are one column to Spark"),
        ("n INT, N INT", {"sequence": "n"}, r"have \['N', 'n'\], which are one column"),
    ],
)
def test_a_column_that_cannot_say_what_it_is_named_for_is_refused(
    spark: SparkSession, tmp_path: Path, columns: str, how: dict[str, str], reason: str
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", _TABLE, keys="k", history_retention="1 day")
    with pytest.raises(SchemaError, match=reason):
        table.put(spark.createDataFrame([], f"{_TABLE}, ts TIMESTAMP, {columns}"), **how)


def test_a_deletion_tells_the_users_name_of_a_number_that_is_no_instant(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", _TABLE, keys="k", history_retention="1 day")
    with pytest.raises(SchemaError, match='"gone" is bigint'):
        table.delete(spark.createDataFrame([], "k STRING, gone BIGINT"), timestamp="gone")


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_text_that_is_no_instant_and_a_number_that_is_no_partition_are_rejected(
    spark: SparkSession, tmp_path: Path, ansi: str
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", _TABLE, keys="k", history_retention="1 day")
    rows = [
        ("a", 1, "2026-01-01", 7),
        ("b", 1, "nope", 7),
        ("c", 1, None, 7),
        ("d", 1, "2026-01-01", 2**32 + 7),
        ("e", 1, "09:30", 7),
    ]
    with session_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        told = table.put(spark.createDataFrame(rows, "k STRING, v INT, ts STRING, p BIGINT"), partition="p")
    reasons = {row["k"]: row["reason"] for row in told.rejected.collect()}
    assert reasons == {"b": "BAD_TYPE", "c": "NULL_TS", "d": "BAD_TYPE", "e": "BAD_TYPE"}
    assert (told.counts.accepted, list(table.stream_times())) == (1, [7])


def test_a_put_of_whole_numbers_as_instants_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", _TABLE, keys="k", history_retention="1 day")
    with pytest.raises(SchemaError, match="would be read as seconds"):
        table.put(spark.createDataFrame([("a", 1, 1_700_000_000_000)], "k STRING, v INT, ts BIGINT"))
    assert (table.stream_times(), table.current().count()) == ({}, 0)


@pytest.mark.parametrize("write", [VersionedTable.put, VersionedTable.backfill, VersionedTable.delete])
def test_a_stream_is_refused_with_how_to_put_it(
    spark: SparkSession, tmp_path: Path, write: Callable[[VersionedTable, DataFrame], object]
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", _TABLE, keys="k", history_retention="1 day")
    stream = spark.readStream.format("rate").load().selectExpr("'a' AS k", "1 AS v", "timestamp AS ts")
    with pytest.raises(SchemaError, match=r"are a stream\. Put each of its batches, in writeStream\.foreachBatch"):
        write(table, stream)


def test_a_deletion_is_taken_whatever_its_values_and_refused_whole_if_a_key_does_not_fit(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k INT, v INT", keys="k", history_retention="1 day")
    kinds = "k STRING, v STRING, s INT, dead BOOLEAN"
    rows = spark.createDataFrame([("1", "7", 1, False), ("2", "8", 1, False), ("1", "n/a", 2, True)], kinds)
    told = table.put(rows.withColumn("ts", F.timestamp_seconds("s")), deleted="dead")
    assert (told.counts.accepted, told.rejected_count) == (3, 0)
    gone = spark.createDataFrame([("2", 3), ("12x", 3), (None, 3)], "k STRING, s INT")
    with pytest.raises(SchemaError, match=r"Some records tell no version: .*Nothing was deleted") as refused:
        table.delete(gone.withColumn("ts", F.timestamp_seconds("s")))
    assert "'BAD_TYPE': 1" in str(refused.value)
    assert "'NULL_KEY': 1" in str(refused.value)
    assert [row["k"] for row in table.current().collect()] == [2]


def _batch(table: VersionedTable, records: DataFrame) -> None:
    """What an application writes, which opened its tables when it began."""
    columns = StructType.fromDDL(_TABLE)
    shaped = shape_records(records, columns, table.spec, "ts").drop("_reason")
    PutBatch(table.target, table.spec, shaped, {}).write(lambda _name: None)


@pytest.mark.parametrize("write", [VersionedTable.put, VersionedTable.backfill, VersionedTable.delete, _batch])
def test_a_table_that_got_a_column_since_it_was_opened_is_not_written_to(
    spark: SparkSession, tmp_path: Path, write: Callable[[VersionedTable, DataFrame], object]
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", _TABLE, keys="k", history_retention="1 day")
    spark.sql(f"ALTER TABLE {table.target.sql} ADD COLUMN note STRING")
    with pytest.raises(SchemaError, match=r"has columns .*'note'.*, but its spec promises"):
        write(table, spark.sql("SELECT 'a' AS k, 2 AS v, TIMESTAMP_SECONDS(5) AS ts"))
    assert table.rows().count() == 0
