"""Going back to a former plan behind a batch that died, or to a former batch with another plan: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from both_engines import Input, application, on_driver, on_spark, sink_rows, write_records
from crashing import crash_at
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.functions import concat, substring
from streams.ktable import KTable
from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.spark.rollback import rollback
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows
from versioned import faults
from versioned.errors import CheckpointMismatchError, ConfigurationError
from versioned.reading import read_table
from versioned.table_log import every_commit
from versioned.written import written_by

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
#: The first batch, the one that dies, and one behind it.
_RECORDS: Final = [
    Input("a", "k", "x1", 10),
    Input("a", "l", "x2", 11),
    Input("a", "m", "x3", 12),
    Input("a", "n", "x4", 13),
]
_DIES_AFTER: Final = 3


def _plan(more: Callable[[KTable], None] | None) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", Materialized.key_value("store"), name="table", **_SOURCE)
    table.to_changelog("told")
    if more is not None:
        more(table)
    return builder.build()


def _count(table: KTable) -> None:
    table.group_by(lambda value: {"g": substring(value.v, 1, 1)}).count(name="count").to_changelog("out")


def _window(table: KTable) -> None:
    hourly = table.to_stream(name="changes").group_by_key().windowed_by(TimeWindows.of("1 hour"))
    hourly.count(name="hourly").to_changelog("out")


def _join(table: KTable) -> None:
    stored = Materialized.key_value("pairs")
    pairs = table.join(table.filter(lambda value: value.v > "x1", name="some"), _pair, name="both", materialized=stored)
    pairs.to_changelog("out")


def _pair(left: object, right: object) -> object:
    return {"v": concat(left.v, right.v)}  # type: ignore[attr-defined]


def _limit(table: KTable) -> None:
    limit = Suppressed.until_time_limit("1 hour", BufferConfig.unbounded())
    table.suppress(limit, name="limit").to_changelog("late")


def _dies(spark: SparkSession, folder: Path, before: Topology, changed: Topology, point: str) -> StreamingApplication:
    """One batch of a plan, and one of a changed one that ends at a point; the application with the former plan."""
    on_spark(spark, folder, before, _RECORDS[:1], [1])
    write_records(spark, folder, before, _RECORDS[1:_DIES_AFTER], 1)
    with faults.armed(crash_at(point)), pytest.raises(StreamingQueryException):
        application(spark, folder, changed).run()
    return application(spark, folder, before)


@pytest.mark.parametrize(
    ("more", "missed"),
    [
        (_count, "'count', 'out'"),
        pytest.param(_window, "'hourly', 'out'", marks=pytest.mark.slow),
        pytest.param(_join, "'both'", marks=pytest.mark.slow),
    ],
    ids=["aggregate", "windows", "join"],
)
def test_a_batch_that_was_begun_without_an_operator_is_not_finished_with_it_but_taken_back(
    spark: SparkSession, tmp_path: Path, more: Callable[[KTable], None], missed: str
) -> None:
    plan = _plan(more)
    app = _dies(spark, tmp_path, plan, _plan(None), "after:table/main")
    told = rf"Batch 1 was begun by a plan without \[{missed}\].* versioned rollback --batch 0"
    with pytest.raises(ConfigurationError, match=told):
        app.run()
    rollback(app, 0)
    write_records(spark, tmp_path, plan, _RECORDS[_DIES_AFTER:], _DIES_AFTER)
    app = application(spark, tmp_path, plan)
    app.run()
    assert sink_rows(spark, app, plan)["out"] == on_driver(plan, _RECORDS)["out"]


def test_what_an_unfinished_batch_has_wait_does_not_leave_the_plan_with_its_buffer(
    spark: SparkSession, tmp_path: Path
) -> None:
    limited = _plan(_limit)
    app = _dies(spark, tmp_path, _plan(None), limited, "before:ledger/row")
    with pytest.raises(ConfigurationError, match='2 rows wait in the table "limit"'):
        app.run()
    changed = application(spark, tmp_path, limited)
    changed.drain("limit")
    assert [value for _, value, _ in sink_rows(spark, changed, limited)["late"]] == [("x2",), ("x3",)]
    app.run()


def _held_back(is_held: bool) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", Materialized.key_value("store"), name="table", **_SOURCE)
    if is_held:
        table = table.suppress(Suppressed.until_time_limit("1 hour", BufferConfig.unbounded()), name="held")
    table.to_changelog("out")
    return builder.build()


@pytest.mark.slow
def test_a_rollback_behind_the_end_of_a_suppression_needs_the_plan_that_has_it_or_what_waited_would_be_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    on_spark(spark, tmp_path, _held_back(True), [Input("a", "k", "1", 10)], [1]).drain("held")
    write_records(spark, tmp_path, _held_back(False), [Input("a", "l", "2", 11)], 1)
    without = application(spark, tmp_path, _held_back(False))
    without.run()
    before = sorted(Path(str(without.root)).rglob("_delta_log/*.json"))
    for dry_run in (True, False):
        with pytest.raises(ConfigurationError, match=r"could wait in \['held'\] when batch 0 ended.*with the plan of"):
            rollback(without, 0, dry_run=dry_run)
    assert sorted(Path(str(without.root)).rglob("_delta_log/*.json")) == before
    former = application(spark, tmp_path, _held_back(True))
    rollback(former, 0)
    former.drain("held")
    assert [row[:2] for row in sink_rows(spark, former, former.topology)["out"]] == [(("k",), ("1",)), (("l",), ("2",))]


def _with_counts(is_counted: bool) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", name="stream", key="k", value="v")
    stream.to_changelog("out")
    if is_counted:
        stream.group_by_key().count(name="counts").to_latest("latest")
    return builder.build()


@pytest.mark.slow
def test_a_table_that_a_rollback_left_out_goes_on_from_its_last_version_of_a_batch_that_stayed(
    spark: SparkSession, tmp_path: Path
) -> None:
    on_spark(spark, tmp_path, _with_counts(True), [Input("a", "k", "1", 10), Input("a", "k", "2", 11)], [1, 2])
    first, _ = sorted((tmp_path / "a").glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    rollback(application(spark, tmp_path, _with_counts(False)), 0)
    with pytest.raises(CheckpointMismatchError, match=r"batch 1 of epoch 1, which is not in the ledger.*RESTORE it"):
        application(spark, tmp_path, _with_counts(True)).run()
    goes_on = application(spark, tmp_path, _with_counts(True), new_epoch=True)
    for name in ("counts", "latest"):
        table = goes_on.table(name)
        written = {row["version"]: written_by(row) for row in every_commit(spark, table)}
        kept = max(version for version, said in written.items() if said is not None and said.batch_id == 0)
        spark.sql(f"RESTORE {table.sql} TO VERSION AS OF {kept}")
    first.unlink()
    goes_on.run()
    assert [row["count"] for row in read_table(spark, goes_on.table("latest")).collect()] == [2]
