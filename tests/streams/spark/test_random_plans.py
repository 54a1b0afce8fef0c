"""Random plans over random histories, cut at random: both engines tell the same, in the same order."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from both_engines import on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession
from random_plans import random_records, random_topology

_RECORDS = 60
_PLANS_AT_ONCE = 15
_PLANS_IN_CI = 6
#: How many more plans `make test-all` runs; 300 by ``RANDOM_PLANS=300 pytest -m slow tests/streams/spark``.
_MANY = int(os.environ.get("RANDOM_PLANS", "30"))


def _differences(spark: SparkSession, folder: Path, seeds: list[int], batches: int) -> dict[str, tuple[object, object]]:
    topology = random_topology(seeds)
    records = random_records(seeds[0], _RECORDS)
    chance = random.Random(seeds[0])
    ends = [*sorted(chance.randint(1, _RECORDS - 1) for _ in range(batches - 1)), _RECORDS]
    wanted = on_driver(topology, records)
    got = sink_rows(spark, on_spark(spark, folder, topology, records, ends), topology)
    return {sink: (got[sink], rows) for sink, rows in wanted.items() if got[sink] != rows}


@pytest.mark.rule("R127", "R132", "R167", "R168", "R169")
def test_random_plans_give_the_same_on_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    assert _differences(spark, tmp_path, list(range(_PLANS_IN_CI)), batches=2) == {}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 100 + _MANY, _PLANS_AT_ONCE))
def test_many_random_plans_give_the_same_on_both_engines(spark: SparkSession, tmp_path: Path, first: int) -> None:
    assert _differences(spark, tmp_path, list(range(first, first + _PLANS_AT_ONCE)), batches=3) == {}
