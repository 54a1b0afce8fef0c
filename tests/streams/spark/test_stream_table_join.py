"""Stream-table joins on Spark against the traces of Kafka Streams, whole and cut at random."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from packed import Scenario, cut_at_random, cut_once, run_packed
from pyspark.sql import SparkSession

from streams.expressions import trace
from streams.functions import coalesce, concat
from streams.nodes import ChangelogSink, Joined, Materialized, StreamSource, StreamTableJoin, TableSource, Topology
from streams.spark import StreamingApplication

_TRACES = Path(__file__).parents[2] / "traces" / "stream_table_join.json"
_RETENTION_MS = 300_000
_KEY = ("case", "k")


def _scenarios() -> list[Scenario]:
    return [s for s in json.loads(_TRACES.read_text()) if "grace_ms" not in s["params"]]


def _factor(scenario: Scenario) -> int:
    return _RETENTION_MS // int(scenario["params"]["table"].get("history_retention_ms", _RETENTION_MS))


def _topology() -> Topology:
    stream = StreamSource("in", topic="stream", key=_KEY, value=("v",), deleted="dead")
    nullable = TableSource("plain", topic="table", key=_KEY, value=("v",), deleted="dead", materialized=Materialized())
    history = Materialized(history_retention=timedelta(milliseconds=_RETENTION_MS), late_policy="side_table")
    versioned = TableSource("history", topic="table", key=_KEY, value=("v",), deleted="dead", materialized=history)
    text = trace(
        lambda left, right: {"v": concat("(", coalesce(left.v, "null"), ",", coalesce(right.v, "null"), ")")},
        "left",
        "right",
    )
    nodes = [stream, nullable, versioned]
    for table in (nullable, versioned):
        for kind in ("inner", "left"):
            name = f"{kind}_{table.name}"
            join = StreamTableJoin(f"join_{name}", (stream, table), kind=kind, joiner=text, joined=Joined())
            nodes += [join, ChangelogSink(name, (join,))]
    return Topology(tuple(nodes))


def _nodes_of(scenario: Scenario) -> tuple[str, str]:
    """The table and the sink that a scenario is about."""
    table = "history" if scenario["params"]["table"]["versioned"] else "plain"
    return table, f"{scenario['params']['type']}_{table}"


def _outputs(spark: SparkSession, app: StreamingApplication, sink: str) -> dict[int, list[Any]]:
    rows = spark.read.format("delta").load(str(app.table(sink))).orderBy("_batch_id", "_scope", "_seq")
    told: dict[int, list[Any]] = {}
    for row in rows.selectExpr("case", "k", "v", "unix_millis(ts) AS ms", "_seq[0] AS step").collect():
        told.setdefault(row["case"], []).append((row["step"], row["k"], row["v"], row["ms"]))
    return told


def _dropped(spark: SparkSession, app: StreamingApplication) -> dict[tuple[int, str], Counter[int]]:
    rows = spark.read.format("delta").load(str(app.table("rejects")))
    told: dict[tuple[int, str], Counter[int]] = {}
    for row in rows.selectExpr("scope", "node", "place[0] AS step").collect():
        told.setdefault((row["scope"], row["node"]), Counter())[row["step"]] += 1
    return told


def _differences(spark: SparkSession, app: StreamingApplication, scenarios: list[Scenario]) -> list[Any]:
    outputs = {sink: _outputs(spark, app, sink) for sink in {_nodes_of(scenario)[1] for scenario in scenarios}}
    dropped = _dropped(spark, app)
    found = []
    for case, scenario in enumerate(scenarios):
        table, sink = _nodes_of(scenario)
        wanted = [
            (o["input_index"], o["key"], o["value"], o["ts"] * _factor(scenario))
            for o in scenario["expected"]["outputs"]
        ]
        got = outputs[sink].get(case, [])
        drops = dropped.get((case, table), Counter()) + dropped.get((case, f"join_{sink}"), Counter())
        told = scenario["expected"].get("dropped")  # What a trace leaves out is not compared.
        wanted_drops = dict(drops) if told is None else {d["input_index"]: d["count"] for d in told}
        if got != wanted or dict(drops) != wanted_drops:
            found.append((scenario["id"], got, wanted, dict(drops), wanted_drops))
    return found


@pytest.mark.rule("R138", "R139", "R140", "R141", "R144")
@pytest.mark.parametrize("batches", [1, 4])
def test_every_trace_gives_its_outputs_and_drops_however_it_is_cut(
    spark: SparkSession, tmp_path: Path, batches: int
) -> None:
    scenarios = _scenarios()
    cuts = cut_once(scenarios) if batches == 1 else cut_at_random(scenarios, batches, seed=914)
    app = run_packed(spark, tmp_path, _topology(), scenarios, cuts, _factor)
    assert _differences(spark, app, scenarios) == []
