"""Many trace scenarios in one streaming application.

The scenario is the first part of every key and the stream-time scope, its step index the sequence. A scenario's times
are scaled so that all of them have one history retention: the rules know differences of times only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streams.nodes import Topology
from streams.spark import SparkSource, StreamingApplication

Scenario = dict[str, Any]
Step = tuple[int, int, dict[str, Any], int]

_COLUMNS = "case INT, k STRING, v STRING, ms LONG, step LONG, dead BOOLEAN"
_SCHEMA = "case INT, k STRING, v STRING, ts TIMESTAMP, step LONG, dead BOOLEAN"


def cut_once(scenarios: Sequence[Scenario]) -> list[list[int]]:
    """Every scenario in a single batch."""
    return [[len(scenario["steps"])] for scenario in scenarios]


def cut_at_random(scenarios: Sequence[Scenario], batches: int, seed: int) -> list[list[int]]:
    """For each scenario, where each of so many batches ends."""
    chance = random.Random(seed)
    ends = []
    for scenario in scenarios:
        count = len(scenario["steps"])
        ends.append([*sorted(chance.randint(0, count) for _ in range(batches - 1)), count])
    return ends


def run_packed(
    spark: SparkSession,
    folder: Path,
    topology: Topology,
    scenarios: Sequence[Scenario],
    cuts: list[list[int]],
    factor: Callable[[Scenario], int],
) -> StreamingApplication:
    """Feed the scenarios to a topology with topics named as in the traces, batch by batch as cut."""
    topics = sorted({node.topic for node in topology if hasattr(node, "topic")})
    sources = {
        topic: SparkSource("parquet", {"path": str(folder / topic)}, _SCHEMA, partition_by="case", sequence_by="step")
        for topic in topics
    }
    for topic in topics:
        (folder / topic).mkdir(parents=True)
    app = StreamingApplication(spark, "traces", topology, str(folder / "out"), sources, order="sequence")
    for batch in range(len(cuts[0])):
        for topic in topics:
            rows = _rows(scenarios, cuts, batch, topic, factor)
            frame = spark.createDataFrame(rows, _COLUMNS).withColumnRenamed("ms", "ts")
            timed = frame.selectExpr("case", "k", "v", "timestamp_millis(ts) AS ts", "step", "dead")
            timed.coalesce(1).write.mode("append").parquet(str(folder / topic))
        app.run()
    return app


def _rows(
    scenarios: Sequence[Scenario], cuts: list[list[int]], batch: int, topic: str, factor: Callable[[Scenario], int]
) -> list[tuple[Any, ...]]:
    rows = []
    for case, scenario in enumerate(scenarios):
        first = cuts[case][batch - 1] if batch else 0
        for index in range(first, cuts[case][batch]):
            step = scenario["steps"][index]
            if step.get("topic") == topic:
                value = step["value"]
                rows.append((case, step["key"], value, step["ts"] * factor(scenario), index, value is None))
    return rows
