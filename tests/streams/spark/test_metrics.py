"""The metrics of KIP-328 on Spark: exact names, the driver's numbers, and totals that outlive a restart."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from both_engines import Input, application, write_records
from crashing import crash_at
from fault_plans import millis, sides
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from random_plans import random_records

from streams import nodes
from streams.driver.registry import OPERATORS
from streams.functions import coalesce, concat, length, substring, when
from streams.kstream import KStream
from streams.ktable import KTable
from streams.metrics import CATALOGUE, MetricName, MetricValue
from streams.nodes import Joined, Materialized, Topology
from streams.spark import BatchReport, MetricsListener, StreamingApplication
from streams.spark.sql_views import register_table_sql
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from versioned import faults

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
#: What the driver's counters and the counts of Spark's ledger have in common.
_COUNTS = (
    "input",
    "accepted",
    "dropped",
    "skipped",
    "late",
    "ignored",
    "expired",
    "match",
    "no_match",
    "tombstone",
    "expired_lookup",
)
#: Of rates nothing can be compared: they are per second of the wall clock.
_SAME = tuple(metric.name for metric in CATALOGUE if not metric.name.endswith("-rate"))
_BUFFER = "suppression-buffer-"
#: What the driver holds in a buffer and Spark in a table of another kind, without a buffer's metrics.
_NO_BUFFER = ("waits",)


def _records() -> list[Input]:
    """Records of both topics, ``c`` in two partitions; some have no key, one has no time."""
    records = random_records(seed=4, count=120)
    for place in range(7, len(records), 13):
        records[place] = replace(records[place], k=None)
    for place in range(0, len(records), 3):
        records[place] = replace(records[place], partition=int(records[place].topic == "c"))
    records[50] = replace(records[50], ms=None)
    return records


_RECORDS = _records()


def _topology() -> Topology:
    """Every kind of operator, each with something to drop or to ignore if it does so at all."""
    builder = StreamsBuilder()
    stream, other = (builder.stream(topic, name=name, **_SOURCE) for topic, name in (("a", "stream"), ("c", "other")))
    table = builder.table("a", Materialized.key_value("store"), name="table", **_SOURCE)
    stored = Materialized.versioned(millis(120), name="history_store", grace=millis(60), late_policy="side_table")
    history = builder.table("c", stored, name="history", **_SOURCE)
    again = _add_streams(stream, other, table)
    _add_windows(stream, other)
    _add_stream_joins(builder, stream, other, history)
    _add_tables(table, history, again)
    return builder.build()


def _add_streams(stream: KStream, other: KStream, table: KTable) -> KTable:
    stream.filter(lambda value: value.v > "b", name="kept").map_values(lambda value: {"w": value.v}, name="mapped")
    # Whose value is null has no key from here on.
    rekeyed = other.select_key(lambda value: {"k": substring(value.v, 1, 1)}, name="rekeyed")
    again = rekeyed.to_table(Materialized.versioned(millis(80), name="again_store"), name="again")
    again.to_stream(name="back").to_changelog("changes")
    stream.group_by(lambda value: substring(value.v, 1, 1)).count(name="groups")
    table.suppress(Suppressed.until_time_limit(millis(100), BufferConfig.max_records(3)), name="calm")
    return again


def _add_windows(stream: KStream, other: KStream) -> None:
    hopping = TimeWindows.of_size_and_grace("20 milliseconds", "10 milliseconds").advance_by("10 milliseconds")
    windows = stream.group_by_key().windowed_by(hopping, late_policy="side_table").count(name="windows")
    windows.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="final").to_changelog("finals")
    sessions = SessionWindows.of_inactivity_gap_and_grace(millis(25), millis(30))
    # Partitions share one stream time from here on.
    grouped = other.group_by(lambda value: substring(value.v, 1, 1)).windowed_by(sessions).count(name="sessions")
    bounded = BufferConfig.max_records(1000).shut_down_when_full()
    grouped.suppress(Suppressed.until_window_closes(bounded), name="final_sessions")
    sliding = SlidingWindows.of_time_difference_and_grace(millis(20), millis(10))
    stream.group_by_key().windowed_by(sliding).count(name="sliding")
    stream.group_by_key().windowed_by(UnlimitedWindows.of().start_on(100_000)).count(name="unlimited")


def _add_stream_joins(builder: StreamsBuilder, stream: KStream, other: KStream, history: KTable) -> None:
    everywhere = builder.global_table("a", Materialized.key_value("global_store"), name="everywhere", **_SOURCE)
    stream.join(everywhere, sides, key=lambda value: substring(value.v, 1, 1), name="looked_up")
    stream.join(other, sides, windows=JoinWindows(20_000, 20_000, 10_000), name="pairs")
    stream.outer_join(other, sides, windows=JoinWindows(5_000, 5_000, 10_000), name="outer_pairs")
    late = Joined.with_grace_period(millis(20)).with_too_late("side_table").with_on_expired("side_table")
    stream.join(history, sides, joined=late, name="waits")
    remembered = Joined().with_on_expired("side_table").with_corrections(millis(400))
    stream.left_join(history, sides, joined=remembered, name="joined").corrections(name="corrected")


def _add_tables(table: KTable, history: KTable, again: KTable) -> None:
    history.filter(lambda value: value.v > "b", name="view").map_values(
        lambda value: {"w": value.v}, name="mapped_view"
    )
    history.group_by(lambda value: substring(value.v, 1, 1)).count(name="counts")
    history.outer_join(table, sides, name="both")
    history.join(again, sides, history="complete", name="complete")
    points_to = lambda value: when(length(value.v) > 1, substring(value.v, 1, 1)).otherwise(None)  # noqa: E731
    history.join(table, sides, foreign_key=points_to, name="foreign").to_changelog("pointing")
    history.to_latest("latest")


@pytest.fixture(scope="module")
def heard() -> list[list[Row]]:
    """What the listener was told."""
    return []


@pytest.fixture(scope="module")
def reports() -> list[BatchReport]:
    """What the application said after each batch."""
    return []


@pytest.fixture(scope="module")
def logged() -> list[logging.LogRecord]:
    """What was logged meanwhile, at any level."""
    return []


@pytest.fixture(scope="module")
def app(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    heard: list[list[Row]],
    reports: list[BatchReport],
    logged: list[logging.LogRecord],
) -> StreamingApplication:
    """Two batches, with a new application object for the second."""
    folder, topology, half = tmp_path_factory.mktemp("metrics"), _topology(), len(_RECORDS) // 2
    logger, hearing = logging.getLogger("streams"), _Hearing(logged)
    level = logger.level
    logger.addHandler(hearing)
    logger.setLevel(logging.DEBUG)
    for first, records in ((0, _RECORDS[:half]), (half, _RECORDS[half:])):
        write_records(spark, folder, topology, records, first)
        running = application(spark, folder, topology, metrics_level="debug", on_batch=reports.append)
        listener = MetricsListener(running, heard.append)
        spark.streams.addListener(listener)
        running.run()
        deadline = time.monotonic() + 30
        while len(heard) < len(reports) and time.monotonic() < deadline:
            time.sleep(0.2)
        spark.streams.removeListener(listener)
    logger.removeHandler(hearing)
    logger.setLevel(level)
    return running


class _Hearing(logging.Handler):
    def __init__(self, heard: list[logging.LogRecord]) -> None:
        super().__init__()
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(record)


@pytest.fixture(scope="module")
def driver() -> TopologyTestDriver:
    """The test driver after the same records."""
    return _driven(_topology(), _RECORDS)


def _driven(topology: Topology, records: Sequence[Input]) -> TopologyTestDriver:
    driver = TopologyTestDriver(topology)
    for number, record in enumerate(records):
        value = None if record.v is None else {"v": record.v}
        driver.pipe_input(record.topic, record.k, value, record.ts_us, partition=record.partition, offset=number)
    return driver


def _readings(metrics: Sequence[MetricValue]) -> dict[tuple[str, str], float | None]:
    return {(_node(value), value.name): None if value.value is None else round(value.value, 6) for value in metrics}


def _node(value: MetricValue) -> str:
    tags = value.tags
    names = ("processor-node-id", "window-state-id", "session-state-id", "buffer-id")
    return next(tags[tag] for tag in names if tag in tags)


def _summed(reports: Sequence[BatchReport], node: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for report in reports:
        told = {what.partition("."): n for what, n in report.counts.items()}
        total.update({what: n for (name, _, what), n in told.items() if name == node})
    return total


def _counts(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in _COUNTS if counts.get(name)}


@pytest.mark.slow
@pytest.mark.rule("R62")
def test_a_record_is_put_aside_once_however_much_is_wrong_with_it(
    app: StreamingApplication, spark: SparkSession, driver: TopologyTestDriver
) -> None:
    rejects = spark.read.format("delta").load(str(app.table("rejects"))).groupBy("node", "reason").count().collect()
    wanted = Counter((reject.node, reject.reason) for reject in driver.rejects)
    assert {(row["node"], row["reason"]): row["count"] for row in rejects} == dict(wanted)


def test_every_kind_of_operator_is_in_the_plan() -> None:
    assert {type(node) for node in _topology()} == set(OPERATORS)


@pytest.mark.slow
@pytest.mark.rule("R61", "R62")
@pytest.mark.parametrize("node", [node.name for node in _topology()])
def test_a_node_counts_on_spark_what_it_counts_on_the_driver(
    app: StreamingApplication, reports: list[BatchReport], driver: TopologyTestDriver, node: str
) -> None:
    assert len(reports) == 2
    assert _counts(_summed(reports, node)) == _counts(driver.counters(node))


@pytest.mark.slow
def test_every_record_that_reaches_a_node_is_accepted_or_dropped(
    app: StreamingApplication, reports: list[BatchReport]
) -> None:
    for node in _topology():
        counts = _summed(reports, node.name)
        assert counts["input"] == counts["accepted"] + counts["dropped"], node.name
        assert counts["input"] > 0, node.name


def test_the_records_are_such_that_every_count_is_seen(driver: TopologyTestDriver) -> None:
    seen = {what for node in _topology() for what in _counts(driver.counters(node.name))}
    assert seen == set(_COUNTS)


@pytest.mark.slow
@pytest.mark.rule("R61", "R63", "R64", "R66", "R68", "R76", "R77", "R78")
@pytest.mark.rule("R69", "R70", "R71", "R72", "R73", "R74")
@pytest.mark.parametrize("node", [node.name for node in _topology()])
def test_totals_and_gauges_are_the_drivers_across_batches_and_a_restart(
    app: StreamingApplication, reports: list[BatchReport], driver: TopologyTestDriver, node: str
) -> None:
    told, wanted = (_told_of(node, _readings(metrics)) for metrics in (reports[-1].metrics, driver.metrics))
    assert set(told) == set(wanted)
    assert told == wanted


def _told_of(node: str, readings: Mapping[tuple[str, str], float | None]) -> dict[str, float]:
    """What both engines tell of a node and of its store, without what was not measured."""
    names = {name for name in _SAME if not (node in _NO_BUFFER and name.startswith(_BUFFER))}
    owners = (node, _store_of(node))
    return {
        name: value
        for (owner, name), value in readings.items()
        if owner in owners and name in names and value is not None
    }


def _store_of(node: str) -> str:
    materialized = getattr(_topology().node(node), "materialized", None)
    return getattr(materialized, "name", None) or node


@pytest.mark.slow
@pytest.mark.rule("R77", "R78")
@pytest.mark.parametrize("node", ["calm", "final", "final_sessions"])
def test_every_suppression_tells_how_much_longer_it_waits_than_records_are_late(
    app: StreamingApplication, reports: list[BatchReport], node: str
) -> None:
    told = _readings(reports[-1].metrics)
    parts = [told[node, f"intermediate-result-suppression-overtime-{part}"] for part in ("min", "avg")]
    assert None not in parts


#: Nodes with a stream time of their own, of which a record may be late.
_TIMED = (
    nodes.StreamSource, nodes.TableSource, nodes.GlobalTableSource, nodes.ToTable, nodes.StreamTableJoin,
    nodes.StreamStreamJoin, nodes.WindowedAggregate, nodes.Suppress,
)  # fmt: skip


def _has(node: nodes.Node, metric: MetricName) -> bool:
    """Whether a node tells a metric, at the level at which all are told."""
    if metric.kind == "state":
        return isinstance(node, nodes.WindowedAggregate)
    if metric.kind == "buffer" or "overtime" in metric.name:
        return isinstance(node, nodes.Suppress)
    return "lateness" not in metric.name or isinstance(node, _TIMED)


def _place(node: nodes.Node, metric: MetricName) -> tuple[str, tuple[str, str]]:
    """A metric's group, and the tag that tells whose it is."""
    if metric.kind == "state":
        store = "session" if node.name == "sessions" else "window"
        return f"stream-{store}-state-metrics", (f"{store}-state-id", _store_of(node.name))
    if metric.kind == "buffer":
        return "stream-buffer-metrics", ("buffer-id", node.name)
    return "stream-processor-node-metrics", ("processor-node-id", node.name)


@pytest.mark.slow
@pytest.mark.rule("R61", "R63", "R64", "R65", "R66", "R67", "R68", "R69", "R70", "R71", "R72", "R73", "R74")
@pytest.mark.rule("R75", "R76", "R77", "R78")
def test_the_metrics_table_has_a_row_per_batch_node_and_metric_with_exact_names_and_tags(
    app: StreamingApplication,
) -> None:
    rows = [
        (row["batch_id"], row["name"], row["level"], row["group"], frozenset(row["tags"].items()))
        for row in app.metrics().collect()
    ]
    wanted = []
    for node, metric, batch in product(_topology(), CATALOGUE, (0, 1)):
        # Before the first batch there is nothing to count a rate from.
        if _has(node, metric) and not (batch == 0 and metric.name.endswith("-rate")):
            group, whose = _place(node, metric)
            tags = frozenset({("client-id", app.name), ("task-id", "0_0"), whose})
            wanted.append((batch, metric.name, metric.level, group, tags))
    assert Counter(rows) == Counter(wanted)


@pytest.mark.slow
@pytest.mark.rule("R61")
def test_what_all_nodes_counted_is_told_by_a_view(
    spark: SparkSession, app: StreamingApplication, reports: list[BatchReport]
) -> None:
    assert "rolled_totals" in register_table_sql(spark, app.table("ledger"), "rolled")
    by_node = [(name, value or 0) for (_, name), value in _readings(reports[-1].metrics).items()]
    names = {name for name, _ in by_node if name.endswith("-total")}
    wanted = {(app.name, name, sum(value for told, value in by_node if told == name)) for name in names}
    assert {tuple(row) for row in spark.table("rolled_totals").collect()} == wanted
    assert len({value for *_, value in wanted}) > 2


@pytest.mark.slow
@pytest.mark.rule("R65", "R67", "R75")
def test_a_rate_is_what_came_since_the_batch_before_by_the_seconds_since_then(app: StreamingApplication) -> None:
    told = {(r["batch_id"], r["name"], tuple(sorted(r["tags"].items()))): r for r in app.metrics().collect()}
    first, second = (next(row["ts"] for (batch, *_), row in told.items() if batch == number) for number in (0, 1))
    seconds = (second - first).total_seconds()
    assert seconds > 0
    rates = {place: row["value"] for place, row in told.items() if row["name"].endswith("-rate")}
    wanted = {}
    for batch, name, tags in rates:
        total = name.replace("-rate", "-total")
        before = told.get((batch - 1, total, tags))
        since = told[batch, total, tags]["value"] - (0 if before is None else before["value"])
        wanted[batch, name, tags] = pytest.approx(since / seconds)
    assert rates == wanted
    # Before the first batch there is nothing to count from.
    assert {batch for batch, *_ in rates} == {1}
    assert {name for (_, name, _), rate in rates.items() if rate} >= {
        "late-record-drop-rate",
        "expired-window-record-drop-rate",
        "suppression-emit-rate",
    }


@pytest.mark.slow
@pytest.mark.rule("R23")
def test_late_records_are_logged_at_debug_and_nowhere_above(
    app: StreamingApplication, reports: list[BatchReport], logged: list[logging.LogRecord]
) -> None:
    late = [
        (what.removesuffix(".late"), n, report.batch_id)
        for report in reports
        for what, n in report.counts.items()
        if what.endswith(".late") and n
    ]
    assert {"windows", "sessions", "sliding", "history"} <= {node for node, *_ in late}
    wanted = sorted(f"{node}: {n} late records in batch {batch}" for node, n, batch in late)
    assert sorted(said.getMessage() for said in logged if said.levelno == logging.DEBUG) == wanted
    # What is louder tells of look-ups (R142).
    assert {said.name for said in logged if said.levelno > logging.DEBUG} == {"streams.spark.stream_table_join"}


@pytest.mark.slow
@pytest.mark.rule("R62")
def test_late_expired_skipped_and_suppressed_are_four_counts(reports: list[BatchReport], app: object) -> None:
    told = _readings(reports[-1].metrics)
    assert told["windows", "expired-window-record-drop-total"] != told["windows", "late-record-drop-total"]
    for node, seen, unseen in (
        ("unlimited", "skipped-records", "late-record-drop"),
        ("calm", "suppressed-records", "skipped-records"),
        ("pairs", "late-record-drop", "suppressed-records"),
    ):
        assert (told[node, f"{seen}-total"] or 0) > 0
        assert told[node, f"{unseen}-total"] == 0


@pytest.mark.slow
def test_the_listener_hears_what_the_table_holds(
    app: StreamingApplication, heard: list[list[Row]], reports: list[BatchReport]
) -> None:
    assert [len(rows) for rows in heard] == [len(report.metrics) for report in reports]


@pytest.mark.slow
def test_lateness_adds_up_to_a_suggested_grace(app: StreamingApplication, driver: TopologyTestDriver) -> None:
    suggested = app.lateness("windows")
    # Records of the test are at most 300 ms late, and a few times more than that behind the newest.
    counts = driver.counters("windows")
    assert suggested.records == counts["input"] - counts["skipped"]
    assert timedelta(milliseconds=300) <= suggested.grace <= timedelta(seconds=1)
    assert suggested.text.startswith("99.9 % of records within ")


def _small_topology() -> Topology:
    builder = StreamsBuilder()
    stored = Materialized.versioned(millis(40), name="history_store", late_policy="side_table")
    history = builder.table("c", stored, name="history", **_SOURCE)
    history.join(history, sides, foreign_key=lambda value: when(value.v > "b", "a").otherwise(None), name="foreign")
    return builder.build()


@pytest.mark.slow
def test_a_replay_after_a_crash_tells_the_numbers_of_the_first_run(spark: SparkSession, tmp_path: Path) -> None:
    """The batch dies once its tables have landed: what is computed anew from them would be something else."""
    topology, told = _small_topology(), list[BatchReport]()
    write_records(spark, tmp_path, topology, _RECORDS)
    with faults.armed(crash_at("after:history/main")), pytest.raises(StreamingQueryException, match="Crash"):
        application(spark, tmp_path, topology).run()
    running = application(spark, tmp_path, topology, on_batch=told.append)
    running.run()
    driver = _driven(topology, [record for record in _RECORDS if record.topic == "c"])
    for node in topology:
        assert _counts(_summed(told, node.name)) == _counts(driver.counters(node.name)), node.name
    assert [report.rejected for report in told] == [len(driver.rejects)]
    assert spark.read.format("delta").load(str(running.table("rejects"))).count() == len(driver.rejects)
    # A batch of nothing but invalid records puts them aside as well.
    write_records(spark, tmp_path, topology, [Input("c", None, "v", 1)], len(_RECORDS))
    running.run()
    assert (told[-1].rejected, _counts(_summed(told[-1:], "history"))) == (1, {"input": 1, "dropped": 1, "skipped": 1})
    # Without metrics_level="debug" no metric of that level is told.
    assert {row["level"] for row in running.metrics().select("level").distinct().collect()} == {"INFO"}


class _Epochs(StreamingApplication):
    """An application in its second epoch, of which each has a first batch."""

    name, epoch = "app", 2

    def __init__(self, spark: SparkSession) -> None:
        self._rows = spark.createDataFrame(
            [(1, 0, "old"), (2, 0, "new"), (1, 1, "old")], "epoch INT, batch_id LONG, name STRING"
        )

    def metrics(self) -> Any:
        return self._rows


@pytest.mark.parametrize(("batch_id", "told"), [(0, ["new"]), (1, [])])
def test_a_listener_is_told_nothing_of_the_epochs_before(spark: SparkSession, batch_id: int, told: list[str]) -> None:
    heard: list[Row] = []
    event = SimpleNamespace(progress=SimpleNamespace(name="app", batchId=batch_id))
    MetricsListener(_Epochs(spark), heard.extend).onQueryProgress(event)
    assert [row["name"] for row in heard] == told


def _several_results() -> Topology:
    """Nodes of which one record may give several results, into stores that refuse what is older than any other."""
    builder = StreamsBuilder()
    kept = Materialized.versioned("1 hour", grace="0 seconds")
    left, right = (
        builder.table(topic, Materialized.versioned("1 hour", name=f"{topic}_store"), name=topic, **_SOURCE)
        for topic in "ac"
    )

    def pair(one: Any, other: Any) -> Any:
        return {"j": concat(coalesce(one.v, "-"), coalesce(other.v, "-"))}

    pointed = left.join(right, pair, foreign_key=lambda value: value.v, materialized=kept.with_name("fk"), name="fk")
    pointed.to_changelog("fk_out")
    met = left.left_join(right, pair, history="complete", materialized=kept.with_name("met"), name="met")
    met.to_changelog("met_out")
    left.group_by(lambda value: value.v).count(materialized=kept.with_name("by_value"), name="by_value")
    grouped = right.to_stream(name="changes").group_by_key()
    grouped.count(name="counts").suppress(
        Suppressed.until_time_limit(millis(50), BufferConfig.unbounded()), name="calm"
    )
    grouped.windowed_by(TimeWindows.of(millis(20))).count(name="windows")
    return builder.build()


@pytest.fixture(scope="module")
def several() -> Sequence[Input]:
    keys = [Input("a", key, "x", 100) for key in "abcx"]
    moved = [Input("a", "f", "w", 900), Input("a", "a", "y", 150), Input("a", "e", "x", 900)]
    return [*keys, Input("c", "x", "1", 100), *moved, Input("c", "x", "2", 150)]


@pytest.fixture(scope="module")
def at_info(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, several: Sequence[Input]
) -> tuple[StreamingApplication, list[BatchReport]]:
    """One batch at the default level, and what it said."""
    plan, folder, said = _several_results(), tmp_path_factory.mktemp("info"), list[BatchReport]()
    app = application(spark, folder, plan, on_batch=said.append)
    write_records(spark, folder, plan, several, 0)
    app.run()
    return app, said


@pytest.mark.slow
@pytest.mark.rule("R61", "R65", "R66", "R67", "R68", "R77", "R78")
def test_at_info_a_node_tells_what_it_dropped_and_no_lateness_nor_what_is_made_of_it(
    at_info: tuple[StreamingApplication, list[BatchReport]],
) -> None:
    always = {f"{what}-total" for what in ("late-record-drop", "skipped-records", "dropped-records")}
    wanted = dict.fromkeys((node.name for node in _several_results()), always)
    wanted["windows"] = always | {"expired-window-record-drop-total"}
    told = [(_node(value), value.name) for value in at_info[1][0].metrics]
    assert sorted(told) == sorted((node, name) for node, names in wanted.items() for name in names)


@pytest.mark.rule("R62")
def test_of_several_results_of_a_record_some_may_be_refused_and_the_record_is_accepted(
    at_info: tuple[StreamingApplication, list[BatchReport]], several: Sequence[Input]
) -> None:
    driver = TopologyTestDriver(_several_results())
    for record in several:
        driver.pipe_input(record.topic, record.k, {"v": record.v}, record.ms * 1_000)
    for node in ("fk", "met", "by_value"):
        told = _counts(_summed(at_info[1], node))
        assert told == _counts(driver.counters(node)), node
        assert told["accepted"] + told.get("dropped", 0) == told["input"], node
    assert all(driver.counters(node)["late"] > 1 for node in ("fk", "by_value"))
