"""Matches the keys of a frame to the keys of a table: compared exactly, or refused.

If two types differ, ``==`` converts both to a third one, in which one key may equal several keys of the table, or a key
may be unreadable. So the keys that are asked for are converted to the table's type instead: each becomes one key or
none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from versioned import spark_functions as F
from versioned.casting import harm_of
from versioned.errors import SchemaError
from versioned.frame_checks import check_once, refuse_lacking
from versioned.identifiers import quote
from versioned.spec import VersionedTableSpec
from versioned.sql_types import nullable

_WHAT: Final = "looked-up rows"
#: Within a group, a value of one type is the same value in another, or none. Times without a zone are in the session's.
_GROUPS: Final[tuple[tuple[type[DataType], ...], ...]] = (
    (StringType, CharType, VarcharType),
    (IntegralType, DecimalType),
    (DateType, TimestampType, TimestampNTZType),
)


def exactly_as(value: Column, own: DataType, kind: DataType) -> Column:
    """A value cast to another type; null where that has no exactly equal value."""
    # Spark does not cast nullable values to a type that is not nullable.
    told = value.try_cast(nullable(kind))
    if own.simpleString() == kind.simpleString():
        return told
    return F.when(told.try_cast(nullable(own)) == value, told)


def asked_keys(asked: DataFrame, rows: DataFrame, spec: VersionedTableSpec, alias: str = "") -> dict[str, Column]:
    """The keys that a frame asks for, under the names and in the types of the table's key columns.

    Args:
        asked: The frame; it has the key columns, in any letter case.
        rows: Rows of the table.
        spec: The table.
        alias: Qualifier of the frame's columns, such as ``a.``.

    Raises:
        SchemaError: a key column is missing, twice, or of a type that cannot be compared exactly with the table's.
    """
    check_asked(asked, spec.keys)
    check_once(asked, spec.keys, _WHAT)
    given = {field.name.lower(): field for field in asked.schema.fields}
    kinds = rows.schema
    keys = {}
    for name in spec.keys:
        own, kind = given[name.lower()].dataType, kinds[name].dataType
        # Spelled as in the frame: the session may be case-sensitive.
        value = F.col(f"{alias}{quote(given[name.lower()].name)}")
        if isinstance(own, NullType):
            keys[name] = value.cast(kind)
            continue
        if not _is_exact(own, kind):
            why = harm_of(own, kind) or f"one key could equal several, or none. Make it {kind.simpleString()} first."
            raise SchemaError(
                f'The looked-up rows have the key "{name}" as {own.simpleString()}, the table as '
                f"{kind.simpleString()}: {why}"
            )
        keys[name] = value if own == kind else exactly_as(value, own, kind)
    return keys


def check_asked(asked: DataFrame, keys: Iterable[str], *others: str) -> None:
    """Refuse a frame that lacks a key column (in any letter case) or one of the other columns (as spelled).

    Raises:
        SchemaError: names the missing columns and the existing ones.
    """
    there = {name.lower() for name in asked.columns}
    missing = [name for name in keys if name.lower() not in there]
    missing += [name for name in others if name not in asked.columns]
    refuse_lacking(asked, missing, _WHAT)


def _is_exact(own: DataType, kind: DataType) -> bool:
    """Whether each value of one type is exactly one value of the other type, or none."""
    if nullable(own).simpleString() == nullable(kind).simpleString():
        return True
    if harm_of(own, kind) is not None:
        return False
    if isinstance(own, StructType) and isinstance(kind, StructType):
        pairs = zip(own.fields, kind.fields, strict=True)
        return all(_is_exact(mine.dataType, other.dataType) for mine, other in pairs)
    if isinstance(own, ArrayType) and isinstance(kind, ArrayType):
        return _is_exact(own.elementType, kind.elementType)
    return any(isinstance(own, group) and isinstance(kind, group) for group in _GROUPS)
