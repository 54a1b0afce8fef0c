"""``versioned rollback`` and ``versioned backfill``: what they print, and the codes they end with."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import run
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from jobs.cli_backfill import _missing_told, _records
from jobs.cli_shared import misfits_told
from versioned.errors import ConfigurationError, RecordError
from versioned.session_settings import TIME_TEXTS

_CONFIG = """
application: shop
root: tables
sources: {s: {format: json, path: input/s, schema: "ts TIMESTAMP, k STRING, v INT", options: {maxFilesPerTrigger: "1"}}}
plan:
  s: {op: table, key: k, value: v, store: {kind: versioned, history_retention: 1 day, system_history: true}}
"""


def _write(folder: Path, name: str, *rows: tuple[str, str, int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"ts": ts, "k": key, "v": value}) for ts, key, value in rows]
    (folder / name).write_text("\n".join(lines), encoding="utf-8")
    # Files are read in the order of their times.
    os.utime(folder / name, (1_700_000_000 + int(name[0]), 1_700_000_000 + int(name[0])))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder with an application that has run two batches."""
    folder = tmp_path_factory.mktemp("changes")
    _write(folder / "input" / "s", "0.json", ("2026-01-01T00:00:00Z", "a", 1))
    _write(folder / "input" / "s", "1.json", ("2026-01-02T00:00:00Z", "a", 2))
    _write(folder / "old", "0.json", ("2020-01-01T00:00:00Z", "a", 0), ("2030-01-01T00:00:00Z", "a", 9))
    (folder / "shop.yaml").write_text(_CONFIG, encoding="utf-8")
    return folder


def _values(spark: SparkSession, work: Path, table: str = "s") -> list[int]:
    rows = spark.read.format("delta").load(str(work / "tables" / table)).orderBy("validFrom", "v").collect()
    return [row["v"] for row in rows]


def _write_broken(work: Path) -> None:
    """Files with one good record and one whose value is no number."""
    for kind, good, bad in (
        (
            "json",
            '{"ts": "2020-01-01T00:00:00Z", "k": "a", "v": 7}',
            '{"ts": "2020-01-02T00:00:00Z", "k": "a", "v": "x"}',
        ),
        ("csv", "2020-01-01T00:00:00Z,a,7", "2020-01-02T00:00:00Z,a,x"),
    ):
        (work / f"broken_{kind}").mkdir()
        (work / f"broken_{kind}" / f"0.{kind}").write_text(f"{good}\n{bad}\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--format", "xml"], "use one of parquet"),
        (["--format", "csv"], "--schema: csv has no types"),
        (["--format", "json", "--schema", "k STRING", "--header"], "--header: only csv has one"),
    ],
)
def test_files_that_cannot_be_read_as_said_are_refused_before_spark_starts(
    work: Path, arguments: list[str], told: str
) -> None:
    ended = run(work, "backfill", "--table", "s", "--from", "old", *arguments)
    assert (ended.exit_code, told in ended.stderr) == (2, True), ended.stderr


def test_what_is_read_is_said_before_there_is_a_session(work: Path) -> None:
    assert _records(work, "old", "json", "k STRING, v INT", header=False)[1] == "json"
    assert _records(work, "catalog:main.old", None, None, header=False)[1] == "table"


def test_days_in_files_are_read_as_a_source_reads_them_whatever_the_session_says(
    spark: SparkSession, work: Path
) -> None:
    session = spark.newSession()
    session.conf.set(TIME_TEXTS, "LEGACY")
    (work / "days").mkdir()
    (work / "days" / "0.csv").write_text("2026-02-30\n", encoding="utf-8")
    with pytest.raises(Exception, match="2026-02-30"):
        _records(work, "days", "csv", "day DATE", header=False)[0](session).collect()


@pytest.mark.parametrize(
    ("source", "arguments", "told"),
    [
        ("catalog:old", ["--schema", "k STRING", "--header"], "Leave out --schema, --header."),
        ("catalog:old", ["--format", "delta"], "Leave out --format."),
        ("catalog:old/prices", [], "the name of a table, such as main.shop.old_prices"),
        ("catalog:old prices", [], "is not a table name"),
    ],
)
def test_a_table_of_a_catalog_that_is_named_or_read_as_files_are_is_refused_before_spark_starts(
    work: Path, source: str, arguments: list[str], told: str
) -> None:
    ended = run(work, "backfill", "--table", "s", "--from", source, *arguments)
    assert (ended.exit_code, told in ended.stderr) == (2, True), ended.stderr


def test_a_file_that_does_not_fit_is_told_without_its_values_and_other_faults_stay_as_they_are() -> None:
    with pytest.raises(RecordError, match="it does not fit") as told, misfits_told("it does not fit"):
        raise RuntimeError("[FAILED_READ_FILE.NO_HINT] ... [ann, tiger]")
    assert "tiger" not in str(told.value)
    with pytest.raises(RuntimeError, match="disk is full"), misfits_told("it does not fit"):
        raise RuntimeError("disk is full")


def test_a_place_where_nothing_is_is_told_in_words_of_the_command() -> None:
    for said in ("[PATH_NOT_FOUND] Path does not exist: s3a://bucket/typo.", "[TABLE_OR_VIEW_NOT_FOUND] x"):
        with pytest.raises(ConfigurationError, match=r"^--from typo: there is nothing\."), _missing_told("typo"):
            raise AnalysisException(said)
    with pytest.raises(AnalysisException, match="NO_RIGHTS"), _missing_told("typo"):
        raise AnalysisException("[NO_RIGHTS] x")


@pytest.mark.slow
def test_a_rollback_and_a_backfill_from_the_command_line(spark: SparkSession, work: Path) -> None:
    wrong = run(work, "rollback", "--batch", "0")
    assert (wrong.exit_code, "has no ledger" in wrong.stderr) == (2, True)
    assert run(work, "run").exit_code == 0
    assert _values(spark, work) == [1, 2]
    told = json.loads(run(work, "rollback", "--batch", "0", "--dry-run", "--json").stdout)
    assert (told["batch_id"], told["undone"], told["dry_run"], _values(spark, work)) == (0, [1], True, [1, 2])
    assert "shop would stand after batch 0" in run(work, "rollback", "--batch", "0", "--dry-run").stdout
    done = run(work, "rollback", "--batch", "0")
    assert (done.exit_code, "shop stands after batch 0" in done.stdout) == (0, True)
    assert (_values(spark, work), _values(spark, work, "s_known")) == ([1], [1])
    assert run(work, "run").exit_code == 0
    assert (_values(spark, work), _values(spark, work, "s_known")) == ([1, 2], [1, 2])
    backfill = ("backfill", "--table", "s", "--from", "old", "--format", "json")
    assert run(work, *backfill).exit_code == 2
    _write_broken(work)
    for broken in (("--from", "broken_json", "--format", "json"), ("--from", "broken_csv", "--format", "csv")):
        ended = run(work, "backfill", "--table", "s", *broken, "--schema", "ts TIMESTAMP, k STRING, v INT")
        assert (ended.exit_code, _values(spark, work), _values(spark, work, "s_known")) == (3, [1, 2], [1, 2])
        assert "does not fit the columns" in ended.stderr
    typo = run(work, "backfill", "--table", "s", "--from", "typo")
    assert (typo.exit_code, "--from typo: there is nothing." in typo.stderr) == (2, True)
    filled = run(work, *backfill, "--schema", "ts TIMESTAMP, k STRING, v INT", "--json")
    said = json.loads(filled.stdout)
    assert (filled.exit_code, said["accepted"], said["rejected.NOT_HISTORY"], said["by_others"]) == (3, 1, 1, [])
    assert (_values(spark, work), _values(spark, work, "s_known")) == ([0, 1, 2], [0, 1, 2])
    (work / "csv").mkdir()
    (work / "csv" / "0.csv").write_text("ts,k,v\n2019-01-01T00:00:00Z,a,-1\n", encoding="utf-8")
    of_csv = ("backfill", "--table", "s", "--from", "csv", "--format", "csv", "--header", "--schema")
    assert run(work, *of_csv, "ts TIMESTAMP, v INT, k STRING").exit_code == 3
    assert run(work, *of_csv, "ts TIMESTAMP, k STRING, v INT").exit_code == 0
    assert _values(spark, work) == [-1, 0, 1, 2]
    spark.createDataFrame([("2018-01-01T00:00:00Z", "a", -2)], "ts STRING, k STRING, v INT").selectExpr(
        "CAST(ts AS TIMESTAMP) AS ts", "k", "v"
    ).write.mode("overwrite").saveAsTable("backfilled_from")
    assert run(work, "backfill", "--table", "s", "--from", "catalog:backfilled_from").exit_code == 0
    assert _values(spark, work) == [-2, -1, 0, 1, 2]
    assert json.loads(run(work, "doctor", "--json").stdout)["healthy"]
