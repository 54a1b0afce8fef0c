"""Conditions of single rows agree with Great Expectations, row by row, nulls and edges included."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobs.expectations import judge_batch
from jobs.quality_settings import QualitySettings
from jobs.strict import validated
from streams.spark.guards import counts
from streams.spark.invariants import Invariant
from streams.spark.row_rules import (
    ROW_RULES,
    SATISFY,
    TABLE_RULES,
    UNIQUE,
    UNIQUE_COLUMN,
    broken,
    check_row_rule,
    check_values,
)
from versioned.ddl_columns import columns_if_known
from versioned.errors import ConfigurationError

_ROWS = [(1, 1, "aa"), (2, 1, "ab"), (2, 3, "b"), (None, 3, None), (4, None, "aa"), (None, None, "äb"), (5, 5, "")]
_EITHER = {"ignore_row_if": "either_value_is_missing"}
_CASES: list[tuple[str, dict[str, Any]]] = [
    (SATISFY, {"condition": "a < b"}),
    (SATISFY, {"condition": "a < 5", "row_condition": "s LIKE 'a%'"}),
    ("expect_column_values_to_not_be_null", {"column": "a"}),
    ("expect_column_values_to_be_null", {"column": "a"}),
    ("expect_column_values_to_be_between", {"column": "a", "min_value": 2, "max_value": 4}),
    ("expect_column_values_to_be_between", {"column": "a", "min_value": 2, "strict_min": True}),
    ("expect_column_values_to_be_between", {"column": "a", "max_value": 4, "strict_max": True}),
    ("expect_column_values_to_be_between", {"column": "a", "min_value": 2, "row_condition": "b IS NOT NULL"}),
    ("expect_column_values_to_be_in_set", {"column": "s", "value_set": ["aa", "b"]}),
    ("expect_column_values_to_not_be_in_set", {"column": "s", "value_set": ["aa", "b"]}),
    ("expect_column_values_to_match_regex", {"column": "s", "regex": "^a"}),
    ("expect_column_values_to_not_match_regex", {"column": "s", "regex": "^a"}),
    ("expect_column_value_lengths_to_be_between", {"column": "s", "min_value": 1, "max_value": 1}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "a", "column_B": "b"}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "a", "column_B": "b", "or_equal": True}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "a", "column_B": "b", **_EITHER}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "a", "column_B": "b"}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "a", "column_B": "b", **_EITHER}),
    (UNIQUE, {"column_list": ["a", "b"]}),
    (UNIQUE, {"column_list": ["s", "a"]}),
    (UNIQUE_COLUMN, {"column": "a"}),
]


def test_a_condition_counts_what_great_expectations_counts(spark: SparkSession) -> None:
    rules = [Invariant(f"rule{i}", "", kind, said) for i, (kind, said) in enumerate(_CASES)]
    rows = spark.createDataFrame(_ROWS, "a INT, b INT, s STRING").repartition(1).localCheckpoint()
    held = spark.sparkContext._jsc.getPersistentRDDs().size()
    verdicts = {found.rule: found for found in judge_batch("rows", rows, rules)}
    # Great Expectations would keep the rows of every batch for ever, if it were let.
    assert spark.sparkContext._jsc.getPersistentRDDs().size() <= held
    counted = {row["rule"]: row["n"] for row in counts(rows, rules, "x").collect()}
    assert {found.error for found in verdicts.values()} == {None}
    assert [(counted[f"x.{r.name}"], r.arguments) for r in rules] == [
        (verdicts[r.name].broken, r.arguments) for r in rules
    ]
    assert any(counted.values())


def _broken(rows: DataFrame, *expectations: dict[str, Any]) -> list[tuple[int, int | None]]:
    """How many rows break each rule of some settings: by the condition, and as Great Expectations counts them."""
    rules = validated(QualitySettings, {"expectations": list(expectations), "policy": "reject"}).rules
    verdicts = {found.rule: found.broken for found in judge_batch("rows", rows, rules)}
    counted = {row["rule"]: row["n"] for row in counts(rows, rules, "x").collect()}
    return [(counted[f"x.{rule.name}"], verdicts[rule.name]) for rule in rules]


@pytest.mark.parametrize(
    ("expectation", "wanted"),
    [("expect_column_values_to_be_in_set", 4), ("expect_column_values_to_not_be_in_set", 2)],
)
def test_a_null_in_a_set_keeps_no_other_value_from_being_judged(
    spark: SparkSession, expectation: str, wanted: int
) -> None:
    rows = spark.createDataFrame(_ROWS, "a INT, b INT, s STRING")
    assert _broken(rows, {expectation: {"column": "s", "value_set": ["aa", None]}}) == [(wanted, wanted)]


def test_the_pattern_that_the_docs_advise_judges_a_text_of_any_length(spark: SparkSession) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "validate.md"
    found = re.search(r"Write `\*\+` and `\+\+` behind groups, as in `(.+)`:", page.read_text(encoding="utf-8"))
    assert found is not None
    texts = ["a." * 100_000, "a@b." + "c." * 100_000 + "d", "ann.lee@shop.example.org", "ann"]
    rows = spark.createDataFrame([(text,) for text in texts], "s STRING")
    rule = {"expect_column_values_to_match_regex": {"column": "s", "regex": found[1]}}
    assert _broken(rows, rule) == [(2, 2)]


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own time zone is hours ahead of the session's, which is UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize(
    ("expectation", "said"),
    [
        ("expect_column_values_to_be_between", {"min_value": datetime(2026, 1, 1, 12)}),
        ("expect_column_values_to_be_between", {"min_value": "2026-01-01T12:00:00"}),
        ("expect_column_values_to_be_between", {"min_value": datetime(2026, 1, 1, 12), "max_value": date(2026, 1, 2)}),
        ("expect_column_values_to_be_in_set", {"value_set": [datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 18)]}),
    ],
    ids=["bound", "text", "day beside it", "set"],
)
def test_an_instant_without_an_offset_is_one_of_utc(
    spark: SparkSession, expectation: str, said: dict[str, Any]
) -> None:
    rows = spark.sql("SELECT timestamp_seconds(1767225600 + 3600 * hour) AS at FROM VALUES (6), (12), (18) AS t(hour)")
    assert _broken(rows, {expectation: {"column": "at", **said}}) == [(1, 1)]


def test_a_bound_is_the_number_that_it_says_however_large_and_in_quotes_too(spark: SparkSession) -> None:
    rows = spark.range(2**53, 2**53 + 3)
    bounds = [2**53 + 1, str(2**53 + 1), 0.5, "0.5", "1e3"]
    between = "expect_column_values_to_be_between"
    rules = [{between: {"column": "id", "min_value": bound, "name": f"r{at}"}} for at, bound in enumerate(bounds)]
    assert _broken(rows, *rules) == [(1, 1), (1, 1), (0, 0), (0, 0), (0, 0)]


@pytest.mark.parametrize(("kind", "bound"), [("string", 10), ("string", "2026-01-01"), ("boolean", 1)])
def test_a_column_of_texts_or_booleans_has_no_bounds(kind: str, bound: Any) -> None:
    # Great Expectations cannot judge it either.
    arguments = {"column": "S", "min_value": bound}
    with pytest.raises(ConfigurationError, match=f'column "S" is {kind}, and bounds are for numbers and times'):
        broken("expect_column_values_to_be_between", arguments, StructType().add("s", kind))


_DAY, _AT = date(2026, 1, 1), datetime(2026, 1, 1, 12)


@pytest.mark.parametrize(
    ("kind", "alike", "odd"),
    [
        ("string", ["a", "1"], [1, True, _DAY]),
        ("boolean", [True, "no"], ["a", 1]),
        ("int", [1, 1.5, "7"], ["a", "1.5", True, _DAY]),
        ("double", [1, "1.5"], ["a", False]),
        ("decimal(9,2)", [1.5, "1.5"], ["a", _AT]),
        ("date", [_DAY, _AT, "2026-01-01"], ["today", 1]),
        ("timestamp", [_DAY, _AT, "2026-01-01 12:00"], ["9:30", 1, True]),
        ("binary", ["a", 1], []),
    ],
)
def test_values_of_a_set_go_with_the_type_of_their_column(kind: str, alike: list[Any], odd: list[Any]) -> None:
    columns = columns_if_known(f"s {kind}")
    assert columns is not None
    said = {"column": "S", "value_set": [*alike, *odd]}
    told = re.escape(f'column "S" is {kind}, and its value_set has {odd}. Give ')
    for expectation in ("expect_column_values_to_be_in_set", "expect_column_values_to_not_be_in_set"):
        with pytest.raises(ConfigurationError, match=told) if odd else nullcontext():
            check_values(expectation, said, columns)


def test_every_rule_of_rows_is_among_the_cases() -> None:
    assert {kind for kind, _ in _CASES} == {*ROW_RULES, *TABLE_RULES}


@pytest.mark.parametrize(
    ("expectation", "arguments", "said"),
    [
        ("expect_table_row_count_to_be_between", {"min_value": 1}, "says nothing about single rows"),
        (UNIQUE, {"column_list": ["a"]}, "says nothing about single rows"),
        ("expect_column_values_to_not_be_null", {"column": "a", "mostly": 0.9}, "mostly means nothing"),
    ],
)
def test_what_cannot_be_judged_row_by_row_is_refused(expectation: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        check_row_rule(expectation, arguments)
