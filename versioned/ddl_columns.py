"""The columns that a DDL text declares, as far as they can be parsed without Spark.

Only Spark parses DDL in full. Text that is not understood here, or that may mean something else in another session, is
reported as unknown, never guessed: :func:`versioned.schema.columns_of` asks Spark.
"""

from __future__ import annotations

from typing import Final

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
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from versioned.ddl_kinds import Array, Kind, Map, Struct, fields_if_known

_PLAIN: Final[dict[str, DataType]] = {
    "bigint": LongType(), "binary": BinaryType(), "boolean": BooleanType(), "byte": ByteType(), "date": DateType(),
    "double": DoubleType(), "float": FloatType(), "int": IntegerType(), "integer": IntegerType(), "long": LongType(),
    "real": FloatType(), "short": ShortType(), "smallint": ShortType(), "string": StringType(),
    "timestamp": TimestampType(), "timestamp_ltz": TimestampType(), "timestamp_ntz": TimestampNTZType(),
    "tinyint": ByteType(), "variant": VariantType(), "void": NullType(),
}  # fmt: skip


def columns_if_known(ddl: str) -> StructType | None:
    """The columns that DDL names; None if only Spark can tell whether it names any, and which.

    Args:
        ddl: Columns with their types, or one struct of them.

    >>> columns_if_known("id STRING NOT NULL, tags array<string>, `unit price` DECIMAL(9, 2)").names
    ['id', 'tags', 'unit price']
    >>> columns_if_known("id STRING, length INTERVAL DAY TO SECOND") is None
    True
    """
    fields = fields_if_known(ddl)
    return None if fields is None else _columns(fields)


def _columns(struct: Struct) -> StructType:
    return StructType([StructField(name, _type(kind)) for name, kind in struct.fields])


def _type(kind: Kind) -> DataType:
    if isinstance(kind, Struct):
        return _columns(kind)
    if isinstance(kind, Array):
        return ArrayType(_type(kind.part))
    if isinstance(kind, Map):
        return MapType(_type(kind.key), _type(kind.part))
    if kind.word == "decimal":
        return DecimalType(*kind.sizes)
    return VarcharType(*kind.sizes) if kind.word == "varchar" else _PLAIN[kind.word]
