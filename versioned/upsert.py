"""The newest row of each key in a table without versions, in one write, by whichever method is faster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame

from versioned import spark_functions as F
from versioned.commit import Merge, ReplaceWhere, same_keys
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.sql_types import nullable_columns

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder


def upsert(
    target: TableRef, rows: DataFrame, keys: Sequence[str], gone: str | None = None, *, is_small: bool = False
) -> Merge | ReplaceWhere:
    """Replace the rows that have the keys of the given ones, and add the others; parts of keys may be null.

    A MERGE first finds the rows and then rewrites their files, in three or four jobs, and only one MERGE runs at a
    time. It would rewrite a table of one or two files completely; such a table is replaced as a whole, in one job.

    Args:
        target: The table.
        rows: At most one row for each key, with the table's columns.
        keys: The columns that are the key.
        gone: A column of ``rows``, not of the table: where it is true, the key's row is removed.
        is_small: Whether the table has so few rows that all may be rewritten.
    """
    put = rows if gone is None else rows.where(~F.col(quote(gone))).drop(gone)
    if is_small:
        stored = read_table(rows.sparkSession, target)
        if nullable_columns(stored.schema) == nullable_columns(put.schema):
            return ReplaceWhere(_without(stored, rows, keys).unionByName(put), "true")
    return _merge(rows, put.columns, keys, gone)


def _merge(rows: DataFrame, names: Sequence[str], keys: Sequence[str], gone: str | None) -> Merge:
    values: dict[str, str | Column] = {quote(name): f"s.{quote(name)}" for name in names}

    def clauses(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
        if gone is None:
            return merge.whenMatchedUpdate(set=values).whenNotMatchedInsert(values=values)
        removed = f"s.{quote(gone)}"
        return (
            merge.whenMatchedDelete(removed)
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert(f"NOT {removed}", values=values)
        )

    return Merge(rows, same_keys(keys, or_null=True), clauses)


def _without(stored: DataFrame, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The stored rows whose keys are not among those of ``rows``."""
    stored, named = stored.alias("t"), rows.select(*map(F.col, map(quote, keys))).alias("s")
    same = (F.col(f"t.{quote(name)}").eqNullSafe(F.col(f"s.{quote(name)}")) for name in keys)
    return stored.join(named, reduce(Column.__and__, same), "left_anti")
