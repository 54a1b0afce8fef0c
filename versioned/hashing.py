"""Hashes of rows, such that the position of a null counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import Column
from pyspark.sql.types import ArrayType, AtomicType, BinaryType, DataType, MapType, StructType, VariantType

from versioned import spark_functions as F
from versioned.identifiers import named_twice
from versioned.sql_types import JSON_INSTANTS


def row_hash(values: Iterable[tuple[Column, DataType]], *before: str) -> Column:
    """The hash of a row, a long.

    Spark's hash skips nulls: (1, null) and (null, 1) would have the same hash. So whether each value is null is hashed
    too. Maps and variants, which Spark does not hash, and arrays are hashed as JSON.

    Args:
        values: The row's values with their types.
        before: Scalar columns that come first, as they are.
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
    """A value that JSON shows in full: maps whose keys it would write as memory addresses become lists of entries."""
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
    """Whether a map, however deep, has keys that JSON would write as the address of a Java object: binary or nested."""
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
