"""Fits values that Python computed to the column type that Spark would have given them.

In Python, an expression that chooses between types (``coalesce(price, 1.5)``) has the type of the chosen value, and a
quotient of decimals has all its digits. A column of Spark has one type, with one scale.
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
    """The function that converts a value (a row, a field of one, or null) to a type.

    It raises RecordError for a decimal with more digits before the point than the type has.

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
        # In Python, a date plus the difference of two dates may be a datetime: it has no duration of whole days only.
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
