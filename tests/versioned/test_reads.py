"""Reading a versioned table: what is current, what was valid when, and what the table says of a lookup."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned.errors import ConfigurationError, InvariantError, RetentionError
from versioned.table import VersionedTable

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _at(second: int) -> datetime:
    return _EPOCH + timedelta(seconds=second)


def _records(spark: SparkSession, *rows: tuple[str, str | None, int]) -> DataFrame:
    shaped = [(key, value, second, value is None) for key, value, second in rows]
    frame = spark.createDataFrame(shaped, "k STRING, v STRING, s LONG, dead BOOLEAN")
    return frame.select("k", "v", F.timestamp_seconds("s").alias("ts"), "dead", "s")


def _seen(frame: DataFrame) -> list[tuple[Any, ...]]:
    """(key, value, validFrom, validTo) in seconds."""
    second = [F.unix_seconds(name) for name in ("validFrom", "validTo")]
    return [tuple(row) for row in frame.select("k", "v", *second).collect()]


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> VersionedTable:
    """a: x@10, y@20, deleted@30, z@1000; b: only p@5; c: q@400 replaced by r@950; stream time 1000, retention 500."""
    path = str(tmp_path_factory.mktemp("reads") / "rates")
    made = VersionedTable.create(spark, path, "k STRING, v STRING", keys="k", history_retention="500 seconds")
    rows = [
        ("a", "x", 10),
        ("a", "y", 20),
        ("a", None, 30),
        ("b", "p", 5),
        ("c", "q", 400),
        ("c", "r", 950),
        ("a", "z", 1000),
    ]
    made.put(_records(spark, *rows), deleted="dead", sequence="s")
    return made


def test_current_is_the_latest_version_of_each_key(table: VersionedTable) -> None:
    assert sorted(_seen(table.current())) == [("a", "z", 1000, None), ("b", "p", 5, None), ("c", "r", 950, None)]


_AS_OF = [
    pytest.param(1000, {"a": "z", "b": "p", "c": "r"}, id="start is inclusive"),
    pytest.param(949, {"b": "p", "c": "q"}, id="end is exclusive, a deleted key has no version"),
    pytest.param(500, {"b": "p", "c": "q"}, id="the horizon itself is promised"),
    pytest.param(499, {"b": "p"}, id="beyond it only latest versions are found"),
    pytest.param(25, {"b": "p"}, id="closed versions beyond it are not"),
    pytest.param(4, {}, id="nothing was valid yet"),
]


@pytest.mark.parametrize(("second", "expected"), _AS_OF)
@pytest.mark.rule("R138", "R181", "R184")
def test_as_of_gives_the_versions_valid_at_an_instant(
    table: VersionedTable, second: int, expected: dict[str, str]
) -> None:
    assert {row[0]: row[1] for row in _seen(table.as_of(_at(second)))} == expected


def test_between_includes_the_version_that_began_before(table: VersionedTable) -> None:
    assert sorted(_seen(table.between(_at(600), _at(950)))) == [
        ("b", "p", 5, None),
        ("c", "q", 400, 950),
        ("c", "r", 950, None),
    ]


def test_between_refuses_bounds_the_wrong_way_round(table: VersionedTable) -> None:
    with pytest.raises(ConfigurationError, match="after end"):
        table.between(_at(2), _at(1))


@pytest.mark.parametrize("ascending", [True, False])
def test_history_is_in_order_of_valid_from(spark: SparkSession, table: VersionedTable, ascending: bool) -> None:
    rows = _seen(table.history(_records(spark, ("a", None, 0)), ascending=ascending))
    expected = [("a", "x", 10, 20), ("a", "y", 20, 30), ("a", "z", 1000, None)]
    assert rows == (expected if ascending else expected[::-1])


_LOOKUPS = [
    ("c", 960, "r", None),
    ("c", 600, "q", None),
    ("a", 700, None, "TOMBSTONE"),
    ("b", 1, None, "EXPIRED"),
    ("c", 410, None, "EXPIRED"),
    ("a", 15, None, "EXPIRED"),
    ("b", 6, "p", None),
    ("nobody", 700, None, "NO_MATCH"),
]


def _lookups(spark: SparkSession) -> DataFrame:
    rows = [(key, second) for key, second, _, _ in _LOOKUPS]
    return spark.createDataFrame(rows, "k STRING, s LONG").withColumn("at", F.timestamp_seconds("s"))


@pytest.mark.rule("R139", "R140", "R141", "R184")
def test_a_left_lookup_keeps_every_row_and_says_why_nothing_was_found(
    spark: SparkSession, table: VersionedTable
) -> None:
    found = table.lookup(_lookups(spark), at="at", how="left").select("k", "s", "v", "reason").collect()
    assert sorted(map(tuple, found)) == sorted(_LOOKUPS)


def test_an_inner_lookup_keeps_only_what_was_found(spark: SparkSession, table: VersionedTable) -> None:
    found = table.lookup(_lookups(spark), at="at", how="inner").select("k", "s", "v").collect()
    assert sorted(map(tuple, found)) == sorted((k, s, v) for k, s, v, _ in _LOOKUPS if v is not None)


def test_sql_asks_along_valid_time(spark: SparkSession, table: VersionedTable) -> None:
    names = table.register_sql("rates")
    assert names == ["rates_current", "rates_as_of", "rates_between"]
    as_of = spark.sql("SELECT k, v FROM rates_as_of(TIMESTAMP '1970-01-01 00:10:00') ORDER BY k").collect()
    assert list(map(tuple, as_of)) == [("b", "p"), ("c", "q")]
    between = spark.sql(
        "SELECT count(*) FROM rates_between(TIMESTAMP '1970-01-01 00:10:00', TIMESTAMP '1970-01-01 00:15:50')"
    )
    assert between.collect()[0][0] == 3
    assert spark.sql("SELECT v FROM rates_current WHERE k = 'a'").collect()[0][0] == "z"


def test_what_did_we_believe_on_monday_about_last_friday(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "beliefs")
    made = VersionedTable.create(spark, path, "k STRING, v STRING", keys="k", history_retention="30 days")
    made.put(_records(spark, ("price", "10", 0), ("price", "12", 500)))
    monday = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").selectExpr("max(version)").collect()[0][0]
    made.put(_records(spark, ("price", "11", 100)))
    friday = "validFrom <= timestamp_seconds(200) AND (validTo IS NULL OR timestamp_seconds(200) < validTo)"
    believed = spark.sql(f"SELECT v FROM delta.`{path}` VERSION AS OF {monday} WHERE {friday}")
    known_now = spark.sql(f"SELECT v FROM delta.`{path}` WHERE {friday}")
    assert [believed.collect()[0][0], known_now.collect()[0][0]] == ["10", "11"]


def test_delete_returns_the_version_that_was_valid(spark: SparkSession, tmp_path: Path) -> None:
    made = VersionedTable.create(
        spark, str(tmp_path / "d"), "k STRING, v STRING", keys="k", history_retention="100 seconds"
    )
    made.put(_records(spark, ("a", "x", 10), ("a", "y", 200)))
    asked = spark.createDataFrame([("a", 150), ("a", 250), ("b", 160), ("a", 20)], "k STRING, s LONG")
    told = made.delete(asked.withColumn("ts", F.timestamp_seconds("s")), sequence="s")
    rows = told.select("k", F.unix_seconds("ts"), "v", F.unix_seconds("validFrom"), "put_result").collect()
    refused = -(2**63)
    assert sorted(map(tuple, rows)) == [
        ("a", 20, None, None, refused),
        ("a", 150, "x", 10, 200_000_000),
        ("a", 250, "y", 200, -1),
        ("b", 160, None, None, -1),
    ]
    assert made.verify().is_sound


def test_purge_removes_expired_history_and_old_tombstones_but_no_latest_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = VersionedTable.create(
        spark, str(tmp_path / "p"), "k STRING, v STRING", keys="k", history_retention="100 seconds"
    )
    rows = [
        ("gone", "x", 1),
        ("gone", None, 2),
        ("old", "p", 3),
        ("a", "q", 4),
        ("a", "r", 899),
        ("a", "s", 900),
        ("a", "t", 1000),
    ]
    made.put(_records(spark, *rows), deleted="dead", sequence="s")
    assert made.purge()
    assert sorted(_seen(made.history())) == [("a", "s", 900, 1000), ("a", "t", 1000, None), ("old", "p", 3, None)]
    assert not made.purge()
    assert made.stream_times() == {0: 1_000_000_000}


@pytest.mark.rule("R188")
def test_vacuum_refuses_to_remove_what_a_replay_may_need(table: VersionedTable) -> None:
    with pytest.raises(RetentionError, match="7 days"):
        table.vacuum("6 days")


def test_optimize_and_vacuum_change_no_row(table: VersionedTable) -> None:
    before = sorted(_seen(table.history()))
    table.optimize()
    table.optimize(current=True)
    table.vacuum()
    assert sorted(_seen(table.history())) == before


_FAULTS = [
    pytest.param(
        "UPDATE {t} SET validTo = validTo + INTERVAL 1 HOUR WHERE k = 'c' AND v = 'q'", "overlap", id="overlap"
    ),
    pytest.param("UPDATE {t} SET validTo = validTo - INTERVAL 1 SECOND WHERE k = 'c' AND v = 'q'", "gap", id="gap"),
    pytest.param("DELETE FROM {t} WHERE k = 'c' AND v = 'r'", "no_current", id="no current row"),
    pytest.param("UPDATE {t} SET v = 'w' WHERE deleted", "value_of_deleted", id="tombstone with a value"),
    pytest.param(
        "INSERT INTO {t} SELECT k, validFrom + INTERVAL 1 SECOND, validTo, v, deleted, _current FROM {t} WHERE k = 'b'",
        "several_current",
        id="two current rows",
    ),
]


@pytest.mark.parametrize(("fault", "invariant"), _FAULTS)
def test_verify_finds_an_injected_fault(
    spark: SparkSession, table: VersionedTable, tmp_path: Path, fault: str, invariant: str
) -> None:
    path = str(tmp_path / "copy")
    spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{table.target}`")
    copy = VersionedTable.open(spark, path)
    assert copy.verify().is_sound
    spark.sql(fault.format(t=f"delta.`{path}`"))
    report = copy.verify()
    assert report.broken[invariant] > 0
    with pytest.raises(InvariantError, match=invariant):
        report.raise_if_broken()


def test_constraints_refuse_a_row_that_ends_before_it_begins(spark: SparkSession, table: VersionedTable) -> None:
    with pytest.raises(Exception, match="versioned_interval"):
        spark.sql(f"UPDATE delta.`{table.target}` SET validTo = validFrom WHERE k = 'c' AND v = 'q'")
