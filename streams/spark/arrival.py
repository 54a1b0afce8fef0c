"""The input of a batch: per topic the number of records, the batch clock and a fingerprint, in one job for all.

The fingerprint shows whether a replayed batch has the same records as before. It consists of their number, and the sum
and the exclusive or of stable hashes of the rows, so their order does not matter. If a source has other columns, the
same records have other hashes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType

from streams.spark.sources import CLOCK, SOURCE
from versioned import spark_functions as F
from versioned.hashing import row_hash

_LOW: Final = 0xFFFFFFFF
_ALL: Final = (1 << 64) - 1


@dataclass(frozen=True)
class Arrived:
    """What a batch has of one topic, or of the tick."""

    count: int
    clock_us: int
    fingerprint: str


def arrived(rows: DataFrame) -> dict[str, Arrived]:
    """What came in, by topic; the tick counts as one."""
    topics = {field.name: field.dataType for field in rows.schema.fields if field.name not in (SOURCE, CLOCK)}
    told = rows.select(SOURCE, F.unix_micros(CLOCK).alias("clock"), _hash(topics.items()).alias("hash"))
    counted = told.groupBy(SOURCE).agg(
        F.count("*").alias("n"),
        F.max("clock").alias("clock"),
        # Only the lower half: a sum of whole hashes would overflow a long.
        F.sum(F.col("hash").bitwiseAND(F.lit(_LOW))).alias("low"),
        F.bit_xor("hash").alias("xor"),
    )
    return {name: Arrived(n, clock_us, fingerprint(n, low, xor)) for name, n, clock_us, low, xor in counted.collect()}


def fingerprint(count: int, low: int, xor: int) -> str:
    """A fingerprint as text, which starts with the number of records (:mod:`versioned.replay` compares them).

    >>> fingerprint(2, 255, -1)
    '2:ff:ffffffffffffffff'
    """
    return f"{count}:{low:x}:{xor & _ALL:x}"


def _hash(topics: Iterable[tuple[str, DataType]]) -> Column:
    """The hash of a row's own topic column: it does not change when the plan gets another source."""
    each = (F.when(F.col(name).isNotNull(), row_hash([(F.col(name), kind)])) for name, kind in topics)
    return F.coalesce(*each, F.lit(0).cast("long"))
