"""A table knows its stream times also when Delta has cleaned its log of every commit that told them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned.commit import _SEEN, history, own_details
from versioned.stream_times import told_times
from versioned.table import VersionedTable


def _records(spark: SparkSession, *rows: tuple[str, int, int]) -> DataFrame:
    return spark.createDataFrame(rows, "k STRING, s LONG, p INT").withColumn("ts", F.timestamp_seconds("s"))


def _clean_log(spark: SparkSession, table: VersionedTable) -> None:
    """As Delta does after a month in which only others wrote: a checkpoint, and no commit before it."""
    for value in ("1", "2"):
        said = f"'delta.checkpointInterval' = '1', 'elsewhere' = '{value}'"
        spark.sql(f"ALTER TABLE {table.target.sql} SET TBLPROPERTIES ({said})")
    log = Path(str(table.target)) / "_delta_log"
    newest = max(int(file.name.split(".")[0]) for file in log.glob("*.checkpoint*parquet"))
    for file in log.glob("*"):
        number = file.name.lstrip(".").split(".")[0]
        if number.isdigit() and int(number) < newest:
            file.unlink()
    assert all(own_details(row) is None for row in history(spark, table.target, 100))


@pytest.mark.parametrize("said", ['{"versioned": 3}', '{"versioned": {}, "details": null}', "[1]"])
def test_foreign_commits_tell_no_stream_times_even_if_they_use_a_word_of_ours(said: str) -> None:
    assert told_times([{"version": 1, "operation": "WRITE", "userMetadata": said}]) == []


@pytest.mark.parametrize(
    ("partition", "told"),
    [
        pytest.param(None, {0: 1_000_000_000}, marks=pytest.mark.slow),
        ("p", {0: 1_000_000_000, 3: 500_000_000}),
        pytest.param("q", {5: 1_000_000_000}, marks=pytest.mark.slow),
    ],
    ids=["one scope", "two scopes", "one scope that is not the first"],
)
def test_late_records_are_refused_after_the_log_was_cleaned(
    spark: SparkSession, tmp_path: Path, partition: str | None, told: dict[int, int]
) -> None:
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="100 seconds")
    records = _records(spark, ("a", 1000, 0), ("b", 500, 3)).withColumn("q", F.lit(5))
    table.put(records, partition=partition, sequence="s")
    assert table.stream_times() == told
    _clean_log(spark, table)
    again = VersionedTable.open(spark, str(tmp_path / "t"))
    assert again.stream_times() == told
    outcomes = again.put(
        _records(spark, ("c", 899, 0), ("c", 450, 3)).withColumn("q", F.lit(5)), partition=partition, sequence="s"
    ).outcomes
    accepted = {row["sequence"] for row in outcomes.where("outcome <> 'refused'").collect()}
    assert accepted == ({450} if partition == "p" else set())


def _no_history(*_: object) -> list[object]:
    raise AssertionError("the history was asked for")


def test_a_table_seen_before_tells_its_stream_times_without_its_history_also_restored(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="100 seconds")
    table.put(_records(spark, ("a", 10, 0)))
    version = history(spark, table.target, 1)[0]["version"]
    table.put(_records(spark, ("a", 1000, 0)))
    monkeypatch.setattr("versioned.commit.history", _no_history)
    assert table.stream_times() == {0: 1_000_000_000}
    spark.sql(f"RESTORE TABLE {table.target.sql} TO VERSION AS OF {version}")
    assert table.stream_times() == {0: 10_000_000}


@pytest.mark.parametrize("others", [1, 5])
def test_stream_times_are_those_of_the_newest_put_whoever_made_it_and_whatever_lies_on_top(
    spark: SparkSession, tmp_path: Path, others: int
) -> None:
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="100 seconds")
    table.put(_records(spark, ("a", 10, 0)))
    seen = dict(_SEEN)
    table.put(_records(spark, ("a", 1000, 0)))
    for number in range(others):
        spark.sql(f"ALTER TABLE {table.target.sql} SET TBLPROPERTIES ('elsewhere' = '{number}')")
    _SEEN.update(seen)  # as a process would that did not make the second put
    assert table.stream_times() == {0: 1_000_000_000}


@pytest.mark.parametrize("by", [pytest.param("VERSION", marks=pytest.mark.slow), "TIMESTAMP"])
def test_a_restored_table_has_the_stream_time_of_then(spark: SparkSession, tmp_path: Path, by: str) -> None:
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="100 seconds")
    table.put(_records(spark, ("a", 10, 0)))
    then = history(spark, table.target, 1)[0]
    table.put(_records(spark, ("a", 1000, 0)))
    place = {"VERSION": str(then["version"]), "TIMESTAMP": f"'{then['timestamp']}'"}[by]
    spark.sql(f"RESTORE TABLE {table.target.sql} TO {by} AS OF {place}")
    assert table.stream_times() == {0: 10_000_000}


@pytest.mark.parametrize(("times", "told"), [({"0": 9}, []), ({"0": 9, "1": 2}, [{"0": 9, "1": 2}])])
def test_below_a_restore_to_an_instant_only_what_rows_cannot_tell_still_counts(
    times: dict[str, int], told: list[dict[str, int]]
) -> None:
    said = json.dumps({"versioned": {}, "details": {"streamTimes": times}})
    before = {"version": 1, "operation": "WRITE", "userMetadata": said}
    instant = {"version": None, "timestamp": "2026-01-01"}
    restored = {"version": 2, "operation": "RESTORE", "operationParameters": instant, "userMetadata": None}
    assert told_times([restored, before]) == told


def test_records_before_the_first_stream_time_leave_it_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(
        spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="100 seconds", first_stream_time_us=-1_000
    )
    table.put(_records(spark, ("a", -7, 0)))
    assert table.stream_times() == {0: -1_000}
    _clean_log(spark, table)
    assert table.stream_times() == {0: -1_000}
