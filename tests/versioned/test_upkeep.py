"""Upkeep takes away only what no promised lookup, no replay and no reader needs."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from keyed_records import keyed_records
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned import faults, put
from versioned.commit import Append, Merge, Step, commit
from versioned.durations import instant
from versioned.errors import RetentionError
from versioned.identifiers import TableRef
from versioned.put import PutBatch
from versioned.restore import check_version, restore
from versioned.spec import VersionedTableSpec
from versioned.sql_types import sql_properties
from versioned.table import VersionedTable
from versioned.table_log import history, own_details
from versioned.upkeep import expired_rows, optimize_merged, tell_held_back

_SPEC = VersionedTableSpec.of(keys="k", values=["v"], history_retention="1 day")


def _create(spark: SparkSession, path: Path, **options: Any) -> VersionedTable:
    return VersionedTable.create(
        spark, str(path), "k STRING, v STRING", keys="k", history_retention="100 seconds", **options
    )


def _put(table: VersionedTable, spark: SparkSession, *rows: tuple[str, str | None, int]) -> None:
    table.put(keyed_records(spark, *rows), deleted="dead", sequence="s")


def _seen(frame: DataFrame) -> list[tuple[Any, ...]]:
    second = [F.unix_seconds(name) for name in ("validFrom", "validTo")]
    return sorted((tuple(row) for row in frame.select("k", "v", *second).collect()), key=lambda row: (row[0], row[2]))


#: (case, from, to, deleted) against the horizon 100, and whether the row is gone.
_BOUNDARIES = [
    ("ended before it", 10, 99, False, True),
    ("ended at it: not valid any more there", 10, 100, False, True),
    ("still valid at it", 10, 101, False, False),
    ("a tombstone that ended before it", 10, 99, True, True),
    ("a latest value, however old", 10, None, False, False),
    ("a latest tombstone from before it", 99, None, True, True),
    ("a latest tombstone from just then", 100, None, True, False),
]


def test_what_is_expired_is_decided_at_the_horizon_itself(spark: SparkSession) -> None:
    rows = [case[:4] for case in _BOUNDARIES]
    stored = spark.createDataFrame(rows, "k STRING, s LONG, e LONG, deleted BOOLEAN").select(
        "k",
        F.timestamp_seconds("s").alias("validFrom"),
        F.timestamp_seconds("e").alias("validTo"),
        "deleted",
        F.col("e").isNull().alias("_current"),
    )
    gone = expired_rows(stored, _SPEC, F.timestamp_seconds(F.lit(100)))
    assert {row["k"] for row in gone.collect()} == {case[0] for case in _BOUNDARIES if case[4]}


@pytest.fixture(scope="module")
def purged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[VersionedTable, dict[str, Any]]:
    """A table after a purge, and what was asked of it before."""
    table = _create(spark, tmp_path_factory.mktemp("purged") / "t")
    history = [("a", "q", 4), ("a", "r", 899), ("a", "s", 900), ("a", "t", 1000)]
    _put(table, spark, ("gone", "x", 1), ("gone", None, 2), ("old", "p", 3), *history)
    before = _answers(table, spark)
    assert table.purge()
    return table, before


def _answers(table: VersionedTable, spark: SparkSession) -> dict[str, Any]:
    keys = [(key, second) for key in ("gone", "old", "a") for second in (0, 1, 3, 5, 898, 899, 900, 999, 1000)]
    asked = spark.createDataFrame(keys, "k STRING, s LONG").withColumn("at", F.timestamp_seconds("s"))
    found = table.lookup(asked, at="at").select("k", "s", "v", "reason").collect()
    return {"current": _seen(table.current()), "lookups": sorted(tuple(row) for row in found)}


@pytest.mark.rule("R184")
@pytest.mark.parametrize("scope", ["partition", "store"])
def test_a_retention_that_is_lengthened_behind_a_purge_promises_nothing_that_is_gone(
    spark: SparkSession, tmp_path: Path, scope: str
) -> None:
    table = _create(spark, tmp_path / "t", time_scope=scope)
    _put(table, spark, ("a", "q", 4), ("a", "r", 899), ("a", "t", 1000))
    assert table.purge()
    longer = replace(table.spec, history_retention_us=990 * 10**6)
    spark.sql(f"ALTER TABLE {table.target.sql} SET {sql_properties(longer.to_properties())}")
    opened = VersionedTable.open(spark, table.target)
    assert opened.horizon() == instant(900 * 10**6)
    asked = spark.sql("SELECT 'a' AS k, timestamp_seconds(s) AS at FROM VALUES (500), (950) AS t(s)")
    found = opened.lookup(asked, at="at").orderBy("at").select("v", "reason").collect()
    assert [tuple(row) for row in found] == [(None, "EXPIRED"), ("r", None)]


@pytest.mark.rule("R184", "R187")
def test_a_purge_removes_expired_history_and_old_tombstones_but_no_latest_value(
    purged: tuple[VersionedTable, dict[str, Any]],
) -> None:
    assert _seen(purged[0].rows()) == [("a", "s", 900, 1000), ("a", "t", 1000, None), ("old", "p", 3, None)]
    assert purged[0].verify().is_sound


def _closed_files(spark: SparkSession, table: VersionedTable) -> dict[str, set[int]]:
    """At which second the rows of each file of closed history ended."""
    rows = spark.read.format("delta").load(str(table.target.path)).where("NOT _current")
    told = rows.select(F.input_file_name(), F.unix_seconds("validTo")).collect()
    return {file: {end for name, end in told if name == file} for file, _ in told}


@pytest.mark.rule("R187")
def test_a_purge_leaves_files_with_nothing_expired_alone(spark: SparkSession, tmp_path: Path) -> None:
    table = _create(spark, tmp_path / "t")
    for value, second in (("p", 1), ("q", 10), ("r", 950), ("s", 1000)):
        _put(table, spark, ("a", value, second), ("b", value, second))
    before = _closed_files(spark, table)
    assert {tuple(ends) for ends in before.values()} == {(10,), (950,), (1000,)}
    assert table.purge()
    assert _closed_files(spark, table) == {file: ends for file, ends in before.items() if ends != {10}}


def test_a_purge_changes_no_answer_but_that_a_key_deleted_long_ago_is_forgotten(
    spark: SparkSession, purged: tuple[VersionedTable, dict[str, Any]]
) -> None:
    table, before = purged
    forgotten = [(k, s, v, "NO_MATCH") if k == "gone" else (k, s, v, reason) for k, s, v, reason in before["lookups"]]
    assert _answers(table, spark) == {**before, "lookups": sorted(forgotten)}


@pytest.mark.slow
def test_an_older_partition_brings_no_promise_back_that_a_purge_has_given_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _create(spark, tmp_path / "partitions")
    _put(table, spark, ("a", "x", 1), ("a", "y", 50), ("a", "z", 1000))
    assert table.purge()
    of_another = keyed_records(spark, ("b", "p", 110), ("b", "q", 115)).withColumn("partition", F.lit(1))
    table.put(of_another, partition="partition")
    table = VersionedTable.open(spark, str(table.target))
    assert (table.stream_times(), table.horizon()) == ({0: 1_000_000_000, 1: 115_000_000}, instant(900_000_000))
    asked = spark.createDataFrame([("a", 30)], "k STRING, s LONG").withColumn("at", F.timestamp_seconds("s"))
    assert [row["reason"] for row in table.lookup(asked, at="at").collect()] == ["EXPIRED"]
    # What the other partition's own stream time promises stays.
    assert not table.purge()


def test_a_second_purge_finds_nothing_and_stream_time_stays(purged: tuple[VersionedTable, dict[str, Any]]) -> None:
    assert not purged[0].purge()
    assert purged[0].stream_times() == {0: 1_000_000_000}


@pytest.mark.rule("R159")
def test_with_a_stream_time_per_key_each_key_is_purged_by_its_own(spark: SparkSession, tmp_path: Path) -> None:
    table = _create(spark, tmp_path / "by_key", time_scope="key")
    _put(table, spark, ("fast", "x", 10), ("fast", "y", 20), ("fast", "z", 1000), ("slow", "p", 10), ("slow", "q", 20))
    assert table.purge()
    assert _seen(table.rows()) == [
        ("fast", "y", 20, 1000),
        ("fast", "z", 1000, None),
        ("slow", "p", 10, 20),
        ("slow", "q", 20, None),
    ]


@pytest.mark.slow
def test_a_batch_that_lands_during_a_purge_loses_neither_rows_nor_stream_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _create(spark, tmp_path / "race")
    _put(table, spark, ("k", None, 10), ("other", "x", 10), ("other", "y", 50), ("other", "z", 500))

    def batch(name: str) -> None:
        # The purge has looked already, and not yet written; the tombstone it saw is then followed by a value.
        if name == "before:race" and table.stream_times()[0] < 900_000_000:
            with faults.armed(lambda _name: None):
                _put(table, spark, ("k", "revived", 900))

    with faults.armed(batch):
        table.purge()
    assert _seen(table.rows()) == [
        ("k", None, 10, 900),
        ("k", "revived", 900, None),
        ("other", "y", 50, 500),
        ("other", "z", 500, None),
    ]
    assert table.stream_times() == {0: 900_000_000}
    assert table.verify().is_sound


def test_a_purge_removes_nothing_of_a_partition_that_comes_while_it_is_under_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = _create(spark, tmp_path / "race")
    _put(table, spark, ("a", "x", 10), ("a", "y", 20), ("a", "z", 1000))
    of_another = keyed_records(spark, ("k", "x", 10), ("k", "y", 20), ("k", None, 30), ("k", "late", 25))
    waiting = [of_another.where("v IS NULL OR v <> 'late'"), of_another.where("v = 'late'")]

    def put_next() -> None:
        records = waiting.pop(0).withColumn("partition", F.lit(1))
        table.put(records, deleted="dead", sequence="s", partition="partition")

    def batch(name: str) -> None:
        # The purge has looked already, and not yet written.
        if name == "before:race":
            with faults.armed(lambda _name: None):
                put_next()

    with faults.armed(batch):
        table.purge()
    put_next()
    # The late record belongs before the deletion, which would be gone else.
    assert [row for row in _seen(table.rows()) if row[0] == "k"] == [
        ("k", "x", 10, 20),
        ("k", "y", 20, 25),
        ("k", "late", 25, 30),
        ("k", None, 30, None),
    ]


@pytest.mark.slow
def test_a_purge_between_the_two_writes_of_a_batch_that_died_goes_by_the_stream_time_before_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The late record takes a commit of its own.
    monkeypatch.setattr(put, "ROWS_PER_SPLICE", 0)
    monkeypatch.setattr(put, "ROWS_FOR_ANY_SPLICE", 0)
    table = _create(spark, tmp_path / "t")
    _put(table, spark, ("k", "x", 110), ("k", None, 150), ("o", "y", 200))
    batch = keyed_records(spark, ("k", "late", 140), ("o", "z", 1000))
    shaped = batch.selectExpr("k", "s * 1000000 AS _us", "struct(v) AS _value", "0 AS _scope", "array(s) AS _place")

    def write() -> None:
        puts = PutBatch(table.target, table.spec, shaped, {0: 200_000_000})
        puts.write(lambda step: Step("app", "node", step, 1, 7), is_replay=True)

    def die(point: str) -> None:
        if point == "after:node/splice":
            raise ConnectionError

    with faults.armed(die), pytest.raises(ConnectionError):
        write()
    table.purge()
    write()
    assert [row for row in _seen(table.current()) if row[0] == "k"] == []
    assert table.stream_times() == {0: 1_000_000_000}


def test_an_empty_table_has_nothing_to_purge(spark: SparkSession, tmp_path: Path) -> None:
    assert not _create(spark, tmp_path / "empty").purge()


@pytest.mark.rule("R188")
def test_vacuum_refuses_to_remove_what_a_replay_may_need(purged: tuple[VersionedTable, dict[str, Any]]) -> None:
    with pytest.raises(RetentionError, match=r"at least 7 days; got 6 days"):
        purged[0].vacuum("6 days")


@pytest.mark.rule("R188")
def test_vacuum_refuses_to_remove_what_the_tables_own_properties_promise(spark: SparkSession, tmp_path: Path) -> None:
    table = _create(spark, tmp_path / "promised")
    promise = "'delta.deletedFileRetentionDuration' = 'interval 30 days'"
    spark.sql(f"ALTER TABLE {table.target.sql} SET TBLPROPERTIES ({promise})")
    with pytest.raises(RetentionError, match=r"at least 30 days; got 10 days"):
        table.vacuum("10 days")


def test_optimize_and_vacuum_change_no_row(purged: tuple[VersionedTable, dict[str, Any]]) -> None:
    table = purged[0]
    before = _seen(table.rows())
    table.optimize()
    table.optimize(current=True)
    table.vacuum()
    assert _seen(table.rows()) == before
    assert table.stream_times() == {0: 1_000_000_000}


def test_the_newest_commit_tells_stream_time_even_if_only_upkeep_comes(spark: SparkSession, tmp_path: Path) -> None:
    # Delta forgets old commits after a month, and with them whatever only they said.
    table = _create(spark, tmp_path / "t")
    # Three batches: two files of closed history, which OPTIMIZE makes one.
    for second in (0, 10, 20):
        _put(table, spark, ("a", "x", second))
    table.optimize()
    newest = history(spark, table.target, 1)[0]
    assert newest["operation"] == "OPTIMIZE"
    said = own_details(newest)
    assert said is not None
    assert said["details"]["streamTimes"] == {"0": 20_000_000}


def _ten_days_ago(path: Path) -> None:
    """Everything of a table as if it had been done so long before."""
    ago = timedelta(days=10)
    for commit_file in (path / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit_file.read_text().splitlines()]
        for said in (said for action in actions for said in action.values()):
            for instant_ms in {"deletionTimestamp", "timestamp", "modificationTime"} & said.keys():
                said[instant_ms] -= int(ago / timedelta(milliseconds=1))
        commit_file.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for file in (file for file in path.rglob("*") if file.is_file()):
        if file.suffix == ".crc":
            file.unlink()
        else:
            os.utime(file, (file.stat().st_mtime - ago.total_seconds(),) * 2)


@pytest.fixture
def old(spark: SparkSession, tmp_path: Path) -> VersionedTable:
    """A table that was written twice, ten days ago."""
    table = _create(spark, tmp_path / "made")
    for second in (1, 2):
        _put(table, spark, ("k", "v", second))
    # Delta remembers what it has read of a path.
    shutil.copytree(tmp_path / "made", tmp_path / "old")
    _ten_days_ago(tmp_path / "old")
    return VersionedTable.open(spark, str(tmp_path / "old"))


@pytest.mark.parametrize(("retain", "kept"), [("14 days", True), (None, False)])
def test_vacuum_keeps_files_as_long_as_it_is_told(
    spark: SparkSession, old: VersionedTable, retain: str | None, kept: bool
) -> None:
    before = set(Path(str(old.target.path)).rglob("*.parquet"))
    old.vacuum(retain)
    assert (set(Path(str(old.target.path)).rglob("*.parquet")) == before) == kept


def test_a_put_tells_its_outcomes_however_long_ago_the_one_before_it_was(
    spark: SparkSession, old: VersionedTable
) -> None:
    told = old.put(keyed_records(spark, ("k", "w", 3)), deleted="dead").outcomes
    assert [(row["k"], row["is_latest"]) for row in told.collect()] == [("k", True)]


def test_a_table_goes_back_to_a_version_as_long_as_its_files_are_there(
    spark: SparkSession, old: VersionedTable
) -> None:
    session = spark.newSession()
    check_version(session, old.target, 1)
    restore(session, old.target, 1)
    assert _seen(old.rows()) == [("k", "v", 1, None)]


def test_what_batches_merged_into_a_table_is_compacted_and_others_tables_are_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    merged, foreign = (TableRef.parse(f"{tmp_path}/{name}") for name in ("merged", "foreign"))
    spark.range(2).coalesce(1).write.format("delta").save(str(foreign.path))
    commit(merged, lambda: Append(spark.range(2).coalesce(1)))
    for number in (2, 3):
        rows = spark.range(number, number + 1).coalesce(1)
        commit(
            merged, lambda rows=rows: Merge(rows, "t.id = s.id", lambda m: m.whenNotMatchedInsertAll()), None, {"n": 7}
        )  # type: ignore[misc]
    assert [optimize_merged(spark, merged, least) for least in (4, 3, 3)] == [False, True, False]
    newest = history(spark, merged, 1)[0]
    assert (newest["operation"], (own_details(newest) or {})["details"]) == ("OPTIMIZE", {"n": 7})
    assert sorted(row["id"] for row in spark.read.format("delta").load(str(merged.path)).collect()) == [0, 1, 2, 3]
    assert not optimize_merged(spark, foreign, 1)


def test_a_purge_that_a_silent_scope_holds_back_is_told_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    tell_held_back(TableRef.parse("sales.prices"), _SPEC, {0: 86_400_000_000, 7: 0})
    assert caplog.messages == []
    tell_held_back(TableRef.parse("sales.prices"), _SPEC, {0: 86_400_000_001, 7: 0})
    assert "sales.prices: the purge is held back by scope 7 (stream time 1970-01-01 00:00:00+00:00, " in caplog.text
    assert "the retention of 1 day. A record of that partition moves it on" in caplog.text
