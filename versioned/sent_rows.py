"""Whether to broadcast the rows that a lookup asks for, so that only matching versions are moved.

A join moves and sorts all versions of a table, however few of them match. If the keys and instants that are asked for
are broadcast, the other versions stay where they are. But the asking rows are then read twice, and must not differ in
between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from versioned import spark_functions as F
from versioned.identifiers import TableRef, quote
from versioned.table_details import detail_of
from versioned.written import of_detail

MOST_SENT: Final = 1_000_000
#: The most bytes of the keys that are sent: a million keys of 64 letters each.
MOST_BYTES: Final = 64 * 2**20
#: Some two million versions: moving and sorting these takes about as long as sending a million rows.
LARGE_BYTES: Final = 64 * 2**20
_FIXED: Final = (NumericType, BooleanType, DateType, TimestampType, TimestampNTZType)
#: A decimal of 38 digits.
_WIDEST: Final = 16


def sends(frame: DataFrame, target: TableRef, keys: Sequence[str]) -> bool:
    """Whether to send the rows of a lookup: if they are few, persisted (not in memory only), and the table is large.

    Rows that are not persisted may differ when they are read a second time (a sample, a database that others write to)
    and would then silently find nothing. So may rows persisted in memory only, which Spark may drop.

    Args:
        frame: The rows.
        target: The table.
        keys: Its key columns, which the frame has too.
    """
    return frame.storageLevel.useDisk and pays(frame, target, keys)


def pays(frame: DataFrame, target: TableRef, keys: Sequence[str]) -> bool:
    """Whether sending rows takes less time than moving the versions of a table.

    Args:
        frame: The rows, which must not change; if the table is large, one job counts them.
        target: The table.
        keys: The key columns as the frame names them, in any letter case.
    """
    size_bytes = of_detail(detail_of(frame.sparkSession, target)).size_bytes
    return size_bytes >= LARGE_BYTES and are_few(frame, keys)


def are_few(frame: DataFrame, keys: Sequence[str]) -> bool:
    """Whether rows are few and their keys small enough to be sent to every task: one job. Never if keys are nested.

    Args:
        frame: The rows.
        keys: The key columns, in any letter case.
    """
    kinds = {field.name.lower(): (field.name, field.dataType) for field in frame.schema.fields}
    widths = [_width(*kinds[key.lower()]) for key in keys]
    known = [width for width in widths if width is not None]
    if len(known) < len(widths):
        return False
    width = sum(known, F.lit(0))
    told = frame.agg(F.count("*").alias("rows"), F.sum(width).alias("bytes")).collect()[0]
    return told["rows"] <= MOST_SENT and (told["bytes"] or 0) <= MOST_BYTES


def _width(name: str, kind: DataType) -> Column | None:
    """The most bytes that a value of a column has; None for other types, such as nested ones."""
    if isinstance(kind, _FIXED):
        return F.lit(_WIDEST)
    return F.coalesce(F.octet_length(quote(name)), F.lit(0)) if isinstance(kind, (StringType, BinaryType)) else None
