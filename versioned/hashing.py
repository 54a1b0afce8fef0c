"""Hashes of rows: rows that differ have other ones, wherever their nulls stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import Column
from pyspark.sql.types import AtomicType, DataType, StructType, VariantType

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
        yield F.to_json(F.struct(value.alias("v")), JSON_INSTANTS)
