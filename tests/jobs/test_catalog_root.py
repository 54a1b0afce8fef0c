"""Jobs whose tables are those of a schema of a catalog: each command finds them there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import run
from pyspark.sql import SparkSession

_CONFIG = """
application: shop
root: catalog:spark_catalog.shop
checkpoint: checkpoint
sources: {s: {format: json, path: input, schema: "ts TIMESTAMP, k STRING, v INT", options: {maxFilesPerTrigger: "1"}}}
plan:
  s: {op: table, key: k, value: v, store: {kind: versioned, history_retention: 1 day, system_history: true}}
  told: {op: to_changelog, from: s}
"""
_OWN = [f"spark_catalog.shop.{name}" for name in ("ledger", "rejects", "s", "s_known", "told")]


@pytest.fixture(scope="module")
def work(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A work folder with a job that has run two batches into the schema ``shop``."""
    spark.sql("CREATE DATABASE shop")
    folder = tmp_path_factory.mktemp("catalog")
    _write(folder / "old", 0, "2020-01-01", 0)
    for number in (0, 1):
        _write(folder / "input", number, f"2026-01-0{number + 1}", number + 1)
    (folder / "shop.yaml").write_text(_CONFIG, encoding="utf-8")
    (folder / "upkeep.yaml").write_text("root: catalog:spark_catalog.shop\n", encoding="utf-8")
    assert run(folder, "run").exit_code == 0
    yield folder
    spark.sql("DROP DATABASE shop CASCADE")


def _write(folder: Path, number: int, day: str, value: int) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / f"{number}.json"
    file.write_text(json.dumps({"ts": f"{day}T00:00:00Z", "k": "a", "v": value}), encoding="utf-8")
    # Files are read in the order of their times.
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def _values(spark: SparkSession) -> list[int]:
    return [row["v"] for row in spark.table("shop.s").orderBy("validFrom").collect()]


def test_a_job_writes_into_a_schema_and_the_doctor_finds_its_tables_there(spark: SparkSession, work: Path) -> None:
    assert _values(spark) == [1, 2]
    told = json.loads(run(work, "doctor", "--json").stdout)
    assert (told["healthy"], told["root"], told["batch_id"]) == (True, "spark_catalog.shop", 1)


def test_a_run_into_a_catalog_that_ends_with_the_process_tells_it_once(
    spark: SparkSession, work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(work, "run").exit_code == 0
    assert caplog.text.count("spark_catalog.shop.ledger is in spark_catalog, which this session keeps in memory") == 1


def test_upkeep_of_a_schema_takes_its_tables_and_no_views(spark: SparkSession, work: Path) -> None:
    spark.sql("CREATE VIEW shop.s_current AS SELECT * FROM shop.s")
    told = run(work, "maintain", "--dry-run", "--json", config="upkeep.yaml")
    assert told.exit_code == 0, told.stderr
    assert [json.loads(line)["table"] for line in told.stdout.splitlines()] == _OWN


def test_upkeep_of_a_schema_that_is_not_there_says_so(spark: SparkSession, work: Path) -> None:
    told = run(work, "maintain", "--dry-run", "--set", "root=catalog:nowhere", config="upkeep.yaml")
    assert (told.exit_code, "root: the tables of nowhere cannot be listed" in told.stderr) == (2, True)


@pytest.mark.slow
def test_changes_of_the_tables_of_a_schema_are_made_and_taken_back(spark: SparkSession, work: Path) -> None:
    schema = "ts TIMESTAMP, k STRING, v INT"
    filled = run(work, "backfill", "--table", "s", "--from", "old", "--format", "json", "--schema", schema)
    assert (filled.exit_code, _values(spark)) == (0, [0, 1, 2])
    assert run(work, "rollback", "--batch", "0").exit_code == 0
    assert _values(spark) == [1]
    assert run(work, "run").exit_code == 0
    assert _values(spark) == [1, 2]
    assert run(work, "maintain", config="upkeep.yaml").exit_code == 0
    erased = run(work, "erase", "--key", "k=a")
    assert (erased.exit_code, "Not searched" in erased.stdout) == (0, False), erased.stdout
    assert _values(spark) == []
