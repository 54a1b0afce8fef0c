"""A batch that dies at any write and is replayed leaves every table as an uninterrupted run does; nothing else does."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_chain import (
    Point,
    Script,
    ledger_first,
    one_at_a_time,
    out_of_order,
    points_to_die_at,
    run_through,
    upstream_first,
    watched_sessions,
    without_transactions,
)
from fault_compare import Differences, StepCommit, Tables, differences, step_commits, tables_of
from fault_plans import KINDS, SUBTRACTING, application, write_batches
from kill_chain import Kill, live_and_die, told
from pyspark.sql import SparkSession
from touched_keys import WAYS, rows_by_key, was_taken

from streams.nodes import ChangelogSink, TableSink
from streams.spark import StreamingApplication
from streams.spark.sql_views import register_table_sql
from versioned.commit import EPOCH_BITS

#: Of the chains of `make test`, and of the others: the more, the more states a batch dies in.
_FEW, _BATCHES = 2, 3
#: The application whose chains `make test` runs: appends, merges, replaced partitions, two steps of one table.
_SMALL = "stream-table join"
_CLOCKED = "windows closed by the clock"


@dataclass(frozen=True)
class _Run:
    """A run over the batches of ``folder``: what it passed and left in the folder ``out``."""

    folder: Path
    out: str
    app: StreamingApplication
    script: Script
    tables: Tables
    #: What its writes did to the sessions of others.
    leaks: tuple[str, ...]

    @property
    def sinks(self) -> list[str]:
        """The names of its sinks."""
        return [node.name for node in self.app.topology if isinstance(node, (ChangelogSink, TableSink))]

    @property
    def commits(self) -> list[StepCommit]:
        """The commits of its batches."""
        return step_commits(self.folder / self.out)


def _run(
    spark: SparkSession,
    kind: str,
    folder: Path,
    out: str,
    points: Iterable[Point] = (),
    protocol: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> _Run:
    def start() -> StreamingApplication:
        return application(spark, kind, folder / "in", folder / out)

    script = Script(points)
    with one_at_a_time(), watched_sessions(spark) as leaks, protocol():
        app = run_through(start, script, ticks=int(kind == _CLOCKED))
    return _Run(folder, out, app, script, tables_of(spark, app), tuple(leaks))


def _uninterrupted(spark: SparkSession, kind: str, folder: Path, batches: int = _BATCHES) -> _Run:
    write_batches(folder / "in", batches)
    return _run(spark, kind, folder, "whole")


def _unsaid(run: _Run) -> set[tuple[str, str]]:
    """Table and step of commits that no operator says to make: nobody would be shut out of them."""
    said = {(table.short_name, f"faults/{node}/{step}") for table, node, step in run.app.survey().steps}
    return {(commit.table, commit.step) for commit in run.commits} - said - {("ledger", "faults/ledger/row")}


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> _Run:
    """The small application without interruption."""
    return _uninterrupted(spark, _SMALL, tmp_path_factory.mktemp("small"), _FEW)


@pytest.fixture(scope="module")
def crashed(spark: SparkSession, whole: _Run) -> _Run:
    """The small application, having died before and after each of its writes."""
    points = points_to_die_at(whole.script.heard, creations=False)
    return _run(spark, _SMALL, whole.folder, "crashed", points)


def test_the_small_application_fills_every_table(whole: _Run) -> None:
    assert all(whole.tables.values())


def test_a_crash_at_every_write_loses_doubles_and_changes_nothing(whole: _Run, crashed: _Run) -> None:
    assert crashed.script.left == []
    assert crashed.script.deaths >= 12
    assert differences(crashed.tables, whole.tables) == Differences()


def test_every_write_is_on_the_batchs_session_and_finds_no_setting_of_another_there(whole: _Run, crashed: _Run) -> None:
    assert (whole.leaks, crashed.leaks) == ((), ())


def test_each_step_of_each_batch_landed_in_one_commit_under_its_transaction_id(whole: _Run, crashed: _Run) -> None:
    landed = crashed.commits
    assert [
        commit for commit in landed if commit.txn != (commit.step, (commit.epoch << EPOCH_BITS) + commit.batch)
    ] == []
    assert Counter(landed) == Counter(whole.commits)
    assert set(Counter(landed).values()) == {1}


@pytest.mark.rule("R190")
def test_the_ledger_names_the_last_commit_of_a_batch_in_each_table_and_that_of_the_batch_before(
    spark: SparkSession, crashed: _Run
) -> None:
    landed: dict[str, dict[int, int]] = defaultdict(dict)
    for commit in sorted(crashed.commits, key=lambda commit: commit.version):
        if commit.table != "ledger":
            landed[commit.table][commit.batch] = commit.version
    wanted = {
        (table, batch, before, version)
        for table, versions in landed.items()
        for before, (batch, version) in zip([None, *versions.values()], versions.items(), strict=False)
    }
    register_table_sql(spark, crashed.app.table("ledger"), "crashed")
    told = spark.table("crashed_versions").select("table", "batch_id", "version_before", "version").collect()
    assert set(map(tuple, told)) == wanted


@pytest.mark.rule("R126")
def test_a_batch_that_died_has_the_clock_of_its_first_run_when_it_is_run_again(
    spark: SparkSession, crashed: _Run
) -> None:
    ledger = spark.read.format("delta").load(str(crashed.app.table("ledger")))
    clocks = {row[0]: row[1] for row in ledger.selectExpr("batch_id", "unix_millis(clock)").collect()}
    # Spark writes it down before it runs a batch.
    offsets = crashed.folder / crashed.out / "_checkpoint" / "offsets"
    planned = {batch: json.loads((offsets / f"{batch}").read_text("utf-8").splitlines()[1]) for batch in clocks}
    assert clocks == {batch: told["batchTimestampMs"] for batch, told in planned.items()}
    assert crashed.script.deaths > len(clocks) > 1


def test_every_step_of_a_batch_is_one_that_its_operator_says(whole: _Run) -> None:
    assert _unsaid(whole) == set()


def test_what_reads_a_table_is_written_before_it_and_the_ledger_last(whole: _Run) -> None:
    assert out_of_order(whole.script.heard, whole.app.topology) == []


@pytest.mark.slow
def test_user_code_is_not_run_again_on_an_aggregate_that_has_the_batch_already(
    spark: SparkSession, tmp_path: Path
) -> None:
    (kind,) = SUBTRACTING
    write_batches(tmp_path / "in", _FEW)
    crashed = _run(spark, kind, tmp_path, "crashed", [Point(1, "before:table_a/main")])
    names, values = ("+".join(json.loads(row)["v"] for _, row in crashed.tables[t]) for t in ("names", "plain_a"))
    assert crashed.script.deaths == 1
    assert sorted(filter(None, names.split("+"))) == sorted(values.split("+"))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_crash_at_every_write_changes_nothing_where_batches_write_the_rows_of_their_own_keys(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    with rows_by_key(spark, way):
        whole = _uninterrupted(spark, _SMALL, tmp_path, _FEW)
        crashed = _run(spark, _SMALL, tmp_path, "crashed", points_to_die_at(whole.script.heard, creations=False))
    assert crashed.script.left == []
    assert differences(crashed.tables, whole.tables) == Differences()
    assert any(was_taken(way, table) for table in (tmp_path / "crashed").iterdir())


@pytest.mark.slow
def test_tables_whose_making_was_cut_off_are_made_again(spark: SparkSession, whole: _Run) -> None:
    # A log without a commit is what a kill leaves while a table is made.
    for table in (*whole.app.tables(), whole.app.table("ledger")):
        (whole.folder / "half" / table.short_name / "_delta_log").mkdir(parents=True)
    run = _run(spark, _SMALL, whole.folder, "half")
    got, wanted = (tables_of(spark, each.app, versions=False) for each in (run, whole))
    assert differences(got, wanted) == Differences()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "point", "found"),
    [
        (without_transactions, Point(1, "after:joined/main"), "duplicated"),
        (ledger_first, Point(1, "after:ledger/row"), "lost"),
    ],
    ids=["without transaction ids", "with the ledger first"],
)
def test_without_the_protocol_the_same_comparison_finds_differences(
    protocol: Callable[[], AbstractContextManager[None]],
    point: Point,
    found: str,
    spark: SparkSession,
    tmp_path: Path,
    whole: _Run,
) -> None:
    (tmp_path / "in").symlink_to(whole.folder / "in")
    run = _run(spark, _SMALL, tmp_path, "broken", [point], protocol)
    assert run.script.deaths == 1
    assert getattr(differences(run.tables, whole.tables), found) > 0


@pytest.mark.slow
def test_two_kills_of_the_process_group_change_nothing(
    spark: SparkSession, whole: _Run, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, log = (whole.folder / name for name in ("in", "killed", "log"))
    kills = (Kill(point="after:versions_c/main"), Kill(after_s=random.Random(1).uniform(1, 4)))
    lives = [live_and_die(_SMALL, source, out, log, kill) for kill in kills]
    ended = _run(spark, _SMALL, whole.folder, "killed")
    got, wanted = (tables_of(spark, each.app, versions=False) for each in (ended, whole))
    found = differences(got, wanted)
    with capsys.disabled():
        print(f"\n{told(lives)}; {found}")
    assert [life.was_killed for life in lives] == [True, True]
    assert found == Differences()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_application_of_each_kind_dies_at_every_boundary_and_nothing_changes(
    kind: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = _uninterrupted(spark, kind, tmp_path)
    assert all(wanted.tables[sink] for sink in wanted.sinks)
    points = points_to_die_at(wanted.script.heard)
    died = _run(spark, kind, tmp_path, "died", points)
    found = differences(died.tables, wanted.tables)
    with capsys.disabled():
        print(f"\n{kind}: {len(set(points))} points, {died.script.deaths} crashes; {found}")
    assert died.script.left == []
    assert out_of_order(wanted.script.heard, wanted.app.topology) == []
    assert _unsaid(wanted) == set()
    assert found == Differences(), found.examples
    assert died.leaks == ()


@pytest.mark.slow
def test_with_stores_written_before_their_readers_the_same_comparison_finds_changed_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    kind = "table aggregates"
    wanted = _uninterrupted(spark, kind, tmp_path)
    run = _run(spark, kind, tmp_path, "broken", [Point(1, "after:least/main")], upstream_first)
    assert differences(run.tables, wanted.tables).changed > 0
