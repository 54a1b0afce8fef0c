"""How tables without versions are written: anew where they are small, unless somebody follows their changes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from both_engines import Input, application, on_driver, on_spark, sink_rows, write_records
from pyspark.sql import SparkSession

from streams.nodes import Topology
from streams.topology import StreamsBuilder
from versioned.commit import history

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
