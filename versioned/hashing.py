"""What of a row goes into a hash of it, so that rows that differ have other hashes."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, DataType, StructType, VariantType


def hash_parts(value: Column, kind: DataType) -> Iterator[Column]:
    """What of a value goes into a hash of its row, so that other values give another one.

    Spark's hash passes over nulls: (1, null) and (null, 1) would have the same. So it is told where there is one. Of
    maps and variants, which it does not take, and of arrays it is told the JSON.

    Args:
        value: The value.
        kind: Its type.
    """
    if isinstance(kind, StructType) and len({name.lower() for name in kind.names}) == len(kind.names):
        yield value.isNull()
        for field in kind.fields:
            yield from hash_parts(value.getField(field.name), field.dataType)
    elif isinstance(kind, AtomicType) and not isinstance(kind, VariantType):
        yield from (value, value.isNull())
    else:
        yield F.to_json(F.struct(value.alias("v")))
