"""Checks the invariants of a versioned table: one pass over its rows, one aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window

from versioned import spark_functions as F
from versioned.errors import InvariantError
from versioned.identifiers import quote
from versioned.spec import CURRENT, DELETED, VersionedTableSpec


@dataclass(frozen=True)
class VerificationReport:
    """How many rows break each invariant; ``rows`` is how many were checked."""

    rows: int
    broken: Mapping[str, int]

    @property
    def is_sound(self) -> bool:
        """Whether no invariant is broken."""
        return not any(self.broken.values())

    def raise_if_broken(self) -> None:
        """Raise an error if an invariant is broken.

        Raises:
            InvariantError: names the invariants and how many rows break them.
        """
        found = {name: count for name, count in self.broken.items() if count}
        if found:
            raise InvariantError(
                f"{sum(found.values())} of {self.rows} rows break an invariant: {found}. Somebody else wrote to the "
                "table: restore an older version and put the records since then again."
            )


def verify_frame(rows: DataFrame, spec: VersionedTableSpec) -> VerificationReport:
    """Check every stored row against the invariants of its table.

    ``overlap``: a version lasts beyond the start of the next; ``gap``: it ends before it (a deletion is a row, so there
    are no gaps); ``empty``: validTo <= validFrom; ``several_current``: a key has more than one open row;
    ``no_current``: a key's newest version is closed; ``partition``: ``_current`` does not say whether validTo is null;
    ``null_key``: a key column is null; ``value_of_deleted``: a tombstone has values.
    """
    start, end = F.col(quote(spec.valid_from)), F.col(quote(spec.valid_to))
    by_key = Window.partitionBy(*map(quote, spec.keys))
    by_time = by_key.orderBy(quote(spec.valid_from), F.col(quote(spec.valid_to)).asc_nulls_last())
    looked = rows.withColumn("_next", F.lead(quote(spec.valid_from)).over(by_time)).withColumn(
        "_open", F.sum(end.isNull().cast("int")).over(by_key)
    )
    following = F.col("_next")
    rules: dict[str, Column] = {
        "overlap": following.isNotNull() & (end.isNull() | (end > following)),
        "gap": following.isNotNull() & (end < following),
        "empty": end <= start,
        "several_current": end.isNull() & (F.col("_open") > 1),
        "no_current": following.isNull() & (F.col("_open") == 0),
        "partition": ~F.col(CURRENT).eqNullSafe(end.isNull()),
        "null_key": _any([F.col(quote(name)).isNull() for name in spec.keys]),
        "value_of_deleted": F.col(DELETED) & _any([F.col(quote(name)).isNotNull() for name in spec.values]),
    }
    counted = looked.agg(F.count("*").alias("rows"), *(F.count_if(rule).alias(name) for name, rule in rules.items()))
    told = counted.collect()[0].asDict()
    return VerificationReport(told.pop("rows"), told)


def _any(conditions: list[Column]) -> Column:
    met = F.lit(False)
    for condition in conditions:
        met = met | condition
    return met
