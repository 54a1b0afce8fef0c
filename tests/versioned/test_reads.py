"""Reading a versioned table: what is current, what was valid when, and what the table says of a lookup."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned import sent_rows
from versioned.errors import ConfigurationError, NotAVersionedTableError, SchemaError
from versioned.identifiers import TableRef
from versioned.lookup_frames import How
from versioned.spec import VersionedTableSpec
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


def test_a_stream_is_looked_up_batch_by_batch_since_the_horizon_moves(
    spark: SparkSession, table: VersionedTable
) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("'a' AS k", "timestamp AS at")
    with pytest.raises(SchemaError, match=r"are a stream\. Look up each of its batches, in writeStream\.foreachBatch"):
        table.lookup(stream, "at")


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


@pytest.mark.rule("R142", "R184")
@pytest.mark.parametrize(("second", "warnings"), [(499, 1), (500, 0)])
def test_as_of_beyond_the_horizon_is_warned_of_with_both_instants(
    table: VersionedTable, caplog: pytest.LogCaptureFixture, second: int, warnings: int
) -> None:
    with caplog.at_level("WARNING", "versioned.table"):
        table.as_of(_at(second))
    told = f"as_of {_at(second)} is older than the horizon {_at(500)}"
    assert [told in record.getMessage() for record in caplog.records] == [True] * warnings


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


@pytest.mark.rule("R139", "R140", "R141", "R184")
def test_rows_that_are_sent_to_the_versions_find_the_same(
    spark: SparkSession, table: VersionedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_rows, "LARGE_BYTES", 0)
    asked = _lookups(spark).persist()
    found = table.lookup(asked, at="at").select("k", "s", "v", "reason").collect()
    assert sorted(map(tuple, found)) == sorted(_LOOKUPS)
    asked.unpersist()


@pytest.mark.parametrize(
    ("kept", "large_bytes", "limits", "how", "sends"),
    [
        (StorageLevel.MEMORY_AND_DISK, 0, (8, 13), "left", True),
        (StorageLevel.NONE, 0, (8, 13), "left", False),
        (StorageLevel.MEMORY_ONLY, 0, (8, 13), "left", False),
        (StorageLevel.MEMORY_AND_DISK, 2**40, (8, 13), "left", False),
        (StorageLevel.MEMORY_AND_DISK, 0, (7, 13), "left", False),
        (StorageLevel.MEMORY_AND_DISK, 0, (8, 12), "left", False),
        (StorageLevel.MEMORY_AND_DISK, 0, (8, 13), "inner", False),
    ],
    ids=["few and there", "read again", "dropped", "of a small table", "too many", "too long", "sent by Spark itself"],
)
def test_few_rows_that_stay_as_they_are_are_sent_to_the_versions_of_a_large_table(
    spark: SparkSession,
    table: VersionedTable,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kept: StorageLevel,
    large_bytes: int,
    limits: tuple[int, int],
    how: How,
    sends: bool,
) -> None:
    monkeypatch.setattr(sent_rows, "LARGE_BYTES", large_bytes)
    monkeypatch.setattr(sent_rows, "MOST_SENT", limits[0])
    monkeypatch.setattr(sent_rows, "MOST_BYTES", limits[1])
    asked = _lookups(spark) if kept == StorageLevel.NONE else _lookups(spark).persist(kept)
    table.lookup(asked, at="at", how=how).explain()
    assert ("LeftSemi, BuildRight" in capsys.readouterr().out) is sends
    asked.unpersist()


@pytest.mark.parametrize(
    ("key", "few"), [("name", True), ("number", True), ("bytes", True), ("parts", False), ("NAME", True)]
)
def test_keys_of_nested_types_are_sent_to_nobody_since_their_size_is_not_known(
    spark: SparkSession, key: str, few: bool
) -> None:
    rows = [("a", 1, b"x", ["p"], None), (None, None, None, None, None)]
    frame = spark.createDataFrame(rows, "name STRING, number INT, bytes BINARY, parts ARRAY<STRING>, more STRING")
    assert sent_rows.are_few(frame, [key]) is few


def test_an_inner_lookup_keeps_only_what_was_found(spark: SparkSession, table: VersionedTable) -> None:
    found = table.lookup(_lookups(spark), at="at", how="inner").select("k", "s", "v").collect()
    assert sorted(map(tuple, found)) == sorted((k, s, v) for k, s, v, _ in _LOOKUPS if v is not None)


def test_an_inner_lookup_may_send_what_is_asked_to_the_versions(
    spark: SparkSession, table: VersionedTable, capsys: pytest.CaptureFixture[str]
) -> None:
    table.lookup(F.broadcast(_lookups(spark)), at="at", how="inner").explain()
    (join,) = (line for line in capsys.readouterr().out.splitlines() if "Join" in line)
    assert "BroadcastHashJoin" in join
    assert "Inner, BuildLeft" in join


def test_a_lookup_is_inner_or_left(spark: SparkSession, table: VersionedTable) -> None:
    with pytest.raises(ConfigurationError, match='how must be inner or left; got "outer"'):
        table.lookup(_lookups(spark), at="at", how="outer")  # type: ignore[arg-type]


@pytest.mark.rule("R178")
def test_delete_returns_the_version_that_was_valid(spark: SparkSession, tmp_path: Path) -> None:
    made = VersionedTable.create(
        spark, str(tmp_path / "d"), "k STRING, v STRING", keys="k", history_retention="100 seconds"
    )
    made.put(_records(spark, ("a", "x", 10), ("a", "y", 200)))
    asked = spark.createDataFrame([("a", 150), ("a", 250), ("a", 260), ("b", 160), ("a", 20)], "k STRING, s LONG")
    told = made.delete(asked.withColumn("ts", F.timestamp_seconds("s")), sequence="s")
    rows = told.select("k", F.unix_seconds("ts"), "v", F.unix_seconds("validFrom"), "put_result").collect()
    refused = -(2**63)
    assert sorted(map(tuple, rows)) == [
        ("a", 20, None, None, refused),
        ("a", 150, "x", 10, 200_000_000),
        ("a", 250, "y", 200, -1),
        ("a", 260, None, None, -1),
        ("b", 160, None, None, -1),
    ]
    assert made.verify().is_sound


def test_delete_tells_its_own_columns_beside_those_of_the_table_that_have_their_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = VersionedTable.create(
        spark,
        str(tmp_path / "d"),
        "k STRING, ts TIMESTAMP, v STRING",
        keys="k",
        history_retention="1 day",
        valid_from="put_result",
    )
    made.put(_records(spark, ("a", "x", 10), ("b", "y", 20)))
    told = made.delete(
        spark.createDataFrame([("a", 30)], "k STRING, s LONG").select("k", F.timestamp_seconds("s").alias("ts"))
    )
    assert told.columns == ["k", "ts", "put_result", "old_put_result", "old_ts", "v"]
    times = (F.unix_seconds(name) for name in ("ts", "old_put_result", "old_ts"))
    assert [tuple(row) for row in told.select("k", *times, "v").collect()] == [("a", 30, 10, 10, "x")]
    assert [row["k"] for row in made.current().collect()] == ["b"]


@pytest.mark.parametrize("target", ["FOLDER/nothing", "no_such_database.nothing", "nothing"])
def test_a_table_that_is_not_there_is_not_opened(spark: SparkSession, tmp_path: Path, target: str) -> None:
    with pytest.raises(NotAVersionedTableError, match=r"There is no table .*nothing"):
        VersionedTable.open(spark, target.replace("FOLDER", str(tmp_path)))


def test_a_view_is_not_opened(spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE VIEW seen_only AS SELECT 1 AS k")
    try:
        with pytest.raises(NotAVersionedTableError, match="seen_only is a view, which keeps no versions"):
            VersionedTable.open(spark, "seen_only")
    finally:
        spark.sql("DROP VIEW seen_only")


def test_delete_names_the_columns_that_are_missing(spark: SparkSession, table: VersionedTable) -> None:
    with pytest.raises(SchemaError, match=r"lack \[.ts.\]"):
        table.delete(spark.createDataFrame([("a",)], "k STRING"))


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("records", VersionedTable.put),
        ("records", VersionedTable.backfill),
        ("keys", VersionedTable.delete),
        ("keys", VersionedTable.history),
        ("keys", VersionedTable.timeline),
        ("frame", lambda table, given: table.lookup(given, "ts")),
    ],
)
def test_what_is_no_dataframe_of_spark_is_refused_by_its_class_with_what_to_do(
    table: VersionedTable, option: str, call: Callable[[VersionedTable, Any], Any]
) -> None:
    told = rf"{option} takes a DataFrame of Spark; got pandas\.\S*DataFrame\. spark\.createDataFrame makes one"
    with pytest.raises(SchemaError, match=told):
        call(table, pd.DataFrame({"k": ["a"], "v": ["x"], "ts": [_at(1_001)]}))


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("timestamp", lambda table, rows: table.put(rows, timestamp=F.col("ts"))),
        ("deleted", lambda table, rows: table.put(rows, deleted=F.col("dead"))),
        ("sequence", lambda table, rows: table.backfill(rows, sequence=F.col("s"))),
        ("partition", lambda table, rows: table.delete(rows, partition=F.col("s"))),
        ("at", lambda table, rows: table.lookup(rows.select("k", "ts"), F.col("ts"))),
    ],
)
def test_a_column_in_place_of_its_name_is_refused(
    spark: SparkSession, table: VersionedTable, option: str, call: Callable[[VersionedTable, DataFrame], Any]
) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} takes the name of a column; got"):
        call(table, _records(spark, ("a", "x", 1_001)))


def test_constraints_refuse_a_row_that_ends_before_it_begins(spark: SparkSession, table: VersionedTable) -> None:
    with pytest.raises(Exception, match="versioned_interval"):
        spark.sql(f"UPDATE delta.`{table.target}` SET validTo = validFrom WHERE k = 'c' AND v = 'q'")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["at"], "lack ..k"),
        (["k"], "lack ..at"),
        (["k", "at", "V"], "V.* twice"),
        (["k", "at", "validFrom"], "validFrom.* twice"),
        (["k", "at", "reason"], "reason.* twice"),
    ],
)
def test_a_lookup_refuses_a_frame_without_its_columns_or_with_the_tables_own(
    spark: SparkSession, table: VersionedTable, columns: list[str], said: str
) -> None:
    frame = spark.createDataFrame([], ", ".join(f"{name} STRING" for name in columns))
    with pytest.raises(SchemaError, match=said):
        table.lookup(frame, at="at")


@pytest.mark.slow
def test_a_lookup_into_a_table_with_a_column_reason_tells_its_own_beside_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    asked = spark.sql("SELECT 'sick' AS reason, 'a' AS k, timestamp_seconds(n) AS at FROM VALUES (5), (20) AS t(n)")
    for key, value, stored in (("k", "reason", "sick"), ("reason", "k", "a")):
        made = VersionedTable.create(
            spark, f"{tmp_path}/{key}", f"{key} STRING, {value} STRING", keys=key, history_retention="1 day"
        )
        made.put(spark.sql("SELECT 'a' AS k, 'sick' AS reason, timestamp_seconds(10) AS ts"))
        found = made.lookup(asked.select(key, "at"), at="at").orderBy("at")
        assert found.columns == [key, "at", value, "validFrom", "validTo", "lookup_reason"]
        told = [(row[value], row["lookup_reason"]) for row in found.collect()]
        assert told == [(None, "NO_MATCH"), (stored, None)]


def test_a_result_tells_of_a_record_beside_a_key_of_the_same_name(spark: SparkSession, tmp_path: Path) -> None:
    made = VersionedTable.create(
        spark, f"{tmp_path}/t", "ts STRING, reason STRING, v INT", keys=["ts", "reason"], history_retention="1 day"
    )
    told = made.put(
        spark.sql(
            "SELECT 'a' AS ts, key AS reason, 1 AS v, timestamp_seconds(10) AS at FROM VALUES ('b'), (null) AS t(key)"
        ),
        timestamp="at",
    )
    assert told.outcomes.columns[:3] == ["ts", "reason", "put_ts"]
    assert [row["outcome"] for row in told.outcomes.collect()] == ["latest"]
    assert told.changes.columns[:3] == ["ts", "reason", "put_ts"]
    assert told.rejected.columns == ["ts", "reason", "put_ts", "put_reason"]
    assert [row["put_reason"] for row in told.rejected.collect()] == ["NULL_KEY"]
    gone = made.delete(spark.sql("SELECT 'a' AS ts, 'b' AS reason, timestamp_seconds(20) AS at"), timestamp="at")
    assert gone.columns == ["ts", "reason", "put_ts", "put_result", "validFrom", "v"]
    assert [row["v"] for row in gone.collect()] == [1]


@pytest.mark.slow
def test_a_key_may_be_called_as_what_a_put_says_of_its_record(spark: SparkSession, tmp_path: Path) -> None:
    made = VersionedTable.create(
        spark, f"{tmp_path}/t", "put_result STRING", keys="put_result", history_retention="1 day"
    )
    records = spark.sql("SELECT 'a' AS put_result, s, timestamp_seconds(s) AS ts FROM VALUES (10), (20) AS t(s)")
    told = made.put(records, sequence="s").outcomes
    assert {(row["put_result"], row["put_put_result"]) for row in told.collect()} == {("a", -1)}
    late = made.put(records.where("s = 10"), sequence="s").outcomes
    assert [(row["put_result"], row["put_put_result"]) for row in late.collect()] == [("a", 20_000_000)]


def test_an_instant_that_is_a_date_is_refused_with_what_to_give(table: VersionedTable) -> None:
    with pytest.raises(ConfigurationError, match=r"is no instant. Give a datetime"):
        table.as_of(date(2026, 1, 1))  # type: ignore[arg-type]


@pytest.mark.rule("R140")
def test_a_row_without_key_or_time_finds_nothing_and_is_kept_by_a_left_lookup(
    spark: SparkSession, table: VersionedTable
) -> None:
    asked = spark.createDataFrame([(None, 960), ("c", None)], "k STRING, s LONG")
    found = table.lookup(asked.withColumn("at", F.timestamp_seconds("s")), at="at").select("k", "s", "v", "reason")
    assert sorted(map(tuple, found.collect()), key=str) == [
        ("c", None, None, "NO_MATCH"),
        (None, 960, None, "NO_MATCH"),
    ]


@pytest.fixture(scope="module")
def by_key(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> VersionedTable:
    """Stream time per key, retention 100: fast is at 1000, slow at 20."""
    path = str(tmp_path_factory.mktemp("by_key") / "rates")
    made = VersionedTable.create(
        spark, path, "k STRING, v STRING", keys="k", history_retention="100 seconds", time_scope="key"
    )
    rows = [("fast", "x", 10), ("fast", "y", 950), ("fast", "z", 1000), ("slow", "p", 10), ("slow", "q", 20)]
    made.put(_records(spark, *rows), sequence="s")
    return made


@pytest.mark.rule("R159", "R184")
def test_with_a_stream_time_per_key_a_fast_key_does_not_expire_a_slow_keys_history(by_key: VersionedTable) -> None:
    assert sorted(_seen(by_key.as_of(_at(15)))) == [("slow", "p", 10, 20)]
    assert sorted(_seen(by_key.as_of(_at(960)))) == [("fast", "y", 950, 1000), ("slow", "q", 20, None)]


@pytest.mark.rule("R159", "R184")
def test_with_a_stream_time_per_key_a_lookup_expires_by_its_own_keys_time(
    spark: SparkSession, by_key: VersionedTable
) -> None:
    rows = [("fast", 15), ("fast", 899), ("fast", 900), ("slow", 15), ("slow", 9), ("none", 15)]
    asked = spark.createDataFrame(rows, "k STRING, s LONG").withColumn("at", F.timestamp_seconds("s"))
    told = [tuple(row) for row in by_key.lookup(asked, at="at").select("k", "s", "v", "reason").collect()]
    assert sorted(told) == [
        ("fast", 15, None, "EXPIRED"),
        ("fast", 899, None, "EXPIRED"),
        ("fast", 900, "x", None),
        ("none", 15, None, "NO_MATCH"),
        ("slow", 9, None, "NO_MATCH"),
        ("slow", 15, "p", None),
    ]


def test_a_timeline_has_each_version_of_the_keys_asked_for_and_their_tombstones(
    spark: SparkSession, table: VersionedTable
) -> None:
    picture = table.timeline(spark.createDataFrame([("a",)], "k STRING"))
    starts = [int(row[2][14:16]) * 60 + int(row[2][17:19]) for row in picture.rows]
    assert [(row[0], row[1]) for row in picture.rows] == [("a", "x"), ("a", "y"), ("a", "(deleted)"), ("a", "z")]
    assert starts == [10, 20, 30, 1000]


def test_a_timeline_says_of_how_many_keys_it_is_under_any_title_and_draws_those_that_are_there(
    spark: SparkSession, table: VersionedTable
) -> None:
    assert "Rates: 1 of 3 keys" in table.timeline(most_keys=1, title="Rates").to_svg()
    asked = spark.sql("SELECT * FROM VALUES ('0'), ('1'), ('a') AS t(k)")
    assert {row[0] for row in table.timeline(asked, most_keys=1).rows} == {"a"}


def test_a_timeline_tells_instants_in_utc_wherever_this_process_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = VersionedTableSpec.of(keys="k", values="v", history_retention="1 day")
    stored = (
        "SELECT timestamp_seconds(s) AS k, timestamp_micros(5) AS validFrom, CAST(null AS TIMESTAMP) AS validTo, "
        "named_struct('at', timestamp_micros(-62135596800000000), 'all', array(timestamp_millis(-1), null), "
        "'by', map(timestamp_seconds(s), timestamp_micros(253402300799999999))) AS v, false AS deleted "
        "FROM VALUES (1730615400), (1730611800) AS t(s)"
    )
    table = VersionedTable(spark, TableRef.parse(str(tmp_path)), spec)
    monkeypatch.setattr(table, "rows", lambda: spark.sql(stored))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "America/New_York")
        time.tzset()
        rows = table.timeline().rows
    time.tzset()
    # In New York both keys are 01:30 of the night in which summer ends.
    keys = ["2024-11-03 05:30:00", "2024-11-03 06:30:00"]
    assert [row[0] for row in rows] == keys
    for key, row in zip(keys, rows, strict=True):
        by = {key: "9999-12-31 23:59:59.999999"}
        assert row[1] == f"Row(at='0001-01-01 00:00:00', all=['1969-12-31 23:59:59.999', None], by={by})"
