"""A table knows its stream times also when Delta has cleaned its log of every commit that told them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned import faults
from versioned.commit import saying
from versioned.faults import Action
from versioned.identifiers import TableRef
from versioned.spec import VersionedTableSpec
from versioned.stream_times import KEPT, keep_told_times, kept_times, stream_times_of, told_times
from versioned.table import VersionedTable
from versioned.table_details import properties_of
from versioned.table_log import _SEEN, history, own_details


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


@pytest.mark.slow
def test_a_table_seen_before_tells_its_stream_times_without_its_history_also_restored(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="100 seconds")
    table.put(_records(spark, ("a", 10, 0)))
    version = history(spark, table.target, 1)[0]["version"]
    table.put(_records(spark, ("a", 1000, 0)))
    monkeypatch.setattr("versioned.table_log.history", _no_history)
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


@pytest.mark.slow
@pytest.mark.parametrize("by", ["VERSION", "TIMESTAMP"])
def test_a_restored_table_has_the_stream_time_of_then(spark: SparkSession, tmp_path: Path, by: str) -> None:
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="100 seconds")
    table.put(_records(spark, ("a", 10, 0)))
    then = history(spark, table.target, 1)[0]
    table.put(_records(spark, ("a", 1000, 0)))
    place = {"VERSION": str(then["version"]), "TIMESTAMP": f"'{then['timestamp']}'"}[by]
    spark.sql(f"RESTORE TABLE {table.target.sql} TO {by} AS OF {place}")
    assert table.stream_times() == {0: 10_000_000}


@pytest.mark.parametrize("operation", ["RESTORE", "CLONE"])
@pytest.mark.parametrize(("times", "told"), [({"0": 9}, []), ({"0": 9, "1": 2}, [{"0": 9, "1": 2}])])
def test_below_a_restore_to_an_instant_or_a_clone_only_what_rows_cannot_tell_still_counts(
    times: dict[str, int], told: list[dict[str, int]], operation: str
) -> None:
    said = json.dumps({"versioned": {}, "details": {"streamTimes": times}})
    before = {"version": 1, "operation": "WRITE", "userMetadata": said}
    instant = {"version": None, "timestamp": "2026-01-01"}
    restored = {"version": 2, "operation": operation, "operationParameters": instant, "userMetadata": None}
    assert told_times([restored, before]) == told


@pytest.mark.parametrize(
    ("judged", "to", "told"),
    [(8, 5, [{"0": 5}]), (8, 8, [{"0": 9}, {"0": 5}]), (8, None, [{"0": 5}]), (None, 5, [{"0": 9}, {"0": 5}])],
    ids=["taken back", "of what stays", "taken back to an instant", "not told by which version"],
)
def test_what_was_judged_before_a_restore_and_landed_behind_it_counts_no_more(
    judged: int | None, to: int | None, told: list[dict[str, int]]
) -> None:
    def commit(version: int, us: int, by: str | None = None, **more: Any) -> dict[str, Any]:
        identity = {} if by is None else {"write": by}
        said = {"versioned": identity, "details": {"streamTimes": {"0": us}, **more}}
        return {"version": version, "operation": "WRITE", "userMetadata": json.dumps(said)}

    place = {"version": None if to is None else str(to), "timestamp": None if to is not None else "2026-01-01"}
    restored = {"version": 10, "operation": "RESTORE", "operationParameters": place, "userMetadata": None}
    ended = commit(12, 9, **({} if judged is None else {"streamTimesAsOf": judged}))
    newest_first = [ended, commit(11, 5, streamTimesAsOf=10), restored]
    assert told_times(newest_first) == told
    # A put that was made anew behind the RESTORE has rows of its time.
    assert told_times([commit(12, 9, "put", streamTimesAsOf=8), *newest_first[1:]])[:1] == [{"0": 9}]


def test_a_table_made_while_maintenance_says_something_elsewhere_says_nothing_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    with saying(spark, {"streamTimes": {"0": 10**15}}):
        table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="1 hour")
    assert table.stream_times() == {}


def test_records_before_the_first_stream_time_leave_it_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(
        spark, str(tmp_path / "t"), "k STRING", keys="k", history_retention="100 seconds", first_stream_time_us=-1_000
    )
    table.put(_records(spark, ("a", -7, 0)))
    assert table.stream_times() == {0: -1_000}
    _clean_log(spark, table)
    assert table.stream_times() == {0: -1_000}


def _put_meanwhile(spark: SparkSession, table: VersionedTable, records: DataFrame, **said: str) -> Action:
    """Another put lands just before the first write."""
    waiting = [records]

    def reached(point: str) -> None:
        if point == "before:t" and waiting:
            VersionedTable.open(spark, str(table.target)).put(waiting.pop(), **said)

    return reached


class MetadataChangedException(Exception):
    """As Delta's, where somebody else changed the table while it was being changed."""


def _table(spark: SparkSession, path: Path) -> VersionedTable:
    return VersionedTable.create(spark, f"{path}/t", "k STRING", keys="k", history_retention="100 seconds")


def _kept(spark: SparkSession, table: VersionedTable) -> dict[int, int]:
    return kept_times(properties_of(spark, table.target))


@pytest.mark.slow
def test_stream_times_that_another_put_kept_meanwhile_outlive_the_log_too(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path)
    table.put(_records(spark, ("a", 10, 1)), partition="p")
    with faults.armed(_put_meanwhile(spark, table, _records(spark, ("b", 5000, 2)), partition="p")):
        table.put(_records(spark, ("a", 20, 1)), partition="p")
    _clean_log(spark, table)
    assert VersionedTable.open(spark, str(table.target)).stream_times() == {1: 20_000_000, 2: 5_000_000_000}


def test_stream_times_are_kept_behind_another_change_of_the_table_and_together_with_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _table(spark, tmp_path)
    tries = []

    def conflict(point: str) -> None:
        if point == "before:t/times":
            tries.append(point)
            if len(tries) == 1:
                spark.sql(f"""ALTER TABLE {table.target.sql} SET TBLPROPERTIES ('{KEPT}' = '{{"2": 500, "1": 7}}')""")
                raise MetadataChangedException

    with faults.armed(conflict):
        table.put(_records(spark, ("a", 10, 1)), partition="p")
    assert (len(tries), _kept(spark, table)) == (2, {1: 10_000_000, 2: 500})


def test_stream_times_that_only_commits_tell_outlive_the_log_once_upkeep_has_kept_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(spark, tmp_path)
    with monkeypatch.context() as as_batches:
        as_batches.setattr("versioned.table.keep_times", lambda *_: False)
        table.put(_records(spark, ("a", 10, 1), ("b", 5000, 2)), partition="p")
    assert _kept(spark, table) == {}
    assert [keep_told_times(spark, table.target, table.spec) for _ in range(2)] == [True, False]
    _clean_log(spark, table)
    assert VersionedTable.open(spark, str(table.target)).stream_times() == {1: 10_000_000, 2: 5_000_000_000}


@pytest.mark.slow
def test_a_put_that_has_landed_does_not_fail_where_its_stream_times_cannot_be_kept(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = _table(spark, tmp_path)

    def refuse(point: str) -> None:
        if point == "before:t/times":
            raise PermissionError("no ALTER TABLE for you")

    with faults.armed(refuse):
        assert table.put(_records(spark, ("a", 10, 1)), partition="p").counts.accepted == 1
    assert "does not keep its stream times; the next put or vacuum does" in caplog.text
    assert (table.stream_times(), _kept(spark, table)) == ({1: 10_000_000}, {})
    table.vacuum()
    assert _kept(spark, table) == {1: 10_000_000}


@pytest.mark.slow
@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_restore_takes_kept_stream_times_back_also_those_that_were_about_to_be_kept(
    spark: SparkSession, tmp_path: Path, meanwhile: bool
) -> None:
    table = _table(spark, tmp_path)
    table.put(_records(spark, ("a", 10, 1)), partition="p")
    version = history(spark, table.target, 1)[0]["version"]
    restored = []

    def restore(point: str) -> None:
        if meanwhile and point == "before:t/times" and not restored:
            restored.append(spark.sql(f"RESTORE TABLE {table.target.sql} TO VERSION AS OF {version}"))
            raise MetadataChangedException

    with faults.armed(restore):
        table.put(_records(spark, ("a", 1000, 1)), partition="p")
    if not meanwhile:
        spark.sql(f"RESTORE TABLE {table.target.sql} TO VERSION AS OF {version}")
    table.vacuum()
    assert _kept(spark, table) == {1: 10_000_000}
    table.put(_records(spark, ("a", 20, 1)), partition="p")
    _clean_log(spark, table)
    assert VersionedTable.open(spark, str(table.target)).stream_times() == {1: 20_000_000}


def _put(table: VersionedTable, records: DataFrame) -> object:
    return table.put(records)


def _purge(table: VersionedTable, _records: DataFrame) -> object:
    return table.purge()


@pytest.mark.parametrize(
    "write",
    [_put, pytest.param(VersionedTable.backfill, marks=pytest.mark.slow), pytest.param(_purge, marks=pytest.mark.slow)],
)
def test_what_a_put_moved_that_landed_under_another_write_is_told_however_many_commits_of_others_follow(
    spark: SparkSession, tmp_path: Path, write: Callable[[VersionedTable, DataFrame], object]
) -> None:
    table = _table(spark, tmp_path)
    # Of the purge: a deletion that is beyond the history.
    dead = F.col("k") == "gone"
    table.put(_records(spark, ("gone", 10, 0), ("a", 200, 0)).withColumn("dead", dead), deleted="dead")
    with faults.armed(_put_meanwhile(spark, table, _records(spark, ("b", 5000, 0)))):
        write(table, _records(spark, ("a", 190, 0)))
    for number in range(9):
        spark.sql(f"ALTER TABLE {table.target.sql} SET TBLPROPERTIES ('elsewhere' = '{number}')")
    _SEEN.clear()  # as in a process that reads the newest commits only
    assert table.stream_times() == {0: 5_000_000_000}


def _said(version: int, us: int, judged: int) -> dict[str, object]:
    details = {"streamTimes": {"0": us}, "streamTimesAsOf": judged}
    said = json.dumps({"versioned": {}, "details": details})
    return {"version": version, "operation": "WRITE", "userMetadata": said}


@pytest.mark.parametrize(("judged", "told", "asked"), [(2, 20, 0), (1, 5000, 1)])
def test_the_history_is_asked_only_for_what_landed_behind_the_version_by_which_the_newest_write_was_judged(
    monkeypatch: pytest.MonkeyPatch, judged: int, told: int, asked: int
) -> None:
    spec = VersionedTableSpec.of(keys="k", values=[], history_retention="1 day")
    others = [{"version": version, "operation": "OPTIMIZE", "userMetadata": None} for version in range(12, 3, -1)]
    newest = [*others, _said(3, 20, judged)]
    further = []

    def older(*_: object) -> Iterator[list[dict[str, object]]]:
        further.append(1)
        yield [*newest, _said(2, 5000, 1), _said(1, 10, 0)]

    monkeypatch.setattr("versioned.stream_times.back_in_time", older)
    no_session: Any = None
    assert stream_times_of(no_session, TableRef.parse("/t"), spec, newest) == {0: told}
    assert len(further) == asked
