"""Aggregates of tables on Spark, equal to the test driver's."""

from __future__ import annotations

from pathlib import Path

import pytest
from both_engines import Input, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.nodes import Materialized
from streams.topology import StreamsBuilder


@pytest.mark.rule("R163")
def test_a_difference_larger_than_the_columns_own_type_is_added_up(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Materialized.key_value("store"), key="k", value="v", deleted="dead")
    grouped = table.group_by(lambda value: "all")
    grouped.sum(lambda value: value.v, name="sum").to_changelog("sums")
    grouped.avg(lambda value: value.v, name="avg").to_changelog("averages")
    plan = builder.build()
    records = [Input("t", "a", -1_500_000_000, 1), Input("t", "b", 7, 2), Input("t", "a", 1_500_000_000, 3)]
    app = on_spark(spark, tmp_path, plan, records, [2, 3], "INT")
    assert sink_rows(spark, app, plan) == on_driver(plan, records)
