"""The streaming query of an application is the same whatever the user's session says of offset logs and names."""

from __future__ import annotations

from pathlib import Path

import pytest
from both_engines import Input, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.nodes import Topology
from streams.spark import SparkSource, StreamingApplication
from streams.topology import StreamsBuilder
from versioned.session_settings import session_settings

_RECORDS = [Input("a", "x", 1, 1), Input("a", "y", 2, 2)]


def _topology() -> Topology:
    builder = StreamsBuilder()
    builder.stream("a", key="k", value="v", name="a_stream").to_changelog("out")
    return builder.build()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.streaming.offsetLog.formatVersion", "2"),
        ("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true"),
        ("spark.sql.streaming.queryEvolution.enableSinkEvolution", "true"),
    ],
)
def test_an_application_starts_again_on_its_checkpoint_whatever_the_session_says(
    name: str, value: str, spark: SparkSession, tmp_path: Path
) -> None:
    topology = _topology()
    with session_settings(spark, {name: value}):
        app = on_spark(spark, tmp_path, topology, _RECORDS, [1, 2], "BIGINT")
        kept = spark.conf.get(name)
    offsets = (tmp_path / "out" / "_checkpoint" / "offsets").glob("[0-9]*")
    assert {file.read_text(encoding="utf-8")[:3] for file in offsets} == {"v1\n"}
    assert len(sink_rows(spark, app, topology)["out"]) == 2
    assert kept == value


def test_a_source_with_texts_of_bounded_length_is_read_whatever_the_session_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/in` (k VARCHAR(3), v CHAR(2), ts TIMESTAMP) USING DELTA")
    spark.sql(f"INSERT INTO delta.`{tmp_path}/in` VALUES ('a', 'x', TIMESTAMP '2026-01-01 00:00:00Z')")
    source = SparkSource("delta", {"path": f"{tmp_path}/in"})
    with session_settings(spark, {"spark.sql.preserveCharVarcharTypeInfo": "true"}):
        StreamingApplication(spark, "texts", _topology(), f"{tmp_path}/out", {"a": source}).run()
    (told,) = spark.read.format("delta").load(f"{tmp_path}/out/out").select("k", "v").collect()
    assert told == ("a", "x ")
