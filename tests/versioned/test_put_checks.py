"""Records that a put would take for something else are refused by the types of their columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from versioned.errors import SchemaError
from versioned.put_checks import check_types
from versioned.table import VersionedTable

_TABLE = "k STRING, v INT"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("k STRING, v INT, ts BIGINT", "would be read as seconds.*timestamp_millis"),
        ("k STRING, v INT, ts DOUBLE", "would be read as seconds"),
        ("k STRING, v DOUBLE, ts TIMESTAMP", '"v" as double, the table as int: fractions'),
        ("k STRING, v DECIMAL(9, 2), ts TIMESTAMP", "fractions would be cut off"),
    ],
)
def test_a_type_that_would_change_what_is_meant_is_refused(spark: SparkSession, columns: str, reason: str) -> None:
    types = {field.name: field.dataType for field in spark.createDataFrame([], _TABLE).schema.fields}
    with pytest.raises(SchemaError, match=reason):
        check_types(spark.createDataFrame([], columns), types, "ts")


@pytest.mark.parametrize("columns", ["k INT, v DECIMAL(9, 0), ts TIMESTAMP", "k STRING, v BIGINT, ts DATE"])
def test_other_types_are_cast_as_ever(spark: SparkSession, columns: str) -> None:
    types = {field.name: field.dataType for field in spark.createDataFrame([], _TABLE).schema.fields}
    check_types(spark.createDataFrame([], columns), types, "ts")


def test_a_put_of_whole_numbers_as_instants_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", _TABLE, keys="k", history_retention="1 day")
    with pytest.raises(SchemaError, match="would be read as seconds"):
        table.put(spark.createDataFrame([("a", 1, 1_700_000_000_000)], "k STRING, v INT, ts BIGINT"))
    assert (table.stream_times(), table.current().count()) == ({}, 0)
