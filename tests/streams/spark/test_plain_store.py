"""How tables without versions are written: anew where they are small, unless somebody follows their changes.

And what a plan that was changed does with the rows that are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from both_engines import Input, application, on_driver, on_spark, sink_rows, write_records
from pyspark.sql import SparkSession

from streams.nodes import Materialized, Topology
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, Flow
from streams.spark.history_store import HistoryStore
from streams.spark.operator import Batch
from streams.spark.plain_store import PlainStore
from streams.topology import StreamsBuilder
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.table_log import history

pytestmark = pytest.mark.slow

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
_RECORDS: Final = [Input("a", "x", "1", 10), Input("a", "y", "2", 11)]
_NEXT: Final = [Input("a", "x", "3", 12)]


def _topology() -> Topology:
    builder = StreamsBuilder()
    counts = builder.stream("a", name="stream", **_SOURCE).group_by_key().count(name="counts")
    counts.to_latest("latest")
    return builder.build()


@pytest.mark.parametrize(
    ("has_feed", "operation"),
    [(False, "WRITE"), (True, "MERGE")],
    ids=["no feed", "a feed"],
)
def test_a_small_table_is_written_anew_unless_its_changes_may_be_followed(
    spark: SparkSession, tmp_path: Path, has_feed: bool, operation: str
) -> None:
    app = on_spark(spark, tmp_path, _topology(), _RECORDS, [2])
    table = app.table("counts")
    if has_feed:
        spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    write_records(spark, tmp_path, _topology(), _NEXT, 2)
    application(spark, tmp_path, _topology()).run()
    assert [history(spark, app.table(name), 1)[0]["operation"] for name in ("counts", "latest")] == [operation, "MERGE"]
    rows = spark.read.format("delta").load(str(table)).select("k", "count").collect()
    assert {tuple(row) for row in rows} == {("x", 2), ("y", 1)}


def test_a_table_of_keys_alone_is_stored_without_any_value_column(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    table = builder.table("a", key="k", value=[], deleted="dead", name="keys")
    table.to_changelog("all")
    builder.stream("b", key="k", value="v", name="stream").join(table, name="known").to_changelog("found")
    topology = builder.build()
    records = [Input("a", "x", "1", 1), Input("b", "x", "2", 2), Input("a", "x", None, 3), Input("b", "x", "4", 4)]
    app = on_spark(spark, tmp_path, topology, records, [2, 4])
    assert sink_rows(spark, app, topology) == on_driver(topology, records)
    assert spark.read.format("delta").load(str(app.table("keys"))).columns == ["k", "ts"]


def _put(
    spark: SparkSession,
    folder: Path,
    number: int,
    store: PlainStore | HistoryStore,
    values: str,
    *rows: tuple[str, ...],
) -> None:
    """Write a batch into a store; a row is its key and its values."""
    schema = f"{KEY} STRUCT<k: STRING>, {VALUE} STRUCT<{values}>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>"
    records = spark.createDataFrame([((row[0],), row[1:], number, 0, [number]) for row in rows], schema)
    batch = Batch(spark, "app", TableRef.parse(str(folder)), 1, number, 0, {}, is_small=number % 2 == 0)
    store.put(batch, Flow(records))
    store.write(batch)


@pytest.mark.parametrize("number", [2, 3], ids=["written anew", "merged"])
def test_a_column_that_the_plan_left_out_is_null_in_the_rows_that_have_changed_since(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    both = "a: STRING, b: STRING"
    _put(spark, tmp_path, 1, PlainStore("table", "table"), both, ("x", "1", "old"), ("y", "1", "old"))
    _put(spark, tmp_path, number, PlainStore("table", "table"), "a: STRING", ("x", "2"))
    _put(spark, tmp_path, number + 2, PlainStore("table", "table"), both, ("z", "3", "new"))
    rows = spark.read.format("delta").load(str(tmp_path / "table")).select("k", "a", "b").collect()
    assert {tuple(row) for row in rows} == {("x", "2", None), ("y", "1", "old"), ("z", "3", "new")}


@pytest.mark.parametrize("number", [2, 3], ids=["written anew", "merged"])
def test_a_table_goes_on_whatever_order_somebody_else_gave_its_columns(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    _put(spark, tmp_path, 1, PlainStore("table", "table"), "v: STRING", ("x", "1"), ("y", "1"))
    spark.sql(f"ALTER TABLE delta.`{tmp_path}/table` ALTER COLUMN v AFTER k")
    _put(spark, tmp_path, number, PlainStore("table", "table"), "v: STRING", ("x", "2"))
    rows = spark.read.format("delta").load(str(tmp_path / "table")).select("k", "v").collect()
    assert {tuple(row) for row in rows} == {("x", "2"), ("y", "1")}


@pytest.mark.parametrize(
    ("former", "now", "told"),
    [
        ("plain", "versioned", '"table" has no versions, which the plan asks for now'),
        ("versioned", "plain", '"table" has versions, of which the plan keeps none now'),
        ("tombstones", "plain", '"table" keeps deleted keys as rows'),
        ("plain", "tombstones", r"\['deleted'\]"),
    ],
)
def test_a_store_does_not_go_on_with_the_table_of_a_store_of_another_kind(
    spark: SparkSession, tmp_path: Path, former: str, now: str, told: str
) -> None:
    stores = {
        "plain": lambda: PlainStore("node", "table"),
        "versioned": lambda: HistoryStore("node", "table", Materialized.versioned("1 day")),
        "tombstones": lambda: PlainStore("node", "table", keeps_tombstones=True),
    }
    _put(spark, tmp_path, 1, stores[former](), "v: STRING", ("x", "1"))
    batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 3, 0, {})
    with pytest.raises(ConfigurationError, match=told):
        stores[now]().last_times(batch, ["k"])
    with pytest.raises(ConfigurationError, match=told):
        _put(spark, tmp_path, 3, stores[now](), "v: STRING", ("x", "2"))
    _put(spark, tmp_path, 3, stores[former](), "v: STRING", ("x", "2"))
