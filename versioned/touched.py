"""Which rows a put replaces: all current ones, or those of the keys that it touches.

Replacing all current rows costs as much as there are, however few records came. A table with deletion vectors, in which
Delta marks single rows as removed, lets a small batch replace the rows of its own keys instead. What it leaves behind,
small files and marked rows, makes reading slower, so from time to time a put replaces all current rows again.

The keys are named in the predicate of the write by a hash: a text that any key type has, and short enough for Delta's
log, which keeps it. Rows of another key with the same hash are written again as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from versioned import spark_functions as F
from versioned.identifiers import quote
from versioned.spec import VersionedTableSpec
from versioned.table_log import own_details

#: Delta's own property of a table in which single rows can be marked as removed.
DELETION_VECTORS: Final = "delta.enableDeletionVectors"
#: The feature of a table in which there may be such rows: it stays when the property is switched off.
MARKED_ROWS: Final = "deletionVectors"
#: Keys of more records are not named: the log keeps about ten bytes for each, and Spark reads them. A MERGE finds them.
MOST_NAMED: Final = 10_000
#: With fewer current rows for each record all of them are replaced; a MERGE takes longer than replacing, and is only
#: worth what it does not write.
ROWS_PER_NAMED: Final = 50
ROWS_PER_MERGED: Final = 100
#: All are replaced again after one put for each so many rows, so many puts at most, and once records for a part of the
#: rows came. The small files of a put, and the marks, take 0.02 to 0.03 s to read, which is to be little of the whole.
ROWS_PER_PUT: Final = 250_000
MOST_IN_A_ROW: Final = 100
MOST_TOUCHED: Final = 0.25
_DETAIL: Final = "currentRows"
_HASHES: Final = 2**30


@dataclass(frozen=True)
class CurrentRows:
    """The current rows of a table, as its newest put tells.

    Args:
        written: How many rows were written when all of them were replaced last; closed ones may have been among them.
        records: How many records were put since, only their keys' rows being replaced.
        puts: In how many puts.
    """

    written: int
    records: int = 0
    puts: int = 0

    def after(self, records: int) -> CurrentRows | None:
        """The same after a put that writes rows of its own keys only; None if it had better replace all.

        >>> CurrentRows(10**6).after(9_000), CurrentRows(10**6).after(12_000)
        (CurrentRows(written=1000000, records=9000, puts=1), None)
        >>> CurrentRows(10**6, records=245_000, puts=3).after(9_000), CurrentRows(10**6, puts=4).after(1)
        (None, None)
        """
        is_small = records * (ROWS_PER_NAMED if records <= MOST_NAMED else ROWS_PER_MERGED) <= self.written
        after = CurrentRows(self.written, self.records + records, self.puts + 1)
        is_early = after.puts <= min(MOST_IN_A_ROW, self.written // ROWS_PER_PUT)
        return after if is_small and is_early and after.records <= MOST_TOUCHED * self.written else None

    @property
    def details(self) -> dict[str, Any]:
        """What the put's commit says of it."""
        return {_DETAIL: {"written": self.written, "records": self.records, "puts": self.puts}}


def replaced(before: CurrentRows | None = None) -> Mapping[str, Any]:
    """What a put says that replaces all: nothing, since the metrics of its commit tell how many there were.

    Args:
        before: Where its commit counts other rows too, what was told before it, which is about as many.
    """
    return {_DETAIL: {}} if before is None else CurrentRows(before.written).details


def current_rows(commits: Iterable[Row | Mapping[str, Any]]) -> CurrentRows | None:
    """What the newest put among some commits, newest first, tells of the current rows; None if none tells.

    Args:
        commits: Their ``operation``, ``userMetadata`` and ``operationMetrics``.

    >>> said = '{"versioned": {}, "details": {"currentRows": {}}}'
    >>> current_rows([{"operation": "WRITE", "userMetadata": said, "operationMetrics": {"numOutputRows": "12"}}])
    CurrentRows(written=12, records=0, puts=0)
    """
    for row in commits:
        told = (own_details(row) or {}).get("details", {}).get(_DETAIL)
        if told is not None:
            return CurrentRows(**told) if told else _all_replaced(row["operationMetrics"] or {})
    return None


def _all_replaced(metrics: Mapping[str, str]) -> CurrentRows | None:
    """What a put wrote that replaced all: the current rows, and the closed ones of the time of late records."""
    if "numOutputRows" not in metrics:
        return None
    # Of a file in which rows were marked Delta counts the others as written, and as copied.
    return CurrentRows(int(metrics["numOutputRows"]) - int(metrics.get("numCopiedRows", 0)))


def key_columns(rows: DataFrame, spec: VersionedTableSpec) -> StructType:
    """The key columns of a table's rows, with the types that they have there."""
    return StructType([field for field in rows.schema.fields if field.name in spec.keys])


def can_be_named(kind: DataType) -> bool:
    """Whether values of a type that are equal always have the same hash: not so texts that are equal in another case.

    >>> can_be_named(StringType()), can_be_named(ArrayType(StringType("UTF8_LCASE")))
    (True, False)
    """
    if isinstance(kind, StructType):
        return all(can_be_named(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return can_be_named(kind.elementType)
    plain = (IntegralType, DecimalType, BooleanType, BinaryType, DateType, TimestampType, TimestampNTZType)
    return kind == StringType() or isinstance(kind, plain)


def hashes(records: DataFrame, keys: StructType) -> set[int]:
    """The hashes of the keys of a few records: one Spark job.

    Args:
        records: They have the key columns.
        keys: The key columns, with the types that the table has for them.
    """
    cast = records.select(*(F.col(quote(key.name)).cast(key.dataType).alias(key.name) for key in keys.fields))
    return {row["hash"] for row in cast.select(F.expr(_hash(keys.names)).alias("hash")).distinct().collect()}


def named(keys: Iterable[str], found: Collection[int]) -> str:
    """The rows whose keys have one of these hashes, as SQL.

    >>> named(["id"], {7, 3})
    'pmod(xxhash64(`id`), 1073741824) IN (3, 7)'
    """
    return f"{_hash(keys)} IN ({', '.join(map(str, sorted(found)))})"


def _hash(keys: Iterable[str]) -> str:
    return f"pmod(xxhash64({', '.join(map(quote, keys))}), {_HASHES})"
