"""Converts results of user functions to what a column can hold; anything else is refused.

Within a batch, a fold continues with the returned value; in the next batch, with the stored one. So a returned value
is converted at once to what will be stored, or the division into batches would change results. A value that would be
altered by this, such as a fraction for a whole number, or lost, such as a misspelt field, is an error.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from streams.ddl import names_fields
from streams.declared import Fit, as_it_is, row_fit, with_article
from streams.spark.fitting import fitting
from versioned.ddl_columns import columns_if_known
from versioned.errors import RecordError

_NUMBERS: Final = (int, float, Decimal)
_BITS: Final[Mapping[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
#: Python types whose values a column takes unchanged.
_TAKEN: Final[Mapping[type[DataType], tuple[type, ...]]] = {
    StringType: (str,),
    BinaryType: (bytes, bytearray, memoryview),
    BooleanType: (bool,),
    TimestampType: (datetime,),
    TimestampNTZType: (datetime,),
}


def returned(kind: DataType | None) -> Fit:
    """The function that converts a value returned by a user's function to its column's type, or raises RecordError.

    Missing fields of a row become null. The error's message contains no value, since it goes into logs.

    Args:
        kind: The type that the user's function was declared to return; None = values stay as they are.

    >>> returned(StructType().add("total", DecimalType(4, 2)).add("n", LongType()))({"total": Decimal("1.195")})
    Row(total=Decimal('1.20'), n=None)
    >>> returned(LongType())(1.5)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    versioned.errors.RecordError: its function gave a fraction for a result of bigint. Round it, or declare another ...
    """
    return as_it_is if kind is None else _fit_of(kind, "")


def returned_as(ddl: str) -> Fit:
    """As :func:`returned`, by the declared DDL; values of types that only Spark understands stay as they are."""
    is_row = names_fields(ddl)
    known = columns_if_known(ddl if is_row else f"value {ddl}")
    return returned(known if known is None or is_row else known[0].dataType)


def _fit_of(kind: DataType, path: str) -> Fit:
    fit = _fit_of_values(kind, path)
    if fit is as_it_is:
        return fit
    return lambda value: None if value is None else fit(value.item() if isinstance(value, np.generic) else value)


def _fit_of_values(kind: DataType, path: str) -> Fit:
    """The conversion of values that are not null; the path is that of a field, and empty for the result itself."""
    where = f'"{path}" of {kind.simpleString()}' if path else f"a result of {kind.simpleString()}"
    if isinstance(kind, StructType):
        return _row_fit(kind, path)
    if isinstance(kind, ArrayType):
        return partial(_array, part=_fit_of(kind.elementType, path), where=where)
    if isinstance(kind, MapType):
        return partial(_map, key=_fit_of(kind.keyType, path), part=_fit_of(kind.valueType, path))
    if isinstance(kind, IntegralType):
        return partial(_whole, limit=1 << _BITS[type(kind)] - 1, where=where)
    if isinstance(kind, (DecimalType, DoubleType, FloatType)):
        return partial(_number, fit=_single if isinstance(kind, FloatType) else fitting(kind), where=where)
    if isinstance(kind, DateType):
        return partial(_date, where=where)
    taken = _TAKEN.get(type(kind))
    return as_it_is if taken is None else partial(_taken, kinds=taken, where=where)


def _row_fit(kind: StructType, path: str) -> Fit:
    return row_fit({field.name: _fit_of(field.dataType, f"{path}.{field.name}".strip(".")) for field in kind.fields})


def _taken(value: Any, kinds: tuple[type, ...], where: str) -> Any:
    # In Python, a bool is an int.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise RecordError(f"its function gave {with_article(value)} for {where}. Make it one, or declare another type.")
    return value


def _array(value: Any, part: Fit, where: str) -> list[Any]:
    return [part(each) for each in _taken(value, (list, tuple, np.ndarray), where)]


def _map(value: Any, key: Fit, part: Fit) -> Any:
    # A list of pairs stays as it is.
    return {key(name): part(each) for name, each in value.items()} if isinstance(value, Mapping) else value


def _date(value: Any, where: str) -> date:
    day: date = _taken(value, (date,), where)
    return day.date() if isinstance(day, datetime) else day


def _whole(value: Any, limit: int, where: str) -> int:
    number = _taken(value, _NUMBERS, where)
    is_finite = number == number and abs(number) != math.inf
    if is_finite and not -limit <= number < limit:
        raise RecordError(f"its function gave a number that is too large for {where}. Declare another type.")
    # Not by its remainder, which decimals of more than 28 digits do not have.
    if not is_finite or number != int(number):
        raise RecordError(f"its function gave a fraction for {where}. Round it, or declare another type.")
    return int(number)


def _number(value: Any, fit: Fit, where: str) -> Any:
    number = _taken(value, _NUMBERS, where)
    try:
        return fit(number)
    except (RecordError, OverflowError):
        raise RecordError(f"its function gave a number that is too large for {where}. Declare another type.") from None


def _single(value: Any) -> float:
    """The nearest 32-bit float, which is what is stored."""
    return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])
