"""Upserts: a small table is written anew, and holds what a MERGE would have left in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from versioned.commit import Merge, ReplaceWhere, Step, Write, commit
from versioned.identifiers import TableRef
from versioned.table_log import history
from versioned.upsert import upsert

_STORED: Final = "a LONG, b STRING, v STRING"
_ROWS: Final = f"{_STORED}, gone BOOLEAN"
_BEFORE: Final = [(1, "x", "one"), (1, None, "half"), (2, "y", "two"), (None, None, "none")]


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> TableRef:
    path = str(tmp_path / "table")
    spark.createDataFrame(_BEFORE, _STORED).write.format("delta").save(path)
    return TableRef.parse(path)


def _rows(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: str = _ROWS) -> DataFrame:
    return spark.createDataFrame(list(rows), schema)


def _after(spark: SparkSession, target: TableRef, write: Write) -> set[tuple[Any, ...]]:
    commit(target, lambda: write, Step("app", "node", "main", epoch=1, batch_id=1))
    rows = spark.read.format("delta").load(str(target.path)).collect()
    assert len(rows) == len({*rows})
    return {tuple(row) for row in rows}


@pytest.mark.parametrize("is_small", [False, True], ids=["merged", "anew"])
def test_rows_take_the_place_of_those_with_their_keys_though_parts_are_null(
    spark: SparkSession, target: TableRef, is_small: bool
) -> None:
    rows = _rows(spark, [(1, None, "new", False), (2, "y", None, True), (None, None, "?", False), (3, "z", "3", False)])
    write = upsert(target, rows, ["a", "b"], "gone", is_small=is_small)
    wanted = {(1, "x", "one"), (1, None, "new"), (None, None, "?"), (3, "z", "3")}
    assert _after(spark, target, write) == wanted


@pytest.mark.parametrize("is_small", [False, True], ids=["merged", "anew"])
def test_a_key_that_is_not_there_cannot_go(spark: SparkSession, target: TableRef, is_small: bool) -> None:
    rows = _rows(spark, [(7, "x", None, True)])
    assert _after(spark, target, upsert(target, rows, ["a", "b"], "gone", is_small=is_small)) == {*_BEFORE}


def test_a_small_table_is_written_to_one_file_in_one_commit(spark: SparkSession, target: TableRef) -> None:
    rows = _rows(spark, [(1, "x", "new")], _STORED)
    commit(target, lambda: upsert(target, rows, ["a", "b"], is_small=True), in_one_task=True)
    newest, _ = history(spark, target, 2)
    assert newest["operation"] == "WRITE"
    assert newest["operationMetrics"]["numFiles"] == "1"


@pytest.mark.parametrize(
    "schema",
    ["a LONG, b STRING, v STRING, more STRING", "a INT, b STRING, v STRING"],
    ids=["another column", "another type"],
)
def test_a_table_of_another_shape_is_merged_into_so_that_what_else_it_holds_stays(
    spark: SparkSession, target: TableRef, tmp_path: Path, schema: str
) -> None:
    other = TableRef.parse(str(tmp_path / "other"))
    spark.createDataFrame([], schema).write.format("delta").save(str(other.path))
    rows = _rows(spark, [(1, "x", "new")], _STORED)
    assert isinstance(upsert(other, rows, ["a", "b"], is_small=True), Merge)
    assert isinstance(upsert(target, rows, ["a", "b"], is_small=True), ReplaceWhere)


def test_what_maintenance_removes_meanwhile_does_not_come_back(spark: SparkSession, target: TableRef) -> None:
    """The frame reads the table in the transaction that writes it, so not as it was when the frame was made."""
    rows = _rows(spark, [(9, "z", "new")], _STORED)
    write = upsert(target, rows, ["a", "b"], is_small=True)
    spark.sql(f"DELETE FROM {target.sql} WHERE a = 2")
    assert _after(spark, target, write) == {*_BEFORE, (9, "z", "new")} - {(2, "y", "two")}
