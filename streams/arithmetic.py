"""Arithmetic of expressions on plain values, by SQL's rules: numbers, and instants with durations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from typing import Any, Final, Literal

from streams.casts import LARGEST, SMALLEST, to_double
from streams.operands import alike, kind_of
from streams.time_texts import as_instant
from versioned.errors import RecordError

_NUMBERS: Final = (int, float, Decimal)
#: The kinds that sums and means take. Durations are none of them, since no table on Spark keeps any.
_ADDENDS: Final = frozenset(("bigint", "double", "decimal", "text"))
_DIGITS: Final = 38
_DECIMALS: Final = Context(prec=_DIGITS, rounding=ROUND_HALF_UP)
_EXACT: Final = Context(prec=2 * _DIGITS)
_MICROSECOND: Final = timedelta(microseconds=1)
#: What Python raises if there is no result.
_NO_RESULT: Final = (OverflowError, ValueError, InvalidOperation)


def arithmetic(symbol: str, left: Any, right: Any) -> Any:
    """The result of ``+``, ``-``, ``*``, ``/`` or ``%``; division by zero gives null.

    Raises:
        RecordError: the operands do not go together, or the result does not fit.
    """
    operands = _operands(left, right)
    try:
        result = _computed(symbol, *operands)
    except (TypeError, *_NO_RESULT):
        raise RecordError(_no_such(symbol, left, right)) from None
    return _fitting(result, symbol, left, right)


def divided(symbol: str, left: Any, right: Any) -> Any:
    """As :func:`arithmetic`, but null if no result fits, or a text is not a number: Spark's ``try_divide``."""
    is_text = "text" in (kind_of(left), kind_of(right))
    try:
        left, right = _operands(left, right)
    except RecordError:
        if is_text and kind_of(left) != kind_of(right):
            return None
        raise
    try:
        result = _computed(symbol, left, right)
    except TypeError:
        raise RecordError(_no_such(symbol, left, right)) from None
    except _NO_RESULT:
        return None
    return result if _fits(result) else None


def summed(left: Any, right: Any, sign: int = 1) -> Any:
    """A sum with a number added, or removed (sign -1); exact for decimals, as Spark's sum is.

    Raises:
        RecordError: the result does not fit, or there is none.

    >>> summed(Decimal("99999999999999999999999999.99"), Decimal("0.02"))
    Decimal('100000000000000000000000000.01')
    """
    symbol = "+" if sign > 0 else "-"
    try:
        with localcontext(_EXACT):
            result = _FUNCTIONS[symbol](*alike(left, right))
    except (TypeError, *_NO_RESULT):
        raise RecordError(_no_such(symbol, left, right)) from None
    return _fitting(result, symbol, left, right)


def addend(aggregate: Literal["sum", "avg"], value: Any) -> Any:
    """What a value adds to a sum or a mean: a number as it is, a text as the double that it names.

    Raises:
        RecordError: the value is something else, or a text that is not a number.

    >>> addend("sum", "1.5"), addend("avg", 2)
    (1.5, 2)
    """
    kind = kind_of(value)
    number = to_double(value) if kind == "text" else value
    if kind == "interval":
        raise RecordError(f"{value}: {no_durations(aggregate)}")
    if kind not in _ADDENDS or number is None:
        raise RecordError(f"{value!r} ({kind}): {aggregate} takes numbers; cast it, or leave it out with a filter.")
    return number


def no_durations(aggregate: str) -> str:
    """The message that durations are not aggregated, and what to do instead."""
    return (
        f"{aggregate} takes no durations, which no table keeps. Take seconds, such as "
        'cast(value.until, "double") - cast(value.at, "double").'
    )


def _fitting(result: Any, symbol: str, left: Any, right: Any) -> Any:
    if _fits(result):
        return result
    raise RecordError(
        f"{_told(symbol, left, right)} does not fit in 64 bits or {_DIGITS} digits; cast to double first."
    )


def _operands(left: Any, right: Any) -> tuple[Any, Any]:
    if type(left) is type(right) and type(left) in _NUMBERS:
        return left, right
    kinds = {kind_of(left), kind_of(right)}
    if "interval" in kinds:
        # A date with a duration becomes an instant; what else durations go with is the same in Python.
        return tuple(as_instant(part) if kind_of(part) in ("date", "timestamp") else part for part in (left, right))  # type: ignore[return-value]
    if kinds & {"boolean", "binary", "row"} or kinds == {"text"}:
        raise RecordError(f"{left!r}, {right!r}: arithmetic takes numbers; use concat for texts.")
    return alike(left, right)


def _computed(symbol: str, left: Any, right: Any) -> Any:
    if isinstance(left, timedelta) and symbol in ("*", "/", "%"):
        return _scaled(symbol, left, right)
    if isinstance(right, timedelta) and symbol == "*":
        return _scaled(symbol, right, left)
    if not isinstance(left, Decimal):
        return _FUNCTIONS[symbol](left, right)
    with localcontext(_DECIMALS):
        return _FUNCTIONS[symbol](left, right)


def _scaled(symbol: str, interval: timedelta, number: Any) -> timedelta | None:
    """A duration multiplied or divided by a number, in whole microseconds: halves are rounded away from zero."""
    if symbol == "%" or not isinstance(number, _NUMBERS):
        raise TypeError
    if symbol == "/" and not number:
        return None
    us = interval // _MICROSECOND
    if isinstance(number, float):
        exact = Decimal(us * number if symbol == "*" else us / number)
    else:
        with localcontext(_EXACT):
            exact = us * Decimal(number) if symbol == "*" else us / Decimal(number)
    return timedelta(microseconds=int(exact.to_integral_value(ROUND_HALF_UP)))


def _fits(result: Any) -> bool:
    if isinstance(result, timedelta):
        result = result // _MICROSECOND
    if isinstance(result, int):
        return SMALLEST <= result <= LARGEST
    return not isinstance(result, Decimal) or result.adjusted() < _DIGITS


def _no_such(symbol: str, left: Any, right: Any) -> str:
    return f"{_told(symbol, left, right)}: these have no such arithmetic, or no result."


def _told(symbol: str, left: Any, right: Any) -> str:
    return f"{left!r} {symbol} {right!r}"


def _quotient(left: Any, right: Any) -> Any:
    if not right:
        return None
    return float(left) / float(right) if isinstance(left, int) else left / right


def _remainder(left: Any, right: Any) -> Any:
    """The remainder with the sign of the dividend, as in SQL; null for a zero divisor."""
    if right == 0:
        return None
    if isinstance(left, float):
        return math.fmod(left, right) if math.isfinite(left) else math.nan
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


_FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
}
