"""A new epoch, or a rollback, beside a driver that is not shut out yet, and over what its last batch left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from crashing import Crash, crash, crash_at, then
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from two_tables import application, commits, topology, write_batch

from streams.expressions import trace
from streams.nodes import ChangelogSink, Joined, StreamFilter, StreamTableJoin, Topology
from streams.spark import StreamingApplication, takeover
from streams.spark.doctor import examine
from streams.spark.kafka_sink import KafkaSink
from streams.spark.operator import Batch
from streams.spark.rollback import rollback
from streams.spark.sinks import ChangelogSinkOperator
from versioned import faults
from versioned.errors import CheckpointMismatchError, ConfigurationError
from versioned.identifiers import TableRef
from versioned.reading import read_table

_KAFKA = {"priced_orders": KafkaSink("localhost:9092", "priced")}


@pytest.mark.slow
def test_an_epoch_that_died_at_its_first_row_goes_on_behind_all_that_had_ended_by_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    application(spark, own, out).run()
    write_batch(own, 1)
    older = application(spark, own, out)
    # The heir has looked, and is about to write its row, when the older driver ends a batch.
    ends, dies = then("before:ledger/row", older.run), crash_at("after:ledger/row", 2)

    def act(name: str) -> None:
        ends(name)
        dies(name)

    with faults.armed(act), pytest.raises(Crash):
        application(spark, own, out, new_epoch=True)._agreed_state()
    for new_epoch, epoch in ((False, 2), (True, 3)):
        begun = application(spark, own, out, new_epoch=new_epoch)._agreed_state().state
        assert (begun.epoch, begun.batch_id) == (epoch, -1)
        assert older._started is not None
        ended = older._started._state
        assert (begun.stream_times, begun.maxima) == (ended.stream_times, ended.maxima)


def _alerting() -> Topology:
    plan = topology()
    many = StreamFilter("many", (plan.node("orders"),), predicate=trace(lambda value: value.amount > 1, "value"))
    return Topology((*plan, many, ChangelogSink("late-alerts", (many,))))


def _by_new_epoch(heir: StreamingApplication) -> None:
    heir._new_epoch = True
    heir._agreed_state()


def _by_rollback(heir: StreamingApplication) -> None:
    rollback(heir, 0)


@pytest.mark.slow
@pytest.mark.parametrize("take_over", [_by_new_epoch, _by_rollback], ids=["new epoch", "rollback"])
def test_a_table_that_a_driver_makes_after_it_was_shut_out_is_refused_until_it_is_deleted(
    take_over: Callable[[StreamingApplication], None],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The other process is played by this one.
    monkeypatch.setattr(takeover, "refuse_running", lambda spark, name: None)
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    application(spark, own, out).run()
    write_batch(own, 1, amount=2)
    heir = application(spark, own, out, _alerting())
    makes_it = then("before:late_alerts", lambda: take_over(heir))
    with faults.armed(makes_it), pytest.raises(StreamingQueryException, match="did not land: a newer epoch"):
        application(spark, own, out, _alerting()).run()
    before, goes_on = commits(out), application(spark, own, out, _alerting())
    assert "table-of-older-driver" in {found.rule for found in examine(goes_on).findings}
    for refused in (goes_on.run, lambda: rollback(goes_on, 0)):
        with pytest.raises(CheckpointMismatchError, match=r"late_alerts has rows of batch 1 of epoch 1.*delete the"):
            refused()
    assert commits(out) == before
    shutil.rmtree(out / "late-alerts")
    application(spark, own, out, _alerting()).run()
    assert read_table(spark, TableRef.parse(str(out / "late-alerts"))).count() == 2


def _waiting() -> Topology:
    plan = topology()
    orders, prices = plan.node("orders"), plan.node("prices")
    joined, joiner = Joined.with_grace_period(timedelta(minutes=30)), trace(lambda left, right: left, "left", "right")
    join = StreamTableJoin("priced", (orders, prices), kind="left", joiner=joiner, joined=joined)
    return Topology((prices, orders, join, ChangelogSink("priced_orders", (join,))))


def test_an_epoch_whose_plan_or_sources_are_refused_shuts_nobody_out(spark: SparkSession, tmp_path: Path) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    older = application(spark, own, out, _waiting())
    older.run()
    before, lost = commits(out), application(spark, tmp_path / "missing", out, _waiting(), new_epoch=True)
    with pytest.raises(ConfigurationError, match="rows wait in the table"):
        application(spark, own, out, new_epoch=True).start()
    with pytest.raises(ConfigurationError, match=r'Source "orders" reads .*/missing/orders, which is not there'):
        lost.start()
    assert commits(out) == before
    write_batch(own, 1)
    older.run()
    assert older.epoch == 1


@pytest.mark.slow
def test_a_checkpoint_that_is_there_before_its_epoch_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    application(spark, own, out).run()
    left = out / "_checkpoint-epoch-2" / "offsets"
    left.mkdir(parents=True)
    shutil.copy(out / "_checkpoint" / "offsets" / "0", left)
    before = commits(out)
    with pytest.raises(CheckpointMismatchError, match="is there already"):
        application(spark, own, out, new_epoch=True)._agreed_state()
    assert commits(out) == before


@pytest.mark.slow
def test_what_was_not_sent_before_a_new_epoch_is_sent_by_it_if_its_input_comes_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out, sent = tmp_path / "input", tmp_path / "out", list[int]()
    write_batch(own, 0, amount=5)

    def publish(_: KafkaSink, session: SparkSession, target: TableRef, batch: int, *__: Any, **___: Any) -> None:
        sent.extend(row["amount"] for row in read_table(session, target).where(f"_batch_id = {batch}").collect())

    with monkeypatch.context() as dying:
        dying.setattr(KafkaSink, "publish", lambda *_, **__: crash())
        with pytest.raises(StreamingQueryException):
            application(spark, own, out, kafka=_KAFKA).run()
    monkeypatch.setattr(KafkaSink, "publish", publish)
    assert read_table(spark, TableRef.parse(str(out / "priced_orders"))).count() == 2
    application(spark, own, out, kafka=_KAFKA, new_epoch=True).run()
    assert sent == [5, 5]


@pytest.mark.parametrize(
    ("landed", "times_sent"),
    [({"priced_orders": 3}, 1), ({"prices": 3}, 0)],
    ids=["landed before a crash", "landed nothing"],
)
def test_rows_that_landed_are_sent_though_the_plan_as_it_is_now_makes_none(
    landed: dict[str, int], times_sent: int
) -> None:
    sink: Any = topology().node("priced_orders")
    operator, kafka = ChangelogSinkOperator(sink), Mock()
    operator.kafka = kafka
    operator.write(Batch(Mock(), "shop", TableRef.parse("/data"), 1, 3, 0, {}, landed=landed))
    assert kafka.publish.call_count == times_sent
