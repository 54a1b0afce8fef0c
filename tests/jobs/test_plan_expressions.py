"""Expressions in settings mean what the same text means in the DSL, and nothing else is read."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.plan_expressions import FUNCTIONS, ROW, SIDES, parse_expression
from streams import functions as f
from streams.expressions import Expr, evaluate, trace
from streams.rows import Row
from versioned.errors import ConfigurationError

_SAME: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("value.delay > 15", lambda key, value: value.delay > 15),
    ("value['class'] == 'a b'", lambda key, value: value["class"] == "a b"),
    ("key.k == value.a", lambda key, value: key.k == value.a),
    ("1 < value.a <= 9", lambda key, value: (f.lit(1) < value.a) & (value.a <= 9)),
    ("value.a > 1 and not value.b or value.c != 2",
     lambda key, value: ((value.a > 1) & ~value.b) | (value.c != 2)),
    ("value.a > 1 and not value.b < 2 or value.c", lambda key, value: ((value.a > 1) & ~(value.b < 2)) | value.c),
    ("value.a in (1, 2, 3)", lambda key, value: f.is_in(value.a, 1, 2, 3)),
    ("value.a not in ['x']", lambda key, value: ~f.is_in(value.a, "x")),
    ("value.a in ('x')", lambda key, value: f.is_in(value.a, "x")),
    ("value.a not in (-1)", lambda key, value: ~f.is_in(value.a, -1)),
    ("value.a is None", lambda key, value: f.is_null(value.a)),
    ("value.a is not None", lambda key, value: ~f.is_null(value.a)),
    ("-1", lambda key, value: -1),
    ("value.a > -9223372036854775808", lambda key, value: value.a > -(2**63)),
    ("-value.a + 2 * 3 / value.b % 4 - 1.5", lambda key, value: -value.a + f.lit(2) * 3 / value.b % 4 - 1.5),
    ("'L' if value.a > 9 else 'S'", lambda key, value: f.when(value.a > 9, "L").otherwise("S")),
    ("when(value.a > 9, 'L').when(value.a > 5, 'M').otherwise('S')",
     lambda key, value: f.when(value.a > 9, "L").when(value.a > 5, "M").otherwise("S")),
    ("{'a': value.a, 'one': 1}", lambda key, value: {"a": value.a, "one": 1}),
    ("struct(a=value.a, one=1)", lambda key, value: {"a": value.a, "one": 1}),
    ("merge(key, value)", lambda key, value: f.merge(key, value)),
    ("cast(value.a, 'string')", lambda key, value: f.cast(value.a, "string")),
    ("substring(value.a, 1, 3)", lambda key, value: f.substring(value.a, 1, 3)),
    ("substring(value.a, start=2, length=3)", lambda key, value: f.substring(value.a, 2, 3)),
    ("coalesce(value.a, None, True)", lambda key, value: f.coalesce(value.a, None, True)),
    ("concat(upper(value.a), lower('B'), substring_before(value.c, '-'), substring_after(value.c, '-'))",
     lambda key, value: f.concat(
         f.upper(value.a), f.lower("B"), f.substring_before(value.c, "-"), f.substring_after(value.c, "-"))),
    ("least(value.a, greatest(1, value.b), length(value.c))",
     lambda key, value: f.least(value.a, f.greatest(1, value.b), f.length(value.c))),
    ("starts_with(value.a, 'x')", lambda key, value: f.starts_with(value.a, "x")),
    ("None", lambda key, value: None),
    ("value", lambda key, value: value),
]  # fmt: skip


@pytest.mark.parametrize(("text", "by_dsl"), _SAME, ids=[text for text, _ in _SAME])
def test_a_text_is_the_expression_that_the_same_function_gives(text: str, by_dsl: Callable[..., Any]) -> None:
    assert repr(parse_expression(text, ROW)) == repr(trace(by_dsl, *ROW))


def test_every_function_of_expressions_can_be_written() -> None:
    written = {name for name in vars(f) if not name.startswith("_") and callable(getattr(f, name))}
    helpers = {
        "Any",
        "Callable",
        "Expr",
        "When",
        "as_expr",
        "literal",
        "Unfinished",
        "check_ddl",
        "reduce",
        "or_",
        "ConfigurationError",
    }
    assert written - helpers - {"lit", "python_function"} == set(FUNCTIONS)


@pytest.mark.parametrize(("said", "value"), [(3, 3), (1.5, 1.5), (True, True), (None, None)])
def test_constants_of_yaml_mean_themselves(said: Any, value: Any) -> None:
    assert evaluate(parse_expression(said, ROW), {}) is value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not an expression"),
        ("value.a >", "invalid syntax"),
        ("value.a = 1", "not an expression"),
        ("import os", "not an expression"),
        ("a", '"value.a" for a field'),
        ("left.a", 'there is no "left"'),
        ("value.a == true", "Write True."),
        ("value.a == FALSE", "Write False."),
        ("value.a == null", 'Write None; "is None" asks for it.'),
        ("none", 'Write None; "is None" asks for it.'),
        ("value.a <> 1", "comparisons (== != < <= > >=)"),
        ("value.a == 1 AND value.b == 2", "and or not"),
        ("valu.a", 'Did you mean "value"?'),
        ("__import__('os').system('true')", "is no function"),
        ("open('x')", '"open" is no function. Allowed: cast, coalesce'),
        ("value.a.upper()", '"value.a.upper" is no function'),
        ("upper(value.a).otherwise(1)", "is no function"),
        ("(lambda: 1)()", "is no function"),
        ("[x for x in value]", "is not allowed here"),
        ("f'{value.a}'", "is not allowed here"),
        ("value.a[0]", "brackets take a field"),
        ("value[key.k]", "brackets take a field"),
        ("value.a ** 2", "operators are"),
        ("value.a // 2", "operators are"),
        ("+value.a", "a sign before a value"),
        ("value.a == None", '"is None" for null'),
        ("{'m': None != value.a}", '"is None" for null'),
        ("value.a is 1", "comparisons are"),
        ("value.a in (value.b)", "in takes a list, of one thing too: [value.b]"),
        ("value.a in (None)", '"is None" for null'),
        ("value.a & value.b == False", 'write "and" for &'),
        ("(value.a > 1) | (value.b > 1)", 'write "or" for |'),
        ("~value.a", 'write "not" for ~'),
        ("value.a ^ 1", "operators are + - * / %."),
        ("value.a in ()", "at least one option"),
        ("1j", "a complex is no constant"),
        ("b'x'", "a bytes is no constant"),
        ("...", "a ellipsis is no constant"),
        ("99999999999999999999", "64 bits"),
        ("9223372036854775808", "64 bits"),
        ("-9223372036854775809", "64 bits"),
        ("value.class > 1", 'Write value["class"]'),
        ("coalesce()", "at least one value"),
        ("concat()", "at least one value"),
        ("struct()", "at least one value"),
        ("{1: 2}", "named by texts"),
        ("{**value}", "named by texts"),
        ("upper(*value)", "* is not allowed"),
        ("struct(**value)", "** is not allowed"),
        ("upper()", "missing a required argument"),
        ("upper(value.a, 2)", "too many positional"),
        ("least(1)", "at least two values"),
        ("cast(value.a, 'date')", "cast knows"),
        ("cast(value.a, value.b)", "kind is a constant"),
        ("substring(value.a, value.b, 2)", "start is a constant"),
        ("when(value.a, 1)", "ends with .otherwise"),
        ("upper(when(value.a, 1))", "ends with .otherwise"),
        ("value.a\x00", "not an expression"),
        ("(" * 300 + "1" + ")" * 300, "too many nested"),
        ("-" * 3000 + "1", "nested too deeply"),
        ("1" + "+1" * 1900, "nested too deeply"),
        ("1" + "+1" * 3000, "too long"),
    ],
)
def test_what_is_not_on_the_list_is_refused_with_what_is(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_expression(text, ROW)
    assert told in str(refused.value)


@pytest.fixture
def deep_calls() -> Iterator[None]:
    """Python goes deeper than usual, as where another library has told it so."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("deep_calls")
@pytest.mark.parametrize("text", ["1if value.a > 1 else 2", r"value.a == '\d'", "1if x"])
def test_python_warns_of_no_text_as_if_it_were_source_text_of_its_own(text: str) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with suppress(ConfigurationError):  # Whether it is one is not asked here.
            parse_expression(text, ROW)
    assert warned == []


def test_what_is_nested_too_deeply_is_refused_however_deep_python_would_go() -> None:
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        parse_expression("1" + "+1" * 1900, ROW)


@pytest.mark.parametrize("said", [["a"], {"a": 1}, b"x"])
def test_what_is_no_constant_is_refused_without_being_written_out(said: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no constant here"):
        parse_expression(said, ROW)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("value.dealy > 1", 'value has no field "dealy"; did you mean "delay"? It has: delay, origin'),
        ("value['dest']", 'value has no field "dest"'),
        ("key.a", 'key has no field "a". It has: tail'),
        ("value.tail", 'value has no field "tail". It has: delay, origin. The key has it: key.tail'),
    ],
)
def test_a_field_that_the_plan_does_not_have_is_refused_with_the_nearest(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_expression(text, ROW, {"value": ("delay", "origin"), "key": ("tail",)})
    assert told in str(refused.value)


def test_fields_below_a_field_and_of_unknown_rows_are_left_to_the_run() -> None:
    assert repr(parse_expression("value.delay.inner + key.any", ROW, {"value": ("delay",), "key": None}))


@pytest.mark.parametrize(("text", "told"), [("carrier", "value.carrier"), ("value", "value"), ("True", "True")])
def test_where_a_field_is_asked_for_its_name_alone_is_enough(text: str, told: str) -> None:
    assert repr(parse_expression(text, ROW, field=True)) == told


def test_a_join_is_over_both_sides_and_the_key() -> None:
    joined = parse_expression("{'k': key.k, 'sum': left.a + right.a}", SIDES)
    rows = {"key": Row(k="x"), "left": Row(a=1), "right": Row(a=2)}
    assert evaluate(joined, rows) == Row(k="x", sum=3)


@given(st.text(alphabet="valuekey.()[]{}'+-*/<>=!&|~,: 0123456789abin_otrs\n\\", max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        made = parse_expression(text, ROW)
    except ConfigurationError:
        return
    assert isinstance(made, Expr)
