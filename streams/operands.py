"""Brings two values of different types to one type, as Spark in ANSI mode compares them and computes with them.

Beside a double, a number becomes a double. A text is read as the type of the other value, beside a decimal as a
double. Beside an instant, a date becomes its midnight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from streams.casts import to_bigint, to_boolean, to_date, to_double, to_instant
from streams.rows import frozen
from streams.time_texts import as_instant
from versioned.errors import RecordError

#: The first that fits counts: in Python, a boolean is an integer and an instant is a date.
_KINDS: Final[tuple[tuple[str, type | tuple[type, ...]], ...]] = (
    ("text", str),
    ("boolean", bool),
    ("bigint", int),
    ("double", float),
    ("decimal", Decimal),
    ("timestamp", datetime),
    ("date", date),
    ("interval", timedelta),
    ("binary", (bytes, bytearray)),
)
_COMMON: Final[dict[frozenset[str], str]] = {
    frozenset(("bigint", "decimal")): "decimal",
    frozenset(("bigint", "double")): "double",
    frozenset(("decimal", "double")): "double",
    frozenset(("text", "boolean")): "boolean",
    frozenset(("text", "bigint")): "bigint",
    frozenset(("text", "double")): "double",
    frozenset(("text", "decimal")): "double",
    frozenset(("text", "date")): "date",
    frozenset(("text", "timestamp")): "timestamp",
    frozenset(("text", "binary")): "binary",
    frozenset(("date", "timestamp")): "timestamp",
}
_AS: Final[dict[str, Callable[[Any], Any]]] = {
    "decimal": Decimal,
    "double": to_double,
    "boolean": to_boolean,
    "bigint": to_bigint,
    "date": to_date,
    "timestamp": to_instant,
    "binary": lambda value: value.encode() if isinstance(value, str) else value,
}


def kind_of(value: Any) -> str:
    """The type of a value as expressions call it; ``row`` for everything that has parts."""
    return next((kind for kind, types in _KINDS if isinstance(value, types)), "row")


def alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Both values as their common type.

    Raises:
        RecordError: they have none, or a text is not a value of it.
    """
    if type(left) is type(right) and not isinstance(left, datetime):
        return left, right
    kinds = kind_of(left), kind_of(right)
    if kinds[0] == kinds[1]:
        return (as_instant(left), as_instant(right)) if kinds[0] == "timestamp" else (left, right)
    common = _COMMON.get(frozenset(kinds))
    if common is None:
        raise RecordError(f"{left!r} and {right!r}: no type is common to {kinds[0]} and {kinds[1]}; cast one of them.")
    return _as(common, left), _as(common, right)


def _as(kind: str, value: Any) -> Any:
    made = _AS[kind](value)
    if made is None:
        raise RecordError(f"{value!r} is compared with a {kind} and is none; use cast, which gives null.")
    return made


def compare(left: Any, right: Any) -> int:
    """Negative if the left value is smaller, positive if it is larger. NaN equals itself and is the largest number.

    Raises:
        RecordError: as :func:`alike`, or the values have no order.
    """
    left, right = alike(left, right)
    if isinstance(left, float) and (math.isnan(left) or math.isnan(right)):
        return math.isnan(left) - math.isnan(right)
    if left == right:
        return 0
    try:
        return 1 if left > right else -1
    except TypeError:
        raise RecordError(f"{left!r} and {right!r} have no order; compare their fields.") from None


def same(left: Any, right: Any) -> bool:
    """Whether both values are equal.

    Raises:
        RecordError: as :func:`alike`.
    """
    left, right = alike(left, right)
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    if kind_of(left) == "row":
        # A struct is a row, or a dictionary if a test or a user function made it.
        left, right = frozen(left), frozen(right)
    return bool(left == right)
