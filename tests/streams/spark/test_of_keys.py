"""Stored rows of the keys that are asked for."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.spark.flow import KEY, Bounds, Flow, most_of
from streams.spark.of_keys import of_keys


def _keyed(spark: SparkSession, keys: list[tuple[str | None, int | None]]) -> DataFrame:
    rows = [((*key,), number) for number, key in enumerate(keys)]
    return spark.createDataFrame(rows, f"{KEY} STRUCT<a: STRING, b: INT>, n INT")


@pytest.mark.parametrize("few", [True, False])
def test_each_row_of_a_key_that_is_asked_for_comes_once_and_no_other(spark: SparkSession, few: bool) -> None:
    stored = _keyed(spark, [("x", 1), ("x", 2), ("y", 1), ("z", None), (None, None)])
    asked = _keyed(spark, [("x", 2), ("x", 2), ("z", None), ("w", 1)])
    assert sorted(row["n"] for row in of_keys(stored, asked, few=few).collect()) == [1, 3]


def test_rows_are_not_moved_for_few_records(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    stored, asked = _keyed(spark, [("x", 1)]), _keyed(spark, [("x", 1)])
    of_keys(stored, asked, few=True).explain()
    plan = capsys.readouterr().out
    assert "BroadcastHashJoin" in plan
    assert "hashpartitioning" not in plan


def test_how_many_records_flows_have_at_most_is_known_if_it_is_of_each(spark: SparkSession) -> None:
    frame = spark.range(0)
    counted, limited, unknown = Flow(frame, {0: Bounds(0, 1, 7)}), Flow(frame, most=5), Flow(frame)
    assert most_of([counted, limited.map(lambda rows: rows)]) == 12
    assert most_of([counted, unknown]) is None
