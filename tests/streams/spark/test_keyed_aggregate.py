"""Aggregates of tables on Spark, equal to the test driver's."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from both_engines import Input, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.functions import python_function
from streams.nodes import Materialized
from streams.rows import Row
from streams.topology import StreamsBuilder
from suppress.windows import SessionWindows, TimeWindows

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}


@pytest.mark.slow
@pytest.mark.rule("R163")
def test_a_difference_larger_than_the_columns_own_type_is_added_up(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Materialized.key_value("store"), **_SOURCE)
    grouped = table.group_by(lambda value: "all")
    grouped.sum(lambda value: value.v, name="sum").to_changelog("sums")
    grouped.avg(lambda value: value.v, name="avg").to_changelog("averages")
    plan = builder.build()
    records = [Input("t", "a", -1_500_000_000, 1), Input("t", "b", 7, 2), Input("t", "a", 1_500_000_000, 3)]
    app = on_spark(spark, tmp_path, plan, records, [2, 3], "INT")
    assert sink_rows(spark, app, plan) == on_driver(plan, records)


@pytest.mark.rule("R163")
def test_sums_and_means_of_decimals_go_on_from_batch_to_batch(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("s", key="k", value="v").group_by_key()
    hourly = grouped.windowed_by(TimeWindows.of("1 hour"))
    hourly.sum(lambda value: value.v, name="total").to_changelog("totals")
    sessions = grouped.windowed_by(SessionWindows.of("1 minute"))
    sessions.avg(lambda value: value.v, name="mean").to_changelog("means")
    hourly.avg(lambda value: value.v, name="hourly_mean").to_changelog("hourly_means")
    plan = builder.build()
    records = [
        Input("s", "a", Decimal(amount), ms) for ms, amount in enumerate(["1.50", "2.25", "-0.75", "99999999.99"])
    ]
    app = on_spark(spark, tmp_path, plan, records, [1, 2, 4], "DECIMAL(10, 2)")
    assert sink_rows(spark, app, plan) == on_driver(plan, records)


def _shout(key: Row, value: Row) -> str:
    return str(value.v).upper()


@pytest.mark.slow
@pytest.mark.rule("R163")
def test_functions_of_the_user_are_not_asked_of_rows_that_are_not_there(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Materialized.key_value("store"), **_SOURCE)
    other = builder.table("u", Materialized.key_value("others"), **_SOURCE)
    shouted = table.transform_values(_shout, "string")
    shouted.to_changelog("shouted")
    shouted.group_by(lambda value: value.value).count(name="count").to_changelog("counts")
    together = python_function(lambda left, right: f"{left.v}{right.v}", "string")
    table.join(other, lambda left, right: {"both": together(left, right)}).to_changelog("joined")
    plan = builder.build()
    values = [("t", "a", "x"), ("u", "b", "y"), ("u", "a", "z"), ("t", "a", None), ("t", "b", "w"), ("u", "b", None)]
    records = [Input(topic, key, value, ms) for ms, (topic, key, value) in enumerate(values)]
    app = on_spark(spark, tmp_path, plan, records, [2, 6])
    assert sink_rows(spark, app, plan) == on_driver(plan, records)
