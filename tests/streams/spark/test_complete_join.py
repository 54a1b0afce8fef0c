"""Joins with complete history on Spark: late records correct every older result, and say why."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, on_driver, on_spark, sink_rows
from fault_plans import sides
from pyspark.sql import SparkSession
from random_plans import random_records

from streams.functions import cast, coalesce
from streams.nodes import JoinKind, Materialized, Topology
from streams.spark import StreamingApplication
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from versioned.spec import TimeScope

pytestmark = pytest.mark.slow

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_KINDS: tuple[JoinKind, ...] = ("inner", "outer")
_COUNT = 60


def _topology() -> Topology:
    builder = StreamsBuilder()
    left, right = (
        builder.table(topic, Materialized.versioned("1 hour", name=f"{topic}_history"), name=topic, **_SOURCE)
        for topic in ("a", "c")
    )
    joins = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}
    for kind in _KINDS:
        scope: TimeScope = "partition" if kind == "inner" else "store"
        stored = Materialized.versioned(timedelta(hours=1), name=f"{kind}_results", time_scope=scope)
        joins[kind](right, sides, history="complete", materialized=stored, name=kind).to_changelog(f"{kind}_out")
    return builder.build()


@pytest.fixture(scope="module")
def records() -> list[Input]:
    taken = [replace(record, partition=1) for record in random_records(seed=7, count=_COUNT)]
    return [replace(taken[0], k=None), *taken]


@pytest.fixture(scope="module")
def app(spark: SparkSession, records: list[Input], tmp_path_factory: pytest.TempPathFactory) -> StreamingApplication:
    # The first batch has nothing for the joins: the sinks that it makes must take the results of the others.
    return on_spark(spark, tmp_path_factory.mktemp("complete"), _topology(), records, [1, 25, _COUNT + 1])


@pytest.mark.rule("R150", "R154")
def test_the_changes_are_the_drivers(spark: SparkSession, app: StreamingApplication, records: list[Input]) -> None:
    assert sink_rows(spark, app, app.topology) == on_driver(app.topology, records)


@pytest.mark.rule("R150", "R154")
@pytest.mark.parametrize("kind", _KINDS)
def test_each_change_says_what_it_does_what_it_replaces_and_which_record_did_it(
    spark: SparkSession, app: StreamingApplication, records: list[Input], kind: JoinKind
) -> None:
    driver = TopologyTestDriver(app.topology)
    for record in records:
        value = None if record.v is None else {"v": record.v}
        driver.pipe_input(record.topic, record.k, value, record.ms * 1000, partition=record.partition)
    wanted = [(told.op, told.old and told.old["j"], told.cause) for told in driver.read_output(f"{kind}_out")]
    rows = spark.read.format("delta").load(str(app.table(f"{kind}_out"))).orderBy("_batch_id", "_seq").collect()
    assert [(row["op"], row["old"] and row["old"]["j"], row["cause"]) for row in rows] == wanted
    assert {old is None for _, old, _ in wanted} == {True, False}


@pytest.mark.rule("R150", "R154")
@pytest.mark.parametrize("kind", _KINDS)
def test_the_result_history_is_the_overlap_of_both_histories(
    spark: SparkSession, app: StreamingApplication, records: list[Input], kind: JoinKind
) -> None:
    stored = spark.read.format("delta").load(str(app.table(f"{kind}_results"))).where("NOT deleted")
    spans = {
        (row["k"], instant): row["j"]
        for row in stored.selectExpr("k", "j", "unix_millis(validFrom) AS f", "unix_millis(validTo) AS t").collect()
        for instant in range(_COUNT * 10)
        if row["f"] <= instant and (row["t"] is None or instant < row["t"])
    }
    assert spans == _overlaps(records[1:], kind)


def _overlaps(records: list[Input], kind: JoinKind) -> dict[tuple[str | None, int], str]:
    """Brute force: for each key and millisecond, what was valid on both sides."""
    versions: dict[tuple[str, str | None], dict[int, Any]] = {}
    for record in records:
        versions.setdefault((record.topic, record.k), {})[record.ms] = record.v
    found = {}
    for key in {record.k for record in records}:
        for instant in range(_COUNT * 10):
            left, right = (_valid(versions.get((topic, key), {}), instant) for topic in ("a", "c"))
            missing = {"inner": left is None or right is None, "left": left is None, "outer": left is right is None}
            if not missing[kind]:
                found[key, instant] = f"{left or '-'}/{right or '-'}"
    return found


def _valid(versions: dict[int, Any], instant: int) -> Any:
    start = max((ms for ms in versions if ms <= instant), default=None)
    return None if start is None else versions[start]


def _of_decimals(left: Any, right: Any) -> Any:
    return {
        "is_that": cast(left.v == 19.99, "string"),
        "by_double": left.v * 1.5,
        "quotient": left.v / right.v,
        "chosen": coalesce(left.v, 1.5),
        "sum": left.v + right.v + 1,
    }


def test_a_joiner_gives_the_same_types_and_values_whatever_the_history(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    left, right = (
        builder.table(topic, Materialized.versioned("1 hour"), name=topic, **_SOURCE) for topic in ("a", "c")
    )
    for history in ("latest", "complete"):
        left.join(right, _of_decimals, history=history, name=history).to_changelog(f"{history}_out")
    topology = builder.build()
    records = [Input("a", "k", Decimal("19.99"), 1), Input("c", "k", Decimal("3.00"), 2)]
    app = on_spark(spark, tmp_path, topology, records, [2], value_type="DECIMAL(10, 2)")
    told = sink_rows(spark, app, topology)
    wanted = ("true", 29.985, Decimal("6.6633333333333"), 19.99, Decimal("23.99"))
    assert [value for _, value, _ in told["latest_out"]] == [wanted]
    assert told["complete_out"] == told["latest_out"]
