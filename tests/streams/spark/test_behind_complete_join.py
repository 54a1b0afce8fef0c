"""What follows a join with complete history on Spark, as on the driver: aggregates, key-value stores, filters."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest
from both_engines import Input, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.expressions import Expr
from streams.functions import coalesce
from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.topology import StreamsBuilder

pytestmark = pytest.mark.slow

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
_KINDS: Final = ("inner", "left", "outer")
_STORES: Final = {
    "inner": Materialized.key_value("inner_store"),
    "left": None,
    # So short that it refuses results.
    "outer": Materialized.versioned("4 milliseconds", name="outer_store"),
}
_COUNT: Final = 60


def _topology() -> Topology:
    builder = StreamsBuilder()
    left, right = (
        builder.table(topic, Materialized.versioned("1 hour", name=f"{topic}_history"), name=topic, **_SOURCE)
        for topic in "ac"
    )
    joins = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}
    for kind in _KINDS:
        join = joins[kind](right, _pair, history="complete", materialized=_STORES[kind], name=kind)
        join.to_changelog(f"{kind}_out")
        join.to_latest(f"{kind}_latest")
        grouped = join.group_by(lambda value: value.one)
        grouped.count(name=f"{kind}_count").to_changelog(f"{kind}_counts")
        if kind == "inner":
            grouped.sum("j", name="inner_sum").to_changelog("inner_sums")
            kept = join.filter(_passes, materialized=Materialized.key_value("filter_store"), name="filter")
            kept.to_changelog("filter_out")
    return builder.build()


def _pair(left: Any, right: Any) -> Any:
    return {"one": 1, "j": coalesce(left.v, 0) * 10 + coalesce(right.v, 0)}


def _passes(value: Expr) -> Expr:
    return value.j >= 20


@pytest.fixture(scope="module")
def records() -> list[Input]:
    """Two keys and few times: most records are late, and many delete what is older than the newest result."""
    chance = random.Random(10)
    values = (None, None, 1, 2, 3)
    return [
        Input(chance.choice("ac"), chance.choice("xy"), chance.choice(values), chance.randrange(12), partition=1)
        for _ in range(_COUNT)
    ]


@pytest.fixture(scope="module")
def app(spark: SparkSession, records: list[Input], tmp_path_factory: pytest.TempPathFactory) -> StreamingApplication:
    return on_spark(spark, tmp_path_factory.mktemp("behind"), _topology(), records, [25, _COUNT], "INT")


@pytest.mark.rule("R150", "R163")
def test_the_changes_behind_the_joins_are_the_drivers(
    spark: SparkSession, app: StreamingApplication, records: list[Input]
) -> None:
    assert sink_rows(spark, app, app.topology) == on_driver(app.topology, records)


@pytest.mark.rule("R150", "R163")
@pytest.mark.parametrize("kind", _KINDS)
def test_the_last_count_is_that_of_the_latest_rows(spark: SparkSession, app: StreamingApplication, kind: str) -> None:
    counts = spark.read.format("delta").load(str(app.table(f"{kind}_counts"))).orderBy("_batch_id", "_seq").collect()
    assert counts[-1]["count"] == len(_rows(spark, app, f"{kind}_latest"))


@pytest.mark.rule("R150")
def test_a_key_value_store_holds_the_latest_results(spark: SparkSession, app: StreamingApplication) -> None:
    assert _rows(spark, app, "inner_store") == _rows(spark, app, "inner_latest")


@pytest.mark.rule("R150")
def test_a_filter_in_a_key_value_store_holds_what_passes_of_them(
    spark: SparkSession, app: StreamingApplication
) -> None:
    passing = {row for row in _rows(spark, app, "inner_latest") if row[1] >= 20}
    assert _rows(spark, app, "filter_store") == passing


def _rows(spark: SparkSession, app: StreamingApplication, table: str) -> set[tuple[str, int]]:
    return {(row["k"], row["j"]) for row in spark.read.format("delta").load(str(app.table(table))).collect()}
