"""A backfilled table is as one that had been given all records in time; stream time stays with the live input."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned.spec import CURRENT, TimeScope
from versioned.table import VersionedTable

_KEYS = "abcd"
Record = tuple[str, str | None, int]


def _records(spark: SparkSession, records: list[Record]) -> DataFrame:
    rows = [(key, value, second, value is None) for key, value, second in records]
    frame = spark.createDataFrame(rows, "k STRING, v STRING, s LONG, dead BOOLEAN")
    return frame.withColumn("ts", F.timestamp_seconds("s"))


def _rows(table: VersionedTable) -> list[tuple[Any, ...]]:
    seconds = [F.unix_seconds(name) for name in ("validFrom", "validTo")]
    return sorted((tuple(row) for row in table.rows().select("k", *seconds, "v", "deleted").collect()), key=str)


def _some(seed: int, count: int, newest: int) -> list[Record]:
    """Records of different instants per key, so that no order among equals matters."""
    chance = random.Random(seed)
    instants = [(key, second) for key in _KEYS for second in chance.sample(range(newest), count)]
    return [(key, None if chance.random() < 0.2 else f"{key}{second}", second) for key, second in instants]


@pytest.mark.slow
def test_history_put_afterwards_is_as_if_it_had_come_in_time(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    everything = _some(7, 12, 1_000)
    live = [record for record in everything if record[2] % 3 == 0] + [("a", "newest", 1_000)]
    old = [record for record in everything if record[2] % 3]
    whole = VersionedTable.create(
        spark, str(tmp_path / "whole"), "k STRING, v STRING", keys="k", history_retention="9 days"
    )
    whole.put(_records(spark, [*everything, live[-1]]), deleted="dead")
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING, v STRING", keys="k", history_retention="10 s")
    table.put(_records(spark, live), deleted="dead", sequence="s")
    # By that put nothing was late, so all of them are in the table; a put of the others would refuse nearly all.
    assert table.put(_records(spark, old[:5]), deleted="dead", sequence="s").counts.refused > 0
    with caplog.at_level(logging.INFO, logger="versioned.backfill"):
        tried = table.backfill(_records(spark, old), deleted="dead", dry_run=True)
        done = table.backfill(_records(spark, [*old, ("a", "too new", 1_001)]), deleted="dead")
    assert (tried.version, tried.counts["accepted"]) == (None, len(old))
    assert (done.counts["accepted"], done.counts["rejected"]) == (len(old), 1)
    assert [tuple(row) for row in done.rejected.select("k", "reason").collect()] == [("a", "NOT_HISTORY")]
    assert f"'accepted': {len(old)}" in caplog.text
    assert _rows(table) == _rows(whole)
    assert table.verify().is_sound
    assert table.stream_times() == {0: 1_000_000_000}


def test_a_version_that_ends_at_the_last_microsecond_before_1970_is_not_counted_as_a_latest(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING, v STRING", keys="k", history_retention="9 s")
    records = spark.createDataFrame([("a", "x", -1, 1), ("a", "y", -20, 2)], "k STRING, v STRING, us LONG, seq LONG")
    done = table.backfill(records.withColumn("ts", F.timestamp_micros("us")), sequence="seq", dry_run=True)
    assert (done.counts["accepted"], done.counts["latest"]) == (2, 1)


@pytest.mark.parametrize("time_scope", ["store", pytest.param("key", marks=pytest.mark.slow)])
def test_a_backfill_tells_what_will_be_current_and_what_the_next_purge_removes(
    spark: SparkSession, tmp_path: Path, time_scope: TimeScope
) -> None:
    table = VersionedTable.create(
        spark, str(tmp_path / "t"), "k STRING, v STRING", keys="k", history_retention="30 s", time_scope=time_scope
    )
    table.put(_records(spark, [("a", "live", 1_000), ("b", "live", 950), ("b", "live", 1_000)]), deleted="dead")
    old = [(key, str(at), at) for key in "abc" for at in range(100, 900, 100)]
    old += [("d", "d", 100), ("d", None, 200), ("e", "e1", 100), ("e", "e2", 100), ("f", "f", 100), ("f", None, 990)]
    told = table.backfill(_records(spark, old), deleted="dead").counts
    rows = table.rows().count()
    currents = table.rows().where(CURRENT).where("v IS DISTINCT FROM 'live'").count()
    table.purge()
    assert (told["latest"], told["expired"]) == (currents, rows - table.rows().count())


@pytest.mark.slow
def test_an_empty_table_takes_a_backfill_as_its_first_records(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(spark, str(tmp_path / "t"), "k STRING, v STRING", keys="k", history_retention="1 s")
    assert table.backfill(_records(spark, [("a", "x", 5), ("a", "y", 900)])).counts["accepted"] == 2
    assert table.stream_times() == {0: 900_000_000}


@pytest.mark.slow
def test_where_each_key_has_its_stream_time_a_backfill_moves_none(spark: SparkSession, tmp_path: Path) -> None:
    table = VersionedTable.create(
        spark, str(tmp_path / "t"), "k STRING, v STRING", keys="k", history_retention="10 s", time_scope="key"
    )
    table.put(_records(spark, [("a", "a10", 10), ("b", "b100", 100)]))
    told = table.backfill(_records(spark, [("a", "a50", 50), ("a", "a5", 5), ("c", "c50", 50)]))
    assert [row["k"] for row in told.rejected.collect()] == ["a"]
    assert (told.counts["accepted"], told.counts["rejected.NOT_HISTORY"]) == (2, 1)
    assert sorted(row["v"] for row in table.current().collect()) == ["a10", "b100", "c50"]
