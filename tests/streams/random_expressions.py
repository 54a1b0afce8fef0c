"""Random expressions over rows of every type, with the values at which engines differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any, Final

from streams.expressions import Expr
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
    starts_with,
    struct,
    substring,
    substring_after,
    substring_before,
    upper,
    when,
)
from streams.rows import Row

SCHEMA: Final = (
    "n bigint, m bigint, x double, y double, p decimal(10, 2), q decimal(12, 4), s string, t string, b boolean, "
    "c boolean, d date, e date, at timestamp, until timestamp"
)
_FIELDS: Final = {
    "bigint": ("n", "m"), "double": ("x", "y"), "decimal": ("p", "q"), "text": ("s", "t"), "boolean": ("b", "c"),
    "date": ("d", "e"), "instant": ("at", "until"),
}  # fmt: skip


def _at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type,misc]


_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "bigint": (0, 1, -1, 2, 3, -7, 10, 42, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 1_767_225_600),
    "double": (
        0.0, 1.0, 1.5, -0.5, 0.1, 2.5, -7.0, math.nan, math.inf, -math.inf, 1e20, 1e-7, 123_456_789.125, 2.0**53,
        1e308, 1e7, 9_999_999.0, 0.001,
    ),
    "decimal": tuple(map(Decimal, ("0.00", "19.99", "-0.10", "7.00", "99999999.99", "-99999999.99", "2.50", "0.01"))),
    "text": (
        "", "1", " 7 ", "-3", "1.5", "1e3", "2d", "abc", "true", " F ", "yes", "2026-01-01", " 2026-1-5 ", "nan",
        "1969-12-31 23:59:59.5", "2024-02-29T10:00:00Z", "1500-01-01", "0001-01-01", "-Infinity", "+inf", "+NaN",
        "9223372036854775807", "9223372036854775808", "\u00a01", "\x001", "1\x7f", "\u0663", "\u30001.5", "a|b|c", "|",
        "ß|ﬁ|€", "ab", "A B", "2026-01-01 10:00:00+01:00", "1.", "-.5", "1e400", "00012", "\t12\n", "true\u00a0",
        "\U0001f600x", "1_000", "12L", "None", "null", "-0",
    ),
    "boolean": (True, False),
    "date": tuple(map(date.fromisoformat, ("2026-01-01", "1969-12-31", "1970-01-01", "0001-01-01", "9999-12-31",
                                           "1582-10-04", "1500-02-28", "2024-02-29"))),
    "instant": (
        _at(2026, 1, 1), _at(2026, 1, 1, 9, 30), _at(1969, 12, 31, 23, 59, 59, 999_999), _at(1, 1, 1), _at(1970, 1, 1),
        _at(9999, 12, 31, 23, 59, 59, 999_999), _at(1500, 1, 1, 3, 4, 5, 6), _at(2024, 2, 29, 12, 0, 0, 250_000),
    ),
    "numeral": ("1", " 7 ", "-3", "\x00042"), "day": ("2026-01-01", " 1969-12-31", "2024-2-29"), "truth": ("t", " NO "),
    "duration": (timedelta(hours=1), timedelta(0), timedelta(days=-1), timedelta(microseconds=1), timedelta(3, 5, 7)),
}  # fmt: skip
#: Types whose values are compared and computed with as one. A text that says no such value is an error on Spark even
#: beside a null, which the driver cannot see, so texts beside other types are constants that say one.
_TOGETHER: Final = {
    "bigint": ("bigint", "double", "decimal", "numeral"), "double": ("double", "bigint", "decimal", "numeral"),
    "decimal": ("decimal", "bigint", "double", "numeral"), "text": ("text",), "boolean": ("boolean", "truth"),
    "date": ("date", "instant", "day"), "instant": ("instant", "date", "day"), "duration": ("duration",),
}  # fmt: skip
_TYPES: Final = tuple(_FIELDS)
_COMPARED: Final = ("eq", "ne", "lt", "le", "gt", "ge")


def random_rows(random: Random, count: int) -> list[Row]:
    """Rows of every type; about one value in eight is null."""
    return [
        Row({name: None if random.random() < 0.12 else _value(random, kind, name)
             for kind, names in _FIELDS.items() for name in names})
        for _ in range(count)
    ]  # fmt: skip


def _value(random: Random, kind: str, name: str) -> Any:
    found = random.choice(_VALUES[kind])
    return found.quantize(Decimal("0.0001")) if name == "q" else found


class Expressions:
    """Well-typed expressions out of a source of randomness."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def any(self, depth: int) -> Expr:
        """An expression of any type, at most so deep."""
        return self.of(self._random.choice(_TYPES), depth)

    def of(self, kind: str, depth: int) -> Expr:
        """An expression of one type: a field or a constant, a choice, or an operation that gives the type."""
        if kind in ("numeral", "day", "truth") or depth <= 0 or self._random.random() < 0.1:
            return self._leaf(kind)
        if self._random.random() < 0.3 and kind != "duration":
            return self._choice(kind, depth - 1)
        made: Callable[[int], Expr] = getattr(self, f"_{kind}")
        return made(depth - 1)

    def _said(self, depth: int) -> Expr:
        """What becomes a text: of decimals fields and constants, since the digits of others follow from their types."""
        kind = self._random.choice(_TYPES)
        return self.of(kind, 0 if kind == "decimal" else depth)

    def _leaf(self, kind: str) -> Expr:
        if kind in _FIELDS and self._random.random() < 0.7:
            return Expr("field", Expr("ref", "value"), self._random.choice(_FIELDS[kind]))
        return lit(self._random.choice(_VALUES[kind]))

    def _choice(self, kind: str, depth: int) -> Expr:
        one, other = self.of(kind, depth), self.of(kind, depth)
        which = self._random.randrange(5)
        if which == 0:
            return coalesce(one, other)
        if which == 1:
            return when(self.of("boolean", depth), one).when(self.of("boolean", depth), None).otherwise(other)
        if which == 2:
            return struct(a=one, b=other).b
        return least(one, other) if which == 3 else greatest(one, other, self._leaf(kind))

    def _pair(self, kind: str, depth: int) -> tuple[Expr, Expr]:
        pair = [self.of(kind, depth), self.of(self._random.choice(_TOGETHER[kind]), depth)]
        self._random.shuffle(pair)
        return pair[0], pair[1]

    def _boolean(self, depth: int) -> Expr:
        which = self._random.randrange(8)
        if which < 4:
            return Expr(self._random.choice(_COMPARED), *self._pair(self._random.choice((*_TYPES, "duration")), depth))
        if which == 4:
            one, other = self._pair("boolean", depth)
            return self._random.choice((one & other, one | other, ~one))
        if which == 5:
            kind = self._random.choice(_TYPES)
            return is_in(self.of(kind, depth), self._leaf(kind), self._leaf(self._random.choice(_TOGETHER[kind])))
        if which == 6:
            return self._random.choice((is_null(self.any(depth)), starts_with(self._said(depth), self.of("text", 0))))
        return cast(self.of(self._random.choice(("text", "bigint", "double", "decimal", "boolean")), depth), "boolean")

    def _bigint(self, depth: int) -> Expr:
        which = self._random.randrange(4)
        if which == 0:
            return length(self._said(depth))
        if which == 1:
            kinds = ("text", "bigint", "double", "decimal", "boolean", "instant")
            return cast(self.of(self._random.choice(kinds), depth), "bigint")
        operator = self._random.choice(("add", "sub", "mul", "mod"))
        return Expr(operator, self.of("bigint", depth), self.of("bigint", depth))

    def _double(self, depth: int) -> Expr:
        if self._random.random() < 0.3:
            kinds = ("text", "bigint", "double", "decimal", "boolean", "instant")
            return cast(self.of(self._random.choice(kinds), depth), "double")
        operator = self._random.choice(("add", "sub", "mul", "mod", "div"))
        return Expr(operator, *self._pair("double", depth))

    def _decimal(self, _: int) -> Expr:
        # Deeper ones need more than 38 digits, where Spark's scales follow from declared types.
        kinds = self._random.choice((("decimal", "decimal"), ("decimal", "bigint"), ("bigint", "decimal")))
        return Expr(self._random.choice(("add", "sub", "mul", "mod")), *map(self._leaf, kinds))

    def _text(self, depth: int) -> Expr:
        one = self._said(depth)
        which = self._random.randrange(6)
        if which == 0:
            return cast(one, "string")
        if which == 1:
            return concat(self.of("text", depth), one)
        if which == 2:
            return self._random.choice((upper, lower))(one)
        if which == 3:
            return substring(one, self._random.randint(1, 4), self._random.randint(0, 5))
        part = substring_before if which == 4 else substring_after
        return part(one, self._random.choice((lit("|"), lit("-"), lit(""), self.of("text", 0))))

    def _date(self, _: int) -> Expr:
        return self._leaf("date")

    def _instant(self, depth: int) -> Expr:
        of = self.of(self._random.choice(("instant", "date")), depth)
        return Expr(self._random.choice(("add", "sub")), of, self.of("duration", depth))

    def _duration(self, depth: int) -> Expr:
        which = self._random.randrange(4)
        if which == 0:
            return Expr(self._random.choice(("add", "sub")), self.of("duration", depth), self.of("duration", depth))
        if which == 1:
            return Expr(self._random.choice(("mul", "div")), self._leaf("duration"), self.of("double", depth))
        # Of two dates Spark makes a duration of days, which makes a date of another date; Python knows none.
        kinds = self._random.choice((("instant", "date"), ("date", "instant"), ("instant", "instant")))
        return Expr("sub", *(self.of(kind, depth) for kind in kinds))
