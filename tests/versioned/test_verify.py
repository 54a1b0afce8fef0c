"""Verification finds every kind of fault, and nothing where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned.errors import InvariantError
from versioned.spec import VersionedTableSpec
from versioned.table import VersionedTable
from versioned.verify import verify_frame

_SPEC = VersionedTableSpec.of(keys="k", values=["v"], history_retention="1 day")
_Row = tuple[Any, ...]
_SOUND: list[_Row] = [
    ("a", 10, 20, "x", False, False),
    ("a", 20, 30, None, True, False),
    ("a", 30, None, "z", False, True),
    ("b", -5, None, None, True, True),
]


def _stored(spark: SparkSession, rows: list[_Row]) -> DataFrame:
    """(key, validFrom s, validTo s, value, deleted, _current) as stored rows."""
    frame = spark.createDataFrame(rows, "k STRING, s LONG, e LONG, v STRING, deleted BOOLEAN, _current BOOLEAN")
    start, end = F.timestamp_seconds("s").alias("validFrom"), F.timestamp_seconds("e").alias("validTo")
    return frame.select("k", start, end, "v", "deleted", "_current")


def test_sound_rows_break_nothing(spark: SparkSession) -> None:
    report = verify_frame(_stored(spark, _SOUND), _SPEC)
    assert report.is_sound
    assert report.rows == len(_SOUND)


_FAULTS = [
    pytest.param([("a", 25, 28, "w", False, False)], {"overlap": 1, "gap": 1}, id="a version inside another"),
    pytest.param([("a", 10, 20, "w", False, False)], {"overlap": 1}, id="the same start twice"),
    pytest.param([("a", 5, 9, "w", False, False)], {"gap": 1}, id="a hole between two versions"),
    pytest.param([("b", -9, -9, "w", False, False)], {"empty": 1, "gap": 1}, id="ends where it begins"),
    pytest.param([("c", 9, 3, "w", False, False)], {"empty": 1, "no_current": 1}, id="ends before it begins"),
    pytest.param([("a", 40, None, "w", False, True)], {"overlap": 1, "several_current": 2}, id="two open rows"),
    pytest.param([("c", 1, 2, "w", False, False)], {"no_current": 1}, id="no open row"),
    pytest.param([("c", 1, None, "w", False, False)], {"partition": 1}, id="open but in the closed partition"),
    pytest.param([("c", 1, None, "w", False, None)], {"partition": 1}, id="in no partition"),
    pytest.param([(None, 1, None, "w", False, True)], {"null_key": 1}, id="no key"),
    pytest.param([("c", 1, None, "w", True, True)], {"value_of_deleted": 1}, id="a tombstone with a value"),
]


@pytest.mark.parametrize(("added", "broken"), _FAULTS)
@pytest.mark.rule("R180", "R181", "R183")
def test_every_kind_of_fault_is_found_and_counted(
    spark: SparkSession, added: list[_Row], broken: dict[str, int]
) -> None:
    report = verify_frame(_stored(spark, _SOUND + added), _SPEC)
    assert {name: count for name, count in report.broken.items() if count} == broken


def test_a_foreign_write_to_the_table_is_found_and_raised_with_its_count(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "written_to")
    table = VersionedTable.create(spark, path, "k STRING, v STRING", keys="k", history_retention="1 day")
    records = spark.createDataFrame([("a", "x", 10), ("a", "y", 20)], "k STRING, v STRING, s LONG")
    table.put(records.withColumn("ts", F.timestamp_seconds("s")))
    assert table.verify().is_sound
    spark.sql(f"UPDATE delta.`{path}` SET validTo = validTo + INTERVAL 1 HOUR WHERE v = 'x'")
    with pytest.raises(InvariantError, match=r"1 of 2 rows .*overlap"):
        table.verify().raise_if_broken()
