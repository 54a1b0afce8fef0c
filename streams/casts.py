"""Casts of values, like Spark's ``try_cast``: null where a cast is not possible."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from streams.time_texts import BLANKS, as_instant, date_of, instant_of, instant_text, trimmed
from versioned.durations import instant_us
from versioned.errors import RecordError

LARGEST: Final = 2**63 - 1
SMALLEST: Final = -(2**63)
#: At most 19 digits: more do not fit in a bigint, and Python refuses to read thousands of them.
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,19})")
_DOUBLE: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)[df]?|[+-]?inf|[+-]?infinity|nan|[+-](?-i:NaN)",
    re.IGNORECASE | re.ASCII,
)
_TRUE: Final = frozenset(("t", "true", "y", "yes", "1"))
_FALSE: Final = frozenset(("f", "false", "n", "no", "0"))
_SECOND_US: Final = 1_000_000


def to_string(value: Any) -> str:
    """A value as text, as Spark writes it.

    Raises:
        RecordError: a row, a list or a duration, which the two engines would not write alike.
    """
    for kind, written in _TEXTS:
        if isinstance(value, kind):
            return written(value)
    raise _no_cast(value, "string")


def to_bigint(value: Any) -> int | None:
    """A value as an integer, cut off after the point; an instant as whole seconds since the epoch, rounded down.

    Raises:
        RecordError: Spark has no such cast.
    """
    if isinstance(value, str):
        found = _INTEGER.fullmatch(trimmed(value))
        if found is None:
            return None
        value = int(found[1] + found[2])
    elif isinstance(value, float) and not math.isfinite(value):
        return None
    elif isinstance(value, float) and value == float(LARGEST):
        # The double nearest to the largest bigint is one larger, and Spark casts it to the largest bigint.
        return LARGEST
    elif isinstance(value, datetime):
        value = instant_us(value) // _SECOND_US
    whole = int(_number(value, "bigint"))
    return whole if SMALLEST <= whole <= LARGEST else None


def to_double(value: Any) -> float | None:
    """A value as the nearest double; an instant as seconds since the epoch.

    Raises:
        RecordError: Spark has no such cast.
    """
    if isinstance(value, str):
        found = _DOUBLE.fullmatch(value.strip(BLANKS))
        return None if found is None else float(found[1] or found[0])
    # Spark rounds twice as well.
    return float(instant_us(value)) / _SECOND_US if isinstance(value, datetime) else float(_number(value, "double"))


def to_boolean(value: Any) -> bool | None:
    """A value as a boolean: whether a number is not zero, or what a text says.

    Raises:
        RecordError: Spark has no such cast.
    """
    if not isinstance(value, str):
        return bool(_number(value, "boolean"))
    text = trimmed(value).lower()
    return True if text in _TRUE else (False if text in _FALSE else None)


def to_date(value: str | date) -> date | None:
    """A value as a date; null if a text names none."""
    return date_of(value) if isinstance(value, str) else value


def to_instant(value: str | date) -> datetime | None:
    """A value as an instant: a date as its midnight; null if a text names none."""
    return instant_of(value) if isinstance(value, str) else as_instant(value)


def _number(value: Any, kind: str) -> Any:
    if not isinstance(value, (int, float, Decimal)):
        raise _no_cast(value, kind)
    return value


def _no_cast(value: Any, kind: str) -> RecordError:
    return RecordError(f"{value!r} ({type(value).__name__}) cannot be cast to {kind}; cast a field or a part of it.")


def _double_text(value: float) -> str:
    # As Java writes doubles: plain from a thousandth up to ten million, otherwise with one digit before the point.
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else format(Decimal(repr(value)), "f")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    shift = int(exponent) + len(digits) - 1
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{shift}"


def _decimal_text(value: Decimal) -> str:
    # Spark's decimals have no negative zero.
    return format(value if value else value.copy_abs(), "f")


#: The first that fits counts: in Python, a boolean is an integer and an instant is a date.
_TEXTS: Final[tuple[tuple[type | tuple[type, ...], Callable[[Any], str]], ...]] = (
    (str, str),
    (bool, lambda value: str(value).lower()),
    (int, str),
    (float, _double_text),
    (Decimal, _decimal_text),
    (datetime, instant_text),
    (date, date.isoformat),
    ((bytes, bytearray), lambda value: value.decode("utf-8", "replace")),
)

CASTS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": to_string,
    "bigint": to_bigint,
    "double": to_double,
    "boolean": to_boolean,
}
