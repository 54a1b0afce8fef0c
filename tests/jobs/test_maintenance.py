"""Upkeep beside the stream: no batch fails, and every table is as without it; also after a crash in a batch."""

from __future__ import annotations

import logging
import shutil
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from busy_tables import rows_of, write_busy
from crashing import crash_at
from fault_compare import Differences, differences, tables_of
from fault_plans import application as faulty
from fault_plans import write_batches
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from two_tables import application

import jobs.maintenance
from jobs.maintain_settings import MaintainSettings
from jobs.maintenance import Upkeep, beside, maintain
from jobs.strict import validated
from streams.spark import BatchReport, interpreted
from versioned import faults, upkeep
from versioned.errors import CommitError, ConfigurationError, RetentionError
from versioned.identifiers import TableRef
from versioned.table import VersionedTable

_TABLES = ("prices", "priced_orders", "rejects")
_BATCHES = 6
#: For what asks Spark nothing.
_NO_SESSION: Any = None


class _Passes(Event):
    """Ends repeated upkeep behind the third pass."""

    done = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.done += 1
        return self.done == 3


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_busy(tmp_path_factory.mktemp("input"), range(_BATCHES))


@pytest.fixture(scope="module")
def whole(spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without upkeep, purged once at its end."""
    out = tmp_path_factory.mktemp("whole") / "out"
    application(spark, source, out).run()
    assert VersionedTable.open(spark, str(out / "prices")).purge()
    return out


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"every": "0 seconds"}, "every: give a pause"),
        ({"every": "-10 minutes"}, "every: give a pause"),
        ({"retain": "-5 days"}, "retain: give at least 7 days"),
        ({"retain": "1 day"}, "retain: give at least 7 days"),
    ],
)
def test_a_pause_or_a_retention_of_files_that_can_never_do_is_refused_by_its_path(
    said: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        validated(MaintainSettings, {"root": "tables", **said})


@pytest.mark.parametrize(
    ("names", "kept", "told"),
    [
        (("ordrs", "prices"), ["prices"], 'there is no table "ordrs"'),
        (("ordrs", "prics"), [], 'there is no table "prics"'),
        ((), ["orders", "prices"], None),
    ],
)
def test_repeated_upkeep_tells_once_of_tables_that_are_not_there_and_looks_after_the_others(
    names: tuple[str, ...],
    kept: list[str],
    told: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("orders", "prices"):
        (tmp_path / "out" / name / "_delta_log").mkdir(parents=True)
    assert _passes(MaintainSettings(root="out", tables=names), tmp_path, monkeypatch) == kept
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [told in warning for warning in warnings if told is not None] == ([] if told is None else [True])
    assert len(warnings) == (0 if told is None else 1)


def test_repeated_upkeep_tells_of_a_root_without_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert _passes(MaintainSettings(root="otu"), tmp_path, monkeypatch) == []
    assert "there are no tables below" in caplog.text


@pytest.mark.parametrize("failure", [OSError("No space left on device"), CommitError(""), RuntimeError("a\nb")])
def test_repeated_upkeep_goes_on_with_the_other_tables_whatever_fails(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders", "prices"):
        (tmp_path / "out" / name / "_delta_log").mkdir(parents=True)

    def fails(_spark: object, _said: object, target: TableRef) -> Upkeep:
        if target.short_name == "orders":
            raise failure
        return Upkeep(target.short_name, True)

    stop, told = Event(), list[Upkeep]()
    stop.set()
    monkeypatch.setattr(jobs.maintenance, "_look_after", fails)
    settings = MaintainSettings(root="out").model_copy(update={"every": timedelta(seconds=1)})
    maintain(_NO_SESSION, settings, tmp_path, told.append, stop)
    assert [(one.table, (one.failed or "").partition(":")[0]) for one in told] == [
        ("orders", type(failure).__name__),
        ("prices", ""),
    ]


def test_upkeep_that_is_done_once_looks_after_the_other_tables_before_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[Upkeep]()
    settings = _refused(monkeypatch, tmp_path).model_copy(update={"every": None})
    with pytest.raises(RetentionError, match="at least 30 days"):
        maintain(_NO_SESSION, settings, tmp_path, told.append)
    failed = "RetentionError: retain: give at least 30 days; got 7 days"
    assert [(one.table, one.failed) for one in told] == [("orders", failed), ("prices", None)]


def _refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, passes: int | None = None) -> MaintainSettings:
    """Two tables, of which one refuses what it is asked: in the first passes, or in all."""
    for name in ("orders", "prices"):
        (tmp_path / "out" / name / "_delta_log").mkdir(parents=True)
    asked = list[str]()

    def look_after(_spark: object, _said: object, target: TableRef) -> Upkeep:
        asked.append(target.short_name)
        if target.short_name == "orders" and (passes is None or asked.count("orders") <= passes):
            raise RetentionError("retain: give at least 30 days; got 7 days")
        return Upkeep(target.short_name, True)

    monkeypatch.setattr(jobs.maintenance, "_look_after", look_after)
    return MaintainSettings(root="out").model_copy(update={"every": timedelta(milliseconds=1)})


def test_repeated_upkeep_that_a_table_refuses_tells_it_at_once_goes_on_and_fails_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = list[Upkeep]()
    with pytest.raises(RetentionError, match="at least 30 days"):
        maintain(_NO_SESSION, _refused(monkeypatch, tmp_path), tmp_path, told.append, _Passes())
    failed = "RetentionError: retain: give at least 30 days; got 7 days"
    assert [(one.table, one.failed) for one in told] == [("orders", failed), ("prices", None)] * 3
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["Upkeep of orders is refused: retain: give at least 30 days; got 7 days"] * 3


def test_repeated_upkeep_ends_well_where_the_last_pass_was_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = maintain(_NO_SESSION, _refused(monkeypatch, tmp_path, passes=2), tmp_path, stop=_Passes())
    assert [one.failed for one in kept] == [None, None]


def test_upkeep_in_a_thread_tells_in_the_log_why_it_ended_before_the_block_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told, spark = list[str](), cast(SparkSession, SimpleNamespace(newSession=lambda: _NO_SESSION))

    def looks_at_the_log() -> None:
        with beside(spark, MaintainSettings(), tmp_path):
            for thread in threading.enumerate():
                if thread.name == "upkeep":
                    thread.join(10)
            told.extend(record.getMessage() for record in caplog.records if record.levelno == logging.ERROR)

    with pytest.raises(ConfigurationError, match="root: give the folder"):
        looks_at_the_log()
    assert [words.partition("root: give")[0] for words in told] == [
        "Upkeep beside the stream has ended: ConfigurationError: "
    ]


def test_upkeep_beside_a_stream_that_can_have_no_session_of_its_own_fails_before_the_block(tmp_path: Path) -> None:
    def refuses() -> SparkSession:
        raise RuntimeError("no more sessions")

    spark = cast(SparkSession, SimpleNamespace(newSession=refuses))
    with pytest.raises(RuntimeError, match="no more sessions"), beside(spark, MaintainSettings(root="out"), tmp_path):
        pytest.fail("the block was begun")


def test_over_spark_connect_upkeep_beside_a_stream_has_a_clone_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()
    monkeypatch.setattr(jobs.maintenance, "is_remote", lambda: True)
    monkeypatch.setattr(jobs.maintenance, "maintain", lambda session, *_: asked.append(session))
    with beside(cast(SparkSession, SimpleNamespace(cloneSession=lambda: "a clone")), MaintainSettings(), tmp_path):
        pass
    assert asked == ["a clone"]


def test_what_holds_a_purge_back_is_told_beside_what_was_done() -> None:
    kept = Upkeep("prices", True, 3, done=("optimized",), held_back="scope 7 (stream time 2025-01-01 00:00:00+00:00)")
    assert str(kept).partition(" ")[2].strip() == (
        "3 rows sound, optimized, purge held back by scope 7 (stream time 2025-01-01 00:00:00+00:00)"
    )


def test_tables_below_an_address_are_listed_by_spark_and_looked_after(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("told twice", "orders"):
        spark.range(1).write.format("delta").save(f"{tmp_path}/out/{name}")
    for folder in ("_checkpoint/offsets", "begun/_delta_log"):
        (tmp_path / "out" / folder).mkdir(parents=True)
    address = f"file://{tmp_path}/out"
    kept = maintain(spark, MaintainSettings(root=address), tmp_path)
    assert [one.table for one in kept] == ["orders", "told_twice"]
    with pytest.raises(ConfigurationError, match=f"root: there are no tables below {address}/orders"):
        maintain(spark, MaintainSettings(root=f"{address}/orders"), tmp_path)
    with pytest.raises(ConfigurationError, match=f"tables: there is no table at {address}/gone"):
        maintain(spark, MaintainSettings(root=address, tables=("orders", "gone")), tmp_path)


def _passes(settings: MaintainSettings, work: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables of the last of three passes."""

    monkeypatch.setattr(jobs.maintenance, "_look_after", lambda _spark, _said, target: Upkeep(target.short_name, True))
    again = settings.model_copy(update={"every": timedelta(seconds=1)})
    return [one.table for one in maintain(_NO_SESSION, again, work, stop=_Passes())]


@pytest.mark.slow
def test_tables_of_a_catalog_are_looked_after_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS kept")
    columns, days = "item STRING, price DOUBLE", ("2020-01-01", "2020-01-02", "2020-02-01")
    rows = ", ".join(f"('tea', 1D, '{day}')" for day in days)
    prices = VersionedTable.create(spark, "kept.prices", columns, keys="item", history_retention="1 day")
    prices.put(spark.sql(f"SELECT item, price, ts::TIMESTAMP FROM VALUES {rows} AS told(item, price, ts)"))
    spark.sql("CREATE TABLE kept.sink (item STRING) USING DELTA")
    settings = MaintainSettings(tables=("kept.sink", "kept.prices"), vacuum=True)
    told = [(one.table, one.versioned, one.rows, one.done) for one in maintain(spark, settings, tmp_path)]
    done = ("purged", "optimized", "vacuumed")
    assert told == [("kept.sink", False, None, ("vacuumed",)), ("kept.prices", True, 3, done)]
    assert prices.rows().count() == 2


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "root: give the folder of the tables, or tables of a catalog"),
        ({"tables": ("kept.prces",)}, "not in the catalog: kept.prces"),
        ({"root": "out", "tables": ("kept.prces", "prices")}, "there are no tables below"),
    ],
)
def test_tables_that_are_not_there_end_upkeep_that_is_done_once(
    spark: SparkSession, tmp_path: Path, said: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        maintain(spark, MaintainSettings(**said), tmp_path)


@pytest.mark.slow
def test_with_upkeep_beside_it_and_a_crash_the_stream_gives_what_it_gives_without(
    spark: SparkSession, source: Path, whole: Path, tmp_path: Path
) -> None:
    out, kept, batches = tmp_path / "out", list[Upkeep](), list[BatchReport]()
    settings = MaintainSettings(root="out", vacuum=True, tables=("prices",), every=timedelta(milliseconds=50))
    once = settings.model_copy(update={"every": None, "tables": ()})
    with beside(spark, settings, tmp_path, kept.append):
        dying = faults.armed(crash_at("before:prices/main", 5))
        with dying, pytest.raises(StreamingQueryException, match="Crash"):
            application(spark, source, out, on_batch=batches.append).run()
        # What the replay needs is there after a pass over every table.
        between = maintain(spark, once, tmp_path)
        application(spark, source, out, on_batch=batches.append).run()
    assert [report.batch_id for report in batches] == list(range(_BATCHES))
    assert len(kept) >= 3
    told = [*kept, *between, *maintain(spark, once, tmp_path)]
    assert [one for one in told if one.failed or one.broken] == []
    assert {what for one in told if one.table == "prices" for what in one.done} == {"purged", "optimized", "vacuumed"}
    assert rows_of(spark, out, *_TABLES) == rows_of(spark, whole, *_TABLES)


@pytest.mark.slow
def test_a_purge_by_the_stream_time_of_a_batch_that_is_not_done_would_be_found(
    spark: SparkSession, source: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The guard: purge goes by what the table's own commits say. This is what would happen without it.
    out = tmp_path / "out"
    with faults.armed(crash_at("before:priced_orders/main", 3)), pytest.raises(StreamingQueryException):
        application(spark, source, out).run()
    table = VersionedTable.open(spark, str(out / "prices"))
    ahead = {0: max(table.stream_times().values()) + 3_600_000_000 + table.spec.history_retention_us}
    monkeypatch.setattr(upkeep, "stream_times_of", lambda *_: ahead)
    assert upkeep.purge(spark, table.target, table.spec, ahead, {}) is not None
    application(spark, source, out).run()
    assert rows_of(spark, out, "priced_orders") != rows_of(spark, whole, "priced_orders")


@pytest.mark.slow
def test_files_that_a_replay_or_a_reader_may_need_are_not_removed(spark: SparkSession, whole: Path) -> None:
    # The settings refuse it themselves; what a table needs may be longer, and is told by the table.
    settings = MaintainSettings(root="out", vacuum=True, verify=False).model_copy(update={"retain": timedelta(days=6)})
    with pytest.raises(RetentionError, match="at least 7 days; got 6 days"):
        maintain(spark, settings, whole.parent)
    # Not even when it is repeated, where other failures are only told.
    with (
        pytest.raises(RetentionError),
        beside(spark, settings.model_copy(update={"every": timedelta(seconds=1)}), whole.parent),
    ):
        pass


@pytest.mark.slow
def test_tables_that_only_grow_are_compacted_and_others_left_alone(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(whole, tmp_path / "out"))
    before = rows_of(spark, out, "ledger", *_TABLES)
    targets = {name: TableRef.parse(str(out / name)) for name in ("ledger", "priced_orders", "prices")}
    assert {name: upkeep.optimize_appended(spark, target, 3) for name, target in targets.items()} == {
        "ledger": True,
        "priced_orders": True,
        "prices": False,
    }
    assert not upkeep.optimize_appended(spark, targets["ledger"], 3)
    assert rows_of(spark, out, "ledger", *_TABLES) == before


@pytest.mark.slow
def test_a_scope_that_is_silent_for_longer_than_the_history_is_told_to_hold_the_purge_back(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    columns = "k STRING, v STRING"
    table = VersionedTable.create(spark, f"{tmp_path}/out/t", columns, keys="k", history_retention="100 seconds")
    rows = spark.createDataFrame(
        [("a", "x", 10, 0), ("a", "y", 1000, 0), ("b", "x", 10, 7)], f"{columns}, s LONG, p INT"
    )
    table.put(rows.withColumn("ts", F.timestamp_seconds("s")), partition="p")
    kept = maintain(spark, MaintainSettings(root="out"), tmp_path)
    silent = "scope 7 (stream time 1970-01-01 00:00:10+00:00, 16 minutes 30 seconds behind that of scope 0)"
    assert [(one.held_back, "purged" in one.done) for one in kept] == [(silent, False)]
    assert f"the purge is held back by {silent}" in caplog.text


def test_a_clone_behind_upkeep_has_the_stream_time_of_each_partition_and_its_purge_takes_nothing_that_is_promised(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/out/t", "k STRING", keys="k", history_retention="100 seconds")
    rows = spark.createDataFrame([("a", 10, 1), ("a", 20, 1), ("b", 5000, 2)], "k STRING, s LONG, p INT")
    with monkeypatch.context() as as_batches:
        as_batches.setattr("versioned.table.keep_times", lambda *_: False)
        table.put(rows.withColumn("ts", F.timestamp_seconds("s")), partition="p")
    maintain(spark, MaintainSettings(root="out", verify=False, purge=False), tmp_path)
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/clone` SHALLOW CLONE {table.target.sql}")
    clone = VersionedTable.open(spark, f"{tmp_path}/clone")
    assert clone.stream_times() == table.stream_times() == {1: 20_000_000, 2: 5_000_000_000}
    assert not clone.purge()


#: Of applications of some kinds, a table into which batches merge.
_MERGED = {"table aggregates": "plain_a", "correction feed": "corrections"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", _MERGED)
def test_an_application_of_which_a_table_is_compacted_before_each_write_gives_what_it_gives_without(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    # As of large tables: a small batch writes a small table anew as a whole, to one file.
    monkeypatch.setattr(interpreted, "SMALL_TABLES", 0)
    monkeypatch.setattr(jobs.maintenance, "_MANY_FILES", 2)
    write_batches(tmp_path / "in", 3)
    whole, kept = (faulty(spark, kind, tmp_path / "in", tmp_path / out) for out in ("whole", "kept"))
    whole.run()
    told, own, alone = list[Upkeep](), spark.newSession(), threading.Lock()
    settings = MaintainSettings(root="kept", tables=(_MERGED[kind],), purge=False)

    def looks_after(name: str) -> None:
        if name.startswith("before:"):
            with alone, suppress(ConfigurationError):  # It is not there yet.
                maintain(own, settings, tmp_path, told.append)

    with faults.armed(looks_after):
        kept.run()
    found = differences(*(tables_of(spark, app, versions=False) for app in (kept, whole)))
    assert found == Differences(), found.examples
    assert ("optimized",) in [one.done for one in told]
