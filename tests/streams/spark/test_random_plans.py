"""Random plans over random histories, cut at random: both engines tell the same, in the same order."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from both_engines import Input, in_one_query, in_two_queries, on_driver, sink_rows
from pyspark.sql import SparkSession
from random_plans import in_order_of_arrival, random_records, random_topology
from touched_keys import WAYS, rows_by_key, was_taken

from streams.nodes import SOURCES, Topology
from streams.spark import StreamingApplication
from streams.spark.flow import Flow
from streams.spark.of_keys import Amount
from streams.spark.operator import Batch
from streams.testing.sessions import in_sessions

_RECORDS = 60
_RECORDS_PER_TOPIC = 20
#: Plans in one application: they share sources, tables and the fixed costs of a batch.
_PLANS_AT_ONCE = 4
#: One application: half a minute of `make test`'s thirty.
_PLANS_IN_CI = 2
#: How many more plans `make test-all` runs; 300 by ``RANDOM_PLANS=300 pytest -m slow tests/streams/spark``.
_MANY = int(os.environ.get("RANDOM_PLANS", "30"))
#: The seed of the first of them.
_FIRST = int(os.environ.get("RANDOM_PLANS_FROM", "100"))
_Differences = dict[str, tuple[object, object]]


@pytest.fixture
def some_keys_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of flows with an even number of records the keys go to every task, as otherwise only in larger batches."""

    def amount(_: Batch, flow: Flow) -> Amount:
        return "few" if flow.most is not None and flow.most % 2 == 0 else "unknown"

    monkeypatch.setattr(Batch, "amount", amount)


def _all_differences(
    spark: SparkSession, folder: Path, seeds: range, differences: Callable[..., _Differences]
) -> _Differences:
    """The sinks that are not the same, of several applications at the same time."""
    parts = [list(seeds[first : first + _PLANS_AT_ONCE]) for first in range(0, len(seeds), _PLANS_AT_ONCE)]

    def run(part: list[int]) -> Callable[[SparkSession], _Differences]:
        return lambda session: differences(session, folder / str(part[0]), part)

    found = in_sessions(spark, [run(part) for part in parts])
    return {sink: told for differences in found for sink, told in differences.items()}


def _differences_by_arrival(spark: SparkSession, folder: Path, seeds: list[int]) -> _Differences:
    topology = random_topology(seeds, apart=True)
    topics = [node.topic for node in topology if isinstance(node, SOURCES)]
    count = _RECORDS_PER_TOPIC * len(topics)
    ends = _ends(seeds[0], count, 3)
    records = random_records(seeds[0], count, by_key=True, topics=topics)
    ordered = in_order_of_arrival(topology, records, ends)
    run_on = partial(in_two_queries, by_arrival=True, in_partitions=True)
    return _differences_of(spark, folder, topology, ordered, ends, run_on)


def _differences(
    spark: SparkSession, folder: Path, seeds: list[int], batches: int, run_on: Callable[..., StreamingApplication]
) -> _Differences:
    topology = random_topology(seeds)
    records = random_records(seeds[0], _RECORDS, by_key=True)
    return _differences_of(spark, folder, topology, records, _ends(seeds[0], _RECORDS, batches), run_on)


def _ends(seed: int, count: int, batches: int) -> list[int]:
    return [*sorted(random.Random(seed).sample(range(1, count), batches - 1)), count]


def _differences_of(
    spark: SparkSession,
    folder: Path,
    topology: Topology,
    records: Sequence[Input],
    ends: Sequence[int],
    run_on: Callable[..., StreamingApplication],
) -> _Differences:
    wanted = on_driver(topology, records)
    app = run_on(spark, folder, topology, records, ends)
    assert app.metrics().select("batch_id").distinct().count() == len(ends)
    got = sink_rows(spark, app, topology)
    return {sink: (got[sink], rows) for sink, rows in wanted.items() if got[sink] != rows}


@pytest.mark.usefixtures("some_keys_are_sent")
@pytest.mark.rule("R3")
def test_random_plans_give_the_same_on_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    differences = partial(_differences, batches=2, run_on=in_one_query)
    assert _all_differences(spark, tmp_path, range(_PLANS_IN_CI), differences) == {}


@pytest.mark.slow
def test_writing_the_rows_of_touched_keys_only_makes_no_difference(spark: SparkSession, tmp_path: Path) -> None:
    with rows_by_key(spark):
        assert _differences(spark, tmp_path, [0, 1], 2, in_one_query) == {}
    assert any(was_taken("named", log.parent) for log in tmp_path.rglob("_delta_log"))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_in_many_plans_writing_the_rows_of_touched_keys_only_makes_no_difference(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    with rows_by_key(spark, way):
        assert _differences(spark, tmp_path, list(range(_FIRST, _FIRST + _PLANS_AT_ONCE)), 3, in_two_queries) == {}
    assert any(was_taken(way, log.parent) for log in tmp_path.rglob("_delta_log"))


@pytest.mark.slow
@pytest.mark.rule("R3", "R167", "R168", "R169")
@pytest.mark.usefixtures("some_keys_are_sent")
@pytest.mark.parametrize("first", range(_FIRST, _FIRST + _MANY, 3 * _PLANS_AT_ONCE))
def test_many_random_plans_give_the_same_on_both_engines(spark: SparkSession, tmp_path: Path, first: int) -> None:
    seeds = range(first, min(first + 3 * _PLANS_AT_ONCE, _FIRST + _MANY))
    differences = partial(_differences, batches=3, run_on=in_two_queries)
    assert _all_differences(spark, tmp_path, seeds, differences) == {}


@pytest.mark.slow
@pytest.mark.rule("R3")
@pytest.mark.parametrize("first", range(_FIRST, _FIRST + _MANY, 3 * _PLANS_AT_ONCE))
def test_random_plans_by_arrival_give_the_same_on_both_engines(spark: SparkSession, tmp_path: Path, first: int) -> None:
    seeds = range(first, min(first + 3 * _PLANS_AT_ONCE, _FIRST + _MANY))
    assert _all_differences(spark, tmp_path, seeds, _differences_by_arrival) == {}
