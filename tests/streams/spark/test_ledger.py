"""The ledger as a table: where it may lie, and of which types it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from both_engines import Input, application, write_records
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.validate import ledger_facts
from streams import Materialized, StreamsBuilder
from streams.nodes import Topology
from streams.spark import ledger as ledgers
from streams.spark.ledger import MOST_SCOPES, Ledger, LedgerState
from streams.spark.rejects import Rejects
from streams.spark.sql_views import register_table_sql
from versioned.commit import Step
from versioned.identifiers import TableRef
from versioned.reading import read_table
from versioned.session_settings import session_settings
from versioned.table_log import history

_RECORDS = [
    [Input("prices", "tea", "10", 0), Input("prices", None, "9", 2_000)],
    [Input("prices", "tea", "12", 60_000)],
]


def _topology() -> Topology:
    """A versioned table, and each change of it."""
    builder = StreamsBuilder()
    history = Materialized.versioned("1 hour")
    prices = builder.table("prices", history, key="k", value="v", deleted="dead", name="prices")
    prices.to_changelog("told")
    return builder.build()


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """A database in the session's catalog; the tables that a test makes in it go with it."""
    spark.sql("CREATE DATABASE shop")
    yield "shop"
    spark.sql("DROP DATABASE shop CASCADE")


@pytest.mark.slow
def test_an_application_starts_and_goes_on_below_a_catalog_name(
    spark: SparkSession, tmp_path: Path, database: str
) -> None:
    plan, first = _topology(), 0
    for records in _RECORDS:
        write_records(spark, tmp_path, plan, records, first)
        first += len(records)
        application(spark, tmp_path, plan, root=database, checkpoint=str(tmp_path / "checkpoint")).run()
    shown = spark.sql(f"SHOW TABLES IN {database}").where("NOT isTemporary").collect()
    made = {row["tableName"] for row in shown}
    assert made == {"ledger", "rejects", "prices", "told"}
    assert sorted(row["batch_id"] for row in spark.table(f"{database}.ledger").collect()) == [0, 1]
    assert sorted(row["v"] for row in spark.table(f"{database}.told").collect()) == ["10", "12"]


def test_instants_of_ledger_and_rejects_are_of_one_kind_in_every_session(spark: SparkSession, tmp_path: Path) -> None:
    ledger, rejects = (TableRef.parse(f"{tmp_path}/{name}") for name in ("ledger", "rejects"))
    with session_settings(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        Ledger(spark, ledger, "app").create()
        Rejects(rejects).create(spark, is_there=False)
        Ledger(spark, ledger, "app").append_epoch(spark, LedgerState(clock_us=7))
    kinds = [read_table(spark, target).schema.simpleString() for target in (ledger, rejects)]
    assert [("timestamp_ntz" in kind, "timestamp" in kind) for kind in kinds] == [(False, True)] * 2


def test_a_ledger_is_made_and_goes_on_where_keywords_are_reserved(spark: SparkSession, tmp_path: Path) -> None:
    ledger = Ledger(spark, TableRef.parse(f"{tmp_path}/ledger"), "app")
    with session_settings(spark, {"spark.sql.ansi.enforceReservedKeywords": "true"}):
        ledger.create()
        ledger.append_epoch(spark, LedgerState(1, 4, clock_us=7), forgotten=[(1, 3)])
        assert ledger.last() == LedgerState(1, 4, clock_us=7)
        assert "ledger_totals" in register_table_sql(spark, ledger.target)


def test_where_an_epoch_begins_the_ledger_tells_how_far_the_nodes_are(spark: SparkSession, tmp_path: Path) -> None:
    target = TableRef.parse(f"{tmp_path}/ledger")
    ledger = Ledger(spark, target, "app")
    ledger.create()
    # Behind a rollback it begins at a batch, with a new checkpoint before all.
    for epoch, batch, us in ((2, 4, 7_000_000), (3, -1, 9_000_000)):
        ledger.append_epoch(spark, LedgerState(epoch, batch, stream_times={"prices": {0: us}}, clock_us=us))
        register_table_sql(spark, target)
        seen = spark.sql("SELECT node, scope, unix_micros(stream_time) FROM ledger_stream_times").collect()
        assert [tuple(row) for row in seen] == [("prices", 0, us)]
        facts = ledger_facts(spark, target)["prices"]
        assert (facts.stream_times, facts.clock_us) == ({0: us}, us)


def test_an_epoch_that_was_begun_with_an_older_row_goes_on_behind_the_newest_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    ledger = Ledger(spark, TableRef.parse(f"{tmp_path}/ledger"), "app")
    ledger.create()
    found, ended = (LedgerState(1, n, {"prices": {0: n}}, topics=("prices",), checkpoint="q") for n in (3, 4))
    ended = replace(ended, tables={"prices": 6, "first written then": 1})
    for state in (found, ended, found.begun_anew(2, {"prices": 7}, (1, 3))):
        ledger.append_epoch(spark, state)
    assert ledger.last() == ended.begun_anew(2, {"prices": 7, "first written then": 1}, (1, 3))


def test_the_row_with_which_an_epoch_begins_and_those_that_it_forgets_change_places_in_one_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = TableRef.parse(f"{tmp_path}/ledger")
    ledger = Ledger(spark, target, "app")
    ledger.create()
    for batch in range(3):
        ledger.append_epoch(spark, LedgerState(1, batch))
    before, begun = history(spark, target, 1)[0]["version"], LedgerState(3, 0, {"prices": {0: 7}}, clock_us=7)
    ledger.append_epoch(spark, begun, {"prices.backfilled.accepted": 2}, [(1, 1), (1, 2)])
    assert history(spark, target, 1)[0]["version"] == before + 1
    assert (sorted(ledger.row_ids()), ledger.last()) == ([(1, 0), (3, 0)], begun)
    assert ledger.backfilled_behind((1, 0)) == ("prices",)


@pytest.mark.slow
def test_of_the_newest_row_alone_it_is_read_what_a_batch_goes_on_from(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(spark, TableRef.parse(f"{tmp_path}/ledger"), "app")
    ledger.create()
    assert (ledger.last(), ledger.newest_row()) == (LedgerState(), (1, -1))
    for epoch, batch in ((1, 9), (2, 3), (2, 4)):
        ledger.append_epoch(spark, LedgerState(epoch, batch, clock_us=batch))

    def of_newest(session: SparkSession, target: TableRef) -> DataFrame:
        is_newest = (F.col("epoch") == 2) & (F.col("batch_id") == 4)
        told = F.when(is_newest, F.col("state")).otherwise(F.raise_error(F.lit("read")))
        return read_table(session, target).withColumn("state", told)

    monkeypatch.setattr(ledgers, "read_table", of_newest)
    assert (ledger.last(), ledger.newest_row()) == (LedgerState(2, 4, clock_us=4), (2, 4))


def test_a_state_is_the_same_from_the_ledger() -> None:
    for state in (LedgerState(2, 4, clock_us=7), LedgerState(1, 4).begun_anew(2, {"prices": 7}, (1, 4))):
        assert LedgerState.from_json(state.epoch, state.batch_id, state.to_json()) == state


@pytest.mark.rule("R121")
@pytest.mark.parametrize(
    ("wall_us", "clock_us"), [(40, 100), (100, 100), (101, 101)], ids=["set back", "standing still", "gone on"]
)
def test_behind_a_restart_the_clock_is_never_before_the_last_one_in_the_ledger(wall_us: int, clock_us: int) -> None:
    stored = LedgerState(1, 4, clock_us=100).to_json()
    assert LedgerState.from_json(1, 4, stored).clock_at(wall_us) == clock_us


@pytest.mark.parametrize(("scopes", "warnings"), [(MOST_SCOPES, 0), (MOST_SCOPES + 1, 1)])
def test_a_driver_is_warned_once_of_more_scopes_than_commits_can_well_carry(
    scopes: int, warnings: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    landed = SimpleNamespace(details={}, version=1)
    monkeypatch.setattr(ledgers, "commit", lambda *_: landed)
    session: Any = None
    ledger = Ledger(session, TableRef.parse("/t/ledger"), "app")
    for batch in range(3):
        row = {"stream_times": {"few": {0: 7}, "many": dict.fromkeys(range(scopes), 7)}}
        ledger.append(session, row, Step("app", "ledger", "row", 1, batch))
    assert [f"keeps {scopes} stream-time scopes" in record.getMessage() for record in caplog.records] == [
        True
    ] * warnings
