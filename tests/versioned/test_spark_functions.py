"""Spark's functions, with columns and literals kept."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as spark_own

from versioned import spark_functions as F


def test_a_column_and_a_literal_are_made_once(spark: SparkSession) -> None:
    assert F.col("a") is F.col("a")
    assert F.lit("a") is F.lit("a")
    assert F.lit(None) is F.lit(None)


@pytest.mark.parametrize("value", [True, 1, 1.0, 0.0, -0.0, "1", None, dt.date(2026, 1, 1), [1, 2], 2**40])
def test_a_literal_is_the_value_it_was_made_of(spark: SparkSession, value: object) -> None:
    for equal in (True, 1, 1.0, 0.0):
        F.lit(equal)
    ((told, wanted),) = spark.range(1).select(F.lit(value), spark_own.lit(value)).collect()
    assert (type(told), told) == (type(wanted), wanted)
    if isinstance(value, float):
        assert math.copysign(1, told) == math.copysign(1, value)


def test_a_kept_column_serves_any_frame(spark: SparkSession) -> None:
    first, second = spark.range(1).select(F.col("id")), spark.range(2).withColumnRenamed("id", "ID")
    assert [first.collect(), second.where(F.col("id") > F.lit(0)).collect()] == [[(0,)], [(1,)]]


def test_whatever_else_spark_has_is_its_own() -> None:
    assert (F.upper, F.struct, F.transform) == (spark_own.upper, spark_own.struct, spark_own.transform)
