"""The canonical order of keys, as bytes that compare like the keys.

Ties between buffered rows must be resolved the same way on both engines and in every run. So the order is that of
Spark's ``ORDER BY``: nulls first, strings by their UTF-8 bytes, numbers by value with NaN last, structs and arrays
element by element. In the form of bytes it can also be stored and compared in a file or a column.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from versioned.durations import duration_us, instant_us
from versioned.errors import RecordError

_NULL: Final = b"\x00"
_PRESENT: Final = b"\x01"
_SIGN: Final = 1 << 63
_WORD: Final = (1 << 64) - 1
_EXPONENT_BIAS: Final = 1 << 31
_DIGITS: Final = b"0123456789"


def canonical_order(value: Any) -> bytes:
    """Bytes whose unsigned comparison is the canonical order of ``value``.

    Args:
        value: A key or a part of one: null, bool, integer (64 bit), float, ``Decimal``, text, bytes, date, datetime,
            timedelta, or a row, mapping or sequence of these. Compare only values of one type with each other.

    Raises:
        RecordError: a value has no order (a set, a function), or an integer does not fit 64 bits.

    Example:
        >>> sorted(["b", "é", "a"], key=canonical_order)
        ['a', 'b', 'é']
        >>> sorted([10, -1, 9, None], key=canonical_order)
        [None, -1, 9, 10]
    """
    if value is None:
        return _NULL
    return _PRESENT + _present(value)


def _present(value: Any) -> bytes:
    if isinstance(value, int):  # A bool, too.
        return _integer(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, str):
        return _terminated(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (bytes, bytearray)):
        return _terminated(bytes(value))
    return _temporal_or_nested(value)


def _temporal_or_nested(value: Any) -> bytes:
    if isinstance(value, datetime):
        return _integer(instant_us(value))
    if isinstance(value, date):
        return _integer(value.toordinal())
    if isinstance(value, timedelta):
        return _integer(duration_us(value))
    if isinstance(value, Mapping):
        return b"".join(canonical_order(part) for part in value.values())
    if isinstance(value, Iterable) and not isinstance(value, (set, frozenset)):
        return b"".join(b"\x01" + canonical_order(part) for part in value) + b"\x00"
    raise RecordError(
        f"A {type(value).__name__} has no order, so it cannot be part of a key. Use text, numbers or times."
    )


def _integer(value: int) -> bytes:
    if not -_SIGN <= value < _SIGN:
        raise RecordError(f"The integer {value} does not fit 64 bits, so it cannot be part of a key. Use text instead.")
    return (value + _SIGN).to_bytes(8, "big")


def _float(value: float) -> bytes:
    if math.isnan(value):
        return b"\xff" * 8
    # Adding zero turns -0.0 into 0.0, to which it compares equal.
    bits: int = struct.unpack(">Q", struct.pack(">d", value + 0.0))[0]
    ordered = bits ^ _WORD if bits & _SIGN else bits | _SIGN
    return ordered.to_bytes(8, "big")


def _decimal(value: Decimal) -> bytes:
    if value.is_nan():
        return b"\x03"
    if value == 0:
        return b"\x01"
    # Read the digits directly: arithmetic would round them to the precision of the decimal context.
    digits = bytes(map(_DIGITS.__getitem__, value.as_tuple().digits)).rstrip(b"0")
    magnitude = (value.adjusted() + _EXPONENT_BIAS).to_bytes(4, "big") + digits + b"\x00"
    if value > 0:
        return b"\x02" + magnitude
    return b"\x00" + bytes(255 - part for part in magnitude)


def _terminated(text: bytes) -> bytes:
    # A terminator below every byte makes "a" sort before "ab"; zeros inside are escaped so that it stays unambiguous.
    return text.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
