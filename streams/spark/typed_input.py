"""Raw rows as their contract declares them: cast row by row, measured, and truncated for the rejects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from streams.spark.reader_options import MALFORMED
from versioned import spark_functions as F
from versioned.casting import in_range, in_type, rounds
from versioned.identifiers import named_twice, quote
from versioned.sql_types import JSON_INSTANTS

#: Microseconds per unit of time.
UNITS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
#: How many characters of a field the rejects keep.
KEPT: Final = 1_024
#: Matches a text that denotes an instant: with a time of day, and its offset from UTC at the end.
_WITH_OFFSET: Final = r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*(Z|[+-]\d{1,2}(:?\d{2})?)\s*$"
#: Casts that may change the value: they drop fractions and times of day, and make true of every number but 0.
_CUT: Final = (
    (FractionalType, IntegralType),
    ((TimestampType, TimestampNTZType), DateType),
    (NumericType, BooleanType),
)
_WIDTH: Final = 8
_YEARS: Final = (1, 9999)
#: A test of a value whose type is no structure; None for a type of which no value can pass.
_Test = Callable[[Column, DataType], "Column | None"]


def cast_row_by_row(value: Column, have: DataType, want: DataType) -> Column:
    """A value cast to another type; null where it does not fit."""
    if have.simpleString() == want.simpleString():
        return value
    cast = in_type(value, have, want)
    if isinstance(have, StringType) and isinstance(want, TimestampType):
        return F.when(value.rlike(_WITH_OFFSET), cast)
    if any(isinstance(have, kinds) and isinstance(want, kind) for kinds, kind in _CUT):
        return F.when(cast.try_cast(have) == value, cast)
    # A decimal of scale 0 is a whole number too, so nothing may be rounded away.
    cut = rounds(value, have, want) if isinstance(want, DecimalType) and want.scale == 0 else None
    return cast if cut is None else F.when(~cut, cast)


def is_castable(have: DataType, want: DataType) -> bool:
    """Whether a cast is meaningful: a number is no instant unless its unit is known, and structures are never cast.

    Nor is a VARIANT, which may hold any type; the source's transform extracts its values.

    >>> from pyspark.sql.types import LongType
    >>> is_castable(StringType(), LongType()), is_castable(LongType(), TimestampType())
    (True, False)
    """
    if have.simpleString() == want.simpleString():
        return True
    if not (isinstance(have, AtomicType) and isinstance(want, AtomicType)) or isinstance(have, VariantType):
        return False
    times = (TimestampType, TimestampNTZType, DateType)
    if isinstance(have, NumericType) or isinstance(want, NumericType):
        other = want if isinstance(have, NumericType) else have
        return not isinstance(other, (*times, BinaryType))
    return True


def event_time(value: Column, kind: DataType, ts_unit: str | None) -> Column:
    """The event time in microseconds since 1970; null if there is none, or if it does not fit in a long."""
    if isinstance(kind, IntegralType):
        assert ts_unit is not None  # Checked at the start.
        return F.try_multiply(value.cast("long"), F.lit(UNITS[ts_unit]).cast("long"))
    if isinstance(kind, DateType):
        value = F.when(F.year(value).between(*_YEARS), value)
    return F.unix_micros(value.cast("timestamp_ltz"))


def has_time_beyond(value: Column, kind: DataType) -> Column | None:
    """Whether a value has an instant or a date outside the years 1 to 9999, at any depth; null if it has no time.

    Spark has such times, but the Python code that a record may reach does not. None if the type has no times.
    """
    return _somewhere(value, kind, _is_beyond)


def has_no_text(value: Column, kind: DataType) -> Column | None:
    """Whether a value has a text whose bytes are no valid UTF-8, at any depth; null if it has no text.

    Spark accepts such bytes, but the Python code that a record may reach does not. None if the type has no texts.
    """
    return _somewhere(value, kind, _is_no_text)


def _is_beyond(value: Column, kind: DataType) -> Column | None:
    if isinstance(kind, TimestampType):
        return ~in_range(F.unix_micros(value))
    return ~F.year(value).between(*_YEARS) if isinstance(kind, (TimestampNTZType, DateType)) else None


def _is_no_text(value: Column, kind: DataType) -> Column | None:
    return ~F.is_valid_utf8(value) if isinstance(kind, StringType) else None


def _somewhere(value: Column, kind: DataType, is_so: _Test) -> Column | None:
    """Whether a value, or anything in it, passes a test; None if nothing in the type can."""
    if isinstance(kind, StructType):
        return _any(_somewhere(value.getField(part.name), part.dataType, is_so) for part in kind.fields)
    if isinstance(kind, ArrayType):
        return _any_inside(value, kind.elementType, is_so)
    if isinstance(kind, MapType):
        keys, values = F.map_keys(value), F.map_values(value)
        return _any([_any_inside(keys, kind.keyType, is_so), _any_inside(values, kind.valueType, is_so)])
    return is_so(value, kind)


def _any(conditions: Iterable[Column | None]) -> Column | None:
    known = [condition for condition in conditions if condition is not None]
    return reduce(Column.__or__, known) if known else None


def _any_inside(values: Column, kind: DataType, is_so: _Test) -> Column | None:
    if _somewhere(F.lit(None), kind, is_so) is None:
        return None

    def holds(each: Column) -> Column:
        found = _somewhere(each, kind, is_so)
        assert found is not None
        return F.coalesce(found, F.lit(False))

    return F.exists(values, holds)


def size_of(value: Column, kind: DataType) -> Column | None:
    """The size in bytes of the texts and binaries in a value; None if its type has none, or never more than a few."""
    if isinstance(kind, (StringType, BinaryType)):
        return F.coalesce(F.octet_length(value), F.lit(0))
    if isinstance(kind, StructType):
        return total(size_of(value.getField(part.name), part.dataType) for part in kind.fields)
    if isinstance(kind, ArrayType) and size_of(value, kind.elementType) is None:
        return F.coalesce(F.size(value), F.lit(0)) * _WIDTH
    if isinstance(kind, (ArrayType, MapType, VariantType)):
        return F.coalesce(F.octet_length(F.to_json(F.struct(value.alias("v")))), F.lit(0))
    return None


def row_size(schema: StructType) -> Column | None:
    """The size in bytes of the texts and binaries in a row (of a malformed row: its text); None if it has none."""
    sizes = (size_of(F.col(quote(field.name)), field.dataType) for field in schema.fields if field.name != MALFORMED)
    known = total(sizes)
    if MALFORMED not in schema.names:
        return known
    return F.coalesce(F.octet_length(MALFORMED).cast("long"), F.lit(0).cast("long") if known is None else known)


def total(sizes: Iterable[Column | None]) -> Column | None:
    """The sum of the known sizes; None if there are none."""
    known = [size.cast("long") for size in sizes if size is not None]
    return reduce(Column.__add__, known) if known else None


def shortened(frame: DataFrame, most: int | None) -> DataFrame:
    """Rows with overlong texts and binaries cut, at any depth; a row that was too large still is.

    A batch keeps its input in memory: a few copies of a value of many megabytes would end the driver.

    Args:
        frame: Rows of a source.
        most: How many bytes a row may have; None = any number.
    """
    if most is None or named_twice(frame.columns):
        return frame  # Columns that differ only by case cannot be told apart here; they are refused later.
    fields = frame.schema.fields
    return frame.select(*(_short(F.col(quote(field.name)), field.dataType, most).alias(field.name) for field in fields))


def _short(value: Column, kind: DataType, most: int) -> Column:
    if isinstance(kind, (StringType, BinaryType)):
        # A text has at least as many bytes as characters, so the row stays too large.
        return F.when(F.octet_length(value) > most, F.substring(value, 1, most + 1)).otherwise(value)
    size = size_of(value, kind)
    if size is None or not isinstance(kind, (StructType, ArrayType, MapType)):
        return value
    # Rebuild only values that are too large.
    return F.when(size > most, _short_inside(value, kind, most)).otherwise(value)


def _short_inside(value: Column, kind: StructType | ArrayType | MapType, most: int) -> Column:
    if isinstance(kind, StructType):
        if named_twice(kind.names):
            return value
        return F.struct(*(_short(value.getField(f.name), f.dataType, most).alias(f.name) for f in kind.fields))
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda each: _short(each, kind.elementType, most))
    return F.transform_values(value, lambda _, each: _short(each, kind.valueType, most))


def cut(value: Column, kind: DataType) -> Column:
    """A value cut to the length that the rejects keep; structures become the beginning of their JSON."""
    if isinstance(kind, (StringType, BinaryType)):
        return F.substring(value, 1, KEPT)
    if isinstance(kind, (StructType, ArrayType, MapType, VariantType)):
        whole = F.to_json(F.struct(value.alias("v")), JSON_INSTANTS)
        return F.when(value.isNotNull(), F.substring(whole, len('{"v":') + 1, KEPT))
    return value


def cut_row(schema: StructType, keys: Iterable[str], misfits: Column | None = None) -> Column:
    """A raw row as JSON, in the form of the rejects: ``{"key": {...}, "value": {...}}``.

    Args:
        schema: The columns of the row.
        keys: The columns of the key.
        misfits: A text about values that do not fit, to be added; None or null = nothing.
    """
    names = list(keys)
    sides = {"key": names, "value": [name for name in schema.names if name not in names]}
    parts = {
        side: F.struct(*(cut(F.col(quote(name)), schema[name].dataType).alias(name) for name in columns))
        for side, columns in sides.items()
        if columns
    }
    if misfits is not None:
        parts["misfits"] = misfits
    return F.to_json(F.struct(*(part.alias(side) for side, part in parts.items())), JSON_INSTANTS)
