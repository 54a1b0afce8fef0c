"""Rollback takes every table back to a batch; run again, the rest gives what an uninterrupted run gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from busy_tables import rows_of, write_busy
from crashing import Crash, crash, then
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from two_tables import SCHEMAS, application, commits, topology

from streams.nodes import ChangelogSink, StreamSource, Topology
from streams.spark import SparkSource, StreamingApplication, takeover
from streams.spark.backfill import backfill
from streams.spark.doctor import examine
from streams.spark.rollback import rollback
from versioned import faults
from versioned.commit import Append, Step, commit
from versioned.errors import (
    CheckpointMismatchError,
    ConfigurationError,
    FencedError,
    RetentionError,
    VersionedError,
)
from versioned.identifiers import TableRef
from versioned.table import VersionedTable

pytestmark = pytest.mark.slow

_TABLES = ("prices", "priced_orders", "rejects")
_BATCHES = 4
_OLD = "item STRING, price DOUBLE, ts TIMESTAMP"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input of the batches."""
    return write_busy(tmp_path_factory.mktemp("input"), range(_BATCHES))


@pytest.fixture(scope="module")
def whole(spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables and the checkpoint of an uninterrupted run; only ever copied."""
    out = tmp_path_factory.mktemp("whole") / "out"
    application(spark, source, out).run()
    return out


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


def _rows(spark: SparkSession, out: Path) -> object:
    # In a later epoch rows carry other batch ids.
    return rows_of(spark, out, *_TABLES, without=("_batch_id",))


def _ledger(spark: SparkSession, out: Path) -> list[tuple[int, int]]:
    rows = spark.read.format("delta").load(str(out / "ledger")).select("epoch", "batch_id").collect()
    return sorted((row[0], row[1]) for row in rows)


def test_after_a_rollback_the_same_input_gives_the_same_tables(
    spark: SparkSession, source: Path, whole: Path, copied: Path
) -> None:
    app, before = application(spark, source, copied), commits(copied)
    planned = rollback(app, 1, dry_run=True)
    assert commits(copied) == before
    done = rollback(app, 1)
    assert (done.batch_id, done.undone, done.advice) == (1, (2, 3), None)
    assert (done.undone, done.restored) == (planned.undone, planned.restored)
    assert set(done.restored) == set(_TABLES)
    assert [found for found in examine(application(spark, source, copied)).findings if found.is_wrong] == []
    assert _ledger(spark, copied) == [(1, 0), (1, 1), (done.epoch, 1)]
    half = VersionedTable.open(spark, str(copied / "prices")).stream_times()
    application(spark, source, copied).run()
    assert _rows(spark, copied) == _rows(spark, whole)
    assert _ledger(spark, copied) == [(1, 0), (1, 1), *((done.epoch, batch) for batch in (1, 2, 3))]
    assert [report.batch_id for report in application(spark, source, copied).reports()] == [0, 1, 2, 3]
    ended = VersionedTable.open(spark, str(copied / "prices")).stream_times()
    assert half[0] < ended[0]
    assert ended == VersionedTable.open(spark, str(whole / "prices")).stream_times()


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_ledger_that_keeps_all_its_rows_refuses_a_rollback_before_anything_is_written(
    spark: SparkSession, source: Path, copied: Path, dry_run: bool
) -> None:
    app = application(spark, source, copied)
    spark.sql(f"ALTER TABLE {app.table('ledger').sql} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    before = commits(copied)
    with pytest.raises(ConfigurationError, match=r"removes rows of \['ledger'\].*UNSET TBLPROPERTIES"):
        rollback(app, 1, dry_run=dry_run)
    assert commits(copied) == before


@pytest.mark.parametrize("point", ["shut-out", "restored", "checkpoint", "handed-over"])
def test_a_rollback_that_died_anywhere_is_done_by_doing_it_again(
    spark: SparkSession, source: Path, whole: Path, copied: Path, point: str
) -> None:
    with faults.armed(then(f"takeover:{point}", crash)), pytest.raises(Crash):
        rollback(application(spark, source, copied), 0)
    told = examine(application(spark, source, copied))
    assert told.findings[0].rule == "unfinished-takeover", told
    with pytest.raises(VersionedError, match=r"did not end.* To go on: run it again"):
        application(spark, source, copied).run()
    assert rollback(application(spark, source, copied), 0).undone == (1, 2, 3)
    application(spark, source, copied).run()
    assert _rows(spark, copied) == _rows(spark, whole)
    # And once more, to a batch before the last rollback and to one after it.
    for batch in (2, 0):
        rollback(application(spark, source, copied), batch)
        application(spark, source, copied).run()
        assert _rows(spark, copied) == _rows(spark, whole)


@pytest.mark.parametrize("point", ["before:prices/main", "end:batch"], ids=["in a batch", "between batches"])
def test_a_driver_that_still_runs_is_shut_out_and_nothing_of_it_stays(
    spark: SparkSession, source: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    # The other process is played by this one.
    monkeypatch.setattr(takeover, "refuse_running", lambda spark, name: None)
    out = tmp_path / "out"
    heir = application(spark, source, out)
    take = then(point, lambda: rollback(heir, 0), skip=1)
    with faults.armed(take), pytest.raises(StreamingQueryException, match=r"newer epoch|has begun"):
        application(spark, source, out).run()
    application(spark, source, out).run()
    assert _rows(spark, out) == _rows(spark, whole)


def test_of_two_rollbacks_at_a_time_one_ends_before_it_takes_anything_back(
    spark: SparkSession, source: Path, whole: Path, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = application(spark, source, copied), application(spark, source, copied)
    planned = takeover._planned(other, 0)

    def at_the_same_time() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(takeover, "_planned", lambda *_: planned)
            with pytest.raises(FencedError, match="takes shop over at the same time"):
                rollback(other, 0)

    with faults.armed(then("takeover:shut-out", at_the_same_time)):
        assert rollback(one, 1).batch_id == 1
    assert [row[1] for row in _ledger(spark, copied)][-1] == 1
    application(spark, source, copied).run()
    assert _rows(spark, copied) == _rows(spark, whole)


def test_input_that_is_gone_is_told_by_its_name_before_a_rollback_and_after_it(
    spark: SparkSession, source: Path, copied: Path, tmp_path: Path
) -> None:
    app, read = application(spark, source, copied), sorted((source / "orders").iterdir())[-1]
    away = read.rename(tmp_path / read.name)
    try:
        told = rollback(app, 0, dry_run=True)
        done = rollback(app, 0)
    finally:
        away.rename(read)
    assert [name.rpartition("/")[2] for name in told.lost_input] == [read.name]
    assert done.lost_input == told.lost_input
    assert f"LOST INPUT: {told.lost_input[0]}" in str(told)


def test_what_cannot_be_done_is_refused_before_any_write(spark: SparkSession, source: Path, copied: Path) -> None:
    before = commits(copied)
    app = application(spark, source, copied)
    with pytest.raises(ConfigurationError, match="no batch 9 to go back to; there are 0 to 3"):
        rollback(app, 9)
    (copied / "_checkpoint" / "offsets" / "0").unlink()
    with pytest.raises(CheckpointMismatchError, match=r"no offsets of batch 0.*last 100"):
        rollback(app, 0)
    for file in (copied / "priced_orders").glob("*.parquet"):
        file.unlink()
    with pytest.raises(RetentionError, match="own cleaning has removed"):
        rollback(app, 1)
    with pytest.raises(ConfigurationError, match='no table "price"; there are'):
        backfill(app, "price", spark.createDataFrame([], _OLD))
    with pytest.raises(ConfigurationError, match='"priced_orders" of shop keeps no versions'):
        backfill(app, "priced_orders", spark.createDataFrame([], _OLD))
    assert commits(copied) == before


@pytest.mark.parametrize("use", ["put", "delete"])
def test_a_table_of_an_application_is_changed_by_hand_only_in_its_name(
    spark: SparkSession, copied: Path, use: str
) -> None:
    table = VersionedTable.open(spark, str(copied / "prices"))
    before, change = commits(copied), getattr(table, use)
    records = spark.sql("SELECT 'tea' AS item, 1.0D AS price, TIMESTAMP '2030-01-01' AS ts")
    for other in (None, "another"):
        with pytest.raises(ConfigurationError, match="belongs to the application shop"):
            change(records, owner=other)
    assert commits(copied) == before
    change(records, owner="shop")
    assert table.rows().where("item = 'tea' AND _current AND validFrom = '2030-01-01'").count() == 1


def _put_by_hand(spark: SparkSession, out: Path) -> VersionedTable:
    table = VersionedTable.open(spark, str(out / "prices"))
    table.put(spark.sql("SELECT 'tea' AS item, 7.5D AS price, TIMESTAMP '2030-01-01' AS ts"), owner="shop")
    return table


@pytest.mark.parametrize(("batch", "told"), [(_BATCHES - 1, ()), (_BATCHES - 2, ("prices",))])
def test_a_put_by_hand_that_a_rollback_undoes_is_told_and_one_behind_the_batch_itself_stays(
    spark: SparkSession, source: Path, copied: Path, batch: int, told: tuple[str, ...]
) -> None:
    table, app = _put_by_hand(spark, copied), application(spark, source, copied)
    assert [rollback(app, batch, dry_run=dry_run).by_others for dry_run in (True, False)] == [told, told]
    assert table.rows().where("price = 7.5").count() == (0 if told else 1)


def test_a_backfill_tells_a_put_by_hand_that_it_undoes_with_a_batch_that_landed_in_part(
    spark: SparkSession, source: Path, copied: Path
) -> None:
    app, old = application(spark, source, copied), "SELECT 'tea' AS item, 1.5D AS price, TIMESTAMP '2025-06-01' AS ts"
    _land_in_part(spark, copied, "main")
    table = _put_by_hand(spark, copied)
    done = [backfill(app, "prices", spark.sql(old), dry_run=dry_run).by_others for dry_run in (True, False)]
    assert done == [("prices",), ("prices",)]
    assert table.rows().where("price = 7.5").isEmpty()


@pytest.mark.parametrize("use", ["put", "delete"])
def test_a_table_is_not_changed_by_hand_between_the_two_writes_of_a_batch_that_died(
    spark: SparkSession, copied: Path, use: str
) -> None:
    _land_in_part(spark, copied, "splice")
    table, before = VersionedTable.open(spark, str(copied / "prices")), commits(copied)
    records = spark.sql("SELECT 'tea' AS item, 1.0D AS price, TIMESTAMP '2030-01-01' AS ts")
    with pytest.raises(ConfigurationError, match=f"Batch {_BATCHES} of the application shop has written its late"):
        getattr(table, use)(records, owner="shop")
    assert commits(copied) == before


def _land_in_part(spark: SparkSession, out: Path, step: str) -> None:
    """A batch behind the newest one of the ledger has made one write to the table of prices."""
    nothing = spark.read.format("delta").load(str(out / "prices")).limit(0)
    identity = Step("shop", "prices", step, 1, _BATCHES)
    commit(TableRef.parse(str(out / "prices")), lambda: Append(nothing), identity)


def test_a_backfill_puts_old_history_into_a_live_table_which_then_goes_on(
    spark: SparkSession, source: Path, copied: Path
) -> None:
    table = VersionedTable.open(spark, str(copied / "prices"))
    times, first = table.stream_times(), table.rows().where("item = 'tea'").agg({"validFrom": "min"}).collect()[0][0]
    good = [("tea", 1.5, "2025-06-01"), ("tea", 1.6, "2025-07-01"), ("milk", 2.0, "2025-06-01")]
    bad = [("tea", 9.9, "2026-02-01"), (None, 1.0, "2025-06-01"), ("tea", 1.0, None)]
    said = spark.createDataFrame([*good, *bad], "item STRING, price DOUBLE, at STRING")
    old = said.selectExpr("item", "price", "CAST(at AS TIMESTAMP) AS ts")
    with pytest.raises(ConfigurationError, match="belongs to the application shop"):
        table.backfill(old)
    done = backfill(application(spark, source, copied), "prices", old)
    assert done.counts == {
        "accepted": 3, "latest": 1, "out_of_order": 2, "spliced": 2, "expired": 2, "rejected": 3,
        "rejected.NOT_HISTORY": 1, "rejected.NULL_KEY": 1, "rejected.NULL_TS": 1,
    }  # fmt: skip
    assert table.stream_times() == times
    assert table.verify().is_sound
    spans = "price", "CAST(validFrom AS DATE)", "CAST(validTo AS DATE)"
    told = table.rows().where("validFrom < '2025-12-01'").selectExpr("item", *spans).collect()
    assert sorted((row[0], row[1], str(row[2]), str(row[3])) for row in told) == [
        ("milk", 2.0, "2025-06-01", "None"),
        ("tea", 1.5, "2025-06-01", "2025-07-01"),
        ("tea", 1.6, "2025-07-01", str(first.date())),
    ]
    ledger = spark.read.format("delta").load(str(copied / "ledger")).where("input = 0").select("counts").collect()
    assert ledger[-1]["counts"]["prices.backfilled.accepted"] == 3
    assert examine(application(spark, source, copied)).is_healthy
    assert _goes_on(spark, source, copied) == 12


def test_a_backfill_that_a_rollback_undoes_is_told_by_its_table_before_and_after(
    spark: SparkSession, source: Path, copied: Path
) -> None:
    app = application(spark, source, copied)
    backfill(app, "prices", spark.sql("SELECT 'tea' AS item, 1.5D AS price, TIMESTAMP '2025-06-01' AS ts"))
    assert rollback(app, _BATCHES - 1, dry_run=True).lost_backfills == ()
    told, done = rollback(app, 0, dry_run=True), rollback(app, 0)
    assert (told.lost_backfills, done.lost_backfills) == (("prices",), ("prices",))
    assert "what was put into prices would be undone: put it again" in str(told)


@pytest.mark.parametrize("change", ["DELETE FROM {} WHERE item = 'rice'", "RESTORE TABLE {} TO VERSION AS OF 2"])
def test_a_backfill_behind_the_batch_that_is_gone_back_to_stays_when_others_have_changed_the_table_since(
    spark: SparkSession, source: Path, copied: Path, change: str
) -> None:
    app, table = application(spark, source, copied), VersionedTable.open(spark, str(copied / "prices"))
    backfill(app, "prices", spark.sql("SELECT 'tea' AS item, 1.5D AS price, TIMESTAMP '2025-06-01' AS ts"))
    whole = table.rows().count()
    spark.sql(change.format(app.table("prices").sql))
    done = rollback(app, _BATCHES - 1)
    assert (set(done.restored), done.lost_backfills) == ({"prices"}, ())
    assert (table.rows().where("price = 1.5").count(), table.rows().count()) == (1, whole)


def _with_clicks(spark: SparkSession, source: Path, out: Path) -> StreamingApplication:
    """The application with one source more, of the same columns as the orders."""
    clicks = StreamSource("clicks", topic="clicks", key=("item",), value=("amount",))
    plan = Topology((*topology(), clicks, ChangelogSink("clicked", (clicks,))))
    schemas = {**SCHEMAS, "clicks": SCHEMAS["orders"]}
    read = {topic: {"path": str(source / topic), "maxFilesPerTrigger": "1"} for topic in schemas}
    sources = {topic: SparkSource("json", read[topic], schemas[topic], sequence_by="seq") for topic in schemas}
    return StreamingApplication(spark, "shop", plan, str(out), sources, order="sequence")


def test_behind_the_batch_after_which_a_source_was_added_both_plans_can_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, out = write_busy(tmp_path / "in", range(1)), tmp_path / "out"
    former = application(spark, source, out)
    former.run()
    write_busy(source, range(1, 2))
    shutil.copytree(source / "orders", source / "clicks")
    _with_clicks(spark, source, out).run()
    rollback(former, 0)
    application(spark, source, out).run()
    assert [batch for _, batch in _ledger(spark, out)] == [0, 0, 1]
    rollback(former, 0)
    # A rollback leaves a table that its plan is without, which is to be deleted then.
    other = shutil.copytree(out, tmp_path / "other", ignore=shutil.ignore_patterns("clicked"))
    _with_clicks(spark, source, other).run()
    clicked = spark.read.format("delta").load(str(other / "clicked"))
    assert clicked.count() == sum(len(file.read_text().splitlines()) for file in (source / "clicks").iterdir())


def _goes_on(spark: SparkSession, source: Path, out: Path) -> int:
    """How many rows the next batch reads."""
    write_busy(source, range(_BATCHES, _BATCHES + 1))
    try:
        application(spark, source, out).run()
    finally:
        for topic in ("orders", "prices"):
            (source / topic / f"{_BATCHES:05}.json").unlink()
    rows = spark.read.format("delta").load(str(out / "ledger")).where(f"batch_id >= {_BATCHES}")
    return int(rows.agg({"input": "sum"}).collect()[0][0])
