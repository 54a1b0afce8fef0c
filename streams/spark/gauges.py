"""What metrics of level DEBUG need of a batch, set-wise: lateness, and what a buffer holds after each record.

Each function gives rows (``what``, ``n``) that are read with the counts of all operators, in one job. A name that ends
in ``_max`` is a largest value, any other a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StringType,
    StructType,
)

from streams.lateness import BOUNDS_US
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, lookup_times

#: The sum of lateness is kept in two parts: a million records of 1970 would be too much for a long of microseconds.
LATE_RECORDS, LATE_SECONDS, LATE_MICROS = "lateness_records", "lateness_seconds", "lateness_micros"
LATE_MAX: Final = "lateness_max"
#: What a buffer holds now, at most, and summed over the samples, one of which is taken after each record.
SAMPLES, RECORDS_SUM, BYTES_SUM = "samples", "records_sum", "bytes_sum"
RECORDS, BYTES, RECORDS_MAX, BYTES_MAX = "records", "bytes", "records_max", "bytes_max"
_NEWEST: Final = "newest@"
_BUCKET: Final = "bucket@"
_LATENESS: Final = "_lateness"
_MILLION: Final = 1_000_000
_INSTANT_BYTES: Final = 8

#: The columns of a step of a buffer beside its scope: where, its order there, what it adds, whether a sample follows.
AT, STEP, ADDS, ADDS_BYTES, IS_SAMPLE = "_at", "_step", "_adds", "_adds_bytes", "_is_sample"


def lateness_tally(records: DataFrame, before: Mapping[int, int] | Column, by: tuple[str, ...] = (SCOPE,)) -> DataFrame:
    """Lateness of records behind stream time, after each moved it, and the newest ts of each scope.

    Args:
        records: ``_us _scope _place`` and the columns ``by``.
        before: Stream time before the batch: by scope, or as a column of the records (null = none yet).
        by: The columns whose values have a stream time each.
    """
    late = F.col(_LATENESS)
    per_scope = _with_lateness(records, before, by).groupBy(SCOPE)
    told = per_scope.agg(
        F.count("*").alias(LATE_RECORDS),
        F.sum(F.expr(f"{_LATENESS} div {_MILLION}")).alias(LATE_SECONDS),
        F.sum(F.pmod(late, F.lit(_MILLION))).alias(LATE_MICROS),
        F.max(late).alias(LATE_MAX),
        F.max(US).alias(_NEWEST),
    )
    newest = F.concat(F.lit(_NEWEST), F.col(SCOPE).cast("string"), F.lit("_max"))
    return _as_rows(told, (LATE_RECORDS, LATE_SECONDS, LATE_MICROS, LATE_MAX), (newest, F.col(_NEWEST)))


def lateness_histogram(records: DataFrame, before: Mapping[int, int]) -> DataFrame:
    """The number of records by the bound of ``streams.lateness`` that their lateness lies under."""
    bound = _bound(F.col(_LATENESS))
    counted = _with_lateness(records, before, (SCOPE,)).groupBy(bound.alias("_bound")).agg(F.count("*").alias("n"))
    return counted.select(F.concat(F.lit(_BUCKET), F.col("_bound").cast("string")).alias("what"), "n")


def buffer_tally(steps: DataFrame) -> DataFrame:
    """What a buffer held after each sample, out of what entered and left it: ``_scope`` and the columns of a step.

    What it held before the batch has no place (``_at`` null).
    """
    so_far = Window.partitionBy(SCOPE).orderBy(F.col(AT).asc_nulls_first(), STEP).rowsBetween(
        Window.unboundedPreceding, 0
    )  # fmt: skip
    held = steps.withColumns({"_held": F.sum(ADDS).over(so_far), "_held_bytes": F.sum(ADDS_BYTES).over(so_far)})
    told = held.agg(
        F.count_if(IS_SAMPLE).alias(SAMPLES),
        F.sum(F.when(F.col(IS_SAMPLE), F.col("_held"))).alias(RECORDS_SUM),
        F.sum(F.when(F.col(IS_SAMPLE), F.col("_held_bytes"))).alias(BYTES_SUM),
        F.max(F.when(F.col(IS_SAMPLE), F.col("_held"))).alias(RECORDS_MAX),
        F.max(F.when(F.col(IS_SAMPLE), F.col("_held_bytes"))).alias(BYTES_MAX),
        F.sum(ADDS).alias(RECORDS),
        F.sum(ADDS_BYTES).alias(BYTES),
    )
    return _as_rows(told, (SAMPLES, RECORDS_SUM, BYTES_SUM, RECORDS_MAX, BYTES_MAX, RECORDS, BYTES))


def step(frame: DataFrame, at: Column, order: int | Column, sign: int, is_sample: bool) -> DataFrame:
    """Rows of a flow as steps of a buffer: each enters (``sign`` 1), leaves (-1) or is only a moment to sample (0)."""
    return frame.select(
        SCOPE,
        at.alias(AT),
        (F.lit(order) if isinstance(order, int) else order).cast("long").alias(STEP),
        F.lit(sign).cast("long").alias(ADDS),
        (record_size(frame) * sign).alias(ADDS_BYTES),
        F.lit(is_sample).alias(IS_SAMPLE),
    )


def record_size(frame: DataFrame, value: str = VALUE) -> Column:
    """The logical size of a record, as ``suppress.sizes`` measures it: key, value and timestamp."""
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    return _size(F.col(KEY), kinds[KEY]) + _size(F.col(value), kinds[value]) + F.lit(_INSTANT_BYTES).cast("long")


def newest_times(gauges: Mapping[str, int]) -> dict[int, int]:
    """The newest ts per scope, out of what was told."""
    return {
        int(what.removeprefix(_NEWEST).removesuffix("_max")): us
        for what, us in gauges.items()
        if what.startswith(_NEWEST)
    }


def histogram(gauges: Mapping[str, int]) -> dict[int, int]:
    """Records by bound of their lateness, out of what was told."""
    return {int(what.removeprefix(_BUCKET)): n for what, n in gauges.items() if what.startswith(_BUCKET)}


def _with_lateness(records: DataFrame, before: Mapping[int, int] | Column, by: tuple[str, ...]) -> DataFrame:
    so_far = Window.partitionBy(*by).orderBy(PLACE).rowsBetween(Window.unboundedPreceding, 0)
    known = before if isinstance(before, Column) else lookup_times(before)
    # The running maximum has the record in it, so this is never negative.
    return records.withColumn(_LATENESS, F.greatest(known, F.max(US).over(so_far)) - F.col(US))


def _bound(late: Column) -> Column:
    """The least bound that is no smaller. The logarithm tells it up to two steps, and the bounds themselves the rest."""
    bounds = F.array(*(F.lit(bound).cast("long") for bound in BOUNDS_US))
    guess = F.greatest(F.floor(F.log10(late / F.lit(1_000)) * 10).cast("int"), F.lit(0))
    near = [F.try_element_at(bounds, guess + F.lit(2 + further)) for further in range(3)]
    exact = F.when(near[0] >= late, near[0]).when(near[1] >= late, near[1]).otherwise(near[2])
    return F.when(late <= 0, F.lit(0).cast("long")).otherwise(exact)


def _as_rows(told: DataFrame, names: tuple[str, ...], *more: tuple[Column, Column]) -> DataFrame:
    pairs = [(F.lit(name), F.col(name)) for name in names] + list(more)
    rows = F.array(*(F.struct(what.alias("what"), n.cast("long").alias("n")) for what, n in pairs))
    return told.select(F.explode(rows).alias("_told")).select("_told.what", "_told.n")


def _size(column: Column, kind: DataType) -> Column:
    if isinstance(kind, StructType):
        parts = [_size(column.getField(field.name), field.dataType) for field in kind.fields]
        return _sum(parts)
    if isinstance(kind, (StringType, BinaryType)):
        return F.coalesce(F.octet_length(column), F.lit(0)).cast("long")
    if isinstance(kind, ArrayType):
        return _summed(column, lambda part: _size(part, kind.elementType))
    if isinstance(kind, MapType):
        return _summed(F.map_values(column), lambda part: _size(part, kind.valueType))
    fixed = {BooleanType: 1, DecimalType: 16, DateType: 4}.get(type(kind), _INSTANT_BYTES)
    return F.when(column.isNotNull(), fixed).otherwise(0).cast("long")


def _sum(parts: list[Column]) -> Column:
    total = F.lit(0).cast("long")
    for part in parts:
        total = total + part
    return total


def _summed(values: Column, size: Callable[[Column], Column]) -> Column:
    zero = F.lit(0).cast("long")
    return F.coalesce(F.aggregate(F.transform(values, size), zero, lambda total, part: total + part), zero)
