"""The notebooks are in Databricks' source format, and each of them runs as a script and tells what its text says."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

_NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
_FILES = sorted(_NOTEBOOKS.glob("*.py"))
_IDS = [file.stem for file in _FILES]
_CELL = "# COMMAND ----------"
_MAGIC = "# MAGIC"
Told = dict[str, Any]


def _cells(file: Path) -> list[list[str]]:
    cells: list[list[str]] = [[]]
    for line in file.read_text(encoding="utf-8").splitlines()[1:]:
        cells.append([]) if line == _CELL else cells[-1].append(line)
    return [[line for line in cell if line.strip()] for cell in cells]


@pytest.mark.parametrize("file", _FILES, ids=_IDS)
def test_a_notebook_imports_as_one(file: Path) -> None:
    assert file.read_text(encoding="utf-8").startswith("# Databricks notebook source\n")
    cells = _cells(file)
    assert all(cells), "an empty cell"
    for cell in cells:
        magic = [line.startswith(_MAGIC) for line in cell]
        # A cell is all text or command, or all Python.
        assert all(magic) or not any(magic), cell
        if magic[0]:
            assert cell[0].startswith((f"{_MAGIC} %md", f"{_MAGIC} %pip")), cell[0]
        else:
            compile("\n".join(cell), str(file), "exec")
    assert cells[0][0] == f"{_MAGIC} %md"


@pytest.mark.parametrize("file", _FILES, ids=_IDS)
def test_a_notebook_keeps_off_what_spark_connect_has_not(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert [word for word in ("sparkContext", "_jvm", ".rdd", "_jsparkSession") if word in text] == []


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def _quickstart(told: Told) -> None:
    assert (told["first"].counts.accepted, told["late"].counts.spliced) == (3, 1)
    assert _rows(told["answers"]) == [(1, "tea", 10.0, None), (2, "tea", 11.0, None), (3, "rum", None, "NO_MATCH")]
    assert _rows(told["in_sql"]) == [("oil", 7.0), ("tea", 11.0)]
    assert told["report"].is_sound
    assert "<svg" in told["timeline"].to_html()


def _out_of_order(told: Told) -> None:
    assert told["by_merge"] == [("BUF", 21, 41), ("BUF", 41, 25), ("OKC", 25, None)]
    history = told["aircraft"].history().selectExpr("airport", "hour(validFrom)", "hour(validTo)").collect()
    assert sorted(map(tuple, history), key=str) == [("BUF", 17, None), ("BUF", 21, 1), ("OKC", 1, 17)]
    assert told["histories"] == [[("BUF", 21), ("BUF", 41), ("OKC", 25)]] * 6
    assert (told["refused"].counts.accepted, told["refused"].counts.refused) == (0, 1)


def _suppression(told: Told) -> None:
    hours = told["final_counts"].selectExpr("unix_seconds(windowStart) DIV 3600 AS hour", "count", "_batch_id")
    assert _rows(hours.orderBy("hour")) == [(0, 3, 1), (1, 3, 1)]
    assert _rows(told["rejects"].select("node", "reason")) == [("per_hour", "LATE")]
    assert told["driver"].counters("per_hour")["late"] == 1
    assert told["calm_counts"].count() >= 1


def _audit(told: Told) -> None:
    assert told["believed"] == {"April": "4.250", "May": "4.250", "June": "4.750"}
    assert (told["gone"].count(), told["came"].count()) == (1, 2)
    assert list(told["known_at"].values()) == sorted(set(told["known_at"].values()))


#: A dozen seconds and more each.
_SLOW = ("suppression", "bitemporal_audit")
_SAYS: dict[str, Callable[[Told], None]] = {
    "quickstart": _quickstart,
    "out_of_order_explained": _out_of_order,
    "suppression": _suppression,
    "bitemporal_audit": _audit,
}


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=file.stem, marks=[pytest.mark.slow] * (file.stem in _SLOW)) for file in _FILES]
)
def test_a_notebook_runs_as_a_script(
    spark: SparkSession, tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = runpy.run_path(str(file), {"spark": spark, "work": str(tmp_path)})
    _SAYS[file.stem](told)
    assert capsys.readouterr().out


def test_every_notebook_is_here_with_what_it_says() -> None:
    assert set(_IDS) == set(_SAYS)
