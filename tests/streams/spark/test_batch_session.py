"""Batches give the same on Spark whatever the user's session says of overflows, casts and unions."""

from __future__ import annotations

from pathlib import Path

import pytest
from both_engines import Input, on_spark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streams.expressions import Expr
from streams.spark import started_query as running
from streams.spark.arrival import Arrived, arrived
from streams.topology import StreamsBuilder
from versioned.session_settings import UNIONS, session_settings


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
