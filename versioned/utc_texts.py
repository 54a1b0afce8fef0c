"""Instants as UTC text, for rows that are collected for display.

Python receives a TIMESTAMP in the time zone of its process. If a clock shows an hour twice, both become one; and in the
year 1 there may be no such instant.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from versioned import spark_functions as F
from versioned.sql_types import kinds_in

_DAY_US: Final = 86_400_000_000


def in_utc(value: Column, kind: DataType) -> Column:
    """A value with all instants in it, at any depth, as texts in UTC; a value without instants is unchanged.

    Args:
        value: Of any type.
        kind: Its type.
    """
    if isinstance(kind, TimestampType):
        return _text(value)
    if not _has_instants(kind):
        return value
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda one: in_utc(one, kind.elementType))
    if isinstance(kind, MapType):
        told = F.transform_keys(value, lambda key, _: in_utc(key, kind.keyType))
        return F.transform_values(told, lambda _, one: in_utc(one, kind.valueType))
    fields = kind.fields if isinstance(kind, StructType) else []
    parts = (in_utc(value.getField(field.name), field.dataType).alias(field.name) for field in fields)
    return F.when(value.isNotNull(), F.struct(*parts))


def _has_instants(kind: DataType) -> bool:
    return any(isinstance(inner, TimestampType) for inner in kinds_in(kind))


def _text(at: Column) -> Column:
    # A cast to text or to TIMESTAMP_NTZ would use the session's time zone. Days and seconds are separate, since an
    # interval takes no more than 12 digits of seconds: 30,000 years, and a TIMESTAMP may be 290,000 years from 1970.
    us = F.unix_micros(at)
    rest = us % F.lit(_DAY_US)
    days = F.round((us - rest) / F.lit(_DAY_US)).cast("int")
    seconds = (rest.cast("decimal(18,0)") / F.lit(1_000_000)).cast("decimal(18,6)")
    none = F.lit(0)
    return (F.expr("TIMESTAMP_NTZ '1970-01-01'") + F.make_dt_interval(days, none, none, seconds)).cast("string")
