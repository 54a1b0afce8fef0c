"""Fits values that Python computed to the column type that Spark would have given them.

An expression that chooses between types (``coalesce(price, 1.5)``) returns in Python the value that it chose, and a
quotient of decimals has all its digits; a Spark column has one type, with one scale.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

from pyspark.sql.types import DataType, DateType, DecimalType, DoubleType, StructType, TimestampType

from streams.casts import to_double, to_instant
from streams.rows import Row
from versioned.errors import RecordError

_DECIMALS: Final = Context(prec=38)


def fitting(kind: DataType) -> Callable[[Any], Any]:
    """What makes a value one of a type: a row, a field of one, or null.

    It raises RecordError for a decimal that has more digits before the point than the type.

    >>> fitting(StructType().add("price", DecimalType(4, 2)))(Row(price=Decimal("0.666666")))
    Row(price=Decimal('0.67'))
    """
    fit = _fit_of(kind)
    return lambda value: None if value is None else fit(value)


def _fit_of(kind: DataType) -> Callable[[Any], Any]:
    if isinstance(kind, StructType):
        parts = {field.name: fitting(field.dataType) for field in kind.fields}
        return lambda row: Row({name: parts[name](part) for name, part in row.items()})
    if isinstance(kind, DecimalType):
        return lambda value: _decimal(value, kind)
    if isinstance(kind, DoubleType):
        return to_double
    if isinstance(kind, DateType):
        # A date with the difference of two dates: Python knows no duration of whole days only.
        return lambda value: value.date() if isinstance(value, datetime) else value
    return to_instant if isinstance(kind, TimestampType) else lambda value: value


def _decimal(value: Any, kind: DecimalType) -> Decimal:
    try:
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _DECIMALS)
    except InvalidOperation:
        rounded = None
    if rounded is None or (rounded and rounded.adjusted() >= kind.precision - kind.scale):
        raise RecordError(f"{value} does not fit in {kind.simpleString()}; cast it to double.")
    return rounded
