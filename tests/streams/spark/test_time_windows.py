"""Time windows on Spark tell results, late records and expired windows as the driver does.

The records come by arrival, in pieces, so that stream time is read off their places.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from both_engines import Input, application, on_driver, on_spark, sink_rows, write_records
from pyspark.sql import SparkSession
from random_plans import random_records

from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication, places
from streams.spark.window_upkeep import (
    check_windows,
    optimize_windows,
    purge_windows,
    window_results_properties,
    window_store_properties,
)
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, Windows
from versioned import faults
from versioned import spark_functions as F
from versioned.commit import Append, commit
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.making import make_table
from versioned.schema import columns_of, create_plain
from versioned.table_details import properties_of
from versioned.upkeep import vacuum

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
#: A record whose longer windows would start before any instant that tables hold.
_EARLY = Input("a", "a", "early", FIRST_INSTANT_US // 1000 + 2 * 86_400_000)
#: The last hour: longer windows would end behind the last instant.
_LATEST = Input("a", "a", "latest", LAST_INSTANT_US // 1000 - 3_600_000)
_GRACE = timedelta(milliseconds=20)
_RETENTION = timedelta(milliseconds=100)
_WINDOWS: dict[str, Windows] = {
    "tumbling": TimeWindows.of_size_and_grace("40 milliseconds", _GRACE),
    "hopping": TimeWindows.of_size_and_grace("40 milliseconds", _GRACE).advance_by("10 milliseconds"),
    "uneven": TimeWindows.of_size_and_grace("25 milliseconds", _GRACE).advance_by("10 milliseconds"),
    "session": SessionWindows.of_inactivity_gap_and_grace("25 milliseconds", _GRACE),
    "sliding": SlidingWindows.of_time_difference_and_grace("25 milliseconds", _GRACE),
}
_LONGER: dict[str, Windows] = {
    "long_hopping": TimeWindows.of("4 days").advance_by("1 day"),
    "long_sliding": SlidingWindows.of_time_difference_with_no_grace("3 days"),
}


def _topology() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("a", name="stream", **_SOURCE)
    for name, windows in _WINDOWS.items():
        counted = stream.group_by_key().windowed_by(windows, late_policy="side_table").count(name=name)
        counted.to_stream().to_changelog(f"{name}_out")
    for name, windows in _LONGER.items():
        stream.group_by_key().windowed_by(windows).count(name=name).to_changelog(f"{name}_out")
    stored = Materialized.window_store("short", _RETENTION)
    stream.group_by_key().windowed_by(_WINDOWS["tumbling"]).count(materialized=stored)
    return builder.build()


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamingApplication:
    folder = tmp_path_factory.mktemp("windows")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places, "_MANY", 1)
        return on_spark(
            spark, folder, _topology(), _records(), [21, 62], by_arrival=True, max_future_skew=timedelta.max
        )


@pytest.fixture(scope="module")
def told(spark: SparkSession, app: StreamingApplication) -> dict[str, dict[str, int]]:
    """The ledger's counts, with the rejects of each node beside them."""
    counts: dict[str, dict[str, int]] = {name: {} for name in _WINDOWS}
    for (row,) in spark.read.format("delta").load(str(app.table("ledger"))).select("counts").collect():
        for full, n in row.items():
            node, what = full.split(".", 1)
            if node in counts:
                counts[node][what] = counts[node].get(what, 0) + n
    rejects = spark.read.format("delta").load(str(app.table("rejects"))).where("reason = 'LATE'")
    for row in rejects.groupBy("node").count().collect():
        counts[row["node"]]["aside"] = row["count"]
    return counts


def _records() -> list[Input]:
    return [_EARLY, *random_records(seed=11, count=60), _LATEST]


@pytest.mark.slow
@pytest.mark.rule("R10", "R13")
def test_results_are_those_of_the_driver(spark: SparkSession, app: StreamingApplication) -> None:
    wanted = on_driver(_topology(), [record for record in _records() if record.topic == "a"])
    got = sink_rows(spark, app, _topology())
    assert {sink for sink in wanted if got[sink] != wanted[sink]} == set()
    assert all(wanted.values())


@pytest.mark.slow
@pytest.mark.rule("R10", "R13", "R62")
@pytest.mark.parametrize("name", _WINDOWS)
def test_late_records_and_expired_windows_are_counted_apart(told: dict[str, dict[str, int]], name: str) -> None:
    driver = TopologyTestDriver(_topology())
    for record in _records():
        if record.topic == "a":
            driver.pipe_input("a", record.k, None if record.v is None else {"v": record.v}, record.ms * 1000)
    wanted = driver.counters(name)
    assert wanted["late"] > 0
    got = (told[name]["late"], told[name]["expired"], told[name]["aside"])
    assert got == (wanted["late"], wanted["expired"], wanted["late"])


@pytest.mark.slow
@pytest.mark.parametrize(("record", "reason"), [(_EARLY, "BEFORE_WINDOWS"), (_LATEST, "AFTER_WINDOWS")])
def test_a_record_with_a_window_outside_the_time_of_tables_is_put_aside_as_by_the_driver(
    spark: SparkSession, app: StreamingApplication, record: Input, reason: str
) -> None:
    driver = TopologyTestDriver(_topology())
    driver.pipe_input("a", record.k, {"v": record.v}, record.ms * 1000)
    wanted = {(reject.node, reject.reason) for reject in driver.rejects}
    rejects = spark.read.format("delta").load(str(app.table("rejects"))).where(f"reason = '{reason}'")
    assert {tuple(row) for row in rejects.select("node", "reason").collect()} == wanted
    assert wanted == {(node, reason) for node in _LONGER}


def _windows(spark: SparkSession, app: StreamingApplication, table: str) -> list[tuple[int, int, bool]]:
    rows = spark.read.format("delta").load(str(app.table(table)))
    told = rows.selectExpr("unix_millis(windowStart)", "unix_millis(windowEnd)", "_open")
    return sorted(tuple(row) for row in told.collect())


@pytest.mark.slow
@pytest.mark.rule("R20")
def test_upkeep_deletes_windows_that_ended_before_the_retention_of_their_store(
    spark: SparkSession, app: StreamingApplication
) -> None:
    before = _windows(spark, app, "short")
    horizon = max(record.ms for record in _records()) - 100
    kept = [(start, end, is_open) for start, end, is_open in before if is_open or end >= horizon]
    assert before != kept
    assert purge_windows(spark, app.table("short")) is not None
    assert _windows(spark, app, "short") == kept
    assert purge_windows(spark, app.table("short")) is None


@pytest.mark.rule("R20")
@pytest.mark.parametrize("upkeep", [(), (vacuum,)], ids=["at once", "behind a vacuum"])
def test_a_window_that_reaches_into_the_retention_stays(
    upkeep: tuple[Callable[[SparkSession, TableRef], None], ...], spark: SparkSession, tmp_path: Path
) -> None:
    target = TableRef.parse(f"{tmp_path}/sessions")
    ends = spark.createDataFrame([(0, 575), (0, 149), (0, 150)], "first INT, last INT")
    instants = (F.timestamp_millis(ms).alias(name) for ms, name in (("first", "windowStart"), ("last", "windowEnd")))
    rows = ends.select(*instants, F.lit(0).alias("_scope"), F.lit(False).alias("_open"))
    stored = window_store_properties("visits", 500_000, repr(SessionWindows.of("30 milliseconds")))
    make_table(spark, target, create_plain(target, rows.schema, properties=stored))
    commit(target, lambda: Append(rows), None, {"report": {"visits": {"times": {"0": 650_000}}}})
    for looks_after in upkeep:
        looks_after(spark, target)
    assert purge_windows(spark, target) is not None
    left = spark.read.format("delta").load(str(target.path)).selectExpr("unix_millis(windowEnd)").collect()
    assert sorted(end for (end,) in left) == [150, 575]


def _results(spark: SparkSession, folder: Path) -> TableRef:
    """An empty table of what a suppression of windows lets out; it keeps 500 ms."""
    target, said = TableRef.parse(f"{folder}/final_emitted"), window_results_properties("final", 500_000)
    make_table(spark, target, create_plain(target, columns_of("windowEnd TIMESTAMP"), properties=said))
    return target


def _add_results(spark: SparkSession, target: TableRef, ends_ms: tuple[int, ...], times: dict[str, int]) -> None:
    """Results of windows with these ends, behind which the stream times by partition are these, in microseconds."""
    ends = spark.createDataFrame([(end,) for end in ends_ms], "ms LONG")
    rows = ends.select(F.timestamp_millis("ms").alias("windowEnd"))
    commit(target, lambda: Append(rows), None, {"report": {"final": {"times": times}}})


@pytest.mark.rule("R20")
def test_results_of_windows_beyond_the_retention_are_purged_by_the_slowest_partition(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = _results(spark, tmp_path)
    _add_results(spark, target, (149, 150), {"0": 900_000, "1": 650_000})
    assert purge_windows(spark, target) is not None
    left = spark.read.format("delta").load(str(target.path))
    assert [end for (end,) in left.selectExpr("unix_millis(windowEnd)").collect()] == [150]
    assert purge_windows(spark, target) is None


@pytest.mark.rule("R20")
def test_a_purge_removes_no_results_of_a_partition_that_comes_while_it_is_under_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = _results(spark, tmp_path)

    def batch(point: str) -> None:
        # The purge has looked already, and not yet written.
        with faults.armed(lambda _point: None):
            _add_results(spark, target, (149,), {"0": 900_000, "1": 200_000})

    _add_results(spark, target, (149,), {"0": 900_000})
    with faults.armed(batch):
        purge_windows(spark, target)
    assert spark.read.format("delta").load(str(target.path)).count() == 2


@pytest.mark.slow
@pytest.mark.rule("R20")
def test_what_final_results_let_out_is_kept_as_long_as_the_plan_says_of_their_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_records(spark, tmp_path, _looked_up(None), [Input("a", "a", "x", ms) for ms in (0, 1_000, 1_500)])
    for retention, left in ((None, [100, 1_100]), ("500 milliseconds", [1_100])):
        app = application(spark, tmp_path, _looked_up(retention))
        app.run()
        if retention is not None:
            write_records(spark, tmp_path, app.topology, [Input("a", "b", "x", 1_550)], 3)
            app.run()
        done = purge_windows(spark, app.table("final_emitted"))
        rows = spark.read.format("delta").load(str(app.table("final_emitted")))
        ends = sorted(end for (end,) in rows.selectExpr("unix_millis(windowEnd)").collect())
        assert (ends, done is None) == (left, retention is None)


def _looked_up(retention: str | None) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("a", name="stream", **_SOURCE).group_by_key()
    stored = None if retention is None else Materialized.window_store("counts", retention)
    counts = grouped.windowed_by(TimeWindows.of("100 milliseconds")).count(name="counts", materialized=stored)
    final = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="final")
    counts.join(final, lambda count, told: told, name="both").to_changelog("out")
    return builder.build()


@pytest.mark.slow
def test_the_files_of_closed_windows_are_compacted_and_those_of_open_ones_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = TableRef.parse(f"{tmp_path}/visits")
    rows = spark.sql("SELECT timestamp_millis(0) AS windowStart, timestamp_millis(9) AS windowEnd, 0 AS _scope")
    said = window_store_properties("visits", 500_000, repr(TimeWindows.of("9 milliseconds")))
    columns = rows.withColumn("_open", F.lit(False)).schema
    make_table(spark, target, create_plain(target, columns, partitioned_by=("_open",), properties=said))
    for is_open in (False, False, False, True, True):
        added = rows.withColumn("_open", F.lit(is_open))
        commit(target, lambda added=added: Append(added), None, {"report": {"visits": {"times": {"0": 650_000}}}})
    assert not optimize_windows(spark, target, 6)
    assert optimize_windows(spark, target, 5)
    files = spark.read.format("delta").load(str(target.path)).inputFiles()
    assert sorted("_open=true" in file for file in files) == [False, True, True]
    assert purge_windows(spark, target) is not None
    assert not optimize_windows(spark, TableRef.parse(_plain(spark, tmp_path)), 0)


def _plain(spark: SparkSession, folder: Path) -> str:
    """A table that is no window store."""
    spark.range(1).write.format("delta").save(str(folder / "plain"))
    return str(folder / "plain")


@pytest.mark.slow
@pytest.mark.rule("R21")
def test_a_window_store_without_a_retention_keeps_every_final_window(
    spark: SparkSession, app: StreamingApplication
) -> None:
    assert any(not is_open for *_, is_open in _windows(spark, app, "tumbling"))
    assert purge_windows(spark, app.table("tumbling")) is None


@pytest.mark.rule("R20", "R21")
def test_a_store_follows_a_plan_with_another_retention_and_refuses_other_windows(
    spark: SparkSession, tmp_path: Path
) -> None:
    target, hourly = TableRef.parse(f"{tmp_path}/hourly"), repr(TimeWindows.of("1 hour"))
    columns = spark.range(0).schema
    make_table(spark, target, create_plain(target, columns, properties=window_store_properties("hourly", 5, hourly)))
    for retention_us in (7, None, 9):
        check_windows(spark, target, properties_of(spark, target), hourly, retention_us)
        own = {name: said for name, said in properties_of(spark, target).items() if name.startswith("versioned.")}
        assert own == window_store_properties("hourly", retention_us, hourly)
    before = list((tmp_path / "hourly" / "_delta_log").iterdir())
    told = properties_of(spark, target)
    check_windows(spark, target, told, hourly, 9)
    with pytest.raises(ConfigurationError, match="the former windows and grace"):
        check_windows(spark, target, told, repr(TimeWindows.of("1 hour").grace("1 day")), 9)
    scoped = window_store_properties("hourly", 9, hourly, "partition")
    with pytest.raises(ConfigurationError, match="the former scope"):
        check_windows(spark, target, scoped, hourly, 9, "store")
    sessions = repr(SessionWindows.of("10 milliseconds"))
    stepped = window_store_properties("hourly", 9, sessions, close_wait_us=10_001)
    with pytest.raises(ConfigurationError, match=r"10001 microseconds .* it is 11000.* the former resolution"):
        check_windows(spark, target, stepped, sessions, 9, close_wait_us=11_000)
    assert list((tmp_path / "hourly" / "_delta_log").iterdir()) == before
