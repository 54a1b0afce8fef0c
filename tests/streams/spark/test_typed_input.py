"""Rows of a source before a batch keeps them in memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, DecimalType, StructType

from streams.nodes import TableSource
from streams.spark.contract import InputContract
from streams.spark.flow import VALUE
from streams.spark.intake import WHY_INVALID, IntakeRule, offsets_of, shape, survey_of
from streams.spark.operator import RAW
from streams.spark.reader_options import MALFORMED
from streams.spark.sources import SparkSource
from streams.spark.typed_input import cast_row_by_row, has_no_text, has_time_beyond, row_size, shortened
from versioned import spark_functions as F
from versioned.session_settings import session_settings

_LONG = "repeat('x', 40)"
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (_LONG, f"'{'x' * 11}'"),
        (
            f"named_struct('n', 1, 'deep', named_struct('t', {_LONG}))",
            f"named_struct('n', 1, 'deep', named_struct('t', '{'x' * 11}'))",
        ),
        (f"array('a', {_LONG}, NULL)", f"array('a', '{'x' * 11}', NULL)"),
        (f"map('k', {_LONG})", f"map('k', '{'x' * 11}')"),
        (f"array(named_struct('t', {_LONG}))", f"array(named_struct('t', '{'x' * 11}'))"),
        ("named_struct('t', 'short')", "named_struct('t', 'short')"),
        ("CAST(NULL AS STRUCT<t: STRING>)", "CAST(NULL AS STRUCT<t: STRING>)"),
        ("array(1L, 2L, 3L)", "array(1L, 2L, 3L)"),
    ],
    ids=["text", "struct", "array", "map", "structs in an array", "short", "null", "numbers"],
)
def test_a_value_is_kept_only_as_far_as_it_takes_to_find_it_too_large(
    value: str, kept: str, spark: SparkSession
) -> None:
    frame = spark.range(1).selectExpr(f"{value} AS v", "1 AS `odd name`")
    wanted = spark.range(1).selectExpr(f"{kept} AS v", "1 AS `odd name`")
    cut = shortened(frame, 10)
    assert cut.schema.simpleString() == frame.schema.simpleString()
    assert [row.asDict(recursive=True) for row in cut.collect()] == [
        row.asDict(recursive=True) for row in wanted.collect()
    ]


@pytest.mark.parametrize(
    ("columns", "size"),
    [
        ("'abcd' AS k, 'efg' AS v", 7),
        (f"'abcd' AS k, 'efg' AS v, CAST(NULL AS STRING) AS {MALFORMED}", 7),
        (f"'abcd' AS k, CAST(NULL AS STRING) AS v, 'abcd;ef\"g' AS {MALFORMED}", 9),
        (f"1 AS k, '12345' AS {MALFORMED}", 5),
        (f"1 AS k, CAST(NULL AS STRING) AS {MALFORMED}", 0),
    ],
    ids=[
        "of all fields",
        "it could be read",
        "its text tells its fields again",
        "numbers",
        "numbers that could be read",
    ],
)
def test_a_row_is_as_large_as_its_content_however_often_that_is_told(
    columns: str, size: int, spark: SparkSession
) -> None:
    frame = spark.sql(f"SELECT {columns}")
    told = row_size(frame.schema)
    assert told is not None
    assert frame.select(told).collect()[0][0] == size


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("DOUBLE", "1e400", None),
        ("FLOAT", "1e39", None),
        ("DOUBLE", "-Infinity", "-Infinity"),
        ("DATE", "2020-01-01T10:00:00", None),
        ("DATE", "2020-01-01 junk", None),
        ("DATE", " 2020-1-1 ", "2020-01-01"),
        ("TIMESTAMP", "09:30:00Z", None),
        ("TIMESTAMP", "2020-01-01 09:30:00Z", "2020-01-01 09:30:00"),
    ],
)
def test_a_text_is_read_whole_or_not_at_all(spark: SparkSession, kind: str, text: str, expected: str | None) -> None:
    frame = spark.createDataFrame([(text,)], "v STRING")
    want = spark.createDataFrame([], f"v {kind}").schema["v"].dataType
    (told,) = frame.select(cast_row_by_row(F.col("v"), frame.schema["v"].dataType, want).cast("string")).collect()
    assert told[0] == expected


@pytest.mark.parametrize("have", ["STRING", "DOUBLE", "DECIMAL(38, 2)"])
@pytest.mark.parametrize("digits", [10, 38])
def test_a_fraction_never_becomes_a_whole_number_of_a_decimal(spark: SparkSession, have: str, digits: int) -> None:
    texts = {"7.5": None, "7": "7", "7.00": "7", "-0.4": None, "1e3": "1000", "75e-1": None, " .0 ": "0"}
    frame = spark.createDataFrame([(text,) for text in texts], "t STRING").withColumn("v", F.expr(f"CAST(t AS {have})"))
    told = cast_row_by_row(F.col("v"), frame.schema["v"].dataType, DecimalType(digits, 0)).cast("string")
    assert {row["t"]: row["told"] for row in frame.select("t", told.alias("told")).collect()} == texts


@pytest.mark.parametrize(
    ("value", "want", "told"),
    [
        ("TIMESTAMP '2026-01-01 10:00:00'", "DATE", None),
        ("TIMESTAMP_NTZ '2026-01-01 00:00:00.000001'", "DATE", None),
        ("TIMESTAMP '2026-01-01 00:00:00'", "DATE", "2026-01-01"),
        ("2", "BOOLEAN", None),
        ("-1.0D", "BOOLEAN", None),
        ("1", "BOOLEAN", "true"),
        ("0.0D", "BOOLEAN", "false"),
    ],
)
def test_of_a_value_nothing_is_left_out(spark: SparkSession, value: str, want: str, told: str | None) -> None:
    frame = spark.sql(f"SELECT {value} AS v")
    kind = spark.createDataFrame([], f"v {want}").schema["v"].dataType
    (row,) = frame.select(cast_row_by_row(F.col("v"), frame.schema["v"].dataType, kind).cast("string")).collect()
    assert row[0] == told


def test_a_key_that_would_be_rounded_is_put_aside_and_a_value_is_rounded(spark: SparkSession) -> None:
    types = StructType.fromDDL("k DECIMAL(9, 2), v DECIMAL(9, 2), ts TIMESTAMP")
    node, source = TableSource("t", topic="t", key=("k",), value=("v",)), SparkSource("parquet")
    raw = spark.createDataFrame([("1.001",), ("1.004",), ("1.0",)], "k STRING")
    rows = raw.selectExpr("k", "k AS v", "timestamp_seconds(1) AS ts")
    told = shape(rows, IntakeRule(node, source, 0, "arrival", 0, types), 10**15, {}, 3).collect()
    assert sorted((row[WHY_INVALID] or "", str(row[VALUE]["v"])) for row in told) == [
        ("", "1.00"), ("BAD_TYPE", "1.00"), ("BAD_TYPE", "1.00"),
    ]  # fmt: skip


def test_all_columns_that_do_not_fit_are_told_and_nothing_of_a_row_that_is_wrong_otherwise(
    spark: SparkSession,
) -> None:
    types = StructType.fromDDL("k BIGINT, v DATE, ts TIMESTAMP")
    node, contract = TableSource("t", topic="t", key=("k",), value=("v",)), InputContract(max_bytes=20)
    source = SparkSource("parquet", partition_by="p", sequence_by="n", contract=contract)
    columns = "K STRING, v STRING, ts TIMESTAMP, p BIGINT, n DECIMAL(20, 0)"
    at, day = datetime(2026, 1, 1, tzinfo=timezone.utc), "2026-01-01"
    raw = [
        ("x", "y", at, 1 << 40, Decimal(10**19)),
        ("x", day, at, 1, Decimal(1)),
        ("1", day, None, 1, Decimal(2)),
        ("x", "y" * 30, at, 1, Decimal(3)),
        ("1", day, at, 1, Decimal(4)),
    ]
    rows = shape(spark.createDataFrame(raw, columns), IntakeRule(node, source, 0, "arrival", 0, types), 10**17, {}, 5)
    told = [(row[WHY_INVALID], json.loads(row[RAW] or "{}").get("misfits")) for row in rows.collect()]
    assert sorted(told, key=str) == sorted(
        [
            ("BAD_TYPE", "k is no bigint, v is no date, p is no int, n is no bigint"),
            ("BAD_TYPE", "k is no bigint"),
            ("NULL_TS", None),
            ("TOO_LARGE", None),
            (None, None),
        ],
        key=str,
    )


def test_no_record_is_a_duplicate_for_the_sequence_of_an_invalid_one(spark: SparkSession) -> None:
    raw = [
        ("of no partition", "1", AT, "p3", 5_000),
        ("of no partition: of the same sequence as a good one", "1", AT, "p3", 2),
        ("of a clock that runs ahead", "1", datetime(2099, 1, 1, tzinfo=timezone.utc), "0", 9_000),
        *((f"no number {number}", "x", AT, "0", 2) for number in range(5)),
        ("good", "1", AT, "0", 2),
        ("good too", "1", AT, "0", 2),
        ("came before", "1", AT, "0", 1),
    ]
    records = _of_unique_source(spark, raw)
    assert _reasons(records) == {"BAD_TYPE": 7, "FUTURE_TS": 1, None: 1, "DUPLICATE": 2}
    assert offsets_of(survey_of({"t": records})["t"]) == {0: 2}


def test_a_record_keeps_its_own_reason_beside_unreadable_ones_of_its_sequence(spark: SparkSession) -> None:
    raw = [("no time", "1", None, "0", 2), *((f"no number {number}", "x", AT, "0", 2) for number in range(20))]
    assert _reasons(_of_unique_source(spark, raw)) == {"BAD_TYPE": 20, "NULL_TS": 1}


_INSTANTS = ("timestamp_micros(253402300800000000)", "timestamp_micros(-62135596800000001)")
_DAYS = ("date_from_unix_date(2932897)", "date_from_unix_date(-719163)")


def test_a_contract_takes_timestamp_for_an_instant_whatever_the_session_does(spark: SparkSession) -> None:
    with session_settings(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        declared = InputContract(types="ts TIMESTAMP, deep STRUCT<at: TIMESTAMP>").declared()
    assert declared is not None
    assert declared.simpleString() == "struct<ts:timestamp,deep:struct<at:timestamp>>"


_LOCAL = ("TIMESTAMP_NTZ '+10000-01-01 00:00:00'", "TIMESTAMP_NTZ '0000-12-31 23:59:59'")
#: The last and the first that Python knows.
_KNOWN = (
    "timestamp_micros(253402300799999999)", "timestamp_micros(-62135596800000000)", "DATE '9999-12-31'",
    "DATE '0001-01-01'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'", "TIMESTAMP_NTZ '0001-01-01 00:00:00'",
)  # fmt: skip
_DEEP = ("{}", "named_struct('n', 1, 'at', {})", "array(NULL, {})", "map('k', {})", "map({}, 1)",
         "array(named_struct('all', map(1, array({}))))")  # fmt: skip


_BYTES = ("CAST(X'61FF62' AS STRING)", "CAST(X'C3' AS STRING)")
_TEXTS = ("''", "'a'", "'caf\u00e9'", "CAST(X'C3A9' AS STRING)")


@pytest.mark.parametrize(
    ("asked", "told", "is_so"),
    [
        (has_time_beyond, (*_INSTANTS, *_DAYS, *_LOCAL), True),
        (has_time_beyond, _KNOWN, False),
        (has_no_text, _BYTES, True),
        (has_no_text, _TEXTS, False),
    ],
    ids=["times outside the calendar", "times of the calendar", "bytes that are no text", "texts"],
)
def test_what_no_python_takes_is_found_however_deep(
    spark: SparkSession, asked: Callable[[Column, DataType], Column | None], told: tuple[str, ...], is_so: bool
) -> None:
    values = [deep.format(each) for each in told for deep in _DEEP]
    frame = spark.range(1).selectExpr(*(f"{value} AS v{number}" for number, value in enumerate(values)))
    asks = [asked(F.col(field.name), field.dataType) for field in frame.schema.fields]
    found = frame.select(*(F.coalesce(each, F.lit(False)).alias(f"v{n}") for n, each in enumerate(asks)))  # type: ignore[arg-type]
    answers = dict(zip(values, found.collect()[0], strict=True))
    assert [value for value, was_found in answers.items() if was_found != is_so] == []


def test_what_has_no_times_or_no_texts_is_not_looked_at(spark: SparkSession) -> None:
    times = spark.sql("SELECT 1 a, 'x' b, named_struct('c', array(1.5)) d, map('k', true) e").schema
    texts = spark.sql("SELECT 1 a, X'FF' b, named_struct('c', array(1.5)) d, map(1, true) e").schema
    assert [has_time_beyond(F.col(field.name), field.dataType) for field in times.fields] == [None] * 4
    assert [has_no_text(F.col(field.name), field.dataType) for field in texts.fields] == [None] * 4


def _of_unique_source(spark: SparkSession, raw: list[tuple[Any, ...]]) -> DataFrame:
    """Records of a source whose sequences come once; sequence 1 came in an earlier batch."""
    types = StructType.fromDDL("k STRING, v BIGINT, ts TIMESTAMP, p INT, n BIGINT")
    node, contract = TableSource("t", topic="t", key=("k",), value=("v",)), InputContract(unique=True)
    source = SparkSource("parquet", partition_by="p", sequence_by="n", contract=contract)
    rule = IntakeRule(node, source, 0, "arrival", 0, types)
    frame = spark.createDataFrame(raw, "k STRING, v STRING, ts TIMESTAMP, p STRING, n BIGINT")
    return shape(frame, rule, int(AT.timestamp() * 1e6), {0: 1}, len(raw)).localCheckpoint()


def _reasons(records: DataFrame) -> Counter[str | None]:
    return Counter(row[WHY_INVALID] for row in records.collect())
