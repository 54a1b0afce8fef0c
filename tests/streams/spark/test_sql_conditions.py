"""Conditions from settings: what is about one row passes, what reaches further is refused before Spark reads it."""

from __future__ import annotations

import pytest

from streams.spark.sql_conditions import check_condition
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
        "ts <= TIMESTAMP 'now'",
        "d = DATE ' Today'",
        "cast('yesterday UTC' AS timestamp) > ts",
        "read_files('/etc/passwd') is null",
        "a = " + "(" * 5_000,
    ],
)
def test_what_reaches_further_than_a_row_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="condition"):
        check_condition(text)
