"""For an out-of-order record: the version just before it in time and the start of the one after it, *at its place*.

Only versions stored before the batch count, and records of the batch before the record's own place. The stored
versions of a key, of any number, are sorted by time together with the records that ask. Within the batch, few records
are compared with all others of their keys. For many, which may all be of one key, these would be too many pairs: then
the records of a key before a place are composed of blocks of 1, 2, 4, 8, ... consecutive records, of which each place
needs at most one of each size; each block is sorted by time once, too.

Shapes, besides the key columns:

==========  ===============================================================================================
accepted    ``_scope``, ``_place``, ``_us``, ``_value``, and ``_is_late``: whether it asks
stored      ``_us``, ``_value``
found       ``_scope``, ``_place``, ``_pred`` struct(us, value), ``_succ_us``: of each place that asks
==========  ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window

from versioned import spark_functions as F
from versioned.spec import VersionedTableSpec

#: Whether a record is out of order.
LATE: Final = "_is_late"
_VERSION, _PRED, _SUCC_US = "_version", "_pred", "_succ_us"
#: How many records of its key come before a record, and before the last of them.
_NUMBER, _LAST = "_number", "_last"
#: A block of records: its size as a power of two, and its number among those of its size.
_LEVEL, _BLOCK = "_level", "_block"
#: The block of all stored versions, which is before all records.
_ALL_STORED: Final = -1
_UNTIL_NOW: Final = (Window.unboundedPreceding, 0)


def among_all(accepted: DataFrame, stored: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Find the neighbours of out-of-order records by comparing each with all records of its key."""
    keys, stored = list(spec.keys), _without_place(stored, accepted)
    late = accepted.where(LATE).select(*keys, "_scope", "_place", "_us")
    version = F.col(_VERSION)
    pairs = late.join(_versions(accepted).select(*keys, _VERSION), keys)
    is_before = version.getField("us") <= F.col("_us")
    told = {_PRED: F.when(is_before, version), _SUCC_US: F.when(~is_before, version.getField("us"))}
    of_batch = pairs.where(version.getField("place") < F.col("_place")).withColumns(told)
    points = (_found(_versions(stored.join(late.select(*keys), keys, "left_semi"))), _asking(accepted))
    line = points[0].unionByName(points[1], allowMissingColumns=True)
    of_stored = _along(line, *keys).select(of_batch.columns)
    return _nearest(of_batch.unionByName(of_stored), keys)


def among_blocks(accepted: DataFrame, stored: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Find the same as :func:`among_all` by sorting blocks: n records of a key become about n log n rows."""
    keys, stored = list(spec.keys), _without_place(stored, accepted)
    touched = accepted.where(LATE).select(*keys).distinct()
    of_key = Window.partitionBy(*keys)
    # Records at the same place are equal, and none of them comes before another.
    number = F.rank().over(of_key.orderBy("_place")).cast("long") - 1
    records = accepted.join(touched, keys, "left_semi").withColumn(_NUMBER, number)
    records = records.withColumn(_LAST, F.max(_NUMBER).over(of_key))
    asks = _asking(records)
    before_all = {_LEVEL: F.lit(_ALL_STORED), _BLOCK: F.lit(0).cast("long")}
    points = [
        _blocks(_found(_versions(records)), asks),
        _found(_versions(stored.join(touched, keys, "left_semi"))).withColumns(before_all),
        asks.withColumns(before_all),
    ]
    line = points[0]
    for more in points[1:]:
        line = line.unionByName(more, allowMissingColumns=True)
    return _nearest(_along(line, *keys, _LEVEL, _BLOCK), keys)


def newest_before(asks: DataFrame, versions: DataFrame, keys: Sequence[str]) -> DataFrame:
    """For each place that asks, the newest version of its key at or before its instant that came before it; by blocks.

    Args:
        asks: Key columns, ``_scope``, ``_place`` and ``_us``.
        versions: Key columns, ``_us``, ``_place``, ``_value``, and ``_rank``, an array of long that ranks versions of
            the same instant, the newest last.
        keys: The key columns.

    Returns:
        Key columns, ``_scope``, ``_place`` and ``_pred`` struct(us, value), for places that have such a version.
    """
    touched = asks.select(*keys).distinct()
    asking = asks.select(*keys, "_scope", "_place", "_us").withColumn(LATE, F.lit(True))
    told = versions.join(touched, list(keys), "left_semi").withColumn(LATE, F.lit(False))
    of_key = Window.partitionBy(*keys)
    # A version at the place that asks has not come before it.
    by_place = of_key.orderBy("_place", F.desc(LATE)).rowsBetween(*_UNTIL_NOW)
    asks_itself = F.col(LATE)
    came = F.sum(F.when(asks_itself, 0).otherwise(1)).over(by_place)
    line = asking.unionByName(told, allowMissingColumns=True)
    line = line.withColumn(_NUMBER, came - F.when(asks_itself, 0).otherwise(1))
    line = line.withColumn(_LAST, F.max(_NUMBER).over(of_key))
    ranked = _versions(line.withColumn("_place", F.when(asks_itself, F.col("_place")).otherwise(F.col("_rank"))))
    points = _blocks(_found(ranked.where(~asks_itself)), _asking(line))
    nearest = _nearest(_along(points, *keys, _LEVEL, _BLOCK), keys)
    return nearest.where(F.col(_PRED).isNotNull()).select(*keys, "_scope", "_place", _PRED)


def _without_place(stored: DataFrame, accepted: DataFrame) -> DataFrame:
    return stored.withColumn("_place", F.lit(None).cast(accepted.schema["_place"].dataType))


def _versions(frame: DataFrame) -> DataFrame:
    """Add to each row the version that it is, as one struct."""
    version = F.struct(F.col("_us").alias("us"), F.col("_place").alias("place"), F.col("_value").alias("value"))
    return frame.withColumn(_VERSION, version)


def _found(versions: DataFrame) -> DataFrame:
    """Versions as points of a time line that may be found."""
    return versions.withColumn(LATE, F.lit(False))


def _asking(records: DataFrame) -> DataFrame:
    """Late records as points of a time line that ask for their neighbours."""
    return records.where(LATE).withColumn(_VERSION, F.lit(None).cast(_versions(records).schema[_VERSION].dataType))


def _along(line: DataFrame, *each: str) -> DataFrame:
    """The points that ask, with their nearest neighbours among the points of the same line that may be found."""
    of_line = Window.partitionBy(*each)
    forward = of_line.orderBy("_us", LATE, "_place").rowsBetween(*_UNTIL_NOW)
    backward = of_line.orderBy(F.desc("_us"), F.desc(LATE)).rowsBetween(*_UNTIL_NOW)
    before = F.last(_VERSION, ignorenulls=True).over(forward)
    after_us = F.last(F.col(_VERSION).getField("us"), ignorenulls=True).over(backward)
    return line.withColumns({_PRED: before, _SUCC_US: after_us}).where(LATE)


def _blocks(found: DataFrame, asking: DataFrame) -> DataFrame:
    """The blocks of records that may be found, together with the places that ask, in the blocks right before them."""
    asked = _in_blocks(asking, F.expr("shiftright(_number, _level) - 1"))
    return _in_blocks(found, F.expr("shiftright(_number, _level)")).unionByName(asked, allowMissingColumns=True)


def _in_blocks(frame: DataFrame, number: Column) -> DataFrame:
    """Each record once for each block size; only blocks with even numbers are ever asked for."""
    most = F.floor(F.log2(F.greatest(_LAST, F.lit(1).cast("long")))).cast("int")
    sized = frame.withColumn(_LEVEL, F.explode(F.sequence(F.lit(0), most)))
    return sized.withColumn(_BLOCK, number).where(F.pmod(F.col(_BLOCK), F.lit(2)) == 0)


def _nearest(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The newest version before each record (at equal instants, the last by place), and the oldest start after it."""
    us, place = (F.col(_PRED).getField(name) for name in ("us", "place"))
    rank = F.when(us.isNotNull(), F.struct(us, place.isNotNull().alias("is_of_batch"), place))
    found = frame.groupBy(*keys, "_scope", "_place").agg(
        F.max_by(_PRED, rank).alias(_PRED), F.min(_SUCC_US).alias(_SUCC_US)
    )
    pred = F.col(_PRED)
    told = F.struct(pred.getField("us").alias("us"), pred.getField("value").alias("value"))
    return found.withColumn(_PRED, F.when(pred.isNotNull(), told))
