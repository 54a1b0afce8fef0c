"""Which rows a put replaces: all current ones, or only those of the keys that it touches.

Replacing all current rows costs as much as there are, however few records arrive. In a table with deletion vectors,
Delta can mark single rows as removed, so a small batch can replace only the rows of its own keys. It leaves small files
and marked rows behind, which make reading slower, so from time to time a put replaces all current rows again.

The predicate of the write names the keys by a hash: a text that exists for any key type, and that is short enough for
Delta's log, which keeps it. Rows of another key with the same hash are rewritten unchanged.
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
#: The table feature that such rows may exist; it stays when the property is switched off.
MARKED_ROWS: Final = "deletionVectors"
#: Keys of more records are not named: the log keeps about ten bytes for each, and Spark parses them. A MERGE is used.
MOST_NAMED: Final = 10_000
#: With fewer current rows per record, all of them are replaced. A MERGE takes longer than replacing the same rows, and
#: pays only through the rows that it does not write.
ROWS_PER_NAMED: Final = 50
ROWS_PER_MERGED: Final = 100
#: All current rows are replaced again after one put per ROWS_PER_PUT rows, after MOST_IN_A_ROW puts, and once the
#: records make up MOST_TOUCHED of the rows. The small files and marks of one put take 0.02 to 0.03 s to read, which
#: must remain a small part of the whole.
ROWS_PER_PUT: Final = 250_000
MOST_IN_A_ROW: Final = 100
MOST_TOUCHED: Final = 0.25
_DETAIL: Final = "currentRows"
_HASHES: Final = 2**30


@dataclass(frozen=True)
class CurrentRows:
    """What the newest put says of a table's current rows.

    Args:
        written: How many rows were written when all were last replaced; closed ones may have been among them.
        records: How many records were put since, each put replacing only the rows of its keys.
        puts: The number of these puts.
    """

    written: int
    records: int = 0
    puts: int = 0

    def after(self, records: int) -> CurrentRows | None:
        """The same after a put that replaces only rows of its own keys; None if the put should replace all.

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
        """The details for the commit of the put."""
        return {_DETAIL: {"written": self.written, "records": self.records, "puts": self.puts}}


def replaced(before: CurrentRows | None = None) -> Mapping[str, Any]:
    """The details of a put that replaces all rows: empty, since the metrics of its commit have their number.

    Args:
        before: What the put before said; used if the commit counts other rows too, since it is about as many.
    """
    return {_DETAIL: {}} if before is None else CurrentRows(before.written).details


def current_rows(commits: Iterable[Row | Mapping[str, Any]]) -> CurrentRows | None:
    """What the newest put among some commits, newest first, says of the current rows; None if none says anything.

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
    """What a put wrote that replaced all: the current rows, and the closed ones that its late records reached."""
    if "numOutputRows" not in metrics:
        return None
    # When Delta rewrites a file with marked rows, it counts the other rows as written and as copied.
    return CurrentRows(int(metrics["numOutputRows"]) - int(metrics.get("numCopiedRows", 0)))


def key_columns(rows: DataFrame, spec: VersionedTableSpec) -> StructType:
    """The key columns of a table's rows, with their types."""
    return StructType([field for field in rows.schema.fields if field.name in spec.keys])


def can_be_named(kind: DataType) -> bool:
    """Whether equal values of a type always have the same hash: not texts that are equal in another letter case.

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
        records: Records with the key columns.
        keys: The key columns, with the table's types.
    """
    cast = records.select(*(F.col(quote(key.name)).cast(key.dataType).alias(key.name) for key in keys.fields))
    return {row["hash"] for row in cast.select(F.expr(_hash(keys.names)).alias("hash")).distinct().collect()}


def named(keys: Iterable[str], found: Collection[int]) -> str:
    """The condition, as SQL, for rows whose keys have one of these hashes.

    >>> named(["id"], {7, 3})
    'pmod(xxhash64(`id`), 1073741824) IN (3, 7)'
    """
    return f"{_hash(keys)} IN ({', '.join(map(str, sorted(found)))})"


def _hash(keys: Iterable[str]) -> str:
    return f"pmod(xxhash64({', '.join(map(quote, keys))}), {_HASHES})"
