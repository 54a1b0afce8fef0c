"""Functions of a row: traced once, with one meaning on both engines."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streams.expressions import DEEPEST, Expr, evaluate, row_expr, trace
from streams.functions import (
    cast,
    coalesce,
    concat,
    greatest,
    is_in,
    is_null,
    least,
    length,
    lit,
    lower,
    merge,
    python_function,
    starts_with,
    struct,
    substring,
    substring_after,
    substring_before,
    upper,
    when,
)
from streams.graph import plain_function
from streams.rows import Row
from streams.spark.columns import to_column
from versioned.errors import ConfigurationError, RecordError

Function = Callable[[Any], Any]

_ROWS = [
    Row(n=7, m=2, x=1.5, y=-0.5, s="Ab|cd", t="ab", b=True, nested=Row(k=1)),
    Row(n=-7, m=0, x=0.0, y=2.0, s="", t="", b=False, nested=Row(k=None)),
    Row(n=None, m=None, x=None, y=None, s=None, t=None, b=None, nested=None),
    Row(n=0, m=-3, x=math.nan, y=math.nan, s="42", t="4", b=None, nested=Row(k=-1)),
    Row(n=2**62, m=3, x=1e20, y=math.inf, s="1.5e3", t="1", b=True, nested=Row(k=2**40)),
    Row(n=1, m=1, x=-math.inf, y=1e-7, s="ÄÖ|ß|€", t="ÄÖ", b=False, nested=Row(k=5)),
    Row(n=10, m=-4, x=12345678.9, y=0.001, s=" true ", t="TRUE", b=None, nested=None),
]

_FUNCTIONS: dict[str, Function] = {
    "field": lambda v: v.n,
    "item": lambda v: v["s"],
    "nested": lambda v: v.nested.k,
    "eq": lambda v: v.n == v.m,
    "eq_double": lambda v: v.x == v.y,
    "eq_text": lambda v: v.s == "42",
    "ne": lambda v: v.n != v.m,
    "ne_nan": lambda v: v.x != v.y,
    "lt": lambda v: v.n < v.m,
    "le": lambda v: v.n <= 0,
    "gt_nan": lambda v: v.x > v.y,
    "lt_nan": lambda v: v.x < v.y,
    "ge": lambda v: v.x >= 0.0,
    "text_order": lambda v: v.s < v.t,
    "and": lambda v: v.b & (v.n > 0),
    "or": lambda v: v.b | (v.n > 0),
    "and_literal": lambda v: True & v.b,
    "or_literal": lambda v: False | v.b,
    "not": lambda v: ~v.b,
    "add": lambda v: v.m + 1,
    "radd": lambda v: 1 + v.m,
    "add_mixed": lambda v: v.m + v.y,
    "sub": lambda v: v.m - 5,
    "rsub": lambda v: 5 - v.m,
    "mul": lambda v: v.m * 3,
    "rmul": lambda v: 3 * v.x,
    "neg": lambda v: -v.m,
    "div": lambda v: v.n / v.m,
    "rdiv": lambda v: 1 / v.m,
    "div_double": lambda v: v.x / v.y,
    "mod": lambda v: v.n % v.m,
    "mod_double": lambda v: v.n % 2.5,
    "mod_of_nothing": lambda v: cast((v.x * -0.0) % 3.0, "string"),
    "largest_double_to_bigint": lambda v: cast(cast(lit(2**63 - 1), "double"), "bigint"),
    "wide_literals": lambda v: lit(2_000_000_000) + 2_000_000_000,
    "is_null": lambda v: is_null(v.n),
    "is_in": lambda v: is_in(v.m, 2, 3),
    "coalesce": lambda v: coalesce(v.n, v.m, -1),
    "concat": lambda v: concat(v.s, "-", v.t),
    "concat_number": lambda v: concat("n", v.n),
    "concat_bool": lambda v: concat("b", v.b),
    "upper": lambda v: upper(v.s),
    "lower": lambda v: lower(v.s),
    "length": lambda v: length(v.s),
    "substring": lambda v: substring(v.s, 2, 3),
    "substring_empty": lambda v: substring(v.s, 9, 3),
    "before": lambda v: substring_before(v.s, "|"),
    "after": lambda v: substring_after(v.s, "|"),
    "before_nothing": lambda v: substring_before(v.s, ""),
    "after_nothing": lambda v: substring_after(v.s, ""),
    "before_a_field": lambda v: substring_before(v.s, v.t),
    "after_a_field": lambda v: substring_after(v.s, v.t),
    "after_null": lambda v: substring_after("a|b", v.t),
    "no_time_of_day": lambda v: (v.s == "now") | (v.t < "09:30"),
    "starts": lambda v: starts_with(v.s, v.t),
    "when": lambda v: when(v.n > 5, "high").when(v.n > 0, "low").otherwise("none"),
    "when_null": lambda v: when(v.b, None).otherwise(upper(v.s)),
    "to_string": lambda v: cast(v.n, "string"),
    "double_to_string": lambda v: cast(v.x, "string"),
    "small_to_string": lambda v: cast(v.y, "string"),
    "bool_to_string": lambda v: cast(v.b, "string"),
    "to_bigint": lambda v: cast(v.s, "bigint"),
    "double_to_bigint": lambda v: cast(v.x, "bigint"),
    "to_double": lambda v: cast(v.s, "double"),
    "to_boolean": lambda v: cast(v.s, "boolean"),
    "text_to_boolean": lambda v: cast(v.t, "boolean"),
    "number_to_boolean": lambda v: cast(v.m, "boolean"),
    "bool_to_bigint": lambda v: cast(v.b, "bigint"),
    "least": lambda v: least(v.x, v.y),
    "greatest": lambda v: greatest(v.x, v.y),
    "least_literal": lambda v: least(v.n, 3),
    "struct": lambda v: {"a": v.n, "b": upper(v.t)},
    "struct_function": lambda v: struct(a=v.n),
    "struct_field": lambda v: struct(a=v.n).a,
    "python": lambda v: python_function(lambda text: None if text is None else text[::-1], "string")(v.s),
    "python_row": lambda v: python_function(lambda row: None if row is None else {"k": row.k}, "k bigint")(v.nested),
    "python_item": lambda v: python_function(lambda row: row["n"], "bigint")(v),
}

_SCHEMA = "n bigint, m bigint, x double, y double, s string, t string, b boolean, nested struct<k: bigint>"

_EARLY = datetime(1, 1, 1, tzinfo=timezone.utc)
_NINE = datetime(2026, 1, 1, 9, tzinfo=timezone.utc)
_HALF_PAST = datetime(2026, 1, 1, 9, 30, 0, 250_000, tzinfo=timezone.utc)

_TYPED_ROWS = [
    Row(p=Decimal("19.99"), x=1.5, n=7, d=date(2026, 1, 1), at=_NINE, s="1", day="2026-01-01", big=Decimal(2**53 + 1)),
    Row(p=Decimal("-0.10"), x=-0.1, n=2**53 + 1, d=date(2025, 12, 31), at=_HALF_PAST, s=" -7 ",
        day="2026-01-01T09:30:00.25Z", big=Decimal(0)),
    Row(p=Decimal("0.00"), x=math.nan, n=0, d=date(1500, 1, 1), at=datetime(1500, 1, 1, tzinfo=timezone.utc), s="0",
        day="1500-1-1", big=Decimal(10**37)),
    Row(p=Decimal("7.00"), x=7.0, n=-3, d=date(1, 1, 1), at=_EARLY, s="+7", day="0001-01-01", big=Decimal(-1)),
    Row(p=None, x=None, n=None, d=None, at=None, s=None, day=None, big=None),
]  # fmt: skip

_TYPED_SCHEMA = "p decimal(10, 2), x double, n bigint, d date, at timestamp, s string, day string, big decimal(38, 0)"

_TYPED_FUNCTIONS: dict[str, Function] = {
    "decimal_le_double": lambda v: v.p <= 19.99,
    "decimal_is_in_doubles": lambda v: is_in(v.p, 19.99, -0.1),
    "decimal_eq_decimal": lambda v: v.p == Decimal("7"),
    "decimal_eq_integer": lambda v: v.p == 7,
    "wide_integer_gt_double": lambda v: v.n > float(2**53),
    "wide_decimal_eq_double": lambda v: v.big == float(2**53),
    "wide_decimal_eq_integer": lambda v: v.big == v.n,
    "decimal_lt_nan": lambda v: v.p < v.x,
    "decimal_times_double": lambda v: v.p * 1.1,
    "decimal_plus_double": lambda v: v.p + v.x,
    "decimal_plus_integer": lambda v: v.p + 1,
    "decimal_times_decimal": lambda v: v.p * v.p,
    "negative_decimal": lambda v: cast(-v.p, "string"),
    "decimal_remainder": lambda v: v.p % 3,
    "decimal_remainder_of_double": lambda v: v.p % 2.5,
    "decimal_over_double": lambda v: v.p / v.x,
    "decimal_over_zero": lambda v: v.p / 0,
    "double_of_quotient": lambda v: cast(v.p / 4, "double"),
    "integer_over_integer": lambda v: v.n / 3,
    "decimal_to_string": lambda v: cast(v.p, "string"),
    "decimal_to_bigint": lambda v: cast(v.p, "bigint"),
    "decimal_to_boolean": lambda v: cast(v.p, "boolean"),
    "wide_decimal_to_bigint": lambda v: cast(v.big, "bigint"),
    "concat_decimal": lambda v: concat("x", v.p),
    "least_of_numbers": lambda v: cast(least(v.p, v.x), "double"),
    "text_eq_integer": lambda v: v.s == 1,
    "text_gt_integer": lambda v: v.s > 0,
    "text_lt_double": lambda v: v.s < v.x,
    "text_ge_decimal": lambda v: v.s >= v.p,
    "text_plus_integer": lambda v: v.s + 1,
    "text_times_double": lambda v: v.s * 1.5,
    "text_over_integer": lambda v: v.s / 2,
    "no_number_over_integer": lambda v: v.day / 2,
    "no_number_remainder": lambda v: v.day % 2,
    "text_eq_boolean": lambda v: lit("true") == (v.n > 0),
    "text_and_boolean": lambda v: lit("t") & (v.n > 0),
    "not_text": lambda v: ~(lit("f") | (v.n > 0)),
    "date_eq_text": lambda v: v.d == "2026-01-01",
    "date_ge_text": lambda v: v.d >= "2025-12-31",
    "date_eq_text_field": lambda v: v.d == v.day,
    "instant_ge_text": lambda v: v.at >= "2025-12-31",
    "instant_eq_text_field": lambda v: v.at == v.day,
    "instant_eq_text_with_zone": lambda v: v.at == "2026-01-01 10:00:00+01:00",
    "date_lt_instant": lambda v: v.d < v.at,
    "date_eq_instant": lambda v: v.d == v.at,
    "latest_of_dates_and_instants": lambda v: greatest(v.d, v.at) == v.at,
    "concat_instant": lambda v: concat("x", v.at),
    "instant_to_string": lambda v: cast(v.at, "string"),
    "date_to_string": lambda v: cast(v.d, "string"),
    "instant_to_bigint": lambda v: cast(v.at, "bigint"),
    "last_instant_to_double": lambda v: cast(lit(datetime.max), "double"),
    "part_of_a_duration": lambda v: (v.at - v.d) / 7 < timedelta(hours=2) * 1.5,
    "too_large_a_part": lambda v: (v.at - date(1, 1, 1)) / 1e-9,
    "instant_to_double": lambda v: cast(v.at, "double"),
    "part_of_instant": lambda v: substring(v.at, 1, 7),
    "part_of_date": lambda v: substring_before(v.d, "-"),
    "length_of_number": lambda v: length(v.n),
    "upper_of_boolean": lambda v: upper(v.n > 0),
    "number_starts": lambda v: starts_with(v.n, "7"),
    "instants_apart": lambda v: (v.at - v.d) > timedelta(hours=9),
    "instant_plus_duration": lambda v: cast(v.at + timedelta(hours=1), "string"),
    "date_plus_duration": lambda v: cast(v.d + timedelta(hours=1), "string"),
    "early_date": lambda v: v.d == date(1, 1, 1),
    "early_date_to_string": lambda v: cast(lit(date(1500, 1, 1)), "string"),
    "early_instant": lambda v: v.at == _EARLY,
    "early_instant_to_string": lambda v: cast(lit(datetime(1500, 1, 1, tzinfo=timezone.utc)), "string"),
    "naive_constant": lambda v: v.at >= datetime(2026, 1, 1, 9),
    "naive_constant_itself": lambda v: coalesce(v.at, datetime(2026, 1, 1, 9)) == v.at,
    "constant_of_another_zone": lambda v: v.at == datetime(2026, 1, 1, 8, tzinfo=timezone(timedelta(hours=-1))),
    "not_chosen_is_not_computed": lambda v: when(is_null(v.n) | (v.n > -9), v.s > 0).otherwise(v.day > 0),
    "false_and_is_not_computed": lambda v: (v.n == 12345) & (v.day > 0),
    "true_or_is_not_computed": lambda v: (v.n > -9) | (v.day > 0),
    "coalesced_is_not_computed": lambda v: coalesce(v.n, v.day + 1),
}


_BINARY_ROWS = [Row(a=b"ab\xff|c", z=b"c", s="x"), Row(a=b"\xfe", z=b"\xff", s=""), Row(a=b"", z=None, s=None)]
#: Bytes that are no text, above all characters that are cut off by the delimiter.
_NO_TEXTS = (
    b"\xe2|c", b"\xf0\x9f|x", b"\xe2\x82|\xac", b"\xc0\xaf|a", b"\xed\xa0\x80|z", b"\xf8\x88|q", b"a\xc3|\xa9|",
)  # fmt: skip

_BINARY_SCHEMA = "a binary, z binary, s string"

_BINARY_FUNCTIONS: dict[str, Function] = {
    "concat": lambda v: concat(v.a, v.z),
    "concat_text": lambda v: concat(v.a, v.s),
    "substring": lambda v: substring(v.a, 2, 2),
    "before": lambda v: substring_before(v.a, "|"),
    "after": lambda v: substring_after(v.a, "|"),
    "after_inner": lambda v: substring_after(substring(v.a, 2, 9), "|"),
    "starts": lambda v: starts_with(v.a, v.z),
    "starts_with_text": lambda v: starts_with(v.a, "a"),
    "upper": lambda v: upper(v.a),
    "length": lambda v: length(v.a),
    "least": lambda v: least(v.a, v.z),
    "lt": lambda v: v.z < v.a,
    "eq_text": lambda v: v.z == "c",
    "to_string": lambda v: cast(v.a, "string"),
    "constant": lambda v: concat(v.a, lit(b"z")),
}


def _as_tuple(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    return tuple(map(_as_tuple, value.values())) if isinstance(value, Row) else value


def _from_spark(value: Any) -> Any:
    return tuple(map(_from_spark, value)) if isinstance(value, tuple) else _as_tuple(value)


@pytest.mark.parametrize(
    ("functions", "rows", "schema"),
    [
        (_FUNCTIONS, _ROWS, _SCHEMA),
        (_TYPED_FUNCTIONS, _TYPED_ROWS, _TYPED_SCHEMA),
        (_BINARY_FUNCTIONS, _BINARY_ROWS, _BINARY_SCHEMA),
    ],
    ids=["each_type_alone", "types_together", "binary"],
)
def test_both_engines_give_the_same_for_every_expression_and_row(
    spark: SparkSession, functions: Mapping[str, Function], rows: Sequence[Row], schema: str
) -> None:
    exprs = {name: trace(function, "value") for name, function in functions.items()}
    exprs |= {f"row_{name}": row_expr(exprs[name]) for name in ("field", "struct", "when_null") if name in exprs}
    frame = spark.createDataFrame(
        [(number, *_plain(row).values()) for number, row in enumerate(rows)], f"id int, {schema}"
    )
    packed = frame.select("id", F.struct(*rows[0]).alias("value"))
    columns = [to_column(expr, {"value": F.col("value")}).alias(name) for name, expr in exprs.items()]
    told = {row["id"]: row for row in packed.select("id", *columns).collect()}
    wrong = [
        (name, number, got, wanted)
        for number, row in enumerate(rows)
        for name, expr in exprs.items()
        if (got := _from_spark(told[number][name])) != (wanted := _as_tuple(evaluate(expr, {"value": row})))
    ]
    assert wrong == []


@pytest.mark.parametrize("part", [substring_before, substring_after])
def test_parts_of_binaries_that_are_no_texts_are_the_same_on_both_engines(
    spark: SparkSession, part: Callable[..., Expr]
) -> None:
    exprs = [trace(lambda v: part(v.a, "|"), "value"), trace(lambda v: part(concat(v.a, ""), "\ufffd"), "value")]
    packed = spark.createDataFrame([(text,) for text in _NO_TEXTS], "a binary").select(F.struct("a").alias("value"))
    told = packed.select(*(to_column(expr, {"value": F.col("value")}) for expr in exprs)).collect()
    assert [tuple(row) for row in told] == [
        tuple(evaluate(expr, {"value": Row(a=text)}) for expr in exprs) for text in _NO_TEXTS
    ]


def test_a_function_of_the_user_gets_rows_and_instants_as_in_the_test_driver(spark: SparkSession) -> None:
    # Spark itself gives rows of its own, and instants without a zone, in that of its worker.
    row = Row(
        at=_HALF_PAST, local=datetime(2026, 1, 1, 9), nested=Row(at=_HALF_PAST, inner=Row(k=1)), parts=[Row(k=2)],
        named={"a": Row(at=_NINE)}, day=date(2026, 1, 1), raw=b"a",
    )  # fmt: skip
    schema = (
        "at timestamp, local timestamp_ntz, nested struct<at: timestamp, inner: struct<k: bigint>>, "
        "parts array<struct<k: bigint>>, named map<string, struct<at: timestamp>>, day date, raw binary"
    )
    shown = python_function(lambda *args: repr([args[0], args[1].inner["k"], *args]), "string")
    returns = "at timestamp, parts array<struct<k: int>>"
    same = python_function(lambda at: {"at": at.replace(tzinfo=None), "parts": [{"k": 1}]}, returns)
    exprs = [
        trace(lambda v: shown(v.at, v.nested, v.parts, v.named, v.local, v.day, v.raw), "value"),
        trace(lambda v: cast(same(v.at)["at"], "double"), "value"),
        trace(lambda v: python_function(lambda: 7, "bigint")(), "value"),
    ]
    plain = (row["at"], row["local"], (_HALF_PAST, (1,)), [(2,)], {"a": (_NINE,)}, row["day"], row["raw"])
    packed = spark.createDataFrame([plain], schema).select(F.struct(*row).alias("value"))
    told = packed.select(*(to_column(expr, {"value": F.col("value")}) for expr in exprs)).collect()[0]
    assert list(told) == [evaluate(expr, {"value": row}) for expr in exprs]


def test_twenty_calls_one_around_another_are_planned_on_spark(spark: SparkSession) -> None:
    # With each operand in the plan twice, or three times, this would never end.
    text = "|".join("abcdefghijklmnopqrstuvwxyz")
    after = reduce(lambda inner, _: substring_after(inner, "|"), range(20), Expr("field", Expr("ref", "value"), "s"))
    before = reduce(lambda inner, _: substring_before(concat(inner, "|"), "|"), range(20), substring(after, 1, 1))
    packed = spark.createDataFrame([(text,)], "s string").select(F.struct("s").alias("value"))
    (told,) = packed.select(to_column(before, {"value": F.col("value")})).collect()[0]
    assert told == evaluate(before, {"value": Row(s=text)}) == "u"


@pytest.mark.parametrize(
    "function",
    [
        lambda v: v.s == 1,
        lambda v: v.s > 0.5,
        lambda v: v.s + 1,
        lambda v: v.d == v.s,
        lambda v: v.at >= "now",
        lambda v: v.at != " 9:30",
        lambda v: lit("today") > v.d,
        lambda v: v.at < v.s,
        lambda v: v.s & v.b,
        lambda v: v.b == 1,
        lambda v: v.b + 1,
        lambda v: v.d == 20_000,
        lambda v: v.at > 1.0,
        lambda v: v.at + 1,
        lambda v: v.at + v.at,
        lambda v: v.d * 2,
        lambda v: v.d / 2,
        lambda v: v.s + v.s,
        lambda v: v.s / v.s,
        lambda v: v.n & v.b,
        lambda v: ~v.n,
        lambda v: when(v.s, 1).otherwise(2),
        lambda v: least(v.n, v.s),
        lambda v: cast(v.d, "bigint"),
        lambda v: cast(v.at, "boolean"),
        lambda v: v.big * 10,
        lambda v: v.big + 1,
        lambda v: (v.at - v.d) > 1,
    ],
)
def test_what_one_engine_refuses_the_other_refuses(spark: SparkSession, function: Function) -> None:
    row = {"s": "abc", "n": 1, "b": True, "d": date(2026, 1, 1), "at": _NINE, "big": Decimal("9" * 38)}
    expr = trace(function, "value")
    with pytest.raises(RecordError):
        evaluate(expr, {"value": Row(row)})
    schema = "s string, n bigint, b boolean, d date, at timestamp, big decimal(38, 0)"
    packed = spark.createDataFrame([tuple(row.values())], schema).select(F.struct(*row).alias("value"))
    with pytest.raises(PySparkException):
        packed.select(to_column(expr, {"value": F.col("value")})).collect()


def test_a_function_of_the_user_is_called_on_rows_that_do_not_choose_it() -> None:
    heard: list[Any] = []
    function = python_function(lambda n: heard.append(n) or n, "bigint")
    evaluate(trace(lambda v: when(v.n > 5, 0).otherwise(function(v.n)), "value"), {"value": Row(n=7)})
    assert heard == [7]


@pytest.mark.parametrize(
    "function",
    [lambda v: v.r < {"a": 2}, lambda v: cast(v.r, "string"), lambda v: concat("x", v.t)],
)
def test_what_the_driver_cannot_do_as_spark_does_is_an_error_about_the_record(function: Function) -> None:
    row = Row(r=Row(a=1), t=timedelta(hours=1))
    with pytest.raises(RecordError, match=r"no order|cannot be cast"):
        evaluate(trace(function, "value"), {"value": row})


def _plain(row: Row) -> dict[str, Any]:
    return {name: tuple(part.values()) if isinstance(part, Row) else part for name, part in row.items()}


def test_a_merge_has_the_fields_of_both_rows_on_both_engines(spark: SparkSession) -> None:
    expr = merge(Expr("ref", "left"), Expr("ref", "right"))
    frame = spark.sql("SELECT struct(1 AS a) AS left, struct(2 AS b) AS right")
    column = to_column(expr, {"left": F.col("left"), "right": F.col("right")}, {"left": ["a"], "right": ["b"]})
    on_spark = frame.select(column.alias("both")).collect()[0]["both"].asDict()
    assert on_spark == dict(evaluate(expr, {"left": Row(a=1), "right": Row(b=2)}))


def test_a_function_is_called_once_when_it_is_traced() -> None:
    calls: list[Any] = []
    expr = trace(lambda value: calls.append(value) or value.n, "key", "value")
    for row in _ROWS:
        evaluate(expr, {"key": None, "value": row})
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda value: value.a, "value.a"),
        (lambda key, value: key.k, "key.k"),
        (lambda key, value: {"both": key.k + value.a}, "{both: key.k + value.a}"),
        (lambda value: (value.a > 1) & ~value.b, "(value.a > 1) & not(value.b)"),
    ],
)
def test_a_function_may_take_the_value_or_the_key_as_well(function: Function, told: str) -> None:
    assert repr(trace(function, "key", "value")) == told


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda value: value["a"], "A"),
        (lambda key, value: key["k"] + value["a"], "KA"),
    ],
)
def test_a_plain_function_may_take_the_value_or_the_key_as_well(function: Function, told: str) -> None:
    assert evaluate(plain_function(function, "string"), {"key": Row(k="K"), "value": Row(a="A")}) == Row(value=told)


def test_a_function_of_too_many_rows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="takes 3 arguments; it may take at most 2"):
        trace(lambda a, b, c: a, "key", "value")


def test_a_plain_function_of_other_rows_is_refused_before_any_record() -> None:
    with pytest.raises(ConfigurationError, match=r"takes neither \(key, value\) nor \(value\) alone"):
        plain_function(lambda a, b, c: a, "string")


@pytest.mark.parametrize(
    "function",
    [
        lambda value: value.a and value.b,
        lambda value: not value.a,
        lambda value: 1 if value.a else 2,
        lambda value: value.a in ("x", "y"),
        lambda value: 1 < value.a < 3,
    ],
)
def test_python_that_tracing_cannot_see_is_refused_with_a_hint(function: Function) -> None:
    with pytest.raises(TypeError, match=r"Use & \| ~ instead of and or not"):
        trace(function, "value")


@pytest.mark.parametrize(
    "function", [lambda value: sum(value.a), lambda value: list(value.a), lambda value: max(*value.a)]
)
def test_an_expression_is_not_gone_through_for_ever(function: Function) -> None:
    with pytest.raises(TypeError, match=r"no elements .* functions\.python_function"):
        trace(function, "value")


def test_a_look_into_an_expression_is_refused_with_what_there_is_instead() -> None:
    with pytest.raises(TypeError, match=r"functions\.is_in"):
        trace(lambda value: "x" in value.a, "value")


def test_an_expression_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Expr("ref", "value").n = 3


@pytest.mark.parametrize("function", [lambda v: v.n + v.m * 2, lambda v: {"a": upper(v.s)}])
def test_an_expression_survives_pickling(function: Function) -> None:
    expr = trace(function, "value")
    assert repr(pickle.loads(pickle.dumps(expr))) == repr(expr)


def test_a_missing_field_is_an_error_that_lists_the_fields() -> None:
    with pytest.raises(RecordError, match=r'no field "z"; the row has \[\'a\'\]'):
        evaluate(trace(lambda value: value.z, "value"), {"value": Row(a=1)})


@pytest.mark.parametrize("function", [lambda v: v.n + 1, lambda v: v.n * 2, lambda v: -v.n - 2])
def test_a_result_beyond_64_bits_is_an_error(function: Function) -> None:
    with pytest.raises(RecordError, match="64 bits"):
        evaluate(trace(function, "value"), {"value": Row(n=2**63 - 1)})


def test_adding_texts_is_an_error_that_names_concat() -> None:
    with pytest.raises(RecordError, match="use concat"):
        evaluate(trace(lambda value: value.s + "x", "value"), {"value": Row(s="a")})


@pytest.mark.parametrize(
    ("function", "row", "wanted"),
    [
        (lambda v: v.a, Row(a=1), Row(a=1)),
        (lambda v: v.a + 1, Row(a=1), Row(value=2)),
        (lambda v: v.a, Row(a=None), None),
        (lambda v: None, Row(a=1), None),
        (lambda v: {"b": v.a}, Row(a=None), Row(b=None)),
        (lambda v: v, Row(a=1), Row(a=1)),
        (lambda v: when(v.a > 1, {"b": v.a}).otherwise(None), Row(a=1), None),
        (lambda v: when(v.a > 1, {"b": v.a}).otherwise(None), Row(a=2), Row(b=2)),
        (lambda v: python_function(lambda row: {"b": row.a}, "b bigint")(v), Row(a=2), Row(b=2)),
        (lambda v: python_function(lambda a: a, "bigint")(v.a), Row(a=2), Row(value=2)),
    ],
)
def test_a_single_value_becomes_a_row_and_null_stays_null(function: Function, row: Row, wanted: Row | None) -> None:
    assert evaluate(row_expr(trace(function, "value")), {"value": row}) == wanted


_TRUTH = st.sampled_from([True, False, None])


@given(_TRUTH, _TRUTH)
def test_de_morgan_holds_with_three_values(left: bool | None, right: bool | None) -> None:
    negated = trace(lambda value: ~(value.a & value.b), "value")
    spread = trace(lambda value: ~value.a | ~value.b, "value")
    bindings = {"value": Row(a=left, b=right)}
    assert evaluate(negated, bindings) is evaluate(spread, bindings)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9).filter(bool))
def test_the_remainder_has_the_dividends_sign_and_completes_the_quotient(n: int, m: int) -> None:
    rest = evaluate(trace(lambda value: value.n % value.m, "value"), {"value": Row(n=n, m=m)})
    assert (n - rest) % m == 0
    assert abs(rest) < abs(m)
    assert rest == 0 or (rest < 0) == (n < 0)


@given(st.text(max_size=12), st.text(min_size=1, max_size=3))
def test_text_is_put_together_again_from_before_and_after(text: str, delimiter: str) -> None:
    parts = trace(lambda v: {"a": substring_before(v.s, v.d), "b": substring_after(v.s, v.d)}, "v")
    row = evaluate(parts, {"v": Row(s=text, d=delimiter)})
    assert (f"{row.a}{delimiter}{row.b}" if row.a is not None else text) == text


def test_a_python_function_that_changes_its_argument_leaves_the_record_as_it_is() -> None:
    function = python_function(lambda words: words.sort() or words[0], "string")
    value = Row(words=["b", "a"])
    assert evaluate(trace(lambda v: function(v.words), "v"), {"v": value}) == "a"
    assert value == Row(words=["b", "a"])


def _sum_of(terms: int) -> Expr:
    return reduce(lambda total, _: total + 1, range(terms - 1), Expr("ref", "value").n)


def test_the_deepest_expression_can_be_written_out_pickled_and_evaluated() -> None:
    deepest = _sum_of(DEEPEST - 1)
    assert repr(deepest).endswith("+ 1")
    assert repr(pickle.loads(pickle.dumps(deepest))) == repr(deepest)
    assert evaluate(deepest, {"value": Row(n=0)}) == DEEPEST - 2


def test_a_deeper_expression_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigurationError, match=f"more than {DEEPEST} operations"):
        _sum_of(DEEPEST)
