"""Suppression buffers on Spark: the wall clock, full buffers, draining, and taking suppressions in and out."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from both_engines import Input, application, on_driver, on_spark, sink_rows, write_records
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.spark.doctor import examine
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig, StrictBufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows
from versioned.errors import ConfigurationError

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_UNBOUNDED = BufferConfig.unbounded()


def _limited(suppressed: Suppressed, name: str = "calm") -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", Materialized.key_value("latest"), name="table", **_SOURCE)
    table.suppress(suppressed, name=name).to_changelog("out")
    return builder.build()


def _rows(spark: SparkSession, app: StreamingApplication, table: str) -> list[tuple[object, ...]]:
    frame = spark.read.format("delta").load(str(app.table(table)))
    return sorted(tuple(row) for row in frame.select("k", "v").collect())


def _ledger_batches(spark: SparkSession, app: StreamingApplication) -> int:
    return spark.read.format("delta").load(str(app.table("ledger"))).count()


@pytest.mark.rule("R112", "R115", "R118", "R119", "R122", "R123", "R126")
def test_a_row_leaves_by_the_wall_clock_though_no_input_comes(spark: SparkSession, tmp_path: Path) -> None:
    topology = _limited(Suppressed.until_wall_clock_time_limit("3 seconds", _UNBOUNDED))
    app = application(spark, tmp_path, topology)
    write_records(spark, tmp_path, topology, [Input("in", "a", "x", 1), Input("in", "a", "y", 2)])
    app.run()
    before, batches = _rows(spark, app, "out"), _ledger_batches(spark, app)
    time.sleep(3)
    app.run()
    assert (before, _rows(spark, app, "out")) == ([], [("a", "y")])
    # One more tick: nothing is due any more, so nothing is written.
    app.run()
    assert _ledger_batches(spark, app) == batches + 1


@pytest.mark.slow
@pytest.mark.rule("R116", "R118")
def test_a_limit_by_the_wall_clock_that_is_switched_on_later_holds_without_input(
    spark: SparkSession, tmp_path: Path
) -> None:
    topology = _limited(Suppressed.until_time_limit("1 hour", _UNBOUNDED))
    write_records(spark, tmp_path, topology, [Input("in", "a", "x", 1)])
    application(spark, tmp_path, topology).run()
    limited = application(spark, tmp_path, topology, suppressed_record_retention="1 millisecond")
    limited.run()
    assert _rows(spark, limited, "out") == [("a", "x")]


@pytest.mark.rule("R114", "R120", "R124", "R125")
def test_a_running_query_emits_within_the_limit_a_trigger_and_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    topology = _limited(Suppressed.until_wall_clock_time_limit("4 seconds", _UNBOUNDED))
    app = application(spark, tmp_path, topology)
    write_records(spark, tmp_path, topology, [Input("in", "a", "x", 1)])
    query = app.start("1 second")
    try:
        deadline = time.monotonic() + 120
        while _ledger_batches(spark, app) < 2 and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        query.stop()
    assert _rows(spark, app, "out") == [("a", "x")]
    ledger = spark.read.format("delta").load(str(app.table("ledger"))).orderBy("batch_id")
    first, second = (row for row in ledger.select("clock", "seconds", "input").collect())
    waited = (second["clock"] - first["clock"]).total_seconds()
    assert second["input"] == 0
    assert 4 <= waited <= 4 + first["seconds"] + second["seconds"] + 3


@pytest.mark.rule("R47")
def test_a_full_strict_buffer_commits_nothing_and_goes_on_with_a_larger_bound(
    spark: SparkSession, tmp_path: Path
) -> None:
    def plan(bound: int) -> Topology:
        strict = StrictBufferConfig(max_records=bound).shut_down_when_full()
        return _limited(Suppressed.until_time_limit("1 second", strict))

    records = [Input("in", key, "x", 1) for key in "abc"]
    app = application(spark, tmp_path, plan(2))
    write_records(spark, tmp_path, plan(2), records)
    with pytest.raises(StreamingQueryException) as failure:
        app.run()
    message = str(failure.value)
    assert all(part in message for part in ("calm", "3 of 2 records", "Raise the bound", "shorten the grace", "spill"))
    assert _ledger_batches(spark, app) == 0
    assert spark.read.format("delta").load(str(app.table("latest"))).count() == 0
    larger = application(spark, tmp_path, plan(3))
    write_records(spark, tmp_path, plan(3), [Input("in", "d", "y", 2000)], first=3)
    larger.run()
    assert _rows(spark, larger, "out") == [("a", "x"), ("b", "x"), ("c", "x")]


def test_a_key_with_a_field_that_is_called_like_a_column_of_the_buffer_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", name="in", **_SOURCE).group_by(lambda value: {"size": value.v}).count(name="counts")
    counts.suppress(Suppressed.until_time_limit("1 hour", _UNBOUNDED), name="calm").to_changelog("out")
    with pytest.raises(StreamingQueryException, match=r"of .calm. would have \['size'\] twice"):
        on_spark(spark, tmp_path, builder.build(), [Input("in", "a", "x", 1)], [1])


@pytest.mark.rule("R48")
def test_a_spilling_buffer_holds_ten_times_its_bound_and_tells_what_an_unbounded_one_tells(
    spark: SparkSession, tmp_path: Path
) -> None:
    spilling = BufferConfig.max_records(5).spill_to_disk_when_full()
    records = [Input("in", f"k{number % 50}", f"v{number}", number) for number in range(120)]
    topology = _limited(Suppressed.until_time_limit("60 ms", spilling))
    wanted = on_driver(_limited(Suppressed.until_time_limit("60 ms", _UNBOUNDED)), records)
    assert sink_rows(spark, on_spark(spark, tmp_path, topology, records, [55, 120]), topology) == wanted


@pytest.mark.slow
@pytest.mark.rule("R57", "R58", "R59")
def test_a_suppression_comes_in_without_a_reset_and_leaves_only_when_it_is_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    suppressed = Suppressed.until_time_limit("1 hour", _UNBOUNDED)
    builder = StreamsBuilder()
    builder.table("in", Materialized.key_value("latest"), name="table", **_SOURCE).to_changelog("out")
    plain = builder.build()
    write_records(spark, tmp_path, plain, [Input("in", "a", "x", 1)])
    without = application(spark, tmp_path, plain)
    without.run()
    with_it = application(spark, tmp_path, _limited(suppressed))
    write_records(spark, tmp_path, plain, [Input("in", "b", "y", 2)], first=1)
    with_it.run()
    assert _rows(spark, with_it, "latest") == [("a", "x"), ("b", "y")]
    assert _rows(spark, with_it, "out") == [("a", "x")]
    with pytest.raises(ConfigurationError, match=r'1 rows wait in the table "calm".*drain'):
        application(spark, tmp_path, plain).start()
    (told,) = examine(application(spark, tmp_path, plain)).findings
    assert (told.rule, told.is_wrong, '1 rows wait in the table "calm"' in told.found) == ("plan-refused", True, True)
    with_it.drain("calm")
    assert _rows(spark, with_it, "out") == [("a", "x"), ("b", "y")]
    application(spark, tmp_path, plain).run()


@pytest.mark.rule("R117")
def test_an_idle_window_is_closed_by_the_wall_clock_once_and_takes_no_more_records(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", name="in", **_SOURCE).group_by_key().windowed_by(TimeWindows.of("1 minute"))
    table = counts.count(name="counts")
    # The first to close a window closes it for all that suppress the table.
    for name, retention in (("out", "2 seconds"), ("slow", "1 hour")):
        final = Suppressed.until_window_closes(_UNBOUNDED, close_idle=True, retention=retention)
        table.suppress(final, name=f"{name}_final").to_changelog(name)
    topology = builder.build()
    app = application(spark, tmp_path, topology)
    write_records(spark, tmp_path, topology, [Input("in", "a", "x", 1000)])
    app.run()
    time.sleep(2)
    app.run()
    # A late-comer of the window that the clock closed, then a record that closes it by stream time as well.
    write_records(spark, tmp_path, topology, [Input("in", "a", "y", 2000), Input("in", "b", "z", 70_000)], first=1)
    app.run()
    closed = {sink: [value for _, value, _ in told] for sink, told in sink_rows(spark, app, topology).items()}
    assert closed == {"out": [(1, "wall_clock")], "slow": [(1, "stream_time")]}
    counts_told = spark.read.format("delta").load(str(app.table("ledger"))).orderBy("batch_id").collect()[-1]["counts"]
    assert counts_told["counts.late"] == 1


@pytest.mark.slow
def test_joins_see_of_final_results_those_that_are_final(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of(timedelta(milliseconds=10))
    counts = builder.stream("in", name="in", **_SOURCE).group_by_key().windowed_by(windows).count(name="counts")
    final = counts.suppress(Suppressed.until_window_closes(_UNBOUNDED), name="final")
    several = final.filter(lambda value: value.count > 1, name="several")
    final.to_stream(name="told").left_join(several, _pair, name="streamed").to_changelog("out_stream")
    counts.left_join(final, _pair, name="beside").to_changelog("out_table")
    topology = builder.build()
    records = [
        Input("in", "a", "x", 1),
        Input("in", "a", "x", 3),
        Input("in", "b", "x", 12),
        Input("in", "a", "x", 13),
        Input("in", "c", "x", 25),
        Input("in", "c", "x", 38),
    ]
    told = sink_rows(spark, on_spark(spark, tmp_path, topology, records, [4, 6]), topology)
    assert told == on_driver(topology, records)
    assert all(told.values())


def _pair(left: Any, right: Any) -> Any:
    return {"left": left.count, "right": right.count}
