"""Lost, foreign and damaged checkpoints and tables, second drivers, zombies."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busy_tables import rows_of
from crashing import Crash, crash, crash_at, then
from fault_compare import step_commits
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from two_tables import SCHEMAS, application, commits, topology, write_batch

from streams.expressions import trace
from streams.nodes import ChangelogSink, StreamFilter, Topology
from streams.spark import StreamingApplication, checkpoint
from streams.spark import started_query as running
from streams.spark.arrival import arrived
from streams.spark.checkpoint import read_by_spark, read_checkpoint
from streams.spark.doctor import examine
from streams.spark.rollback import rollback
from versioned import faults
from versioned.errors import CheckpointMismatchError, ConfigurationError, InvariantError
from versioned.table_log import history

Break = Callable[[SparkSession, Path], object]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input of two batches."""
    folder = tmp_path_factory.mktemp("input")
    write_batch(folder, 0)
    write_batch(folder, 1)
    return folder


@pytest.fixture(scope="module")
def ran(spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables and the checkpoint after two batches; only ever copied."""
    out = tmp_path_factory.mktemp("ran") / "out"
    application(spark, source, out).run()
    return out


@pytest.fixture
def copied(ran: Path, tmp_path: Path) -> Path:
    """A copy of them, to be broken."""
    return Path(shutil.copytree(ran, tmp_path / "out"))


@pytest.fixture(scope="module")
def begun_anew(spark: SparkSession, source: Path, ran: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables after a new epoch, without the checkpoint, has read all input again."""
    out = Path(shutil.copytree(ran, tmp_path_factory.mktemp("anew") / "out"))
    shutil.rmtree(out / "_checkpoint")
    application(spark, source, out, new_epoch=True).run()
    return out


def _newest(out: Path, table: str) -> Path:
    return max((out / table / "_delta_log").glob("*.json"))


def _restore(table: str) -> Break:
    def act(spark: SparkSession, out: Path) -> None:
        before = int(_newest(out, table).stem) - 1
        spark.sql(f"RESTORE TABLE delta.`{out / table}` TO VERSION AS OF {before}")

    return act


def _clone(spark: SparkSession, out: Path) -> None:
    spark.sql(f"CREATE TABLE delta.`{out / 'copy'}` SHALLOW CLONE delta.`{out / 'prices'}` VERSION AS OF 1")
    spark.sql(f"DELETE FROM delta.`{out / 'prices'}`")
    spark.sql(f"CREATE OR REPLACE TABLE delta.`{out / 'prices'}` SHALLOW CLONE delta.`{out / 'copy'}`")


def _delete(*names: str) -> Break:
    def act(_: SparkSession, out: Path) -> None:
        for name in names:
            shutil.rmtree(out / name) if (out / name).is_dir() else (out / name).unlink()

    return act


def _write(name: str, text: str) -> Break:
    def act(_: SparkSession, out: Path) -> None:
        (out / name).write_text(text, encoding="utf-8")

    return act


def _empty_newest_commit(_: SparkSession, out: Path) -> None:
    newest = _newest(out, "priced_orders")
    newest.write_text("", encoding="utf-8")
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    newest.with_suffix(".crc").unlink(missing_ok=True)


def _older_copy(_: SparkSession, out: Path) -> None:
    newest = _newest(out, "priced_orders")
    for file in newest.parent.glob(f"*{newest.stem}*"):
        file.unlink()


def _forgetful(spark: SparkSession, out: Path) -> None:
    wanted = "'delta.setTransactionRetentionDuration' = 'interval 1 days'"
    spark.sql(f"ALTER TABLE delta.`{out / 'prices'}` SET TBLPROPERTIES ({wanted})")


_FAULTS: dict[str, tuple[Break, str, type[Exception]]] = {
    "lost checkpoint": (_delete("_checkpoint"), "checkpoint-lost", CheckpointMismatchError),
    "checkpoint of another query": (
        _write("_checkpoint/metadata", json.dumps({"id": "other"})),
        "checkpoint-foreign",
        CheckpointMismatchError,
    ),
    "older copy of the checkpoint": (
        _delete("_checkpoint/offsets/1", "_checkpoint/commits/1"),
        "checkpoint-behind",
        CheckpointMismatchError,
    ),
    "truncated offsets": (_write("_checkpoint/offsets/1", "v1\n{}\n"), "checkpoint-damaged", CheckpointMismatchError),
    "empty offsets": (_write("_checkpoint/offsets/1", ""), "checkpoint-damaged", CheckpointMismatchError),
    "restored table": (_restore("prices"), "table-restored", CheckpointMismatchError),
    "a clone in a table's place": (_clone, "table-restored", CheckpointMismatchError),
    "deleted table": (_delete("priced_orders"), "table-gone", CheckpointMismatchError),
    "older copy of a table": (_older_copy, "table-replaced", CheckpointMismatchError),
    "restored ledger": (_restore("ledger"), "ledger-restored", CheckpointMismatchError),
    "deleted ledger": (_delete("ledger"), "checkpoint-foreign", CheckpointMismatchError),
    "empty newest commit": (_empty_newest_commit, "empty-commit", CheckpointMismatchError),
    "forgetful table": (_forgetful, "table-forgets", ConfigurationError),
}

#: Others break the same rules.
_ALIKE = dict.fromkeys(("checkpoint of another query", "empty offsets", "a clone in a table's place"), pytest.mark.slow)


@pytest.mark.parametrize("fault", [pytest.param(name, marks=_ALIKE.get(name, ())) for name in _FAULTS])
def test_damage_is_found_by_the_doctor_and_refused_before_any_write(
    fault: str, spark: SparkSession, source: Path, copied: Path
) -> None:
    damage, rule, error = _FAULTS[fault]
    damage(spark, copied)
    app, before = application(spark, source, copied), commits(copied)
    diagnosis = examine(app)
    assert not diagnosis.is_healthy
    assert rule in {found.rule for found in diagnosis.findings}, diagnosis
    assert commits(copied) == before
    with pytest.raises(error, match="To go on: "):
        app.run()
    assert commits(copied) == before


@pytest.mark.slow
@pytest.mark.parametrize("table", ["ledger", "prices"])
def test_what_a_restore_took_back_another_one_brings_forward(table: str, spark: SparkSession, tmp_path: Path) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    write_batch(own, 1)
    application(spark, own, out).run()
    version = int(_newest(out, table).stem)
    _restore(table)(spark, out)
    assert not examine(application(spark, own, out)).is_healthy
    spark.sql(f"RESTORE TABLE delta.`{out / table}` TO VERSION AS OF {version}")
    assert examine(application(spark, own, out)).findings == ()
    write_batch(own, 2)
    application(spark, own, out).run()
    assert (_epochs(spark, out), _count(spark, out)) == ({(1, 0), (1, 1), (1, 2)}, 6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "batch"), [("restored table", 1), ("restored ledger", 0), ("older copy of the checkpoint", 0)]
)
def test_a_rollback_mends_what_a_restore_or_an_older_checkpoint_broke(
    fault: str, batch: int, spark: SparkSession, source: Path, ran: Path, copied: Path
) -> None:
    _FAULTS[fault][0](spark, copied)
    advice = {found.remedy for found in examine(application(spark, source, copied)).findings}
    assert any(f"versioned rollback --batch {batch}" in remedy for remedy in advice), advice
    rollback(application(spark, source, copied), batch)
    assert examine(application(spark, source, copied)).is_healthy
    application(spark, source, copied).run()
    assert _rows(spark, copied) == _rows(spark, ran)


def _rows(spark: SparkSession, out: Path) -> object:
    # In a later epoch rows carry other batch ids.
    return rows_of(spark, out, "prices", "priced_orders", "rejects", without=("_batch_id",))


def test_a_copy_of_everything_is_healthy_and_goes_on(spark: SparkSession, source: Path, copied: Path) -> None:
    app = application(spark, source, copied)
    assert examine(app).findings == ()
    app.run()
    assert _epochs(spark, copied) == {(1, 0), (1, 1)}


def _epochs(spark: SparkSession, out: Path) -> set[tuple[int, int]]:
    rows = spark.read.format("delta").load(str(out / "ledger")).select("epoch", "batch_id").collect()
    return {(row[0], row[1]) for row in rows}


def _count(spark: SparkSession, out: Path) -> int:
    return int(spark.read.format("delta").load(str(out / "priced_orders")).count())


def test_a_new_epoch_goes_on_without_the_checkpoint_and_shuts_out_the_one_before(
    spark: SparkSession, source: Path, begun_anew: Path
) -> None:
    # The file sources begin anew, as the option says: the orders are there twice.
    assert _epochs(spark, begun_anew) == {(1, 0), (1, 1), (2, -1), (2, 0), (2, 1)}
    assert _count(spark, begun_anew) == 8
    application(spark, source, begun_anew).run()
    assert _count(spark, begun_anew) == 8
    assert read_checkpoint(spark, f"{begun_anew}/_checkpoint-epoch-2").commit >= 1
    numbers = spark.read.format("delta").load(str(begun_anew / "priced_orders")).select("_batch_id").distinct()
    assert {row[0] for row in numbers.collect()} == {0, 1, 1 << 40, (1 << 40) + 1}


@pytest.mark.rule("R189")
def test_a_new_epoch_that_reads_a_table_s_input_again_skips_what_is_past_grace_and_leaves_the_table_as_it_is(
    spark: SparkSession, ran: Path, begun_anew: Path
) -> None:
    rejected = spark.read.format("delta").load(str(begun_anew / "rejects")).select("node", "reason").collect()
    assert [tuple(row) for row in rejected] == [("prices", "LATE")]
    assert rows_of(spark, begun_anew, "prices") == rows_of(spark, ran, "prices")


@pytest.mark.slow
def test_a_new_epoch_takes_a_restored_table_as_it_is(spark: SparkSession, source: Path, copied: Path) -> None:
    _restore("prices")(spark, copied)
    application(spark, source, copied, new_epoch=True)._agreed_state()
    assert [found.rule for found in examine(application(spark, source, copied)).findings] == ["no-batch"]


@pytest.mark.slow
def test_a_node_whose_store_has_a_name_cannot_be_renamed_in_silence(
    spark: SparkSession, source: Path, copied: Path
) -> None:
    before, renamed = commits(copied), topology(node="other")
    assert [found.rule for found in examine(application(spark, source, copied, renamed)).findings] == ["table-of-node"]
    for new_epoch in (False, True):
        app = application(spark, source, copied, renamed, new_epoch=new_epoch)
        with pytest.raises(ConfigurationError, match=r'by the node "prices", not by "other".*a store called "prices"'):
            app.run()
    assert commits(copied) == before


@pytest.mark.slow
@pytest.mark.rule("R189")
@pytest.mark.parametrize("fenced", [False, True], ids=["once", "after another epoch"])
def test_a_new_epoch_without_a_ledger_goes_on_with_the_times_that_the_tables_tell(
    fenced: bool, spark: SparkSession, source: Path, copied: Path
) -> None:
    if fenced:
        application(spark, source, copied, new_epoch=True)._agreed_state()
    before = application(spark, source, copied)._agreed_state().state
    shutil.rmtree(copied / "ledger")
    heir = application(spark, source, copied, new_epoch=True)
    heir._ledger.create()
    begun = heir._agreed_state().state
    assert begun.stream_times["prices"]
    # What is known of sequences is in the ledger only.
    times = {name: times for name, times in before.stream_times.items() if "/" not in name}
    assert (begun.stream_times, begun.maxima) == (times, before.maxima)
    assert begun.epoch == before.epoch + 1


@pytest.mark.slow
def test_a_new_epoch_over_an_unfinished_first_batch_applies_it_as_if_it_had_never_come(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    with faults.armed(crash_at("after:prices/main")), pytest.raises(StreamingQueryException):
        application(spark, source, tmp_path).run()
    assert application(spark, source, tmp_path, new_epoch=True)._agreed_state().state.stream_times == {}


def _renamed(spark: SparkSession, source: Path, out: Path) -> StreamingApplication:
    return application(spark, source, out, name="other", new_epoch=True)


def _over_a_dead_takeover(spark: SparkSession, source: Path, out: Path) -> StreamingApplication:
    with faults.armed(then("takeover:shut-out", crash)), pytest.raises(Crash):
        rollback(application(spark, source, out), 0)
    return application(spark, source, out, new_epoch=True)


def _over_an_empty_commit(spark: SparkSession, source: Path, out: Path) -> StreamingApplication:
    _empty_newest_commit(spark, out)
    return application(spark, source, out, new_epoch=True)


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (_renamed, 'that of the application "shop", and has room for one only; "other" never ran there'),
        (_over_a_dead_takeover, "A rollback or backfill behind batch 0 did not end"),
        (_over_an_empty_commit, "The newest commit of priced_orders is an empty file"),
    ],
    ids=["another name", "a takeover that died", "an empty commit"],
)
def test_what_a_new_epoch_would_not_mend_is_refused_before_it_shuts_anybody_out(
    case: Callable[[SparkSession, Path, Path], StreamingApplication],
    told: str,
    spark: SparkSession,
    source: Path,
    copied: Path,
) -> None:
    heir = case(spark, source, copied)
    before = commits(copied)
    with pytest.raises(CheckpointMismatchError, match=f"{told}.* Nothing was written"):
        heir._agreed_state()
    assert commits(copied) == before


@pytest.mark.slow
def test_a_new_epoch_over_the_same_sources_does_not_note_their_order_again(
    spark: SparkSession, source: Path, copied: Path
) -> None:
    app = application(spark, source, copied, new_epoch=True)
    app._agreed_state()
    done = [row["operation"] for row in history(spark, app.table("ledger"), 100)]
    assert done.count("SET TBLPROPERTIES") == 1


@pytest.mark.slow
def test_a_table_that_is_lost_before_a_new_epoch_has_written_to_it_is_missed(
    spark: SparkSession, source: Path, copied: Path
) -> None:
    application(spark, source, copied, new_epoch=True)._agreed_state()
    shutil.rmtree(copied / "prices")
    app = application(spark, source, copied)
    assert [found.rule for found in examine(app).findings] == ["table-gone"]
    application(spark, source, copied, new_epoch=True)._agreed_state()
    assert examine(app).is_healthy


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after:ledger/row", "after:prices/splice"])
def test_who_goes_on_after_an_epoch_began_in_part_shuts_older_drivers_out_of_every_step(
    point: str, spark: SparkSession, source: Path, copied: Path
) -> None:
    with faults.armed(crash_at(point)), pytest.raises(Crash):
        application(spark, source, copied, new_epoch=True)._agreed_state()
    app = application(spark, source, copied)
    app._agreed_state()
    planned = {(table.short_name, f"shop/{node}/{step}") for table, node, step in app.survey().steps}
    shut = {(said.table, said.step) for said in step_commits(copied) if said.epoch == 2}
    assert shut == {*planned, ("ledger", "shop/ledger/row")}
    before = commits(copied)
    app._agreed_state()
    assert commits(copied) == before


@pytest.mark.slow
def test_a_system_history_that_is_gone_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    own, out, plan = tmp_path / "input", tmp_path / "out", topology(system_history=True)
    write_batch(own, 0)
    application(spark, own, out, plan).run()
    assert examine(application(spark, own, out, plan)).findings == ()
    shutil.rmtree(out / "prices_known")
    (found,) = examine(application(spark, own, out, plan)).findings
    assert (found.rule, found.about) == ("table-gone", "prices_known")


@pytest.mark.slow
def test_a_plan_that_counts_on_more_history_than_its_table_promises_is_refused_with_the_way_to_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    application(spark, own, out).run()
    write_batch(own, 1)
    before, changed = commits(out), application(spark, own, out, topology(hours=2))
    with pytest.raises(ConfigurationError, match="promises something else than the plan") as refused:
        changed.run()
    assert commits(out) == before
    remedy = re.search(r"ALTER TABLE .*\)", str(refused.value))
    assert remedy is not None
    spark.sql(remedy[0])
    changed.run()
    assert _epochs(spark, out) == {(1, 0), (1, 1)}


@pytest.mark.slow
def test_a_checkpoint_need_not_be_on_local_files(
    spark: SparkSession, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "local_folder", lambda place: None)
    for _ in range(2):
        application(spark, source, tmp_path / "out").run()
    assert _epochs(spark, tmp_path / "out") == {(1, 0), (1, 1)}


def test_a_zombie_of_an_older_epoch_writes_nothing_more(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen: list[set[str]] = []

    def take_over() -> None:
        # Only the beginning of the new driver's work: its epoch, not yet a batch.
        application(spark, source, out, new_epoch=True)._agreed_state()
        seen.append(commits(out))

    with (
        faults.armed(then("end:batch", take_over)),
        pytest.raises(StreamingQueryException, match=r"Epoch 2 .*has begun"),
    ):
        application(spark, source, out).run()
    assert _epochs(spark, out) == {(1, 0), (2, -1)}
    assert commits(out) == seen[0]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["restored table", "deleted table"])
def test_damage_between_two_batches_of_a_query_is_refused_before_the_next_write(
    fault: str, spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    damage, out = _FAULTS[fault][0], tmp_path / "out"
    seen: list[set[str]] = []

    def hurt() -> None:
        damage(spark, out)
        seen.append(commits(out))

    with (
        faults.armed(then("end:batch", hurt)),
        pytest.raises(StreamingQueryException, match=r"The table \w+ (was restored|is gone).* To go on: "),
    ):
        application(spark, source, out).run()
    assert _epochs(spark, out) == {(1, 0)}
    assert commits(out) == seen[0]


@pytest.mark.slow
def test_a_zombie_in_the_middle_of_its_batch_is_fenced_at_its_next_write(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    heir = application(spark, source, out, new_epoch=True)
    second_batch = then("before:priced_orders/main", heir._agreed_state, skip=1)
    with faults.armed(second_batch), pytest.raises(StreamingQueryException, match=r"did not land: a newer epoch"):
        application(spark, source, out).run()
    assert (_epochs(spark, out), _count(spark, out)) == ({(1, 0), (2, -1)}, 2)


@pytest.mark.slow
def test_a_zombie_is_fenced_at_the_first_rows_ever_of_a_sink_with_a_dash_in_its_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    own, out, plan = tmp_path / "input", tmp_path / "out", topology()
    many = StreamFilter("many", (plan.node("orders"),), predicate=trace(lambda value: value.amount > 1, "value"))
    alerting = Topology((*plan, many, ChangelogSink("late-alerts", (many,))))
    write_batch(own, 0)
    application(spark, own, out, alerting).run()
    write_batch(own, 1, amount=2)
    heir = application(spark, own, out, alerting, new_epoch=True)
    first_alert = then("before:late-alerts/main", heir._agreed_state)
    with faults.armed(first_alert), pytest.raises(StreamingQueryException, match=r"did not land: a newer epoch"):
        application(spark, own, out, alerting).run()
    assert rows_of(spark, out, "late-alerts") == {"late-alerts": Counter()}


@pytest.mark.slow
def test_of_two_drivers_with_a_checkpoint_each_the_second_is_fenced(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    second = application(spark, source, out, checkpoint=str(tmp_path / "second"))
    # The first runs while the second starts: when that looked, there was nothing yet.
    first = then("before:rejects", application(spark, source, out).run)
    with faults.armed(first), pytest.raises(StreamingQueryException, match="Another driver"):
        second.run()
    assert _count(spark, out) == 4
    with pytest.raises(CheckpointMismatchError, match=f"belongs to another query|{tmp_path}/second"):
        application(spark, source, out, checkpoint=str(tmp_path / "second")).run()


@pytest.mark.slow
def test_a_batch_that_is_done_is_not_refused_where_a_source_has_another_column_by_now(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    with faults.armed(crash_at("end:batch")), pytest.raises(StreamingQueryException):
        application(spark, own, out).run()
    monkeypatch.setitem(SCHEMAS, "orders", f"{SCHEMAS['orders']}, note STRING")
    write_batch(own, 1)
    application(spark, own, out).run()
    assert (_epochs(spark, out), _count(spark, out)) == ({(1, 0), (1, 1)}, 4)


@pytest.mark.slow
def test_broken_rows_are_refused_at_every_start_until_a_run_takes_them_as_they_are_or_a_rollback_undoes_them(
    spark: SparkSession, source: Path, copied: Path
) -> None:
    prices = f"delta.`{copied / 'prices'}`"
    spark.sql(f"INSERT INTO {prices} SELECT * FROM {prices} WHERE validTo IS NULL LIMIT 1")
    before = commits(copied)
    for _ in range(2):
        with pytest.raises(InvariantError, match=r"prices\.several_current.* guards: warn"):
            application(spark, source, copied, guards="fail").run()
    assert commits(copied) == before
    application(spark, source, copied, guards="warn").run()
    assert _epochs(spark, copied) == {(1, 0), (1, 1)}
    assert rollback(application(spark, source, copied), 1).by_others == ("prices",)
    application(spark, source, copied, guards="fail").run()


@pytest.mark.slow
def test_a_clock_that_was_far_ahead_once_lets_nothing_in_from_the_future_later(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out, ahead_us = tmp_path / "input", tmp_path / "out", 4_102_444_800_000_000
    write_batch(own, 0)
    with monkeypatch.context() as patch:
        patch.setattr(
            running, "arrived", lambda rows: {n: replace(a, clock_us=ahead_us) for n, a in arrived(rows).items()}
        )
        application(spark, own, out).run()
    write_batch(own, 1, year=2099)
    application(spark, own, out).run()
    rejected = spark.read.format("delta").load(str(out / "rejects")).select("reason").collect()
    assert [row["reason"] for row in rejected] == ["FUTURE_TS"] * 4
    clocks = spark.read.format("delta").load(str(out / "ledger")).selectExpr("unix_micros(clock)").distinct().collect()
    assert [row[0] for row in clocks] == [ahead_us]


@pytest.mark.slow
def test_a_checkpoint_that_has_only_ticked_is_known(spark: SparkSession, tmp_path: Path) -> None:
    started = _start_idle(spark, tmp_path)
    started()
    commit = read_checkpoint(spark, f"{tmp_path}/out/_checkpoint").commit
    diagnosis = examine(application(spark, tmp_path / "input", tmp_path / "out"))
    assert (commit >= 0, [found.rule for found in diagnosis.findings]) == (True, ["no-batch"])


def _start_idle(spark: SparkSession, folder: Path) -> Callable[..., None]:
    """How an application is started whose input has not come yet."""
    for topic in ("orders", "prices"):
        (folder / "input" / topic).mkdir(parents=True)
    return lambda **options: application(spark, folder / "input", folder / "out", **options).run()


@pytest.mark.slow
def test_an_application_without_a_batch_may_take_another_checkpoint_and_keeps_that(
    spark: SparkSession, tmp_path: Path
) -> None:
    start = _start_idle(spark, tmp_path)
    start()
    shutil.rmtree(tmp_path / "out" / "_checkpoint")
    start()
    write_batch(tmp_path / "input", 0)
    start()
    assert {epoch for epoch, _ in _epochs(spark, tmp_path / "out")} == {1}


@pytest.mark.slow
def test_a_second_application_is_refused_at_its_first_start_in_a_root(spark: SparkSession, tmp_path: Path) -> None:
    start = _start_idle(spark, tmp_path)
    start()
    for options in ({}, {"new_epoch": True}):
        with pytest.raises(CheckpointMismatchError, match=r'that of the application "shop".*"bar" never ran there'):
            start(name="bar", checkpoint=str(tmp_path / "checkpoint"), **options)


def test_a_checkpoint_reads_the_same_through_spark(spark: SparkSession, ran: Path) -> None:
    told: Any = read_by_spark(spark, f"file://{ran}/_checkpoint")
    assert {name for name in told if not name.rpartition("/")[2].startswith(".")} >= {
        "metadata",
        "offsets/1",
        "commits/1",
    }
    assert read_checkpoint(spark, f"file://{ran}/_checkpoint").query == json.loads(told["metadata"])["id"]


def test_a_checkpoint_is_read_through_spark_while_a_query_takes_its_oldest_files_away(
    spark: SparkSession, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load: Any = DataFrameReader.load

    def loads(reader: DataFrameReader, path: str) -> DataFrame:
        frame: DataFrame = load(reader, path)
        if path.endswith("/offsets"):  # It was listed, and is not read yet.
            (copied / "_checkpoint" / "offsets" / "0").unlink()
        return frame

    monkeypatch.setattr(DataFrameReader, "load", loads)
    told = read_by_spark(spark, f"file://{copied}/_checkpoint")
    assert ("offsets/0" in told, "offsets/1" in told, "commits/1" in told) == (False, True, True)
