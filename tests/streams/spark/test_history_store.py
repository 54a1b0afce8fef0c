"""A versioned table of an application: how it takes what comes from several partitions, or of a changed plan."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from crashing import then
from pyspark.sql import SparkSession

from streams.nodes import Materialized
from streams.spark.flow import FOUND, KEY, OLD, PLACE, SCOPE, US, VALUE, Bounds, Flow
from streams.spark.history_store import HistoryStore
from streams.spark.operator import Batch
from streams.spark.store import StoringOperator, refuse_promises
from versioned import faults
from versioned import spark_functions as F
from versioned.durations import Resolution
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.spec import TimeScope, VersionedTableSpec
from versioned.written import TableState

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


@pytest.mark.parametrize("partitions", [(0, 1), (1, 0)])
def test_of_puts_at_the_same_place_a_lookup_finds_the_one_that_the_table_keeps(
    partitions: tuple[int, int], spark: SparkSession, tmp_path: Path
) -> None:
    rows = [(("a",), (f"of {partition}",), 5, partition, [5, 0, 0, 7, 1]) for partition in partitions]
    later = (("a",), ("later",), 6, 0, [6, 0, 0, 9, 1])
    batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 1, 0, {})
    store = HistoryStore("node", "table", Materialized.versioned("1 day", time_scope="store"))
    store.put(batch, Flow(spark.createDataFrame([*rows, later], _SCHEMA).coalesce(1)))
    # Both come before the later put, which the second one would find.
    asked = spark.createDataFrame([(("a",), ("x",), us, 0, [5, 1, 0, 8, 1]) for us in (5, 6)], _SCHEMA)
    found = store.find_valid(asked, 5).sort(US).collect()
    assert [row[FOUND]["v"] for row in found] == ["of 1", "of 1"]
    store.release()


@pytest.mark.parametrize(("retention", "fits"), [("1 day", True), ("2 days", False)])
def test_a_table_that_another_driver_has_made_since_the_look_for_it_is_taken_if_it_promises_the_same(
    retention: str, fits: bool, spark: SparkSession, tmp_path: Path
) -> None:
    flow = Flow(spark.createDataFrame([(("a",), ("x",), 5, 0, [5])], _SCHEMA).coalesce(1))

    def put(retention: str) -> None:
        batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 0, 0, {})
        HistoryStore("node", "table", Materialized.versioned(retention)).put(batch, flow)

    refused = pytest.raises(ConfigurationError, match="promises something else than the plan now asks for")
    with faults.armed(then("before:table", lambda: put(retention))), nullcontext() if fits else refused:
        put("1 day")


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


def test_a_column_of_another_type_than_the_tables_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 1, 0, {})
    for kind, told in (("INT", None), ("INT", None), ("SMALLINT", None), ("BIGINT", r"\['price: int, now bigint'\]")):
        store = HistoryStore("node", "table", Materialized.versioned("1 day"))
        empty = Flow(spark.createDataFrame([], _SCHEMA.replace("v: STRING", f"price: {kind}")), {})
        if told is None:
            store.put(batch, empty)
        else:
            with pytest.raises(ConfigurationError, match=told):
                store.put(batch, empty)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wide", "narrow"), [("BIGINT", "INT"), ("INT", "SMALLINT"), ("DECIMAL(12, 2)", "DECIMAL(10, 1)")]
)
def test_numbers_of_a_narrower_type_than_the_tables_are_put_into_it(
    spark: SparkSession, tmp_path: Path, wide: str, narrow: str
) -> None:
    puts = [(wide, "a", 1, 10), (wide, "a", 2, 30), (narrow, "a", 3, 20), (narrow, "b", 4, 40), (narrow, "a", 5, 50)]
    for number, (kind, key, value, us) in enumerate(puts, 1):
        schema = _SCHEMA.replace("v: STRING", "v: INT")
        records = spark.createDataFrame([((key,), (value,), us, 0, [number])], schema)
        records = records.withColumn(VALUE, F.struct(F.col(VALUE).getField("v").cast(kind).alias("v")))
        batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, number, 0, {})
        store = HistoryStore("node", "table", Materialized.versioned("1 day"))
        store.put(batch, Flow(records))
        store.write(batch)
        store.release()
    rows = spark.read.format("delta").load(str(tmp_path / "table")).sort("k", "validFrom")
    assert [int(row["v"]) for row in rows.collect()] == [1, 3, 2, 5, 4]


@pytest.mark.parametrize("time_scope", ["partition", "store"])
def test_what_is_known_of_changes_is_floored_to_the_resolution_as_they_are(
    time_scope: TimeScope, spark: SparkSession, tmp_path: Path
) -> None:
    batch = Batch(spark, "app", TableRef.parse(str(tmp_path)), 1, 1, 0, {})
    promise = Materialized.versioned("1 day", time_scope=time_scope, time_resolution=Resolution.MILLISECOND)
    records = spark.createDataFrame([(("a",), ("v",), us, 0, [us]) for us in (-1, 5_500)], _SCHEMA)
    changes = HistoryStore("node", "table", promise).put(batch, Flow(records, {0: Bounds(-1, 5_500, 2)}))
    told = sorted(row[US] for row in changes.frame.collect())
    assert (told, changes.bounds) == ([-1_000, 5_000], {0: Bounds(-1_000, 5_000, 2)})


def test_values_in_another_order_than_the_tables_are_put_and_looked_up_with_those_that_are_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = TableRef.parse(str(tmp_path))
    for number, values in enumerate((("a", "b"), ("b", "a")), 1):
        store, batch = (
            HistoryStore("node", "table", Materialized.versioned("1 day")),
            Batch(spark, "app", root, 1, number, 0, {}),
        )
        schema = _SCHEMA.replace("v: STRING", ", ".join(f"{name}: STRING" for name in values))
        rows = [((key,), values, number, 0, [number]) for key in ("both", str(number))] + [
            (("gone",), None, number, 0, [number])
        ]
        store.put(batch, Flow(spark.createDataFrame(rows, schema)))
        if number == 1:
            store.write(batch)
    asked = spark.createDataFrame(
        [((key,), at, 0, [3]) for key in ("both", "1", "gone") for at in (1, 2)],
        f"{KEY} STRUCT<k: STRING>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>",
    )
    found = [row[FOUND] and row[FOUND].asDict() for row in store.find_valid(asked, 1).sort(F.desc(KEY), US).collect()]
    value = {"a": "a", "b": "b"}
    assert found == [None, None, value, value, value, value]
    store.write(batch)


_TABLE = TableRef.parse("/data/prices")


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        (VersionedTableSpec.of(keys=["k"], values=["v"], history_retention="30 days").to_properties(), True),
        (VersionedTableSpec.of(keys=["k"], values=["v"], history_retention="60 days").to_properties(), False),
        ({}, False),
        (None, False),
    ],
)
def test_a_plan_that_counts_on_what_a_table_does_not_promise_is_refused_by_what_is_found_of_it(
    properties: dict[str, str] | None, refused: bool
) -> None:
    store = HistoryStore("node", "prices", Materialized.versioned("60 days"))
    tables = {} if properties is None else {_TABLE: TableState(properties=properties)}
    operators = {"node": Mock(spec=StoringOperator, store=store), "other": Mock()}
    told = pytest.raises(ConfigurationError, match=r"retention_us 2592000000000, asked for 5184000000000.*ALTER")
    with told if refused else nullcontext():
        refuse_promises(TableRef.parse("/data"), operators, tables)
