"""Batches give the same on Spark whatever the user's session says of overflows, casts, unions and Python."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, on_driver, on_spark, sink_rows
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streams.expressions import Expr
from streams.rows import Row
from streams.spark import started_query as running
from streams.spark.arrival import Arrived, arrived
from streams.topology import StreamsBuilder
from suppress.windows import SessionWindows
from versioned.session_settings import OUTPUT_ROWS, UNIONS, session_settings


def _too_large(value: Expr) -> dict[str, Expr]:
    return {"v": value.v + 1}


def test_a_sum_beyond_64_bits_is_an_error_in_a_session_without_ansi_mode_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    builder.stream("a", key="k", value="v", name="a_stream").map_values(_too_large).to_changelog("out")
    largest = Input("a", "x", 2**63 - 1, 1)
    with (
        session_settings(spark, {"spark.sql.ansi.enabled": "false"}),
        pytest.raises(PySparkException, match="ARITHMETIC_OVERFLOW"),
    ):
        on_spark(spark, tmp_path, builder.build(), [largest], [1], "BIGINT")


def test_unions_of_a_batch_are_sound_whatever_the_session_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    def seen(rows: DataFrame) -> dict[str, Arrived]:
        told.append(rows.sparkSession.conf.get(UNIONS))
        return arrived(rows)

    monkeypatch.setattr(running, "arrived", seen)
    builder = StreamsBuilder()
    builder.stream("a", key="k", value="v", name="a_stream").to_changelog("out")
    with session_settings(spark, {UNIONS: "true"}):
        on_spark(spark, tmp_path, builder.build(), [Input("a", "x", 1, 1)], [1], "BIGINT")
    assert told == ["false"]


def _shown(value: Row) -> dict[str, str]:
    return {"shown": repr([value.v["n"], value.v["raw"], value.v["at"]])}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled", "true"),
        ("spark.sql.execution.pyspark.binaryAsBytes", "false"),
    ],
)
def test_functions_get_the_values_of_the_test_driver_whatever_the_session_says(
    name: str, value: str, spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("a", key="k", value="v", name="a_stream")
    stream.transform_values(_shown, "shown STRING").to_changelog("out")
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    held: list[Any] = [{"n": 2**53 + 1, "raw": b"a", "at": at}, {"n": None, "raw": b"", "at": at}]
    topology, records = builder.build(), [Input("a", "x", each, ms) for ms, each in enumerate(held)]
    with session_settings(spark, {name: value}):
        app = on_spark(spark, tmp_path, topology, records, [2], "STRUCT<n: BIGINT, raw: BINARY, at: TIMESTAMP>")
    assert sink_rows(spark, app, topology) == on_driver(topology, records)


def test_rows_that_come_from_python_come_once_whatever_the_session_says(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("a", key="k", value="v", name="a_stream").group_by_key()
    grouped.windowed_by(SessionWindows.of("10 seconds")).count(name="sessions").to_changelog("out")
    topology, records = builder.build(), [Input("a", key, 1, at) for at, key in enumerate("xyz")]
    with session_settings(spark, {OUTPUT_ROWS: "1"}):
        app = on_spark(spark, tmp_path, topology, records, [3], "BIGINT")
    assert sink_rows(spark, app, topology) == on_driver(topology, records)
