"""Stream-table joins on Spark against the traces of Kafka Streams, whole and cut at random."""

from __future__ import annotations

import json
import logging
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, in_one_query, on_driver, on_spark, sink_rows
from packed import Scenario, cut_at_random, cut_once, run_packed
from pyspark.sql import SparkSession

from streams.expressions import trace
from streams.functions import coalesce, concat, is_null
from streams.nodes import (
    ChangelogSink,
    Joined,
    Materialized,
    OnExpired,
    StreamSource,
    StreamTableJoin,
    TableSource,
    Topology,
)
from streams.spark import StreamingApplication
from streams.topology import StreamsBuilder

_TRACES = Path(__file__).parents[2] / "traces" / "stream_table_join.json"
_RETENTION_MS = 300_000
_KEY = ("case", "k")


def _scenarios() -> list[Scenario]:
    return [s for s in json.loads(_TRACES.read_text()) if "grace_ms" not in s["params"]]


def _factor(scenario: Scenario) -> int:
    return _RETENTION_MS // int(scenario["params"]["table"].get("history_retention_ms", _RETENTION_MS))


def _topology(joined: Joined | None = None) -> Topology:
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
            join = StreamTableJoin(f"join_{name}", (stream, table), kind=kind, joiner=text, joined=joined or Joined())
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


@dataclass(frozen=True)
class _Run:
    app: StreamingApplication
    scenarios: list[Scenario]
    warnings: list[str]


@pytest.fixture(scope="module", params=[1, pytest.param(4, marks=pytest.mark.slow)], ids=["one batch", "four batches"])
def run(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> _Run:
    """All scenarios in one application, whole or cut at random; and what the join warned of."""
    scenarios = _scenarios()
    cuts = cut_once(scenarios) if request.param == 1 else cut_at_random(scenarios, request.param, seed=914)
    heard = _Heard()
    logger = logging.getLogger("streams.spark.stream_table_join")
    logger.addHandler(heard)
    app = run_packed(spark, tmp_path_factory.mktemp("join"), _topology(), scenarios, cuts, _factor)
    logger.removeHandler(heard)
    return _Run(app, scenarios, heard.messages)


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.mark.rule("R138", "R139", "R140", "R141", "R144")
def test_every_trace_gives_its_outputs_and_drops_however_it_is_cut(spark: SparkSession, run: _Run) -> None:
    assert _differences(spark, run.app, run.scenarios) == []


@pytest.mark.rule("R142")
def test_a_lookup_older_than_the_history_is_warned_of_and_counted(spark: SparkSession, run: _Run) -> None:
    expired = _ledger_sum(spark, run.app, "join_left_history.expired_lookup")
    assert expired > 0
    told = [message for message in run.warnings if message.startswith("join_left_history: ")]
    assert sum(int(message.split()[1]) for message in told) == expired


def _ledger_sum(spark: SparkSession, app: StreamingApplication, count: str) -> int:
    ledger = spark.read.format("delta").load(str(app.table("ledger")))
    return sum(row["counts"].get(count, 0) for row in ledger.select("counts").collect())


@pytest.mark.slow
@pytest.mark.rule("R143")
@pytest.mark.parametrize("on_expired", ["null", "drop", "side_table"])
def test_expired_lookups_are_padded_dropped_or_put_aside(
    spark: SparkSession, tmp_path: Path, on_expired: OnExpired
) -> None:
    scenario = {
        "params": {"table": {"versioned": True, "history_retention_ms": _RETENTION_MS}},
        "steps": [
            {"topic": "table", "key": "k", "value": "a", "ts": 1},
            {"topic": "table", "key": "k", "value": "b", "ts": 10 * _RETENTION_MS},
            {"topic": "stream", "key": "k", "value": "s", "ts": 5},
            {"topic": "stream", "key": "k", "value": "t", "ts": 10 * _RETENTION_MS},
        ],
    }
    app = run_packed(spark, tmp_path, _topology(Joined(on_expired=on_expired)), [scenario], [[4]], lambda _: 1)
    rows = [(row[2], row[0]) for row in _outputs(spark, app, "left_history")[0]]
    assert rows == ([("(s,null)", 2)] if on_expired == "null" else []) + [("(t,b)", 3)]
    aside = _dropped(spark, app).get((0, "join_left_history"), Counter())
    assert dict(aside) == ({2: 1} if on_expired == "side_table" else {})


@pytest.mark.rule("R143")
def test_a_rejected_record_that_waited_is_named_by_its_own_place(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("a", key="k", value="v", name="stream")
    table = builder.table("c", Materialized.versioned("100 ms"), key="k", value="v", deleted="dead", name="table")
    joined = Joined.with_grace_period("10 ms").with_on_expired("side_table")
    stream.left_join(table, lambda left, right: {"j": left.v}, joined=joined, name="join").to_changelog("out")
    history = [Input("c", "k", "x", 10), Input("c", "k", "y", 500)]
    # The first waits for the next batch, in which the last lets both out.
    asking = [Input("a", "k", "s", 20), Input("a", "k", "t", 25), Input("a", "k", "u", 50)]
    app = in_one_query(spark, tmp_path, builder.build(), [*history, *asking], [3, 5])
    aside = spark.read.format("delta").load(str(app.table("rejects"))).selectExpr("reason", "place[0]")
    assert sorted(map(tuple, aside.collect())) == [("EXPIRED", 2), ("EXPIRED", 3)]


@pytest.mark.rule("R111", "R159")
def test_a_table_with_stream_time_by_key_is_looked_up_by_the_time_of_the_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("a", key="k", value="v", name="stream")
    store = Materialized.versioned("100 ms", time_scope="key")
    table = builder.table("c", store, key="k", value="v", deleted="dead", name="table")
    for name, joined in (("at_once", Joined()), ("waiting", Joined.with_grace_period("10 ms"))):
        pair = stream.left_join(table, lambda left, right: {"j": concat(left.v, coalesce(right.v, "-"))}, joined=joined)
        pair.to_changelog(name)
    plan = builder.build()
    # The other key is far ahead: with one stream time, "w" came too late and the first record found nothing.
    changes = [("k", "x", 10), ("l", "z", 10), ("k", "y", 50), ("l", "u", 1_000), ("k", "w", 60)]
    asking = [("k", "1", 20), ("l", "2", 15), ("k", "3", 65), ("k", "4", 900)]
    records = [*(Input("c", *each) for each in changes), *(Input("a", *each) for each in asking)]
    told = sink_rows(spark, in_one_query(spark, tmp_path, plan, records, [6, 9]), plan)
    assert told == on_driver(plan, records)
    assert [value for _, value, _ in told["at_once"]] == [("1x",), ("2-",), ("3w",), ("4w",)]


@pytest.mark.slow
@pytest.mark.rule("R3")
def test_by_arrival_records_of_two_topics_come_in_the_order_of_the_newest_time_of_their_topic_so_far(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    # Declared first: of equal times the table's comes first even so.
    stream = builder.stream("a", key="k", value="v", name="stream")
    table = builder.table("c", Materialized.key_value(), key="k", value="v", deleted="dead", name="table")
    stream.join(table, lambda left, right: {"j": concat(left.v, "/", right.v)}, name="join").to_changelog("out")
    plan = builder.build()
    first = [Input("a", "k", "at once", 100), Input("c", "k", "first", 100), Input("c", "k", "second", 200)]
    # The price is late: it counts as of 200, which its topic had reached in the batch before.
    second = [Input("c", "k", "late", 50), Input("a", "k", "in between", 150), Input("a", "k", "behind", 201)]
    app = on_spark(spark, tmp_path, plan, [*first, *second], [3, 6], by_arrival=True)
    told = [value[0] for _, value, _ in sink_rows(spark, app, plan)["out"]]
    assert told == ["at once/first", "in between/second", "behind/late"]


@pytest.mark.slow
def test_a_plan_that_leaves_out_records_without_a_key_goes_on_with_the_batch_that_one_of_them_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    def plan(*, filtered: bool) -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("a", key="k", value="v", name="stream")
        if filtered:
            stream = stream.filter(lambda key, value: ~is_null(key.k), name="keyed")
        table = builder.table("c", Materialized.versioned("1 minute"), key="k", value="v", deleted="dead", name="table")
        joined = Joined.with_grace_period("10 milliseconds")
        stream.left_join(table, lambda left, right: {"j": left.v}, joined=joined, name="join").to_changelog("out")
        return builder.build()

    records = [
        Input("c", "k", "x", 0),
        Input("a", "k", "kept", 1),
        Input("a", None, "lost", 2),
        Input("a", "k", "y", 50),
    ]
    for _ in range(2):
        with pytest.raises(Exception, match="join: 1 records of the batch have no key, the first of 1970-01-01"):
            on_spark(spark, tmp_path, plan(filtered=False), records, [4])
        records = []
    app = on_spark(spark, tmp_path, plan(filtered=True), records, [4])
    assert [value for _, value, _ in sink_rows(spark, app, app.topology)["out"]] == [("kept",)]


def test_a_change_of_a_table_that_is_joined_with_it_finds_itself_though_an_equal_instant_follows(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Materialized.versioned("1 hour"), key="k", value="v", deleted="dead", name="table")
    both = table.to_stream().left_join(table, lambda left, right: {"v": concat(left.v, coalesce(right.v, "-"))})
    both.to_changelog("out")
    topology = builder.build()
    records = [
        Input("t", "a", "x", 10),
        Input("t", "a", "y", 10),
        Input("t", "b", "z", 10, 1),
        Input("t", "b", "u", 5, 1),
    ]
    app = on_spark(spark, tmp_path, topology, records, [len(records)])
    wanted = [("xx", "a"), ("yy", "a"), ("zz", "b"), ("uu", "b")]
    assert [(value[0], key[0]) for key, value, _ in on_driver(topology, records)["out"]] == wanted
    rows = spark.read.format("delta").load(str(app.table("out"))).orderBy("_seq").collect()
    assert [(row["v"], row["k"]) for row in rows] == wanted
