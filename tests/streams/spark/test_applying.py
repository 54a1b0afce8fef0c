"""Operators are applied as soon as what feeds them is there, branches of a plan at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streams.expressions import Expr
from streams.nodes import ChangelogSink, StreamFilter, StreamMapValues, StreamSource, Topology
from streams.spark.applying import EmptyFlows, apply_all
from streams.spark.flow import PLACE, Bounds, Flow
from streams.spark.operator import Batch, Operator
from versioned.identifiers import TableRef

_SCHEMA = f"{PLACE} ARRAY<LONG>, n LONG"


class _Told(Operator[Any]):
    """Tells that it is applied, and passes on what comes."""

    def __init__(self, node: Any, tell: Callable[[str], None]) -> None:
        super().__init__(node)
        self._tell = tell

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow | None:
        self._tell(self.node.name)
        return None if isinstance(self.node, ChangelogSink) else inputs[0]


def _plan() -> Topology:
    """One source, two branches."""
    source = StreamSource("source", topic="t", key=("n",), value=("n",))
    left = StreamFilter("left", (source,), Expr("lit", True))
    right = StreamMapValues("right", (source,), Expr("ref", "value"))
    return Topology((source, left, right, ChangelogSink("l", (left,)), ChangelogSink("r", (right,))))


def _apply(
    spark: SparkSession,
    topology: Topology,
    tell: Callable[[str], None],
    flow: Flow,
    spared: Collection[str] = (),
) -> dict[str, list[Flow]]:
    batch = Batch(spark, "app", TableRef.parse("/nowhere"), 1, 0, 0, {}, spared=spared)
    operators: dict[str, Operator[Any]] = {node.name: _Told(node, tell) for node in topology}
    return apply_all(topology, operators, batch, {"source": flow}, EmptyFlows())


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([([1], 7)], _SCHEMA)


def test_branches_that_do_not_wait_for_each_other_are_applied_at_the_same_time(
    spark: SparkSession, frame: DataFrame
) -> None:
    both = threading.Barrier(2)

    def tell(name: str) -> None:
        if name in ("left", "right"):
            both.wait(30)  # Breaks if only one is applied.

    _apply(spark, _plan(), tell, Flow(frame))


def test_no_operator_is_applied_before_those_that_feed_it(spark: SparkSession, frame: DataFrame) -> None:
    applied: list[str] = []
    topology = _plan()
    _apply(spark, topology, applied.append, Flow(frame))
    for node in topology:
        assert all(applied.index(parent.name) < applied.index(node.name) for parent in node.parents)


def test_what_two_branches_read_is_made_once_and_told_apart_by_its_place(spark: SparkSession, frame: DataFrame) -> None:
    made: list[int] = []

    def make() -> DataFrame:
        made.append(1)
        return frame

    reached = _apply(spark, _plan(), lambda name: None, Flow(make))
    places = {name: reached[name][0].frame.collect()[0][PLACE] for name in ("left", "right")}
    assert (made, places) == ([1], {"left": [1, 0], "right": [1, 1]})


def test_of_several_failures_that_of_the_first_in_the_plan_is_told(spark: SparkSession, frame: DataFrame) -> None:
    both = threading.Barrier(2)

    def tell(name: str) -> None:
        if name in ("left", "right"):
            both.wait(30)
            raise ValueError(name)

    with pytest.raises(ValueError, match="left"):
        _apply(spark, _plan(), tell, Flow(frame))


def test_nothing_of_the_type_of_the_records_comes_to_what_is_spared(spark: SparkSession, frame: DataFrame) -> None:
    broken = frame.withColumn("n", F.raise_error(F.lit("again")).cast("long"))
    reached = _apply(spark, _plan(), lambda name: None, Flow(broken), ("left", "l"))
    for name in ("left", "l"):
        (flow,) = reached[name]
        assert (flow.is_empty, flow.frame.collect(), flow.frame.columns) == (True, [], frame.columns)


def test_an_empty_flow_loses_its_plan_and_keeps_its_type(spark: SparkSession, frame: DataFrame) -> None:
    asked: list[int] = []

    def make() -> DataFrame:
        asked.append(1)
        return frame

    empty = EmptyFlows()
    flows = [empty.light("node", spark, Flow(make, {})) for _ in range(2)]
    assert [flow.frame.schema for flow in flows] == [frame.schema] * 2
    assert [flow.frame.count() for flow in flows] == [0, 0]
    assert asked == [1]


def test_a_flow_that_holds_something_goes_on_as_it_is(spark: SparkSession, frame: DataFrame) -> None:
    flow = Flow(frame, {0: Bounds(1, 1, 1)})
    assert EmptyFlows().light("node", spark, flow) is flow
