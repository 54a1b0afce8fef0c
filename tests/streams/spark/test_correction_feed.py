"""Corrections of stream-table joins on Spark: the driver's, however the input is cut."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, Told, on_driver, on_spark, sink_rows
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

from streams.functions import coalesce, concat
from streams.nodes import Joined, Materialized, Topology
from streams.topology import StreamsBuilder

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_COUNT = 80


def _topology() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("c", Materialized.versioned("1 hour", name="history"), name="table", **_SOURCE)
    views = {"whole": table, "view": table.filter(lambda value: value.v > "b", name="kept")}
    stream = builder.stream("a", name="stream", **_SOURCE)
    for kind, name in (("join", "whole"), ("left_join", "view")):
        options = Joined().with_corrections("400 milliseconds")
        joined = getattr(stream, kind)(views[name], _pair, joined=options, name=f"{kind}_{name}")
        joined.to_changelog(f"{kind}_{name}_out")
        joined.corrections(name=f"{kind}_{name}_corrections").to_changelog(f"{kind}_{name}_corrected")
    return builder.build()


def _pair(left: Any, right: Any) -> Any:
    return {"j": concat(left.v, "/", coalesce(right.v, "-"))}


def _records(seed: int) -> list[Input]:
    chance = random.Random(seed)
    records = []
    for number in range(_COUNT):
        late = chance.choice((0, 0, 30, 100, 500))
        value = None if chance.random() < 0.15 else chance.choice("abc")
        records.append(Input(chance.choice("ac"), chance.choice("xy"), value, max(0, number * 10 - late)))
    return records


def _without_places(told: dict[str, Told]) -> dict[str, Told]:
    """Corrections name their answer by its place, which each engine counts in its own way."""
    return {sink: [(key, _shown(value), us) for key, value, us in rows] for sink, rows in told.items()}


def _shown(value: Any) -> Any:
    if value is None or len(value) == 1:
        return value
    revision, old, new = value[2:5]
    return revision, _text(old), _text(new)


def _text(part: Any) -> Any:
    return part["j"] if isinstance(part, (SparkRow, dict)) or hasattr(part, "j") else part


@pytest.mark.rule("R154")
def test_corrections_are_the_drivers_and_the_main_output_is_untouched(spark: SparkSession, tmp_path: Path) -> None:
    topology, records = _topology(), _records(seed=5)
    app = on_spark(spark, tmp_path, topology, records, [30, _COUNT])
    wanted = _without_places(on_driver(topology, records))
    assert all(rows for sink, rows in wanted.items() if sink.endswith("_corrected"))
    assert _without_places(sink_rows(spark, app, topology)) == wanted
