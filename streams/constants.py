"""Which Python values can be constants in an expression: those that have a Spark literal."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final

from streams.casts import LARGEST, SMALLEST

_DIGITS: Final = 38
_SCALARS: Final = (type(None), bool, float, str, bytes, bytearray, date, time, timedelta)


def constant_fault(value: Any) -> str | None:
    """Why a value cannot be a constant, and what to give instead; ``None`` if it can.

    >>> constant_fault([1, 2.5]), constant_fault("tea")
    (None, None)
    >>> constant_fault({"a", "b"})
    'it is of the type set. Give a list.'
    """
    if isinstance(value, _SCALARS):
        return None
    if isinstance(value, int):
        return None if SMALLEST <= value <= LARGEST else "it does not fit in 64 bits. Give a Decimal."
    if isinstance(value, Decimal):
        return None if _fits(value) else f"a decimal has at most {_DIGITS} digits. Give a float."
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(constant_fault, value)), None)
    if hasattr(value, "dtype"):
        return None  # Spark takes NumPy's values as they are.
    instead = "a list" if isinstance(value, (set, frozenset)) else "a text or a number"
    return f"it is of the type {type(value).__name__}. Give {instead}."


def _fits(value: Decimal) -> bool:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # NaN and infinities
        return False
    return max(len(digits) + max(exponent, 0), -exponent) <= _DIGITS
