"""Hashes of rows: rows that differ have other ones, wherever their nulls stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import Column
from pyspark.sql.types import ArrayType, AtomicType, BinaryType, DataType, MapType, StructType, VariantType

from versioned import spark_functions as F
from versioned.identifiers import named_twice
from versioned.sql_types import JSON_INSTANTS


def row_hash(values: Iterable[tuple[Column, DataType]], *before: str) -> Column:
    """The hash of a row, a long.

    Spark's hash passes over nulls: (1, null) and (null, 1) would have the same. So it is told where there is one. Of
    maps and variants, which it does not take, and of arrays it is told the JSON.

    Args:
        values: The row's values with their types.
        before: Columns of single values that come first, as they are.
    """
    return F.xxhash64(*before, *(part for value, kind in values for part in _parts(value, kind)))


def _parts(value: Column, kind: DataType) -> Iterator[Column]:
    if isinstance(kind, StructType) and not named_twice(kind.names):
        yield value.isNull()
        for field in kind.fields:
            yield from _parts(value.getField(field.name), field.dataType)
    elif isinstance(kind, AtomicType) and not isinstance(kind, VariantType):
        yield from (value, value.isNull())
    else:
        yield F.to_json(F.struct(_in_json(value, kind).alias("v")), JSON_INSTANTS)


def _in_json(value: Column, kind: DataType) -> Column:
    """A value of which JSON tells everything: maps whose keys it would name by where they lie in memory as entries."""
    if not _has_keys_by_address(kind):
        return value
    if isinstance(kind, MapType):
        key, held = kind.keyType, kind.valueType
        return F.transform(F.map_entries(value), lambda each: _entry(each, key, held))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda each: _in_json(each, element))
    fields = kind.fields if isinstance(kind, StructType) else []
    told = F.struct(*(_in_json(value.getField(field.name), field.dataType).alias(field.name) for field in fields))
    return F.when(value.isNotNull(), told)


def _entry(each: Column, key: DataType, held: DataType) -> Column:
    parts = _in_json(each.getField("key"), key), _in_json(each.getField("value"), held)
    return F.struct(parts[0].alias("key"), parts[1].alias("value"))


def _has_keys_by_address(kind: DataType) -> bool:
    """Whether JSON would tell the key of a map, however deep, as an object of Java's: bytes, or what has parts."""
    if isinstance(kind, MapType):
        is_whole = isinstance(kind.keyType, AtomicType) and not isinstance(kind.keyType, BinaryType)
        return not is_whole or _has_keys_by_address(kind.valueType)
    if isinstance(kind, ArrayType):
        return _has_keys_by_address(kind.elementType)
    return (
        isinstance(kind, StructType)
        and not named_twice(kind.names)
        and any(_has_keys_by_address(field.dataType) for field in kind.fields)
    )
