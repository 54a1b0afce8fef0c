"""What each operation of an expression means for plain Python values: SQL's rules (Spark in ANSI mode), null included.

Integers are 64-bit: a result outside is an error, as on Spark. Division gives a double, null for a zero divisor. NaN
equals itself and is the largest number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cmp_to_key
from typing import Any, Final

from streams.rows import Row
from versioned.errors import RecordError

_LARGEST: Final = 2**63 - 1
_SMALLEST: Final = -(2**63)
_INTEGER: Final = re.compile(r"[+-]?\d+")
_DOUBLE: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity)|nan", re.IGNORECASE)
_TRUE: Final = frozenset(("t", "true", "y", "yes", "1"))
_FALSE: Final = frozenset(("f", "false", "n", "no", "0"))


def field_of(row: Mapping[str, Any] | None, name: str) -> Any:
    """A field of a row; null if the row is.

    Raises:
        RecordError: the row has no such field.
    """
    if row is None:
        return None
    try:
        return row[name]
    except KeyError:
        raise RecordError(f'There is no field "{name}"; the row has {list(row)}.') from None


def as_plain(value: Any) -> Any:
    """What a user's function returned, as the driver holds it: a mapping becomes a row."""
    return Row(value) if isinstance(value, Mapping) and not isinstance(value, Row) else value


def _null_in_null_out(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        return None if any(arg is None for arg in args) else function(*args)

    return called


def _arithmetic(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def called(left: Any, right: Any) -> Any:
        for operand in (left, right):
            if isinstance(operand, (str, bool)):
                raise RecordError(f"{left!r} {symbol} {right!r}: arithmetic takes numbers; use concat for texts.")
        result = function(left, right)
        if isinstance(result, int) and not _SMALLEST <= result <= _LARGEST:
            raise RecordError(f"{left} {symbol} {right} does not fit in 64 bits; cast to double first.")
        return result

    return _null_in_null_out(called)


def _compared(test: Callable[[int], bool]) -> Callable[..., Any]:
    return _null_in_null_out(lambda left, right: test(_compare(left, right)))


def _compare(left: Any, right: Any) -> int:
    if isinstance(left, float) and math.isnan(left):
        return 0 if isinstance(right, float) and math.isnan(right) else 1
    if isinstance(right, float) and math.isnan(right):
        return -1
    if left == right:
        return 0
    return 1 if left > right else -1


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _quotient(left: Any, right: Any) -> Any:
    return left / right if right else None


def _remainder(left: Any, right: Any) -> Any:
    """The remainder with the sign of the dividend, as in SQL; null for a zero divisor."""
    if right == 0:
        return None
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _case(*args: Any) -> Any:
    """Pairs of condition and value, then the value otherwise."""
    for condition, value in zip(args[:-1:2], args[1::2], strict=True):
        if condition:
            return value
    return args[-1]


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def called(*values: Any) -> Any:
        present = [value for value in values if value is not None]
        return choose(present, key=cmp_to_key(_compare), default=None)

    return called


def _merge(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> Row:
    return Row({**(left or {}), **(right or {})})


def _substring_before(text: str, delimiter: str) -> str | None:
    head, found, _ = text.partition(delimiter)
    return head if found else None


def _cast(value: Any, kind: str) -> Any:
    return None if value is None else _CASTS[kind](value)


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return _double_text(value) if isinstance(value, float) else str(value)


def _double_text(value: float) -> str:
    # As Java writes doubles: plain between a thousandth and ten million, else one digit before the point.
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else format(Decimal(repr(value)), "f")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    shift = int(exponent) + len(digits) - 1
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{shift}"


def _to_bigint(value: Any) -> int | None:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value.strip()):
            return None
        value = int(value)
    elif isinstance(value, float) and not math.isfinite(value):
        return None
    whole = int(value)
    return whole if _SMALLEST <= whole <= _LARGEST else None


def _to_double(value: Any) -> float | None:
    if isinstance(value, str) and not _DOUBLE.fullmatch(value.strip()):
        return None
    return float(value)


def _to_boolean(value: Any) -> bool | None:
    if not isinstance(value, str):
        return bool(value)
    text = value.strip().lower()
    return True if text in _TRUE else (False if text in _FALSE else None)


_CASTS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": _to_string,
    "bigint": _to_bigint,
    "double": _to_double,
    "boolean": _to_boolean,
}

OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "field": field_of,
    "row": lambda name, value: None if value is None else Row({name: value}),
    "eq": _null_in_null_out(_same),
    "ne": _null_in_null_out(lambda left, right: not _same(left, right)),
    "lt": _compared(lambda sign: sign < 0),
    "le": _compared(lambda sign: sign <= 0),
    "gt": _compared(lambda sign: sign > 0),
    "ge": _compared(lambda sign: sign >= 0),
    "and": _and,
    "or": _or,
    "not": _null_in_null_out(lambda value: not value),
    "add": _arithmetic("+", lambda left, right: left + right),
    "sub": _arithmetic("-", lambda left, right: left - right),
    "mul": _arithmetic("*", lambda left, right: left * right),
    "div": _arithmetic("/", _quotient),
    "mod": _arithmetic("%", _remainder),
    "is_null": lambda value: value is None,
    "coalesce": lambda *values: next((value for value in values if value is not None), None),
    "concat": _null_in_null_out(lambda *texts: "".join(map(_to_string, texts))),
    "upper": _null_in_null_out(str.upper),
    "lower": _null_in_null_out(str.lower),
    "length": _null_in_null_out(len),
    "substring": _null_in_null_out(lambda text, start, length: text[start - 1 : start - 1 + length]),
    "substring_before": _null_in_null_out(_substring_before),
    "substring_after": _null_in_null_out(lambda text, delimiter: text.partition(delimiter)[2]),
    "starts_with": _null_in_null_out(str.startswith),
    "case": _case,
    "cast": _cast,
    "least": _extreme(min),
    "greatest": _extreme(max),
    "merge": _merge,
}
