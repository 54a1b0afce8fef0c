"""Filters and mappers of streams on Spark."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.functions import cast
from streams.nodes import SelectKey, StreamFilter
from streams.spark import SparkSource, StreamingApplication
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
    keyed = with_key(frame, "_new", node.mapper).drop(KEY).withColumnRenamed("_new", KEY)
    assert [row["_value"]["text"] for row in keyed.where(~has_null_key(keyed)).collect()] == ["7"]


@pytest.mark.parametrize(
    ("keep", "told"),
    [
        (lambda value: value.st.c > 1, r"odd: \[FIELD_NOT_FOUND\] No such struct field `c` in `a`"),
        (lambda value: value.n, r"odd: \[DATATYPE_MISMATCH.*cast it where it has another type"),
    ],
    ids=["no such field", "no condition"],
)
def test_an_expression_that_does_not_fit_its_rows_is_told_with_its_node(
    spark: SparkSession, tmp_path: Path, keep: Any, told: str
) -> None:
    builder = StreamsBuilder()
    rows = builder.stream("in", key="k", value=("st", "n"), name="in")
    # Fields of a source's own structs are looked at before.
    made = rows.map_values(lambda value: {"st": value.st, "n": value.n}, name="made")
    made.filter(keep, name="odd").map_values(lambda value: {"n": value.n}, name="next").to_changelog("out")
    schema = "k STRING, st STRUCT<a: INT>, n INT, ts TIMESTAMP"
    spark.createDataFrame([("a", (1,), 1, datetime(2026, 1, 1))], schema).write.parquet(str(tmp_path / "in"))
    source = SparkSource("parquet", {"path": str(tmp_path / "in")}, schema)
    app = StreamingApplication(spark, "odd", builder.build(), str(tmp_path / "out"), {"in": source})
    with pytest.raises(StreamingQueryException, match=told):
        app.run()
