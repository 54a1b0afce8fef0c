"""Types, columns and properties as SQL text. Names are quoted, since a schema may come from an untrusted file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from versioned.identifiers import quote, text_literal

#: Options with which Spark writes instants to JSON in full; by default it stops at milliseconds.
JSON_INSTANTS: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}

#: The most digits that the whole numbers of a type have.
_DIGITS: Final[Mapping[type[DataType], int]] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}
_MORE_THAN_ANY: Final = 39


def sql_type(kind: DataType) -> str:
    """A type as DDL.

    >>> from pyspark.sql.types import LongType
    >>> sql_type(ArrayType(StructType().add("a`b", LongType())))
    'array<struct<`a``b`: bigint>>'
    >>> sql_type(TimestampType())
    'timestamp_ltz'
    """
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quote(field.name)}: {sql_type(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    # Plain "timestamp" depends on the session, and may mean one without a time zone.
    return "timestamp_ltz" if isinstance(kind, TimestampType) else kind.simpleString()


def nullable(kind: DataType) -> DataType:
    """The same type where anything in it may be null.

    >>> from pyspark.sql.types import LongType
    >>> nullable(StructType().add("id", LongType(), nullable=False)).simpleString()
    'struct<id:bigint>'
    """
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, nullable(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, nullable(kind.valueType))
    return kind


def holds(kind: DataType, given: DataType) -> bool:
    """Whether a column of one type holds each value of another type unchanged: the same type, or a wider number.

    >>> holds(LongType(), IntegerType()), holds(IntegerType(), LongType()), holds(DoubleType(), LongType())
    (True, False, False)
    >>> holds(DecimalType(12, 2), DecimalType(10, 2)), holds(DecimalType(12, 2), DecimalType(12, 1))
    (True, False)
    >>> holds(ArrayType(StructType().add("n", LongType())), ArrayType(StructType().add("n", ShortType())))
    True
    """
    if isinstance(kind, StructType) and isinstance(given, StructType):
        pairs = zip(kind.fields, given.fields, strict=False)
        return kind.names == given.names and all(holds(one.dataType, other.dataType) for one, other in pairs)
    if isinstance(kind, ArrayType) and isinstance(given, ArrayType):
        return holds(kind.elementType, given.elementType)
    if isinstance(kind, MapType) and isinstance(given, MapType):
        return holds(kind.keyType, given.keyType) and holds(kind.valueType, given.valueType)
    if isinstance(kind, DecimalType):
        digits, scale = _DIGITS.get(type(given), _MORE_THAN_ANY), 0
        if isinstance(given, DecimalType):
            digits, scale = given.precision, given.scale
        return scale <= kind.scale and digits - scale <= kind.precision - kind.scale
    if type(kind) in _DIGITS and type(given) in _DIGITS:
        return _DIGITS[type(kind)] >= _DIGITS[type(given)]
    return kind == given or (isinstance(kind, DoubleType) and isinstance(given, FloatType))


def kinds_in(kind: DataType) -> Iterator[DataType]:
    """A type and all types nested in it.

    >>> [inner.typeName() for inner in kinds_in(ArrayType(StructType().add("a", StringType())))]
    ['array', 'struct', 'string']
    """
    yield kind
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from kinds_in(field.dataType)
    elif isinstance(kind, ArrayType):
        yield from kinds_in(kind.elementType)
    elif isinstance(kind, MapType):
        yield from kinds_in(kind.keyType)
        yield from kinds_in(kind.valueType)


def has_order(kind: DataType) -> bool:
    """Whether Spark can sort by values of a type.

    >>> has_order(ArrayType(StringType())), has_order(ArrayType(VariantType()))
    (True, False)
    """
    return not any(isinstance(inner, (MapType, VariantType, CalendarIntervalType)) for inner in kinds_in(kind))


def nullable_columns(columns: StructType) -> dict[str, DataType]:
    """The type of each column by its lower-case name, made nullable throughout."""
    return {field.name.lower(): nullable(field.dataType) for field in columns.fields}


def is_collated(kind: DataType) -> bool:
    """Whether texts of a type are compared by a collation, not by their bytes.

    >>> is_collated(StringType("UTF8_LCASE")), is_collated(StringType())
    (True, False)
    """
    # The subclasses, CHAR and VARCHAR, never equal plain text.
    return type(kind) is StringType and kind != StringType()


def sql_columns(columns: StructType) -> str:
    """Columns as in CREATE TABLE.

    >>> from pyspark.sql.types import LongType
    >>> sql_columns(StructType().add("id", LongType(), nullable=False).add("a b", LongType()))
    '`id` bigint NOT NULL, `a b` bigint'
    """
    return ", ".join(
        f"{quote(field.name)} {sql_type(field.dataType)}{'' if field.nullable else ' NOT NULL'}"
        for field in columns.fields
    )


def sql_properties(properties: Mapping[str, str]) -> str:
    """Table properties as in CREATE TABLE.

    >>> sql_properties({"a": "1"})
    "TBLPROPERTIES ('a' = '1')"
    """
    pairs = ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in properties.items())
    return f"TBLPROPERTIES ({pairs})"
