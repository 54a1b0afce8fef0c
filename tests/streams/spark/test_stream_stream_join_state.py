"""Stream-stream joins on Spark: which keys their buffer has no room for, and which it need not keep."""

from __future__ import annotations

from pathlib import Path

import pytest
from both_engines import Input, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.expressions import Expr
from streams.functions import cast
from streams.nodes import StreamSource, StreamStreamJoin
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, Flow
from streams.spark.operator import Batch
from streams.spark.stream_stream_join import StreamStreamJoinOperator
from streams.topology import StreamsBuilder
from suppress.windows import JoinWindows
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef


@pytest.mark.parametrize("key", ["side", "ts", "Matched"])
def test_a_key_that_is_called_as_a_column_of_the_buffer_is_refused(
    spark: SparkSession, tmp_path: Path, key: str
) -> None:
    columns = f"{KEY} STRUCT<{key}: STRING>, {VALUE} STRUCT<v: STRING>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>"
    nothing = Flow(spark.createDataFrame([], columns), {})
    sides = (StreamSource("a", topic="a"), StreamSource("b", topic="b"))
    node = StreamStreamJoin("both", sides, "inner", JoinWindows(1, 1, 0), Expr("ref", "left"))
    join = StreamStreamJoinOperator(node)
    batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 1, 0, {})
    with pytest.raises(ConfigurationError, match=f"{key.lower()}.*Rename"):
        join.apply(batch, [nothing, nothing])


@pytest.mark.slow
def test_a_right_key_that_the_left_type_does_not_hold_breaks_no_invariant_of_the_buffer(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    source = {"key": "k", "value": "v", "deleted": "dead"}
    left = builder.stream("a", name="left", **source).select_key(lambda value: {"k": cast(value.v, "bigint")})
    right = builder.stream("c", name="right", **source)
    joined = left.join(right, lambda one, other: {"v": other.v}, windows=JoinWindows(10_000, 10_000, 0), name="both")
    joined.to_changelog("out")
    records = [Input("c", "no number", "x", 1), Input("c", "7", "y", 2), Input("a", "z", "7", 3)]
    app = on_spark(spark, tmp_path, builder.build(), records, [2, 3], guards="fail")
    assert sink_rows(spark, app, app.topology)["out"] == [((7,), ("y",), 3000)]
