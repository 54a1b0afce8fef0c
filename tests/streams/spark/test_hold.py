"""Records that wait on Spark: what a changed plan may make of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, Flow
from streams.spark.hold import Hold
from streams.spark.operator import Batch
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef


def _records(spark: SparkSession, us: int, values: str, key: str = "k") -> DataFrame:
    schema = ", ".join(f"{name}: STRING" for name in values)
    columns = f"{KEY} STRUCT<{key}: STRING>, {VALUE} STRUCT<{schema}>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>"
    return spark.createDataFrame([(("x",), tuple(f"{name}{us}" for name in values), us, 0, [us])], columns)


def test_what_waits_keeps_its_fields_whatever_their_order_and_other_fields_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    def batch(number: int) -> Batch:
        return Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, number, 0, {"join": {0: 1}})

    first, hold = batch(0), Hold("join", "join_waiting", 5)
    hold.take(first, Flow(_records(spark, 1, "ab")))
    hold.write(first)
    for values in ("abc", "ac"):
        with pytest.raises(ConfigurationError, match=r'"join_waiting" holds other columns .*value'):
            Hold("join", "join_waiting", 5).take(batch(1), Flow(_records(spark, 9, values)))
    let_out = Hold("join", "join_waiting", 5).take(batch(1), Flow(_records(spark, 9, "ba"))).frame
    assert [row[VALUE].asDict() for row in let_out.collect()] == [{"a": "a1", "b": "b1"}]


@pytest.mark.parametrize("key", ["value", "ts", "Deadline"])
def test_a_key_that_is_called_as_a_column_of_what_waits_is_refused(
    spark: SparkSession, tmp_path: Path, key: str
) -> None:
    batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 0, 0, {})
    with pytest.raises(ConfigurationError, match=f"{key.lower()}.*Rename"):
        Hold("join", "join_waiting", 5).take(batch, Flow(_records(spark, 1, "ab", key)))
