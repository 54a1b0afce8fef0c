"""Tombstones that a versioned table is spared."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE
from streams.spark.repeated_tombstones import without_repeated_tombstones
from versioned.spec import VersionedTableSpec

_RECORD = f"{KEY} STRUCT<k: STRING>, {VALUE} STRUCT<v: STRING>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>"
_SPEC = VersionedTableSpec.of(keys=("k",), values=("v",), history_retention="1 day")


@pytest.mark.rule("R160")
@pytest.mark.parametrize(
    ("before", "values", "left"),
    [
        ("x", [None], [None]),
        ("x", [None, None], [None]),
        ("x", [None, None, None], [None]),
        (None, [None, None], []),
        ("x", ["y", "y"], ["y", "y"]),
    ],
)
def test_of_equal_records_only_the_first_tombstone_is_left(
    before: str | None, values: list[str | None], left: list[str | None], spark: SparkSession
) -> None:
    rows = [(("a",), value and (value,), 7, 0, [7, 0, 0, 99, 1, row]) for row, value in enumerate(values)]
    current = spark.createDataFrame([(("a",), before and (before,), 5)], f"{_RECORD.split(SCOPE)[0].rstrip(', ')}")
    kept = without_repeated_tombstones(spark.createDataFrame(rows, _RECORD), current, _SPEC, {0: 5})
    assert [row[VALUE] and row[VALUE]["v"] for row in kept.collect()] == left
    assert kept.columns == [KEY, VALUE, US, SCOPE, PLACE]
