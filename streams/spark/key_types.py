"""Keys of the two sides of a join on Spark: matched by position, whatever their field names and widths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, ShortType, StringType, StructType

from streams.field_checks import key_fault
from streams.spark.flow import KEY
from versioned import spark_functions as F
from versioned.asked_keys import exactly_as
from versioned.errors import ConfigurationError
from versioned.identifiers import quote

_WIDER: Final[tuple[type[DataType], ...]] = (ByteType, ShortType, IntegerType, LongType)


def key_as(frame: DataFrame, kind: DataType, name: str = KEY) -> Column:
    """The key of a frame's rows in the type of another side's keys; different keys stay different.

    A part that does not fit the other type becomes null, which equals no key there: a large number on a side of wider
    numbers must not end the application, and the text "01" is not the number 1.

    Args:
        frame: The rows.
        kind: The type of the other side's keys.
        name: The column of the key.
    """
    own = frame.schema[name].dataType
    assert isinstance(own, StructType)
    assert isinstance(kind, StructType)
    check_matched(own.names, kind.names)
    pairs = zip(own.fields, kind.fields, strict=True)
    parts = [
        exactly_as(F.col(name).getField(mine.name), mine.dataType, other.dataType).alias(other.name)
        for mine, other in pairs
    ]
    return F.when(F.col(name).isNotNull(), F.struct(*parts))


def with_keys_as(frame: DataFrame, keys: Sequence[str], other: DataFrame, other_keys: Sequence[str]) -> DataFrame:
    """Rows with key columns in the types of another side's, as :func:`key_as`; without rows whose keys do not fit.

    Args:
        frame: The rows; returned unchanged if the types are the same.
        keys: Their key columns.
        other: The other side.
        other_keys: Its key columns, in the same order.
    """
    check_matched(keys, other_keys)
    own, kinds = frame.schema, [other.schema[name].dataType for name in other_keys]
    parts = {
        name: exactly_as(F.col(quote(name)), own[name].dataType, kind)
        for name, kind in zip(keys, kinds, strict=True)
        if own[name].dataType != kind
    }
    rows = frame.withColumns(parts) if parts else frame
    for name in parts:
        rows = rows.where(F.col(quote(name)).isNotNull())
    return rows


def without_order(key: object, kind: DataType) -> str:
    """The error message for a key whose type contains maps or variants."""
    return (
        f"A key {key!r:.80} would be {kind.simpleString()}, and maps and variants have no exact equality. Take "
        'one of their values, such as value.tags["size"], or cast it to a string.'
    )


def check_matched(names: Sequence[str], others: Sequence[str]) -> None:
    """Refuse keys that cannot be matched by position, where the plan alone did not show it.

    Raises:
        ConfigurationError: one key has more fields, or both have the same fields in another order.

    >>> check_matched(["origin"], ["airport"])
    """
    fault = key_fault(names, others)
    if fault is not None:
        raise ConfigurationError(f"The key ({', '.join(names)}) is looked up in ({', '.join(others)}). {fault}")


def check_outer_keys(node: str, left: DataType, right: DataType) -> None:
    """Refuse an outer join whose results could not represent all keys of its right side.

    Args:
        node: The join, whose results have keys of the left side's type.
        left: The type of the left side's keys.
        right: The type of the right side's keys.

    Raises:
        ConfigurationError: some keys of the right side's type do not fit the left side's.
    """
    assert isinstance(left, StructType)
    assert isinstance(right, StructType)
    check_matched(left.names, right.names)
    for mine, other in zip(left.fields, right.fields, strict=True):
        if not _holds(mine.dataType, other.dataType):
            raise ConfigurationError(
                f'The results of "{node}" have the keys of its left side, where "{mine.name}" is '
                f'{mine.dataType.simpleString()}; "{other.name}" of the right side is '
                f"{other.dataType.simpleString()}, so that its unmatched rows may have no key there. Cast one of them "
                "in its source's transform."
            )


def _holds(mine: DataType, other: DataType) -> bool:
    if type(mine) in _WIDER and type(other) in _WIDER:
        return _WIDER.index(type(mine)) >= _WIDER.index(type(other))
    return isinstance(mine, StringType) or mine.simpleString() == other.simpleString()
