"""Hashes of rows: what a fingerprint of a batch, and the order of records with equal times, are made of."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streams.spark.arrival import arrived
from streams.spark.intake import stable_hash
from streams.spark.sources import CLOCK, SOURCE

_PAIRS = {
    "a value moves to the next column": (("1", "CAST(NULL AS INT)"), ("CAST(NULL AS INT)", "1")),
    "a value moves within a struct": (
        ("named_struct('x', 1, 'y', CAST(NULL AS INT))",),
        ("named_struct('x', CAST(NULL AS INT), 'y', 1)",),
    ),
    "a struct of nulls, and none": (
        ("named_struct('x', CAST(NULL AS INT))",),
        ("CAST(NULL AS STRUCT<x: INT>)",),
    ),
    "a value moves within an array": (("array(1, NULL)",), ("array(NULL, 1)",)),
    "values of a map": (("map('a', 1)",), ("map('a', 2)",)),
    "variants": (("parse_json('[1]')",), ("parse_json('[2]')",)),
}


@pytest.mark.parametrize("pair", _PAIRS.values(), ids=_PAIRS)
def test_rows_that_differ_by_where_a_null_stands_have_other_hashes(
    pair: tuple[tuple[str, ...], tuple[str, ...]], spark: SparkSession
) -> None:
    frames = [spark.range(1).selectExpr(*(f"{part} AS c{i}" for i, part in enumerate(row))) for row in pair]
    ties = {frame.select(stable_hash(frame)).collect()[0][0] for frame in frames}
    assert len(ties) == 2
    packed = [
        frame.select(F.lit("t").alias(SOURCE), F.timestamp_seconds(F.lit(1)).alias(CLOCK), F.struct("*").alias("t"))
        for frame in frames
    ]
    assert len({arrived(frame)["t"].fingerprint for frame in packed}) == 2


def test_what_came_has_the_same_fingerprint_beside_another_source(spark: SparkSession) -> None:
    clock = F.timestamp_seconds(F.lit(1)).alias(CLOCK)
    alone = spark.range(5).select(F.lit("t").alias(SOURCE), clock, F.struct("id").alias("t"))
    other = spark.range(3).select(F.lit("u").alias(SOURCE), clock, F.struct(F.col("id").alias("n")).alias("u"))
    tick = spark.range(1).select(F.lit("_tick").alias(SOURCE), clock)
    both = tick.unionByName(alone, allowMissingColumns=True).unionByName(other, allowMissingColumns=True)
    assert arrived(both)["t"].fingerprint == arrived(alone)["t"].fingerprint
