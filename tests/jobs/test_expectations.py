"""What Great Expectations is asked: an unsure rule takes no other with it, and our columns are not counted."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs import expectations
from jobs.expectations import Judge, Verdict, judge_batch
from jobs.quality_settings import QualitySettings
from jobs.source_quality import checks_of
from jobs.strict import validated
from streams.spark.invariants import Invariant
from versioned import spark_functions as F
from versioned.errors import ExpectationError

_SATISFY = "expect_rows_to_satisfy"
_NOT_NULL = "expect_column_values_to_not_be_null"
#: None of them can be judged by the rows, each for a reason of its own.
_UNSURE: list[dict[str, Any]] = [
    {_SATISFY: {"condition": "amout > 0", "name": "mistyped"}},
    {_NOT_NULL: {"column": "item", "row_condition": "amout > 0", "name": "about_mistyped"}},
    {_SATISFY: {"condition": "amount", "name": "a_number"}},
    {_SATISFY: {"condition": "user = 'tea'", "name": "who_asks"}},
    {"expect_column_values_to_be_between": {"column": "amout", "max_value": 2**60, "name": "wide"}},
]
_REASONS = {
    "mistyped": "amout",
    "about_mistyped": "amout",
    "a_number": "true or false, and amount is bigint",
    "who_asks": "no column of the rows",
    "wide": "amout",
}
#: How many rows break each.
_SURE: list[dict[str, Any]] = [
    {_SATISFY: {"condition": "amount > 1", "name": "more_than_one"}},
    {_NOT_NULL: {"column": "item", "row_condition": "amount > 1", "name": "named"}},
    {_NOT_NULL: {"column": "amount", "name": "counted"}},
]
_BROKEN = {"more_than_one": 1, "named": 1, "counted": 0}
#: Each with whether it holds of rows with the columns item and amount.
_OF_COLUMNS: list[tuple[dict[str, Any], bool]] = [
    ({"expect_table_columns_to_match_ordered_list": {"column_list": ["item", "amount"], "name": "ordered"}}, True),
    ({"expect_table_columns_to_match_set": {"column_set": ["amount", "item"], "name": "as_set"}}, True),
    ({"expect_table_column_count_to_equal": {"value": 2, "name": "two"}}, True),
    ({"expect_table_column_count_to_be_between": {"max_value": 2, "name": "at_most_two"}}, True),
    ({"expect_table_column_count_to_equal": {"value": 4, "name": "four"}}, False),
]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("tea", 1), (None, 2), ("gin", 3)], "item STRING, amount BIGINT")


def _rules(*expectations: dict[str, Any]) -> tuple[Invariant, ...]:
    return validated(QualitySettings, {"expectations": list(expectations)}).rules


def _judged(how: str, rows: DataFrame, rules: tuple[Invariant, ...]) -> list[Verdict]:
    return judge_batch("rows", rows, rules) if how == "batch" else Judge().judge("rows", rows, rules)


@pytest.mark.parametrize("low", [date(2026, 1, 15), "2026-01-15"])
@pytest.mark.parametrize("high", [datetime(2026, 3, 1, 10), "2026-03-01T10:00:00"])
def test_a_day_beside_an_instant_as_bounds_is_its_midnight(low: date | str, high: datetime | str) -> None:
    (rule,) = _rules({"expect_column_values_to_be_between": {"column": "at", "min_value": low, "max_value": high}})
    (asked,) = expectations._expectations({0: rule})
    wanted = (datetime(2026, 1, 15, tzinfo=timezone.utc), datetime(2026, 3, 1, 10, tzinfo=timezone.utc))
    assert (asked.min_value, asked.max_value) == wanted


@pytest.mark.parametrize("how", ["batch", "table"])
def test_a_condition_that_does_not_resolve_is_an_error_of_its_own_rule_and_the_others_are_judged(
    rows: DataFrame, how: str
) -> None:
    verdicts = _judged(how, rows, _rules(*_UNSURE, *_SURE))
    assert [found.rule for found in verdicts] == [*_REASONS, *_BROKEN]
    errors = {found.rule: found.error for found in verdicts if found.error is not None}
    assert {rule: said in errors[rule] for rule, said in _REASONS.items()} == dict.fromkeys(errors, True)
    assert {found.rule: found.broken for found in verdicts if found.error is None} == _BROKEN


@pytest.mark.parametrize("how", ["batch", "table"])
def test_rules_of_which_none_resolves_are_errors_each(rows: DataFrame, how: str) -> None:
    verdicts = _judged(how, rows, _rules(*_UNSURE[:2]))
    assert [(found.rule, found.holds, "amout" in str(found.error)) for found in verdicts] == [
        ("mistyped", False, True),
        ("about_mistyped", False, True),
    ]


@pytest.mark.parametrize("how", ["batch", "table"])
def test_a_condition_that_fails_at_a_row_is_an_error_of_its_own_rule_too(rows: DataFrame, how: str) -> None:
    failing = {_SATISFY: {"condition": "cast(item AS BIGINT) > 0", "name": "fails"}}
    fails, *others = _judged(how, rows, _rules(failing, *_SURE))
    assert "CAST_INVALID_INPUT" in str(fails.error)
    assert {found.rule: (found.broken, found.error) for found in others} == {n: (k, None) for n, k in _BROKEN.items()}


@pytest.mark.parametrize("how", ["batch", "table"])
def test_rules_about_the_set_of_columns_are_asked_of_the_columns_that_the_rows_have(rows: DataFrame, how: str) -> None:
    verdicts = _judged(how, rows, _rules(_SURE[0], *(rule for rule, _ in _OF_COLUMNS), _SURE[1]))
    assert [found.error for found in verdicts] == [None] * len(verdicts)
    assert [found.holds for found in verdicts] == [False, *(holds for _, holds in _OF_COLUMNS), False]


def test_columns_of_the_rows_are_judged_as_they_are_whatever_rules_are_called(rows: DataFrame) -> None:
    names = ["holds_more_than_one", "is_about_named"]
    wide = rows.withColumns({name: F.col("amount") for name in names})
    theirs = [{"expect_column_values_to_be_between": {"column": name, "min_value": 3}} for name in names]
    verdicts = judge_batch("rows", wide, _rules(*_SURE, *theirs))
    assert [(found.broken, found.error) for found in verdicts] == [(n, None) for n in (*_BROKEN.values(), 2, 2)]


@pytest.mark.slow
def test_the_page_has_every_rule_those_that_could_not_be_judged_too(rows: DataFrame, tmp_path: Path) -> None:
    judge = Judge()
    judge.judge("rows", rows, _rules(_UNSURE[0], *_SURE, *(rule for rule, _ in _OF_COLUMNS)))
    judge.write_docs(tmp_path)
    (page,) = (tmp_path / "validations").rglob("*.html")
    text = page.read_text(encoding="utf-8")
    assert "rule more_than_one holds" in text
    assert "amout" in text
    # Of nine rules these hold: one about rows and four about columns.
    assert "55.56" in text


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["warn", "fail"])
def test_such_a_rule_is_logged_as_an_error_and_only_the_policy_fail_ends_the_run(
    rows: DataFrame, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    said = {"policy": policy, "expectations": [_UNSURE[0], _SURE[0]]}
    checks = checks_of(validated(QualitySettings, said))
    assert checks is not None
    assert checks.look is not None
    with pytest.raises(ExpectationError, match="mistyped") if policy == "fail" else nullcontext():
        checks.look("orders", rows, 0)
    told = {record.levelno: record.getMessage() for record in caplog.records if record.name.startswith("jobs")}
    assert {level: ("mistyped" in words, "more_than_one" in words) for level, words in told.items()} == (
        {} if policy == "fail" else {logging.ERROR: (True, False), logging.WARNING: (False, True)}
    )


@pytest.mark.parametrize("how", ["batch", "table"])
@pytest.mark.parametrize(
    "failing",
    [
        {_SATISFY: {"condition": "cast(item AS BIGINT) > 0"}},
        {_NOT_NULL: {"column": "amount", "row_condition": "cast(item AS BIGINT) > 0"}},
        {"expect_column_values_to_be_in_set": {"column": "item", "value_set": [1, 2]}},
    ],
    ids=["condition", "row condition", "Great Expectations' own"],
)
def test_without_examples_a_rule_that_fails_at_a_row_tells_the_condition_and_no_value_of_the_row(
    rows: DataFrame, capfd: pytest.CaptureFixture[str], how: str, failing: dict[str, Any]
) -> None:
    (found,) = _judged(how, rows, _rules(failing))
    assert str(found.error).startswith("CAST_INVALID_INPUT. ")
    told = str(found.error) + "".join(capfd.readouterr())
    assert [value for value in ("'tea'", "'gin'") if value in told] == []


def test_with_examples_such_a_rule_tells_spark_s_words(rows: DataFrame) -> None:
    (found,) = Judge(examples=1).judge("rows", rows, _rules({_SATISFY: {"condition": "cast(item AS BIGINT) > 0"}}))
    assert "The value 'tea'" in str(found.error)


def test_without_examples_a_page_has_no_traceback_of_a_rule_that_failed_at_a_row(
    rows: DataFrame, tmp_path: Path
) -> None:
    judge = Judge()
    judge.judge("rows", rows, _rules({_SATISFY: {"condition": "cast(item AS BIGINT) > 0"}}, *_SURE))
    judge.write_docs(tmp_path)
    text = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "validations").rglob("*.html"))
    assert ("CAST_INVALID_INPUT" in text, "The value" in text) == (True, False)
