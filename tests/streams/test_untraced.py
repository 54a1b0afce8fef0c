"""Python that tracing cannot see: what an expression refuses, and what the message says to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from streams import functions
from streams.expressions import evaluate, operation, trace
from streams.functions import is_in, lit, python_function, when
from streams.rows import Row
from streams.spark.returned import returned_as
from versioned.errors import ArgumentError, ConfigurationError


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda value: str(value.a), "functions.concat"),
        (lambda value: f"{value.a} km", "functions.concat"),
        (lambda value: f"{value.a:.2f}", "functions.cast"),
        (lambda value: " ".join(map(str, [value.a])), "functions.concat"),
        (lambda value: {"both": [value.a, value.b]}, "A list of expressions is no value .* Give a dict"),
        (lambda value: (value.a, 1), "A list of expressions is no value"),
        (lambda value: [{"a": value.a}], "A list of expressions is no value"),
        (lambda value: lit([value.a]), "A list of expressions is no value"),
        (lambda value: when(value.a > 1, "large"), r"when\(value.a > 1, 'large'\) .* End it with .otherwise"),
        (lambda value: {"size": when(value.a > 1, "x").when(value.a > 0, "y")}, "End it with .otherwise"),
        (lambda value: value.a + when(value.a > 1, 2), "End it with .otherwise"),
        (lambda value: {"a": python_function}, "The function python_function is no value. Call it"),
        (lambda value: value.a.startswith("x"), r"functions.starts_with\(value.a, prefix\)"),
        (
            lambda value: value.a.lower() == "x",
            r"value.a.lower is the field lower of value.a.*functions.lower\(value.a",
        ),
        (lambda value: value.a.isNull(), r"functions.is_null\(value.a\)"),
        (lambda value: value.a.strip(), r'python_function\(f, returns="string"\)\(value.a\)'),
        (lambda value: value["a"].get("b"), r'value.a\["field"\]'),
        (lambda value: (value.a + 1)(), r"value.a \+ 1 is an expression, which cannot be called"),
        (lambda value: len(value.a), r"functions.length\(value.field\)"),
        (lambda value: abs(value.a), r"functions.greatest\(value.field, -value.field\)"),
        (lambda value: round(value.a), "cannot be rounded"),
        (lambda value: round(value.a, 2), "cannot be rounded"),
        (lambda value: value.a**2, "no power"),
        (lambda value: 2**value.a, "no power"),
        (lambda value: value.a // 2, 'functions.cast.a / b, "bigint"'),
        (lambda value: 2 // value.a, "no //"),
        (lambda value: int(value.a), 'functions.cast.value.field, "bigint"'),
        (lambda value: float(value.a), 'functions.cast.value.field, "double"'),
        (lambda value: value.a is None, r"functions.is_null\(value.a\)"),
        (lambda value: (value.a > 1) & (value.b.c is not None), r"functions.is_null\(value.b.c\)"),
        (lambda value: {"x": 1 if value.a is None else 2}, r"functions.is_null\(value.a\)"),
        (lambda value: value is None, r"functions.is_null\(value\)"),
        (lambda value: {"known": value is not None}, r"functions.is_null\(value\)"),
        (lambda value: {"a": "none" if value is None else value.a}, r"functions.is_null\(value\)"),
        (lambda value: value["a"] is None, r'functions.is_null\(value\["a"\]\)'),
        (lambda value: 1 if value.a["b c"].d is not None else 2, r'functions.is_null\(value.a\["b c"\].d\)'),
        (lambda value: when(value.a == None, 1).otherwise(2), r"Use functions.is_null\(value.a\)"),  # noqa: E711
        (lambda value: {"known": value.a != None}, r"Use ~functions.is_null\(value.a\)"),  # noqa: E711
        (lambda value: {"missing": value.a + 1 == None}, r"functions.is_null\(value.a \+ 1\)"),  # noqa: E711
        (lambda value: {1: "one"}.get(value.a), r"value.a is an expression, .* functions.when\(\.\.\.\)"),
        (lambda value: {"b": value.a in {"x", "y"}}, r"functions.is_in\(\.\.\.\) for one of several"),
        (lambda value: {"first": value.a[0]}, r"^value.a\[0\]: brackets take a field.* functions.python_function"),
        (lambda value: value["a"][-1], "brackets take a field"),
        (lambda value: value[value.a], "brackets take a field"),
        (lambda value: value.a[1:3], "for a part of a text functions.substring"),
        (partial(lambda limit, value: value is None, 3), r"functions.is_null\(value\)"),
    ],
)
def test_what_would_become_a_constant_or_fail_is_refused_with_what_to_write(
    function: Callable[[Any], Any], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        trace(function, "value")


@pytest.mark.parametrize(
    "function",
    [
        lambda value: value.a is None,
        lambda value: value.a == None,  # noqa: E711
        lambda value: value.a != None,  # noqa: E711
        lambda value: value.a[0],
        lambda value: [value.a],
        lambda value: when(value.a > 1, 1),
        lambda value: len,
    ],
)
def test_what_is_no_value_of_a_plan_is_an_error_of_the_library_and_of_python(function: Callable[[Any], Any]) -> None:
    with pytest.raises(ArgumentError):
        trace(function, "value")


_NOTHING = None


def _renamed(value: Any) -> Any:
    a, value = value.a, _NOTHING
    return a if value is None else value


@pytest.mark.parametrize(
    "function",
    [
        lambda value: value.a if _NOTHING is None else value.b,
        lambda value: {"a": value.a, "b": _NOTHING is None},
        lambda value: when(value.a > 1, value.a).otherwise(None),
        lambda value, limit=None: value.a if limit is None else limit,
        lambda value: {"a": value["a"], "b": 1 if _NOTHING is None else 2},
        lambda value: {"a": value.a, "b": [value for value in (1, None) if value is not None]},
        _renamed,
    ],
)
def test_what_is_none_beside_the_rows_may_be_asked(function: Callable[[Any], Any]) -> None:
    assert "value.a" in repr(trace(function, "value"))


@pytest.mark.parametrize(
    ("function", "field", "wanted"),
    [(lambda value: round(value.field), 1.6, 2), (lambda value: value.field**2, 3, 9.0)],
)
def test_the_python_function_that_is_advised_gives_the_type_that_it_declares(
    function: Callable[[Any], Any], field: Any, wanted: Any
) -> None:
    with pytest.raises(TypeError) as refused:
        trace(function, "value")
    advised = re.search(r"functions\.python_function\(.*\)(?=\.$)", str(refused.value))
    assert advised is not None
    expr = trace(lambda value: eval(advised[0], {"functions": functions, "value": value}), "value")
    given = evaluate(expr, {"value": Row(field=field)})
    assert repr(returned_as(operation(expr)[1][1])(given)) == repr(wanted)


def test_a_python_function_is_declared_with_what_it_returns() -> None:
    with pytest.raises(TypeError, match="returns"):
        python_function(round)  # type: ignore[call-arg]


def test_a_field_that_begins_with_an_underscore_is_read_in_brackets() -> None:
    with pytest.raises(AttributeError, match=re.escape('read in brackets, as in value["_a"]')):
        trace(lambda value: value._a, "value")
    assert repr(trace(lambda value: value["_a"], "value")) == "value._a"


def test_repr_still_tells_an_expression() -> None:
    assert repr(trace(lambda value: value.a + 1 > value.b, "value")) == "(value.a + 1) > value.b"


@pytest.mark.parametrize("value", [None, 3, "x", [1, 2], ("a",)])
def test_plain_values_stay_constants(value: object) -> None:
    assert evaluate(trace(lambda row: {"x": value}, "value"), {"value": Row()})["x"] == value


def test_a_constant_of_an_expression_is_the_expression() -> None:
    assert repr(trace(lambda value: lit(value.a), "value")) == "value.a"


def test_a_value_may_be_one_of_hundreds() -> None:
    listed = trace(lambda row: is_in(row.v, *range(500)), "value")
    assert [evaluate(listed, {"value": Row(v=value)}) for value in (0, 499, 500, None)] == [True, True, False, None]


@pytest.mark.parametrize("options", [[1, 2], (1, 2)])
def test_options_in_a_list_are_given_one_after_the_other(options: Any) -> None:
    with pytest.raises(ConfigurationError, match=re.escape("is_in(value.a, 1, 2)")):
        trace(lambda value: is_in(value.a, options), "value")
