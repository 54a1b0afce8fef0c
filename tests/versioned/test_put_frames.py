"""Frames of puts: stream time at each record."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from versioned.durations import Resolution
from versioned.put_frames import in_resolution, stream_time_before
from versioned.spec import VersionedTableSpec


@pytest.mark.parametrize("partitions", [(0, 1), (1, 0)])
def test_of_records_at_the_same_place_that_of_the_lower_partition_comes_first(
    partitions: tuple[int, int], spark: SparkSession
) -> None:
    spec = VersionedTableSpec.of(keys=("k",), values=("v",), history_retention="1 day", time_scope="store")
    rows = [(partition, [100, 1, 0, 7, 2], 50 + partition) for partition in partitions]
    frame = spark.createDataFrame(rows, "_scope INT, _place ARRAY<BIGINT>, _us LONG").coalesce(1)
    timed = frame.withColumn("before", stream_time_before(F.lit(1).cast("long"), [F.lit(0)], spec))
    assert [row["before"] for row in timed.sort("_scope").collect()] == [1, 50]


def test_instants_at_the_end_of_the_calendar_are_told_exactly_in_milliseconds(spark: SparkSession) -> None:
    spec = VersionedTableSpec.of(
        keys=("k",), values=("v",), history_retention="1 day", time_resolution=Resolution.MILLISECOND
    )
    for first in (253_402_300_799_000, -62_135_596_800_000):
        asked = spark.range(first, first + 1000, numPartitions=1)
        told = asked.select(in_resolution(F.col("id") * 1000, spec)).collect()
        assert [row[0] for row in told] == list(range(first, first + 1000))
