"""Filters and mappers of streams on Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streams.functions import cast
from streams.nodes import SelectKey, StreamFilter
from streams.spark.columns import with_key
from streams.spark.flow import KEY, has_null_key
from streams.spark.stateless import StreamFilterOperator
from streams.topology import StreamsBuilder


def test_what_a_filter_leaves_out_as_null_is_asked_nothing_more(spark: SparkSession) -> None:
    # Spark makes one condition of the filters, and of what comes behind them.
    builder = StreamsBuilder()
    stream = builder.stream("in", key="k", value=("kind", "text"), name="in")
    numbers = stream.filter(lambda value: value.kind == "number", name="numbers")
    large = numbers.filter(lambda value: value.text > 5, name="large")
    large.select_key(lambda value: {"k": cast(value.text + 1, "string")}, name="next").to_changelog("out")
    plan = builder.build()
    rows = [("number", "7"), (None, "seven"), ("text", "eight"), ("number", "3"), ("number", None)]
    frame = spark.createDataFrame(
        [(("a",), row) for row in rows], "_key STRUCT<k: STRING>, _value STRUCT<kind: STRING, text: STRING>"
    )
    for name in ("numbers", "large"):
        node = plan.node(name)
        assert isinstance(node, StreamFilter)
        frame = StreamFilterOperator(node)._kept(frame)
    node = plan.node("next")
    assert isinstance(node, SelectKey)
    assert node.mapper is not None
    keyed = with_key(frame, "_new", node.mapper).drop(KEY).withColumnRenamed("_new", KEY)
    assert [row["_value"]["text"] for row in keyed.where(~has_null_key(keyed)).collect()] == ["7"]
