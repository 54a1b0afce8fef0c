"""Arithmetic of expressions on plain values, with SQL's rules: numbers, and instants with durations."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from typing import Any, Final

from streams.casts import LARGEST, SMALLEST
from streams.operands import alike, kind_of
from streams.time_texts import as_instant
from versioned.errors import RecordError

_NUMBERS: Final = (int, float, Decimal)
_DIGITS: Final = 38
_DECIMALS: Final = Context(prec=_DIGITS, rounding=ROUND_HALF_UP)


def arithmetic(symbol: str, left: Any, right: Any) -> Any:
    """The result of ``+``, ``-``, ``*``, ``/`` or ``%``; division by zero gives null.

    Raises:
        RecordError: the operands are no numbers, or the result fits in no number.
    """
    try:
        return _fitting(symbol, left, right, _computed(symbol, *_operands(left, right)))
    except (TypeError, OverflowError, InvalidOperation):
        raise RecordError(f"{_told(symbol, left, right)}: these have no such arithmetic, or no result.") from None


def divided(symbol: str, left: Any, right: Any) -> Any:
    """As :func:`arithmetic`; null also for a text that is no number, as Spark's ``try_divide`` gives it."""
    is_text = "text" in (kind_of(left), kind_of(right))
    try:
        left, right = _operands(left, right)
    except RecordError:
        if is_text and kind_of(left) != kind_of(right):
            return None
        raise
    return arithmetic(symbol, left, right)


def _operands(left: Any, right: Any) -> tuple[Any, Any]:
    if type(left) is type(right) and type(left) in _NUMBERS:
        return left, right
    kinds = {kind_of(left), kind_of(right)}
    if "interval" in kinds:
        # A date with a duration is an instant; what else a duration goes with, Python knows as well.
        return tuple(as_instant(part) if kind_of(part) in ("date", "timestamp") else part for part in (left, right))  # type: ignore[return-value]
    if kinds & {"boolean", "binary", "row"} or kinds == {"text"}:
        raise RecordError(f"{left!r}, {right!r}: arithmetic takes numbers; use concat for texts.")
    return alike(left, right)


def _computed(symbol: str, left: Any, right: Any) -> Any:
    if not isinstance(left, Decimal):
        return _FUNCTIONS[symbol](left, right)
    with localcontext(_DECIMALS):
        return _FUNCTIONS[symbol](left, right)


def _fitting(symbol: str, left: Any, right: Any, result: Any) -> Any:
    if isinstance(result, int) and not SMALLEST <= result <= LARGEST:
        raise RecordError(f"{_told(symbol, left, right)} does not fit in 64 bits; cast to double first.")
    if isinstance(result, Decimal) and result.adjusted() >= _DIGITS:
        raise RecordError(f"{_told(symbol, left, right)} does not fit in {_DIGITS} digits; cast to double first.")
    return result


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
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


_FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
}
