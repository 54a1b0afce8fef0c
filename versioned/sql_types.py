"""Types as SQL text, with the names of nested fields quoted: a schema may come from a file of anybody's."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from versioned.identifiers import quote


def sql_type(kind: DataType) -> str:
    """A type as DDL has it.

    >>> from pyspark.sql.types import LongType
    >>> sql_type(ArrayType(StructType().add("a`b", LongType())))
    'array<struct<`a``b`: bigint>>'
    """
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quote(field.name)}: {sql_type(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return kind.simpleString()
