"""What becomes of an aggregate whose own versioned store refuses a result: as on the driver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from both_engines import Input, Told, on_driver, on_spark, sink_rows
from fault_plans import minus, plus
from pyspark.sql import SparkSession

from streams.expressions import Expr
from streams.functions import length, substring
from streams.nodes import Materialized, Topology
from streams.rows import Row
from streams.spark import StreamingApplication
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
#: Of group "a" the record at 150 is refused, since group "b" is at 200; the next result of "a" is without it.
_RECORDS: Final = (
    Input("a", "x", "a1", 100),
    Input("a", "y", "b1", 200),
    Input("a", "z", "a0", 150),
    Input("a", "q", "a333", 190),
)
#: The only record of group "a" is refused; a group without an aggregate has nothing that could be taken.
_TAKEN: Final = (
    Input("a", "y", "b1", 200),
    Input("a", "x", "a1", 150),
    Input("a", "x", "b22", 210),
    Input("a", "z", "a55", 220),
    Input("a", "w", "c1", 170),
    Input("a", "w", None, 230),
)
#: Group "a" ends at 230, when the only value that it refused is taken; older results stand alone below that.
_BELOW: Final = (
    Input("a", "y", "b1", 200),
    Input("a", "x", "a1", 150),
    Input("a", "x", None, 230),
    Input("a", "z", "a22", 215),
    Input("a", "w", "a333", 220),
    Input("a", "v", "a4444", 230),
    Input("a", "u", "a55555", 225),
    Input("a", "z", None, 231),
)
#: User code ends group "a" at 200; what it is given then is too old for the group's own stream time, at first.
_ENDED: Final = (
    Input("a", "x", "a1", 100),
    Input("a", "x", None, 200),
    Input("a", "y", "a2", 150),
    Input("a", "z", "b9", 120),
    Input("a", "w", "a3", 185),
    Input("a", "v", "a4", 210),
)
_AGGREGATES: Final = ("count", "sum", "min", "reduce", "of_stream", "of_stream_reduced")


def _topology() -> Topology:
    builder = StreamsBuilder()
    grouped = builder.table("a", Materialized.key_value("a-store"), name="a_table", **_SOURCE).group_by(_first)
    stream = builder.stream("a", name="a_stream", **_SOURCE).group_by(_first)
    tables = {
        "count": grouped.count(materialized=_short("count"), name="count"),
        "sum": grouped.sum(lambda value: length(value.v), materialized=_short("sum"), name="sum"),
        "min": grouped.min(lambda value: value.v, materialized=_short("min"), name="min"),
        "reduce": grouped.reduce(plus, minus, materialized=_short("reduce"), name="reduce"),
        "of_stream": stream.count(materialized=_short("of_stream"), name="of_stream"),
        "of_stream_reduced": stream.reduce(plus, materialized=_short("reduced"), name="of_stream_reduced"),
    }
    for name, table in tables.items():
        table.to_changelog(f"{name}_out")
    return builder.build()


def _short(name: str) -> Materialized:
    return Materialized.versioned("20 milliseconds", name=f"{name}-store")


def _first(value: Expr) -> Expr:
    return substring(value.v, 1, 1)


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    app = on_spark(spark, tmp_path_factory.mktemp("results"), _topology(), _RECORDS, [len(_RECORDS)])
    return sink_rows(spark, app, _topology())


@pytest.mark.slow
@pytest.mark.rule("R174")
@pytest.mark.parametrize("name", _AGGREGATES)
def test_a_refused_result_leaves_the_aggregate_as_it_is(told: dict[str, Told], name: str) -> None:
    assert told[f"{name}_out"] == on_driver(_topology(), _RECORDS)[f"{name}_out"]
    assert [key for key, _, _ in told[f"{name}_out"]] == [("a",), ("b",), ("a",)]


@pytest.mark.slow
@pytest.mark.rule("R163")
@pytest.mark.parametrize("ends", [[3, 6], [6], [1, 2, 3, 4, 5, 6], [2, 4, 6]])
def test_nothing_is_taken_from_a_group_that_has_no_aggregate(
    spark: SparkSession, tmp_path: Path, ends: list[int]
) -> None:
    app = on_spark(spark, tmp_path, _topology(), _TAKEN, ends)
    assert sink_rows(spark, app, _topology()) == on_driver(_topology(), _TAKEN)


@pytest.mark.slow
@pytest.mark.rule("R163")
@pytest.mark.parametrize("ends", [[8], [3, 8], [1, 2, 3, 4, 5, 6, 7, 8]])
def test_a_result_below_the_end_of_its_group_stands_alone(spark: SparkSession, tmp_path: Path, ends: list[int]) -> None:
    app = on_spark(spark, tmp_path, _topology(), _BELOW, ends)
    told = sink_rows(spark, app, _topology())
    assert told == on_driver(_topology(), _BELOW)
    assert [(value, us // 1000) for key, value, us in told["count_out"] if key == ("a",)] == [
        (None, 230), ((1,), 215), ((1,), 220), ((1,), 230), ((2,), 230), ((1,), 231),
    ]  # fmt: skip


def _nothing(_total: Row, _part: Row) -> None:
    return None


@pytest.mark.slow
@pytest.mark.rule("R174")
@pytest.mark.parametrize("ends", [[2, 6], [6], [1, 2, 3, 4, 5, 6]])
def test_with_a_stream_time_per_key_a_refused_result_leaves_an_ended_aggregate_as_it_is(
    spark: SparkSession, tmp_path: Path, ends: list[int]
) -> None:
    builder = StreamsBuilder()
    grouped = builder.table("a", Materialized.key_value("a-store"), name="a_table", **_SOURCE).group_by(_first)
    store = Materialized.versioned("20 milliseconds", name="ended-store", time_scope="key")
    grouped.reduce(plus, _nothing, materialized=store, name="ended").to_changelog("ended_out")
    topology = builder.build()
    app = on_spark(spark, tmp_path, topology, _ENDED, ends)
    told = sink_rows(spark, app, topology)
    assert told == on_driver(topology, _ENDED)
    # "a3" is put below what ended the group, from which the group begins anew: its store tells no result as the latest.
    assert [value for key, value, _ in told["ended_out"] if key == ("a",)][-2:] == [("a3",), ("a4",)]


def _numbers() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", Materialized.key_value("a-store"), name="a_table", **_SOURCE)
    grouped = {
        "stream": builder.stream("a", name="a_stream", **_SOURCE).group_by_key(),
        "table": table.group_by(lambda key, value: substring(key.k, 1, 1)),
    }
    for of, kind in [*product(grouped, ("count", "sum", "avg")), ("stream", "max")]:
        store = Materialized.versioned("20 milliseconds", name=f"{of}-{kind}", late_policy="side_table")
        what = () if kind == "count" else (lambda value: value.v,)
        getattr(grouped[of], kind)(*what, materialized=store, name=f"{of}_{kind}").to_changelog(f"{of}_{kind}_out")
    return builder.build()


#: By keys all of the first partition that is older than 900 is refused, and nothing of the second one: the result at 70
#: has nothing of the one at 400, not its time either. The table's groups are of one partition.
_REFUSED: Final = (
    Input("a", "x1", Decimal("1.1"), 50, 1),
    Input("a", "x2", Decimal("10.000000000000000001"), 60, 1),
    Input("a", "z1", Decimal("5"), 900),
    Input("a", "x1", Decimal("100.2"), 400),
    Input("a", "x1", Decimal("1000.4"), 70, 1),
    Input("a", "x2", Decimal("10000.000000000000000008"), 300),
    Input("a", "y1", Decimal("7"), 500),
    Input("a", "y1", Decimal("8"), 905),
    Input("a", "x2", None, 310),
    Input("a", "x3", Decimal("3"), 100, 1),
)


@pytest.mark.slow
@pytest.mark.rule("R174")
@pytest.mark.parametrize("ends", [[10], [2, 6, 10]])
def test_a_refused_result_is_put_aside_with_the_event_that_it_is_of_and_that_alone(
    spark: SparkSession, tmp_path: Path, ends: list[int]
) -> None:
    app = on_spark(spark, tmp_path, _numbers(), _REFUSED, ends, "DECIMAL(38, 18)")
    assert _rejects(spark, app) == _rejects_on_driver(_numbers(), _REFUSED)
    assert sink_rows(spark, app, _numbers()) == on_driver(_numbers(), _REFUSED)


def _rejects(spark: SparkSession, app: StreamingApplication) -> dict[str, list[Any]]:
    rows = spark.read.format("delta").load(str(app.table("rejects"))).selectExpr("*", "unix_micros(ts) AS us")
    told = [(row["node"], row["us"], json.loads(row["record"], parse_float=Decimal)) for row in rows.collect()]
    return _by_node((node, us, *record["key"].values(), record.get("value", {})) for node, us, record in told)


def _rejects_on_driver(topology: Topology, records: Sequence[Input]) -> dict[str, list[Any]]:
    driver = TopologyTestDriver(topology)
    for each in records:
        value = None if each.v is None else {"v": each.v}
        driver.pipe_input(each.topic, each.k, value, each.ts_us, partition=each.partition)
    return _by_node((each.node, each.ts_us, *each.key.values(), each.value or {}) for each in driver.rejects)


def _by_node(rejects: Iterable[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Of each node its rejects in an order of their own, with means as numbers of the same kind."""
    told: dict[str, list[Any]] = {}
    for node, *parts, value in rejects:
        numbers = {name: Decimal(repr(n)) if isinstance(n, float) else n for name, n in value.items()}
        told.setdefault(node, []).append((*parts, numbers))
    return {node: sorted(rows, key=repr) for node, rows in sorted(told.items())}
