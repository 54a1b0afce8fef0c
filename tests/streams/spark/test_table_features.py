"""Tables with features of Delta that others turn on by default: what an application makes of them is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from both_engines import Input, in_two_queries, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession
from random_plans import random_records, random_topology
from touched_keys import rows_by_key, was_taken
from two_tables import application as small_application
from two_tables import write_batch

from streams import Materialized, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows
from versioned.reading import read_table
from versioned.session_settings import session_settings
from versioned.table_details import properties_of
from versioned.table_log import newest_commits

#: As a catalog or a setting of the workspace may have every new table made.
_FEATURES: Final = {
    "enableDeletionVectors": "true",
    "enableRowTracking": "true",
    "enableChangeDataFeed": "true",
    "enableInCommitTimestamps": "true",
    "checkpointPolicy": "v2",
    "columnMapping.mode": "name",
}
_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."
_COUNT: Final = 40


@pytest.mark.slow
def test_an_application_gives_the_same_whatever_features_its_tables_have(spark: SparkSession, tmp_path: Path) -> None:
    topology, records = random_topology([1]), random_records(1, _COUNT, by_key=True)
    defaults = {_DEFAULTS + name: value for name, value in _FEATURES.items()}
    # Rows are marked as removed: an upkeep's DELETE does that too.
    with session_settings(spark, defaults), rows_by_key(spark):
        app = in_two_queries(spark, tmp_path, topology, records, [10, 25, _COUNT])
        assert sink_rows(spark, app, topology) == on_driver(topology, records)
    for table in app.tables():
        told = spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0]["properties"]
        assert {name: told["delta." + name] for name in _FEATURES} == _FEATURES
    assert any(was_taken("named", folder) for folder in Path(app.table("ledger").path or "").parent.iterdir())


def test_where_new_tables_are_append_only_those_are_not_whose_rows_are_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder, limit = StreamsBuilder(), Suppressed.until_time_limit("1 minute", BufferConfig.unbounded())
    history = Materialized.versioned("1 hour", system_history=True)
    builder.table("prices", history, key="k", value="v", deleted="dead", name="prices").to_latest("now")
    orders = builder.stream("orders", key="k", value="v", name="orders").group_by_key()
    orders.count(name="counted").suppress(limit, name="limited").to_changelog("told")
    orders.windowed_by(TimeWindows.of("1 minute")).count(name="by_minute")
    records = [Input(topic, "tea", "7", ms) for ms in (0, 30_000, 90_000) for topic in ("prices", "orders")]
    with session_settings(spark, {f"{_DEFAULTS}appendOnly": "true"}):
        app = on_spark(spark, tmp_path, builder.build(), records, [4, 6])
    told = {table.short_name: properties_of(spark, table)["delta.appendOnly"] for table in app.tables()}
    are_replaced = ("prices", "now", "counted", "by_minute", "limited")
    grow = ("rejects", "prices_known", "told")
    assert told == dict.fromkeys(are_replaced, "false") | dict.fromkeys(grow, "true")


@pytest.mark.slow
def test_guards_read_a_changelog_in_which_rows_are_marked_as_removed(spark: SparkSession, tmp_path: Path) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    app = small_application(spark, own, out, guards="warn")
    app.run()
    changelog = app.table("priced_orders")
    spark.sql(f"ALTER TABLE {changelog.sql} SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    spark.sql(f"DELETE FROM {changelog.sql} WHERE item = 'tea'")
    marked = newest_commits(spark, changelog, 1)[0]["operationMetrics"]["numDeletionVectorsAdded"]
    write_batch(own, 1)
    small_application(spark, own, out, guards="warn").run()
    told = sorted((row["item"], row["price"]) for row in read_table(spark, changelog).collect())
    assert (marked, told) == ("1", [("rice", 0.0), ("rice", 1.0), ("tea", 1.0)])
