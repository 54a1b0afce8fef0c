"""Errors told without the values of rows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException, PythonException
from pyspark.logger import PySparkLogger

from jobs.unquoted import may_quote, unlogged, unquoted, unquoted_text

_WHY = "Its words may quote a row; versioned validate tells them with examples: 1."
_CALLED = "An error occurred while calling o7.collectToPython.\n: "
_JOB = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most "
    "recent failure: Lost task 0.0 in stage 1.0 (TID 86) (192.0.2.2 executor driver): "
)


class _OfSpark(PySparkException):
    """As Spark hands one on: with its condition and state."""

    def __init__(self, condition: str, state: str) -> None:
        super().__init__(f"[{condition}] The value 'mary' is wrong. SQLSTATE: {state}")
        self._told = condition, state

    def getCondition(self) -> str:
        return self._told[0]

    def getSqlState(self) -> str:
        return self._told[1]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("[CAST_INVALID_INPUT] The value 'mary' is wrong. SQLSTATE: 22018\n== SQL ==", "CAST_INVALID_INPUT"),
        ("[CANNOT_PARSE.WITH_HINT] It's\n'mary'. SQLSTATE: 22007", "CANNOT_PARSE.WITH_HINT"),
        ("[MARY] came first", "An error"),
        ("mary SmithException: [MARY] SQLSTATE: 1", "An error"),
        (f"{_CALLED}java.lang.ArithmeticException: mary", "java.lang.ArithmeticException"),
        (f"{_CALLED}{_JOB}java.util.regex.PatternSyntaxException: mary", "java.util.regex.PatternSyntaxException"),
        (f"{_CALLED}{_JOB}a.B: (TID 1) (x): mary", "a.B"),
        ("invalid literal: 'mary'\nThe column \"size\" in BatchData does not exist.", "An error"),
        ("", "An error"),
    ],
)
def test_of_a_text_only_the_condition_or_the_class_is_told(said: str, kind: str) -> None:
    assert unquoted_text(said) == f"{kind}. {_WHY}"


@pytest.mark.parametrize(
    "said",
    [
        'Error: The column "size" in BatchData does not exist.',
        "Expected numeric column type for function mean(). Recieved type: StringType()",
        "ColumnValuesBetween metrics cannot be computed on column of type StringType().",
    ],
)
def test_a_text_about_columns_is_told_as_it_is(said: str) -> None:
    assert unquoted_text(said) == said


def test_of_an_error_its_condition_is_told_else_its_class() -> None:
    told = [unquoted(error) for error in (_OfSpark("DIVIDE_BY_ZERO", "22012"), KeyError("mary"))]
    assert told == [f"DIVIDE_BY_ZERO. {_WHY}", f"KeyError. {_WHY}"]


@pytest.mark.parametrize(
    ("error", "quotes"),
    [
        (_OfSpark("CAST_INVALID_INPUT", "22018"), True),
        (_OfSpark("FAILED_EXECUTE_UDF", "39000"), True),
        (PythonException("ValueError: mary"), True),
        (_OfSpark("FAILED_READ_FILE", "KD001"), False),
        (_OfSpark("UNRESOLVED_COLUMN", "42703"), False),
        (PySparkException("no state"), False),
        (OSError("no space left"), False),
    ],
)
def test_errors_about_values_and_of_functions_may_quote_a_row(error: Exception, quotes: bool) -> None:
    assert may_quote(error) is quotes


@pytest.mark.parametrize("name", ["SQLQueryContextLogger", "DataFrameQueryContextLogger"])
def test_pyspark_logs_no_query_of_this_thread_meanwhile_but_those_of_others(name: str) -> None:
    log, told = PySparkLogger.getLogger(name), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)

    def in_another(words: str) -> None:
        tell: Callable[[], None] = lambda: log.error(words)  # noqa: E731
        other = threading.Thread(target=tell)
        other.start()
        other.join()

    try:
        with unlogged():
            log.error("here")
            in_another("elsewhere")
        log.error("after")
    finally:
        log.removeHandler(handler)
    assert told == ["elsewhere", "after"]
