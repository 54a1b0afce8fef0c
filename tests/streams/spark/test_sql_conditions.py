"""Conditions from settings: what is about one row passes, what reaches further is refused before Spark reads it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streams.spark.sql_conditions import check_condition, sql_condition
from versioned.errors import ConfigurationError


@pytest.mark.parametrize(
    "text",
    [
        "paid <= amount",
        "a < 5 AND NOT (b IS NULL OR c IN ('x', 'it''s'))",
        "s LIKE 'a%' AND length(trim(s)) BETWEEN 1 AND 10",
        "CASE WHEN a > 1.5e3 THEN true ELSE (b <=> c) END",
        "cast(a AS bigint) % 2 = 0",
        "ts >= TIMESTAMP '2026-01-01' AND date_add(d, 1) > DATE '2026-01-01'",
        "`select` = `odd``name`.field[0] || 'x'",
        "a IS DISTINCT FROM b",
        "regexp_like(s, '^\\\\d+$')",
        "s = 'reflect(1) -- ; select'",
        "-a + .5 != 1.",
        "`current_date` = user AND s = 'nowhere'",
        r"regexp_like(s, '\\now') OR s LIKE '\%'",
        "d > date_add(DATE '2026-01-01', 7) AND ts < DATE '2026-01-01' + INTERVAL '1' DAY",
        "departed < '09:30' AND ts > '2026-01-01'",
        "to_date('2026-01-01') < d OR s = cast(5 AS string) || s",
        "delivery IN ('today', 'tomorrow') OR note LIKE 'Today%'",
        "delivery = 'today' AND ts >= DATE '2026-01-01' AND know = `snow`",
        "note = concat('$', '{env:HOME}') OR price = '$5' OR note = '$ {x}'",
        "cast(x AS DECIMAL(10,2)) > 1 AND try_cast(y AS numeric(3)) = cast(z AS varchar(4))",
    ],
)
def test_what_is_about_one_row_passes(text: str) -> None:
    check_condition(text)


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'exit', 1)",
        "java_method ('java.lang.Runtime', 'getRuntime')",
        "REFLECT\n('java.lang.System', 'getenv')",
        "try_reflect('x', 'y') is null",
        "`reflect`('java.lang.System', 'exit', 1)",
        "'reflect'('java.lang.System', 'exit', 1)",
        '"reflect"(1)',
        "system.builtin.reflect('x', 'y')",
        "other.upper(a)",
        "a IN (SELECT k FROM secrets)",
        "a IN (FROM secrets)",
        "a IN (TABLE secrets)",
        "a = (VALUES (1))",
        "EXISTS (SELECT 1)",
        "a = 1; DROP TABLE t",
        "a = 1 -- reflect",
        "reflect/**/('x', 'y')",
        "a /* x */ = 1",
        r"a = r'\' || reflect(1) || '",
        r"a = '\' || reflect(1) || '",
        r"a = 'it\'s'",
        "a = 'open",
        "a = ? OR b = :x",
        "transform(a, x -> reflect(x))",
        "a = ${env:HOME}",
        "a = \u00a01",
        "\u0430 = 1",
        "input_file_name() = 'x'",
        "current_user() = 'x'",
        "ts <= current_timestamp",
        "d = Current_Date",
        "name = session_user",
        "name = current_path",
        "ts <= TIMESTAMP 'now'",
        "timestamp_seconds(n) < 'now'",
        "timestamp_millis(n) BETWEEN 'today' AND 'tomorrow'",
        "timestamp_micros(n) < '10:00'",
        "d = DATE ' Today'",
        "cast('yesterday UTC' AS timestamp) > ts",
        r"cast('no\w' AS timestamp) > ts",
        r"ts <= TIMESTAMP '\t\156ow'",
        r"ts <= cast('\u006eow' AS timestamp)",
        r"to_timestamp('\0now') >= ts",
        "CASE WHEN a AND b THEN 'now' WHEN c THEN TIMESTAMP '2026-01-01' END > s",
        "if(a AND b, 'today', DATE '2026-01-01') > s",
        "year('today') = y",
        "decimal(1) > 0",
        "a AS reflect(1)",
        "ts <= TIMESTAMP '09:30'",
        "s = 'a' OR cast('T09:30' AS timestamp) BETWEEN ts AND s",
        "ts BETWEEN to_timestamp(s) AND '9:30'",
        "ts <= 'no' 'w'",
        "read_files('/etc/passwd') is null",
        "a = " + "(" * 5_000,
    ],
)
def test_what_reaches_further_than_a_row_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="condition"):
        check_condition(text)


@pytest.mark.parametrize("text", ["note = '${env:HOME}'", 'note = "a ${x}"', "`${x}` = 1", "s LIKE '%${system:a}'"])
def test_a_variable_that_spark_would_put_into_a_text_or_a_name_is_refused_with_another_way(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\$\{.*concat\('\$', '\{"):
        check_condition(text)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("user IS NOT NULL", [True, False]),
        ("`User` = 'ann' OR `current_date` = 1", [True, None]),
        ("r.user = 1", [True] * 2),
    ],
)
def test_a_name_that_spark_knows_is_the_column_of_that_name(spark: SparkSession, text: str, holds: list[bool]) -> None:
    row = "user string, current_date bigint, r struct<user: bigint>"
    rows = spark.createDataFrame([("ann", 2, (1,)), (None, 2, (1,))], row)
    assert [found for (found,) in rows.select(sql_condition(text, rows.schema)).collect()] == holds


@pytest.mark.parametrize(
    "text", ["user IS NOT NULL", "a = `user`", "NOT USER = 'x'", "`current_date` > d", "`Session_User` = a"]
)
def test_a_name_that_spark_takes_for_who_asks_or_when_must_be_a_column(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is no column of the rows. They have: a, d"):
        sql_condition(text, StructType().add("a", "string").add("d", "date"))


@pytest.mark.parametrize(
    "text",
    [
        "`At` <= 'now'",
        r"at <= '\u006eow'",
        "a = 'x' AND coalesce(a, 'today') = d",
        "r.d BETWEEN '2026-01-01' AND 'tomorrow'",
        "CASE WHEN a = 'x' AND b THEN 'now' ELSE at END > '2026-01-01'",
        "end = 1 OR at > 'now'",
    ],
)
def test_a_word_of_now_is_a_text_beside_texts_and_refused_beside_instants_and_days(text: str) -> None:
    columns = (
        StructType().add("a", "string").add("at", "timestamp").add("d", "date").add("r", StructType().add("d", "date"))
    )
    with pytest.raises(
        ConfigurationError, match=r"a replay would decide differently: no '.*' beside an instant or a day"
    ):
        sql_condition(text, columns)


def test_a_time_without_a_day_is_a_text_beside_texts_and_refused_beside_instants() -> None:
    columns = StructType().add("departed", "string").add("at", "timestamp")
    with pytest.raises(ConfigurationError, match=r"takes ' 9:30' for an instant: .* Write the day too"):
        sql_condition("departed < '09:30' AND `At` BETWEEN '2026-01-01' AND ' 9:30'", columns)
