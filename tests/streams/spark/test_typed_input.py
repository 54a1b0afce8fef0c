"""Rows of a source before a batch keeps them in memory."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from streams.spark.typed_input import shortened

_LONG = "repeat('x', 40)"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (_LONG, f"'{'x' * 11}'"),
        (
            f"named_struct('n', 1, 'deep', named_struct('t', {_LONG}))",
            f"named_struct('n', 1, 'deep', named_struct('t', '{'x' * 11}'))",
        ),
        (f"array('a', {_LONG}, NULL)", f"array('a', '{'x' * 11}', NULL)"),
        (f"map('k', {_LONG})", f"map('k', '{'x' * 11}')"),
        (f"array(named_struct('t', {_LONG}))", f"array(named_struct('t', '{'x' * 11}'))"),
        ("named_struct('t', 'short')", "named_struct('t', 'short')"),
        ("CAST(NULL AS STRUCT<t: STRING>)", "CAST(NULL AS STRUCT<t: STRING>)"),
        ("array(1L, 2L, 3L)", "array(1L, 2L, 3L)"),
    ],
    ids=["text", "struct", "array", "map", "structs in an array", "short", "null", "numbers"],
)
def test_a_value_is_kept_only_as_far_as_it_takes_to_find_it_too_large(
    value: str, kept: str, spark: SparkSession
) -> None:
    frame = spark.range(1).selectExpr(f"{value} AS v", "1 AS `odd name`")
    wanted = spark.range(1).selectExpr(f"{kept} AS v", "1 AS `odd name`")
    cut = shortened(frame, 10)
    assert cut.schema.simpleString() == frame.schema.simpleString()
    assert [row.asDict(recursive=True) for row in cut.collect()] == [
        row.asDict(recursive=True) for row in wanted.collect()
    ]
