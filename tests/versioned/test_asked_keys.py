"""Keys of another type than the table's: each asks for one key of the table or for none, or it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned.asked_keys import asked_keys
from versioned.errors import SchemaError
from versioned.lookup_frames import lookup_frame
from versioned.session_settings import session_settings
from versioned.spec import TimeScope, VersionedTableSpec
from versioned.table import VersionedTable

_SPEC = VersionedTableSpec.of(keys="k", values="v", history_retention="1 day")


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> VersionedTable:
    path = str(tmp_path_factory.mktemp("texts") / "t")
    made = VersionedTable.create(spark, path, "k STRING, v INT", keys="k", history_retention="1 day")
    made.put(spark.sql("SELECT k, v, timestamp_seconds(10) AS ts FROM VALUES ('1', 1), ('01', 2) AS t(k, v)"))
    return made


@pytest.mark.parametrize(
    "ask",
    [
        lambda table, keys: table.lookup(keys, at="at"),
        lambda table, keys: table.history(keys),
        lambda table, keys: table.timeline(keys),
    ],
    ids=["lookup", "history", "timeline"],
)
def test_a_number_is_no_text_to_whichever_question(
    spark: SparkSession, table: VersionedTable, ask: Callable[[VersionedTable, DataFrame], object]
) -> None:
    said = r'"k" as int, the table as string: one key could equal several, or none. Make it string first'
    with pytest.raises(SchemaError, match=said):
        ask(table, spark.sql("SELECT 1 AS k, timestamp_seconds(20) AS at"))


@pytest.mark.parametrize(
    ("stored", "asked", "said"),
    [
        ("BIGINT", "STRING", "one key could equal several, or none. Make it bigint first"),
        ("BIGINT", "DOUBLE", "fractions would be cut off"),
        ("BIGINT", "DECIMAL(9, 2)", "fractions would be cut off"),
        ("DECIMAL(9, 2)", "DOUBLE", "could equal several"),
        ("BOOLEAN", "INT", "each number but 0 would be true"),
        ("BOOLEAN", "STRING", "could equal several"),
        ("INT", "BOOLEAN", "could equal several"),
        ("BINARY", "STRING", "could equal several"),
        ("DATE", "STRING", "could equal several"),
        ("DATE", "TIMESTAMP", "time of day would be cut off"),
        ("TIMESTAMP", "BIGINT", "read as seconds"),
        ("STRING", "VARIANT", "with variant_get"),
        ("STRING", "STRUCT<a: STRING>", "would be one text"),
        ("STRUCT<a: STRING, b: INT>", "STRUCT<b: STRING, a: INT>", "by their places"),
        ("STRUCT<a: STRING, b: INT>", "STRUCT<a: INT, b: INT>", "could equal several"),
        ("ARRAY<STRING>", "ARRAY<INT>", "could equal several"),
    ],
)
def test_a_key_that_cannot_be_compared_exactly_is_refused(
    spark: SparkSession, stored: str, asked: str, said: str
) -> None:
    rows, keys = (spark.createDataFrame([], f"k {kind}") for kind in (stored, asked))
    with pytest.raises(SchemaError, match=said):
        asked_keys(keys, rows, _SPEC)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("7Y", "BIGINT", "7"),
        ("7L", "TINYINT", "7"),
        ("2147483648L", "INT", None),
        ("7BD", "INT", "7"),
        ("7", "DECIMAL(9, 2)", "7.00"),
        ("123456789", "DECIMAL(9, 2)", None),
        ("1.25BD", "DECIMAL(9, 1)", None),
        ("1.50BD", "DECIMAL(9, 1)", "1.5"),
        ("DATE '2026-01-01'", "TIMESTAMP", "2026-01-01 00:00:00"),
        ("TIMESTAMP_NTZ '2026-01-01 01:00:00'", "TIMESTAMP", "2026-01-01 01:00:00"),
        ("named_struct('A', 7L, 'b', 'x')", "STRUCT<a: INT, b: STRING>", "{7, x}"),
        ("named_struct('a', 2147483648L, 'b', 'x')", "STRUCT<a: INT, b: STRING>", None),
        ("array(7L, 2147483648L)", "ARRAY<INT>", None),
        ("NULL", "STRING", None),
    ],
)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_key_of_a_type_that_compares_exactly_is_the_same_one_of_the_tables_or_none(
    spark: SparkSession, value: str, kind: str, expected: str | None, ansi: str
) -> None:
    with session_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        rows, keys = spark.createDataFrame([], f"k {kind}"), spark.sql(f"SELECT {value} AS k")
        (key,) = asked_keys(keys, rows, _SPEC).values()
        (told,) = keys.select(key.cast("string").alias("k")).collect()
    assert told["k"] == expected


@pytest.mark.parametrize(("kind", "expected"), [("VARCHAR(3)", "a"), ("CHAR(3)", "a  ")])
def test_a_text_of_bounded_length_is_the_same_text_of_the_table(spark: SparkSession, kind: str, expected: str) -> None:
    rows = spark.createDataFrame([], "k STRING")
    with session_settings(spark, {"spark.sql.preserveCharVarcharTypeInfo": "true"}):
        keys = spark.sql(f"SELECT CAST('a' AS {kind}) AS k")
        (key,) = asked_keys(keys, rows, _SPEC).values()
        (told,) = keys.select(key.alias("k")).collect()
    assert told["k"] == expected


@pytest.mark.parametrize("scope", ["partition", "key"])
def test_a_wider_number_finds_its_key_and_no_other(spark: SparkSession, tmp_path: Path, scope: TimeScope) -> None:
    made = VersionedTable.create(
        spark, f"{tmp_path}/t", "k INT, v INT", keys="k", history_retention="1 day", time_scope=scope
    )
    made.put(spark.sql("SELECT n AS k, n AS v, timestamp_seconds(n) AS ts FROM VALUES (0), (1) AS t(n)"))
    asked = spark.createDataFrame([(0,), (1,), (2**32,), (None,)], "k BIGINT").withColumn(
        "at", F.timestamp_seconds("k")
    )
    found = made.lookup(asked, at="at")
    assert found.schema["k"].dataType.simpleString() == "bigint"
    told = {row["k"]: (row["v"], row["reason"]) for row in found.collect()}
    assert told == {0: (0, None), 1: (1, None), 2**32: (None, "NO_MATCH"), None: (None, "NO_MATCH")}
    assert [row["v"] for row in made.history(asked.where("k > 0")).collect()] == [1]


@pytest.mark.parametrize(
    ("columns", "said"),
    [("x INT", r"lack \['k'\]; they have \['x'\]"), ("k STRING, K STRING", r"\['K', 'k'\], which are one")],
)
def test_keys_that_are_missing_or_there_twice_are_named(
    spark: SparkSession, table: VersionedTable, columns: str, said: str
) -> None:
    with pytest.raises(SchemaError, match=said):
        table.history(spark.createDataFrame([], columns))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("BIGINT", '"at" is bigint, which would be read as seconds'),
        ("BOOLEAN", "read as seconds"),
        ("VARIANT", "with variant_get"),
        ("ARRAY<INT>", "tells no instant"),
        ("STRING", '"at" is text, .* with to_timestamp'),
    ],
)
def test_a_lookup_at_what_is_no_instant_is_refused(
    spark: SparkSession, table: VersionedTable, kind: str, said: str
) -> None:
    with pytest.raises(SchemaError, match=said):
        table.lookup(spark.createDataFrame([], f"k STRING, at {kind}"), at="at")


def test_a_lookup_at_a_date_is_one_at_its_midnight(spark: SparkSession, table: VersionedTable) -> None:
    asked = spark.sql("SELECT '1' AS k, DATE '1970-01-02' AS day, TIMESTAMP_NTZ '1970-01-02 00:00:00' AS local")
    assert [table.lookup(asked, at=name).collect()[0]["v"] for name in ("day", "local")] == [1, 1]


def test_a_lookup_for_rows_with_a_column_twice_is_refused(spark: SparkSession, table: VersionedTable) -> None:
    with pytest.raises(SchemaError, match=r"\['x', 'X'\] twice"):
        table.lookup(spark.createDataFrame([], "k STRING, at TIMESTAMP, x INT, X INT"), at="at")


def test_a_key_may_be_spelled_in_another_case_also_where_a_session_tells_cases_apart(
    spark: SparkSession, table: VersionedTable
) -> None:
    with session_settings(spark, {"spark.sql.caseSensitive": "true"}):
        found = table.history(spark.sql("SELECT '1' AS K")).collect()
    assert [row["v"] for row in found] == [1]


@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("scope", ["partition", "key"])
@pytest.mark.parametrize("tells_cases_apart", ["true", "false"])
def test_a_lookup_takes_a_key_in_another_case_and_leaves_it_as_it_is(
    spark: SparkSession, table: VersionedTable, scope: TimeScope, sends: bool, tells_cases_apart: str
) -> None:
    spec = replace(table.spec, time_scope=scope)
    with session_settings(spark, {"spark.sql.caseSensitive": tells_cases_apart}):
        asked = spark.sql("SELECT '1' AS K, timestamp_seconds(20) AS at")
        (found,) = lookup_frame(asked, table.rows(), spec, "at", sends=lambda: sends).collect()
    assert (found["K"], found["v"], found["reason"]) == ("1", 1, None)
