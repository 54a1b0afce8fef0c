"""A plan whose values have got fields: with ``add_columns`` its tables get them too, null in the rows they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from both_engines import Input, application, on_spark, write_records
from crashing import Crash, crash_at
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.functions import concat
from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.spark.rollback import rollback
from streams.topology import StreamsBuilder
from versioned import faults
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.statistics import always_hidden
from versioned.table import VersionedTable
from versioned.table_details import properties_of
from versioned.table_log import history

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
_TABLES: Final = ("history", "latest_rows", "pairs", "joined", "shown")


def _plan(more: bool, *, aggregates: bool = False) -> Topology:
    builder = StreamsBuilder()
    stored = Materialized.versioned("1 hour", name="history", system_history=True)
    changes = builder.stream("b", name="changes", **_SOURCE)
    # Before the field that was there: tables have their columns in an order of their own.
    fields = (lambda value: {"w": concat("w", value.v), "v": value.v}) if more else (lambda value: {"v": value.v})
    wide = changes.map_values(fields, name="fields")
    table = wide.to_table(stored, name="table")
    plain = wide.to_table(Materialized.key_value("latest_rows"), name="plain")
    table.join(plain, _pair(more), name="both", materialized=Materialized.key_value("pairs")).to_latest("shown")
    stream = builder.stream("a", name="stream", **_SOURCE)
    stream.left_join(table, _pair(more), name="join").to_changelog("joined")
    if aggregates:
        grouped = wide.group_by_key()
        grouped.reduce(lambda total, value: value, name="last", materialized=Materialized.key_value("reduced"))
    return builder.build()


def _pair(more: bool) -> Any:
    if more:
        return lambda left, right: {"v": concat(left.v, right.v), "w": right.w}
    return lambda left, right: {"v": concat(left.v, right.v)}


_BEFORE: Final = [
    Input("b", "k", "1", 10),
    Input("b", "k", "3", 30),
    Input("b", "l", "1", 30),
    Input("a", "k", "a", 31),
]
#: A late version and a latest one; the stream asks for both, and for one that was stored before.
_AFTER: Final = [
    Input("b", "k", "2", 20),
    Input("b", "k", "4", 40),
    *(Input("a", "k", "b", ms) for ms in (15, 25, 45)),
]


def _rows(spark: SparkSession, app: StreamingApplication, table: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(str(app.table(table))).selectExpr(*columns).collect()
    return sorted((tuple(row) for row in rows), key=str)


def _log(folder: Path) -> list[Path]:
    return sorted(folder.rglob("_delta_log/*.json"))


def test_tables_of_a_plan_get_the_fields_that_its_values_have_now_only_where_a_start_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    on_spark(spark, tmp_path, _plan(False), _BEFORE, [len(_BEFORE)])
    write_records(spark, tmp_path, _plan(True), _AFTER, len(_BEFORE))
    before = _log(tmp_path / "out")
    with pytest.raises(StreamingQueryException, match="start with --add-columns"):
        application(spark, tmp_path, _plan(True)).run()
    assert _log(tmp_path / "out") == before
    app = application(spark, tmp_path, _plan(True), add_columns=True, pii_columns=["w"])
    app.run()
    assert _rows(spark, app, "history", "unix_millis(validFrom)", "k", "v", "w") == [
        (10, "k", "1", None), (20, "k", "2", "w2"), (30, "k", "3", None), (30, "l", "1", None), (40, "k", "4", "w4")
    ]  # fmt: skip
    assert _rows(spark, app, "latest_rows", "k", "v", "w") == [("k", "4", "w4"), ("l", "1", None)]
    assert _rows(spark, app, "shown", "k", "v", "w") == [("k", "44", "w4"), ("l", "11", None)]
    assert _rows(spark, app, "pairs", "k", "v", "w") == [("k", "44", "w4"), ("l", "11", None)]
    assert _rows(spark, app, "joined", "v", "w") == [("a3", None), ("b1", None), ("b2", "w2"), ("b4", "w4")]
    opened = VersionedTable.open(spark, str(app.table("history")))
    assert opened.spec.values == ("v", "w")
    assert opened.verify().is_sound
    for name in _TABLES:
        target = TableRef.parse(str(app.table(name)))
        assert [row["operation"] for row in history(spark, target, 9)].count("ADD COLUMNS") == 1
        assert always_hidden(properties_of(spark, target)) == {"w"}
    write_records(spark, tmp_path, _plan(True), [Input("b", "l", "5", 50)], len(_BEFORE) + len(_AFTER))
    application(spark, tmp_path, _plan(True), pii_columns=["w"]).run()
    assert ("l", "55", "w5") in _rows(spark, app, "shown", "k", "v", "w")


def test_a_column_that_only_the_table_of_latest_rows_has_is_null_in_the_rows_that_change_from_then_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    builder.stream("a", name="stream", **_SOURCE).to_latest("latest")
    plan = builder.build()
    app = on_spark(spark, tmp_path, plan, [Input("a", "x", "1", 10), Input("a", "y", "1", 11)], [2])
    spark.sql(f"ALTER TABLE {app.table('latest').sql} ADD COLUMNS (note STRING)")
    spark.sql(f"UPDATE {app.table('latest').sql} SET note = 'old'")
    write_records(spark, tmp_path, plan, [Input("a", "x", "2", 12), Input("a", "z", "1", 13)], 2)
    application(spark, tmp_path, plan).run()
    assert _rows(spark, app, "latest", "k", "v", "note") == [("x", "2", None), ("y", "1", "old"), ("z", "1", None)]


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True], ids=["after the batch", "after a start that died behind the columns"])
def test_rollback_is_the_way_back_to_the_plan_without_the_fields(
    spark: SparkSession, tmp_path: Path, dies: bool
) -> None:
    app = on_spark(spark, tmp_path, _plan(False), _BEFORE, [len(_BEFORE)])
    columns = {name: spark.read.format("delta").load(str(app.table(name))).columns for name in _TABLES}
    write_records(spark, tmp_path, _plan(True), _AFTER, len(_BEFORE))
    wide = application(spark, tmp_path, _plan(True), add_columns=True)
    if dies:
        with faults.armed(crash_at("after:history/columns")), pytest.raises((Crash, StreamingQueryException)):
            wide.run()
    else:
        wide.run()
    assert "history" in rollback(app, 0).restored
    application(spark, tmp_path, _plan(False)).run()
    assert {name: spark.read.format("delta").load(str(app.table(name))).columns for name in _TABLES} == columns
    assert _rows(spark, app, "latest_rows", "k", "v") == [("k", "4"), ("l", "1")]
    assert VersionedTable.open(spark, str(app.table("history"))).verify().is_sound


@pytest.mark.slow
def test_an_unfinished_batch_is_finished_by_its_own_plan_and_an_aggregate_gets_no_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    on_spark(spark, tmp_path, _plan(False, aggregates=True), _BEFORE, [len(_BEFORE)])
    write_records(spark, tmp_path, _plan(False), _AFTER, len(_BEFORE))
    with faults.armed(crash_at("after:joined/main")), pytest.raises((Crash, StreamingQueryException)):
        application(spark, tmp_path, _plan(False, aggregates=True)).run()
    with pytest.raises(StreamingQueryException, match="nor within an unfinished batch"):
        application(spark, tmp_path, _plan(True), add_columns=True).run()
    application(spark, tmp_path, _plan(False, aggregates=True)).run()
    last = len(_BEFORE) + len(_AFTER)
    write_records(spark, tmp_path, _plan(False), [Input("b", "l", "5", 50)], last)
    with pytest.raises(StreamingQueryException, match=r'"reduced" holds other columns than it makes now: \[.w.\]'):
        application(spark, tmp_path, _plan(True, aggregates=True), add_columns=True).run()


def test_a_table_of_an_application_gets_columns_by_its_plan_and_by_nobody_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = on_spark(spark, tmp_path, _plan(False), _BEFORE, [len(_BEFORE)])
    table = VersionedTable.open(spark, str(app.table("history")))
    with pytest.raises(ConfigurationError, match=r"belongs to the application both, whose .* --add-columns"):
        table.add_columns("w STRING")
    assert table.spec.values == ("v",)
    table.add_columns("w STRING", owner="both")
    write_records(spark, tmp_path, _plan(True), [Input("b", "l", "5", 50)], len(_BEFORE))
    with pytest.raises(StreamingQueryException, match=r'"latest_rows" holds other columns'):
        application(spark, tmp_path, _plan(True)).run()
