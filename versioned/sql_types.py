"""Types, columns and properties as SQL text; names are quoted: a schema may come from a file of anybody's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from versioned.identifiers import quote, text_literal

#: How Spark writes instants into JSON so that none is cut: by itself it ends at milliseconds.
JSON_INSTANTS: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}


def sql_type(kind: DataType) -> str:
    """A type as DDL has it.

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
    # Plain "timestamp" is what the session says it is, which may be one without a time zone.
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


def kinds_in(kind: DataType) -> Iterator[DataType]:
    """A type, and the types of all that is in it.

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
    """The type of each column, by its name in small letters, where anything may be null."""
    return {field.name.lower(): nullable(field.dataType) for field in columns.fields}


def is_collated(kind: DataType) -> bool:
    """Whether texts of a type are equal by a collation, not by their bytes.

    >>> is_collated(StringType("UTF8_LCASE")), is_collated(StringType())
    (True, False)
    """
    # A subclass, CHAR or VARCHAR, is never equal to a plain text.
    return type(kind) is StringType and kind != StringType()


def sql_columns(columns: StructType) -> str:
    """Columns as CREATE TABLE has them.

    >>> from pyspark.sql.types import LongType
    >>> sql_columns(StructType().add("id", LongType(), nullable=False).add("a b", LongType()))
    '`id` bigint NOT NULL, `a b` bigint'
    """
    return ", ".join(
        f"{quote(field.name)} {sql_type(field.dataType)}{'' if field.nullable else ' NOT NULL'}"
        for field in columns.fields
    )


def sql_properties(properties: Mapping[str, str]) -> str:
    """Table properties as CREATE TABLE has them.

    >>> sql_properties({"a": "1"})
    "TBLPROPERTIES ('a' = '1')"
    """
    pairs = ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in properties.items())
    return f"TBLPROPERTIES ({pairs})"
