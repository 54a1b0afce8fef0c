"""A versioned table of an application: in which order it takes what comes from several partitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streams.nodes import Materialized
from streams.spark.flow import KEY, OLD, PLACE, SCOPE, US, VALUE, Bounds, Flow
from streams.spark.history_store import HistoryStore
from streams.spark.operator import Batch
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.spec import TimeScope

_SCHEMA = f"{KEY} STRUCT<k: STRING>, {VALUE} STRUCT<v: STRING>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>"


@pytest.mark.parametrize("partitions", [(0, 1), (1, 0)])
def test_records_at_the_same_place_of_two_partitions_come_in_the_order_of_these(
    partitions: tuple[int, int], spark: SparkSession, tmp_path: Path
) -> None:
    rows = [(("a",), (f"of {partition}",), 5, partition, [5, 0, 0, 7, 1]) for partition in partitions]
    batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 1, 0, {})
    store = HistoryStore("node", "table", Materialized.versioned("1 day", time_scope="store"))
    changes = store.put(batch, Flow(spark.createDataFrame(rows, _SCHEMA).coalesce(1))).frame
    told = [(row[OLD] and row[OLD]["v"], row[VALUE]["v"]) for row in changes.sort(PLACE).collect()]
    assert told == [(None, "of 0"), ("of 0", "of 1")]
    store.release()


@pytest.mark.parametrize(
    ("time_scope", "bounds"),
    [("partition", {0: Bounds(1, 5, 2), 1: Bounds(3, 9, 1)}), ("store", {0: Bounds(1, 9, 3)})],
)
def test_what_is_known_of_records_goes_with_them_into_the_scope_of_the_table(
    time_scope: TimeScope, bounds: dict[int, Bounds], spark: SparkSession
) -> None:
    store = HistoryStore("node", "table", Materialized.versioned("1 day", time_scope=time_scope))
    flow = Flow(spark.createDataFrame([], _SCHEMA), {0: Bounds(1, 5, 2), 1: Bounds(3, 9, 1)})
    assert store.scoped(flow).bounds == bounds


def test_keys_in_another_order_than_the_tables_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 1, 0, {})
    for keys in ("base: STRING, quote: STRING", "quote: STRING, base: STRING"):
        store = HistoryStore("node", "rates", Materialized.versioned("1 day"))
        empty = Flow(spark.createDataFrame([], _SCHEMA.replace("k: STRING", keys)), {})
        if keys.startswith("base"):
            store.put(batch, empty)
        else:
            with pytest.raises(ConfigurationError, match="the keys in that order"):
                store.put(batch, empty)
