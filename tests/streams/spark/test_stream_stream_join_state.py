"""Stream-stream joins on Spark: which keys their buffer has no room for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streams.nodes import StreamSource, StreamStreamJoin
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, Flow
from streams.spark.operator import Batch
from streams.spark.stream_stream_join import StreamStreamJoinOperator
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
    join = StreamStreamJoinOperator(StreamStreamJoin("both", sides, windows=JoinWindows(1, 1, 0)))
    batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 1, 0, {})
    with pytest.raises(ConfigurationError, match=f"{key.lower()}.*Rename"):
        join.apply(batch, [nothing, nothing])
