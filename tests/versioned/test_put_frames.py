"""Frames of puts: stream time at each record."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned.durations import Resolution
from versioned.put_frames import (
    accept_all,
    in_resolution,
    judge,
    next_versions,
    outcomes,
    replaced_names,
    stream_time_before,
)
from versioned.session_settings import UNIONS, with_sound_reads
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


_SPEC = VersionedTableSpec.of(keys=("k",), values=("v",), history_retention="1 day", time_scope="partition")


def _at_one_place(spark: SparkSession, partitions: tuple[int, int], us: int) -> DataFrame:
    """A record of one key from each partition, with the partition as its value."""
    kinds = "k STRING, _scope INT, _place ARRAY<BIGINT>, _us LONG, _value STRUCT<v: STRING>"
    rows = [("a", partition, [7], us, (f"{partition}",)) for partition in partitions]
    return accept_all(spark.createDataFrame(rows, kinds).coalesce(1))


@pytest.mark.parametrize("partitions", [(0, 1), (1, 0)])
def test_of_one_key_at_one_place_the_record_of_the_higher_partition_stays(
    partitions: tuple[int, int], spark: SparkSession
) -> None:
    batch = _at_one_place(spark, partitions, 9)
    told = outcomes(judge(batch, None, _SPEC), None, _SPEC).sort("_scope").select("_scope", "_old.value.v")
    assert [tuple(row) for row in told.collect()] == [(0, None), (1, "0")]
    nothing = batch.limit(0).withColumn("_to_us", F.lit(None).cast("long"))
    assert [row["_value"]["v"] for row in next_versions(nothing, batch, _SPEC).collect()] == ["1"]


@pytest.mark.parametrize("adaptive", ["false", "true"])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("partitions", [(0, 1), (1, 0)])
def test_out_of_order_records_at_one_place_follow_each_other_by_partition(
    partitions: tuple[int, int], many: bool, adaptive: str, spark: SparkSession
) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    spark.conf.set(UNIONS, "true")
    with_sound_reads(spark)
    stored = spark.createDataFrame([("a", 9, ("s",))], "k STRING, _us LONG, _value STRUCT<v: STRING>")
    known = stored.withColumn("_to_us", F.lit(None).cast("long"))
    judged = judge(_at_one_place(spark, partitions, 5), stored, _SPEC)
    told = outcomes(judged, known, _SPEC, many=many).sort("_scope").select("_scope", "_old.value.v", "_put_result")
    assert [tuple(row) for row in told.collect()] == [(0, None, 9), (1, "0", 9)]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(("is_refused", "told"), [(False, {None, "0"}), (True, {None})])
def test_of_equal_records_out_of_order_the_second_one_replaces_the_first(
    is_refused: bool, told: set[str | None], many: bool, spark: SparkSession
) -> None:
    stored = spark.createDataFrame([("a", 9, ("s",))], "k STRING, _us LONG, _value STRUCT<v: STRING>")
    known = stored.withColumn("_to_us", F.lit(None).cast("long"))
    twice = _at_one_place(spark, (0, 0), 5).withColumn("_refused", F.lit(is_refused))
    replaced = outcomes(judge(twice, stored, _SPEC), known, _SPEC, many=many).select("_old.value.v")
    assert {row[0] for row in replaced.collect()} == told


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ({"keys": "k", "values": ["ts", "V"]}, ["k", "ts", "put_result", "validFrom", "old_ts", "V"]),
        ({"keys": "k", "values": ["ts", "old_ts"]}, ["k", "ts", "put_result", "validFrom", "old_old_ts", "old_ts"]),
        ({"keys": "old_ts", "values": "TS"}, ["old_ts", "ts", "put_result", "validFrom", "old_old_TS"]),
        ({"keys": "ts", "values": "put_ts"}, ["ts", "put_ts", "put_result", "validFrom", "old_put_ts"]),
        (
            {"keys": "k", "values": "old_put_result", "valid_from": "put_result"},
            ["k", "ts", "put_result", "old_old_put_result", "old_put_result"],
        ),
    ],
)
def test_no_two_columns_that_a_delete_tells_have_one_name(table: dict[str, Any], names: list[str]) -> None:
    assert replaced_names(VersionedTableSpec.of(history_retention="1 day", **table)) == names


def test_instants_at_the_end_of_the_calendar_are_told_exactly_in_milliseconds(spark: SparkSession) -> None:
    spec = VersionedTableSpec.of(
        keys=("k",), values=("v",), history_retention="1 day", time_resolution=Resolution.MILLISECOND
    )
    for first in (253_402_300_799_000, -62_135_596_800_000):
        asked = spark.range(first, first + 1000, numPartitions=1)
        told = asked.select(in_resolution(F.col("id") * 1000, spec)).collect()
        assert [row[0] for row in told] == list(range(first, first + 1000))
