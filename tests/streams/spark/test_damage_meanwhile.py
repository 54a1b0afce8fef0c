"""What happens to the tables between the start of a query, or of a takeover, and its first write."""

from __future__ import annotations

from pathlib import Path

import pytest
from crashing import Crash, crash_at, then
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from two_tables import application, commits, write_batch

from streams.spark import started_query as running
from streams.spark.arrival import Arrived, arrived
from streams.spark.doctor import examine
from streams.spark.rollback import rollback
from versioned import faults, side_by_side
from versioned.commit import Append, Step, commit
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.replay import DRIVER

pytestmark = pytest.mark.slow


@pytest.fixture
def ran(spark: SparkSession, tmp_path: Path) -> tuple[Path, Path]:
    """Input and tables of an application after two batches."""
    own, out = tmp_path / "input", tmp_path / "out"
    for number in range(2):
        write_batch(own, number)
    application(spark, own, out).run()
    return own, out


def test_a_table_that_was_restored_while_a_query_waited_for_its_first_batch_is_refused(
    spark: SparkSession, ran: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out = ran
    seen: list[set[str]] = []

    def arrived_late(rows: DataFrame) -> dict[str, Arrived]:
        # The start has looked at all tables; the first batch comes only now.
        spark.sql(f"RESTORE TABLE delta.`{out / 'prices'}` TO VERSION AS OF 1")
        seen.append(commits(out))
        return arrived(rows)

    monkeypatch.setattr(running, "arrived", arrived_late)
    write_batch(own, 2)
    with pytest.raises(StreamingQueryException, match=r"The table prices was restored.* To go on: "):
        application(spark, own, out).run()
    assert commits(out) == seen[0]


@pytest.mark.parametrize(
    ("table", "node", "step"),
    [("prices", "prices", "main"), ("ledger", "ledger", "row")],
    ids=["a table", "the ledger"],
)
def test_a_driver_that_writes_the_same_batch_on_the_same_checkpoint_ends_this_one(
    spark: SparkSession, ran: tuple[Path, Path], table: str, node: str, step: str
) -> None:
    own, out = ran
    there, ended = TableRef.parse(str(out / table)), list(application(spark, own, out).reports())[-1]

    def elsewhere() -> None:
        nothing = spark.read.format("delta").load(str(out / table)).limit(0)
        commit(there, lambda: Append(nothing), Step("shop", node, step, 1, ended.batch_id + 1), {DRIVER: "another"})

    write_batch(own, 2)
    with (
        faults.armed(then(f"before:{node}/{step}", elsewhere)),
        pytest.raises(StreamingQueryException, match=r"by another driver, on the same checkpoint.* rollback --batch"),
    ):
        application(spark, own, out).run()


def test_a_takeover_that_died_when_it_had_shut_the_ledger_alone_is_told_as_one(
    spark: SparkSession, ran: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out = ran
    monkeypatch.setattr(side_by_side, "_AT_ONCE", 1)
    with faults.armed(crash_at("after:ledger/row")), pytest.raises(Crash):
        rollback(application(spark, own, out), 0)
    (told, *_) = examine(application(spark, own, out)).findings
    assert (told.rule, told.remedy.startswith("run it again")) == ("unfinished-takeover", True)
    rollback(application(spark, own, out), 0)
    assert [found.rule for found in examine(application(spark, own, out)).findings] == []


def test_a_second_start_in_one_session_is_refused_before_it_shuts_the_first_out(
    spark: SparkSession, ran: tuple[Path, Path]
) -> None:
    own, out = ran
    query = application(spark, own, out).start("1 second")
    try:
        before = commits(out)
        with pytest.raises(ConfigurationError, match=r'"shop" runs in this session\. Stop it first'):
            application(spark, own, out, new_epoch=True).start()
        assert commits(out) == before
    finally:
        query.stop()


def test_a_new_epoch_goes_on_from_a_batch_that_another_driver_ended_until_it_was_shut_out(
    spark: SparkSession, ran: tuple[Path, Path]
) -> None:
    own, out = ran
    write_batch(own, 2)
    other, heir = application(spark, own, out), application(spark, own, out, new_epoch=True)
    # The heir has looked at ledger and tables, and not yet begun its epoch.
    with faults.armed(then("before:ledger/row", other.run)):
        begun = heir._agreed_state().state
    ended = other._ledger.after(1, 2)
    assert (begun.stream_times, begun.maxima, begun.totals) == (ended.stream_times, ended.maxima, ended.totals)
    assert examine(application(spark, own, out)).is_healthy
