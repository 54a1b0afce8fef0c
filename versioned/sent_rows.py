"""Whether the rows that ask go to every task, so that only versions are moved which one of them finds.

A join moves and sorts all versions of a table, however few of them are found. Sending the keys and instants that are
asked for leaves the others where they lie; but what is asked for is read twice then, and must not differ in between.
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
#: Of the keys that are sent: a million of them with 64 letters each.
MOST_BYTES: Final = 64 * 2**20
#: Some two million versions: sending a million rows takes about as long as moving and sorting so many.
LARGE_BYTES: Final = 64 * 2**20
_FIXED: Final = (NumericType, BooleanType, DateType, TimestampType, TimestampNTZType)
#: A decimal of 38 digits.
_WIDEST: Final = 16


def sends(frame: DataFrame, target: TableRef, keys: Sequence[str]) -> bool:
    """Whether rows are sent to look them up: those of a frame that is persisted, if they are few for a large table.

    Rows that are not persisted may differ when they are read once more (a sample, a database that others write to), and
    would find nothing then, without a word. So may those that are in memory alone, which Spark may drop.

    Args:
        frame: The rows.
        target: The table.
        keys: Its key columns, which the frame has too.
    """
    return frame.storageLevel.useDisk and pays(frame, target, keys)


def pays(frame: DataFrame, target: TableRef, keys: Sequence[str]) -> bool:
    """Whether sending rows takes less time than moving the versions of a table.

    Args:
        frame: The rows, which stay the same; counted, for one job, if the table is large.
        target: The table.
        keys: The key columns by which the frame calls them, in whatever case.
    """
    size_bytes = of_detail(detail_of(frame.sparkSession, target)).size_bytes
    return size_bytes >= LARGE_BYTES and are_few(frame, keys)


def are_few(frame: DataFrame, keys: Sequence[str]) -> bool:
    """Whether rows and their keys are few enough for every task: one job. Never where keys are of nested types.

    Args:
        frame: The rows.
        keys: The key columns, in whatever case.
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
    """How many bytes a value has, at most; None = nobody can tell without looking into it."""
    if isinstance(kind, _FIXED):
        return F.lit(_WIDEST)
    return F.coalesce(F.octet_length(quote(name)), F.lit(0)) if isinstance(kind, (StringType, BinaryType)) else None
