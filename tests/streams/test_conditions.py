"""What can never be true or false is no condition; anything else may be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams import functions as f
from streams.conditions import condition_fault
from streams.expressions import trace

_MAY_BE: list[Callable[[Any], Any]] = [
    lambda value: value.flag,
    lambda value: True,
    lambda value: f.cast(value.a, "boolean"),
    lambda value: (value.a > 1) & ~value.flag,
    lambda value: f.when(value.a > 1, value.flag).otherwise(None),
    lambda value: f.coalesce(value.flag, False),
    lambda value: f.python_function(lambda a: a > 1, "boolean")(value.a),
    lambda value: f.python_function(lambda a: a > 1, " BOOLEAN ")(value.a) & value.flag,
    lambda value: f.python_function(round, "bigint")(value.a) == 1,
]

_NEVER: list[tuple[Callable[[Any], Any], str]] = [
    (lambda value: None, "None"),
    (lambda value: 1, "1"),
    (lambda value: "yes", "'yes'"),
    (lambda value: value.a + 1, "value.a + 1"),
    (lambda value: -value.a, "0 - value.a"),
    (lambda value: f.upper(value.a), "upper(value.a)"),
    (lambda value: f.cast(value.a, "string"), "cast(value.a, 'string')"),
    (lambda value: {"a": value.a}, "{a: value.a}"),
    # What a reader takes for value.a == "x" or value.a == "y"
    (lambda value: (value.a == "x") | "y", "'y'"),
    (lambda value: ~(value.a % 2), "value.a % 2"),
    (lambda value: f.when(value.a > 1, True).otherwise(0), "0"),
    (lambda value: f.coalesce(value.flag, 0), "0"),
    (lambda value: f.python_function(round, "bigint")(value.a), "round(value.a)"),
    (lambda value: ~f.python_function(round, "flag boolean")(value.a), "round(value.a)"),
    (lambda value: value.a == f.lit(None), "value.a == None"),
    (lambda value: (value.a > 1) & (value.b > None), "value.b > None"),
]


@pytest.mark.parametrize("function", _MAY_BE)
def test_what_may_be_true_is_a_condition(function: Callable[[Any], Any]) -> None:
    assert condition_fault(trace(function, "value")) is None


@pytest.mark.parametrize(("function", "part"), _NEVER, ids=[part for _, part in _NEVER])
def test_what_can_never_be_true_or_false_is_told_by_that_part(function: Callable[[Any], Any], part: str) -> None:
    fault = condition_fault(trace(function, "value"))
    assert fault is not None
    assert fault.startswith(f"{part} is neither true nor false")


def test_a_python_function_that_is_no_condition_is_told_with_what_to_declare() -> None:
    fault = condition_fault(trace(lambda value: f.python_function(round, "bigint")(value.a), "value"))
    assert fault is not None
    assert fault.endswith('Compare what it gives, or declare returns="boolean" instead of "bigint".')
