"""Expressions mean the same on Spark whatever the user's session says of overflows and casts."""

from __future__ import annotations

from pathlib import Path

import pytest
from both_engines import Input, on_spark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streams.expressions import Expr
from streams.topology import StreamsBuilder
from versioned.session_settings import session_settings


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
