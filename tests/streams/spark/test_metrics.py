"""The metrics of KIP-328 on Spark: exact names, the driver's numbers, and totals that outlive a restart."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from both_engines import Input, application, write_records
from pyspark.sql import Row, SparkSession
from random_plans import random_records

from streams.metrics import CATALOGUE, MetricValue
from streams.nodes import Materialized, Topology
from streams.spark import BatchReport, MetricsListener, StreamingApplication
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_RECORDS = [record for record in random_records(seed=4, count=80) if record.topic == "a"]
_NODES = ("windows", "calm", "joined", "table")
_SAME = (
    "late-record-drop-total",
    "expired-window-record-drop-total",
    "suppression-emit-total",
    "suppressed-records-total",
    "skipped-records-total",
    "record-lateness-avg",
    "record-lateness-max",
    "suppression-buffer-size-current",
    "suppression-buffer-size-max",
    "suppression-buffer-count-current",
    "suppression-buffer-count-max",
    "intermediate-result-suppression-overtime-min",
    "intermediate-result-suppression-overtime-avg",
)


def _topology() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", name="stream", **_SOURCE)
    table = builder.table("a", Materialized.key_value("store"), name="table", **_SOURCE)
    windows = TimeWindows.of_size_and_grace("20 milliseconds", "10 milliseconds").advance_by("10 milliseconds")
    stream.group_by_key().windowed_by(windows).count(name="windows").to_changelog("counts")
    wait, bound = timedelta(milliseconds=100), BufferConfig.max_records(3)
    table.suppress(Suppressed.until_time_limit(wait, bound), name="calm").to_changelog("calmed")
    stream.left_join(table, lambda left, right: {"j": right.v}, name="joined").to_changelog("pairs")
    return builder.build()


@pytest.fixture(scope="module")
def heard() -> list[list[Row]]:
    """What the listener was told."""
    return []


@pytest.fixture(scope="module")
def reports() -> list[BatchReport]:
    """What the application said after each batch."""
    return []


@pytest.fixture(scope="module")
def app(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    heard: list[list[Row]],
    reports: list[BatchReport],
) -> StreamingApplication:
    """Two batches, with a new application object for the second."""
    folder, topology, half = tmp_path_factory.mktemp("metrics"), _topology(), len(_RECORDS) // 2
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
    return running


def _driver() -> dict[tuple[str, str], float | None]:
    driver = TopologyTestDriver(_topology())
    for record in _RECORDS:
        driver.pipe_input("a", record.k, None if record.v is None else {"v": record.v}, record.ms * 1000)
    return {(_node(value), value.name): value.value for value in driver.metrics}


def _node(value: MetricValue) -> str:
    tags = value.tags
    return next(tags[tag] for tag in ("processor-node-id", "window-state-id", "buffer-id") if tag in tags)


@pytest.mark.rule("R61", "R63", "R64", "R66", "R68", "R69", "R71", "R72", "R74", "R76", "R77", "R78")
def test_totals_and_gauges_are_the_drivers_across_batches_and_a_restart(
    app: StreamingApplication, reports: list[BatchReport]
) -> None:
    assert len(reports) == 2
    told = {(_node(value), value.name): value.value for value in reports[-1].metrics}
    wanted = {key: n for key, n in _driver().items() if n and key[0] in _NODES and key[1] in _SAME}
    assert {key: round(told.get(key) or 0, 6) for key in wanted} == {key: round(n or 0, 6) for key, n in wanted.items()}


@pytest.mark.rule("R61", "R65", "R67", "R70", "R73", "R75")
def test_the_metrics_table_has_exact_names_and_a_row_per_node(app: StreamingApplication) -> None:
    rows = app.metrics().select("name", "level", "group").distinct().collect()
    catalogue = {(metric.name, metric.level) for metric in CATALOGUE}
    assert {(row["name"], row["level"]) for row in rows} <= catalogue
    rates = {"late-record-drop-rate", "expired-window-record-drop-rate", "suppression-emit-rate"}
    averages = {"suppression-buffer-size-avg", "suppression-buffer-count-avg"}
    assert rates | averages <= {row["name"] for row in rows}
    assert "stream-window-state-metrics" in {row["group"] for row in rows}


@pytest.mark.rule("R62")
def test_late_expired_skipped_and_suppressed_are_four_counts(reports: list[BatchReport], app: object) -> None:
    told = {(_node(value), value.name): value.value for value in reports[-1].metrics}
    assert told["windows", "expired-window-record-drop-total"] != told["windows", "late-record-drop-total"]
    assert told["windows", "skipped-records-total"] == 0
    assert (told["calm", "suppressed-records-total"] or 0) > 0


def test_the_listener_hears_what_the_table_holds(
    app: StreamingApplication, heard: list[list[Row]], reports: list[BatchReport]
) -> None:
    assert [len(rows) for rows in heard] == [len(report.metrics) for report in reports]


def test_lateness_adds_up_to_a_suggested_grace(app: StreamingApplication) -> None:
    suggested = app.lateness("windows")
    # Records of the test are at most 300 ms late, and a few times more than that behind the newest.
    assert suggested.records == len(_RECORDS)
    assert timedelta(milliseconds=300) <= suggested.grace <= timedelta(seconds=1)
    assert suggested.text.startswith("99.9 % of records within ")


def test_the_level_info_writes_no_debug_metric(spark: SparkSession, tmp_path: Path) -> None:
    topology = _topology()
    write_records(spark, tmp_path, topology, [Input("a", "x", "v", 1)])
    running = application(spark, tmp_path, topology)
    running.run()
    assert {row["level"] for row in running.metrics().select("level").distinct().collect()} == {"INFO"}
