"""Suppression buffers on Spark: the wall clock, full buffers, draining, and taking suppressions in and out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from both_engines import Input, application, on_driver, on_spark, sink_rows, sinks, write_records
from crashing import crash_at
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.spark import started_query as running
from streams.spark import suppress as suppressing
from streams.spark.arrival import Arrived, arrived
from streams.spark.doctor import examine
from streams.spark.engine import operators_of
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, Windows
from versioned import faults
from versioned.errors import ConfigurationError, TopologyError
from versioned.identifiers import TableRef

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


#: Windows that hold the minute and a half.
_WINDOWS: dict[str, Windows] = {
    "tumbling": TimeWindows.of("1 minute"),
    "hopping": TimeWindows.of("1 minute").advance_by("30 seconds"),
    "session": SessionWindows.of("30 seconds"),
    "sliding": SlidingWindows.of_time_difference_with_no_grace("30 seconds"),
}
#: What the wall clock says at a batch, in milliseconds after the first, and what comes in it.
_Step = tuple[int, tuple[Input, ...]]
_STEPS: tuple[_Step, ...] = (
    (0, (Input("in", "a", "x", 1), Input("events", "a", "x", 90_000))),
    (2_000, (Input("in", "a", "y", 2), Input("in", "b", "z", 3))),
    # The first value of "a" has waited for three seconds, and so have the windows.
    (3_000, ()),
    (3_500, ()),
    # A late-comer of windows that the clock closed, one of windows of which it closed some, one that ends them all.
    (
        4_000,
        (Input("events", "a", "x", 90_000), Input("events", "a", "x", 125_000), Input("events", "b", "x", 400_000)),
    ),
    # Late-comers of windows that stream time has closed.
    (4_100, (Input("events", "a", "x", 130_000), Input("events", "c", "x", 130_000))),
)
#: When records come by the wall clock, and their own time, in milliseconds: what is held leaves as a window is due.
_DUE_TOGETHER = ((0, 1), (3_000, 2), (6_000, 3), (9_000, 90_000), (12_000, 90_001), (15_000, 90_002), (18_000, 200_000))
_REFUSALS = ("late", "expired", "dropped")
_START_US = 1_700_000_000_000_000
#: Of the application; a suppression may have its own.
_RETENTION = "3 seconds"
#: A sink's rows: when by the wall clock, in milliseconds after the first batch; key, value, microseconds.
_Timed = list[tuple[int, Any, Any, int]]
#: By table its windows: key, count, start, end, newest time.
_Stored = dict[str, list[tuple[Any, ...]]]


def _by_the_clock(kinds: Sequence[str]) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", Materialized.key_value("latest"), name="table", **_SOURCE)
    for name, buffer in (("calm", _UNBOUNDED), ("tight", BufferConfig.max_records(1))):
        limit = Suppressed.until_wall_clock_time_limit("3 seconds", buffer)
        table.suppress(limit, name=name).to_changelog(f"{name}_out")
    # Of event time, which does not go on by itself: one by the application's retention, one by its own.
    for name, retention in (("rare", None), ("held", "1 hour")):
        by_events = Suppressed.until_time_limit("1 hour", _UNBOUNDED, retention=retention)
        table.suppress(by_events, name=name).to_changelog(f"{name}_out")
    grouped = builder.stream("events", name="stream", **_SOURCE).group_by_key()
    counts = {name: grouped.windowed_by(_WINDOWS[name]).count(name=name) for name in kinds}
    for name, windowed in counts.items():
        final = Suppressed.until_window_closes(_UNBOUNDED, close_idle=True, retention="3 seconds")
        windowed.suppress(final, name=f"{name}_final").to_changelog(f"{name}_out")
    # The first to close a window closes it for all that suppress the table.
    slow = Suppressed.until_window_closes(_UNBOUNDED, close_idle=True, retention="1 hour")
    counts[kinds[0]].suppress(slow, name="slow_final").to_changelog("slow_out")
    plain = Suppressed.until_window_closes(_UNBOUNDED)
    counts[kinds[0]].suppress(plain, name="plain_final").to_changelog("plain_out")
    return builder.build()


@dataclass(frozen=True)
class _Clocked:
    """What both engines have told after all steps; the window tables before the last one and after it."""

    kinds: tuple[str, ...]
    driver: TopologyTestDriver
    wanted: dict[str, _Timed]
    told: dict[str, _Timed]
    before: _Stored
    after: _Stored
    ledger: list[Row]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("tumbling",), id="tumbling", marks=pytest.mark.slow),
        pytest.param(("hopping", "session", "sliding"), id="other windows", marks=pytest.mark.slow),
    ],
)
def clocked(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> _Clocked:
    folder, topology = tmp_path_factory.mktemp("clocked"), _by_the_clock(request.param)
    app = application(spark, folder, topology, suppressed_record_retention=_RETENTION)
    _run_steps(spark, app, folder, _STEPS[:-1])
    before = _stored_windows(spark, app, request.param)
    _run_steps(spark, app, folder, _STEPS[-1:], sum(len(records) for _, records in _STEPS[:-1]))
    ledger = _ledger(spark, app)
    told, after = _timed_rows(spark, app, ledger), _stored_windows(spark, app, request.param)
    return _Clocked(request.param, *_driven(topology, _STEPS), told, before, after, ledger)


def _run_steps(
    spark: SparkSession, app: StreamingApplication, folder: Path, steps: Sequence[_Step], written: int = 0
) -> None:
    """Run a batch for each step, at its time by the wall clock; so many records were written before."""
    with pytest.MonkeyPatch.context() as patched:
        for now_ms, records in steps:
            patched.setattr(running, "arrived", partial(_arrived_at, now_ms))
            if records:
                write_records(spark, folder, app.topology, records, written)
            written += len(records)
            app.run()


def _arrived_at(now_ms: int, rows: DataFrame) -> dict[str, Arrived]:
    return {name: replace(said, clock_us=_START_US + now_ms * 1000) for name, said in arrived(rows).items()}


def _ledger(spark: SparkSession, app: StreamingApplication) -> list[Row]:
    return spark.read.format("delta").load(str(app.table("ledger"))).orderBy("batch_id").collect()


def _driven(topology: Topology, steps: Sequence[_Step]) -> tuple[TopologyTestDriver, dict[str, _Timed]]:
    """The test driver after these steps, and what its sinks got."""
    now_ms = 0
    driver = TopologyTestDriver(topology, start=_START_US, suppressed_record_retention=_RETENTION)
    told: dict[str, _Timed] = {sink: [] for sink in sinks(topology)}
    for ms, records in steps:
        driver.advance_wall_clock(timedelta(milliseconds=ms - now_ms))
        now_ms = ms
        for record in records:
            driver.pipe_input(record.topic, record.k, {"v": record.v}, record.ms * 1000)
        for sink, rows in told.items():
            rows += [(ms, _parts(r.key), _parts(r.value), r.ts_us) for r in driver.read_output(sink)]
    return driver, told


def _parts(row: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    return None if row is None else tuple(row.values())


def _clock_ms(row: Row) -> int:
    return int((row["clock"].timestamp() * 1_000_000 - _START_US) // 1000)


def _timed_rows(spark: SparkSession, app: StreamingApplication, ledger: list[Row]) -> dict[str, _Timed]:
    clocks = {row["batch_id"]: _clock_ms(row) for row in ledger}
    timed = {}
    for sink, rows in sink_rows(spark, app, app.topology).items():
        frame = spark.read.format("delta").load(str(app.table(sink))).orderBy("_batch_id", "_seq", "_scope")
        batches = [batch for (batch,) in frame.select("_batch_id").collect()]
        timed[sink] = [(clocks[batch], *row) for batch, row in zip(batches, rows, strict=True)]
    return timed


def _stored_windows(spark: SparkSession, app: StreamingApplication, tables: Sequence[str]) -> _Stored:
    instants = [f"unix_micros({instant})" for instant in ("windowStart", "windowEnd", "maxTs")]
    frames = {name: spark.read.format("delta").load(str(app.table(name))) for name in tables}
    rows = {name: frame.selectExpr("k", "count", *instants).collect() for name, frame in frames.items()}
    return {name: sorted(map(tuple, told)) for name, told in rows.items()}


@pytest.mark.rule("R112", "R113", "R114", "R115", "R117", "R118", "R119", "R122", "R126")
def test_each_row_leaves_at_the_batch_at_which_the_driver_lets_it_out(clocked: _Clocked) -> None:
    assert clocked.told == clocked.wanted
    assert [sink for sink, rows in clocked.told.items() if not rows] == ["held_out"]


@pytest.mark.rule("R112", "R113", "R115")
def test_a_replacement_does_not_restart_the_wall_clock_timer(clocked: _Clocked) -> None:
    assert clocked.told["calm_out"] == [(3_000, ("a",), ("y",), 2_000)]


@pytest.mark.rule("R116")
def test_a_row_that_event_time_does_not_let_out_leaves_after_the_retention_unless_its_node_has_a_longer_one(
    clocked: _Clocked,
) -> None:
    assert [(ms, key) for ms, key, *_ in clocked.told["rare_out"]] == [(3_000, ("a",))]
    assert clocked.told["held_out"] == []


@pytest.mark.rule("R114")
def test_a_wall_clock_buffer_heeds_its_bound_before_its_limit(clocked: _Clocked) -> None:
    assert clocked.told["tight_out"] == [(2_000, ("a",), ("y",), 2_000)]


@pytest.mark.rule("R118", "R121", "R123")
def test_a_tick_moves_no_stream_time_and_only_what_leaves_a_buffer_is_counted(clocked: _Clocked) -> None:
    # Nothing was due at 3,500: nothing was written.
    assert [_clock_ms(row) for row in clocked.ledger] == [0, 2_000, 3_000, 4_000, 4_100]
    before, tick = (row.asDict(recursive=True) for row in clocked.ledger[1:3])
    assert tick["stream_times"] == before["stream_times"]
    assert {"calm", *clocked.kinds} <= set(before["stream_times"])
    assert tick["input"] == 0
    leaving = {
        "calm",
        "calm_out",
        "rare",
        "rare_out",
        *(f"{name}_{part}" for name in clocked.kinds for part in ("final", "out")),
    }
    counting = {what.split(".")[0] for what, n in tick["counts"].items() if n}
    # The others tell what they hold.
    assert leaving <= counting <= leaving | {"tight", "held", "slow_final"}


@pytest.mark.rule("R117")
def test_an_idle_window_is_closed_by_the_wall_clock_once_and_takes_no_more_records(clocked: _Clocked) -> None:
    for name in clocked.kinds:
        told = clocked.told[f"{name}_out"]
        closed = [(ms, key) for ms, key, value, _ in told if value == (1, "wall_clock")]
        others = [key for _, key, value, _ in told if value == (1, "stream_time")]
        assert {ms for ms, _ in closed} == {3_000}
        assert sorted([*(key for _, key in closed), *others]) == sorted({key for _, key, _, _ in told})
        counts = {what: sum(row["counts"].get(f"{name}.{what}", 0) for row in clocked.ledger) for what in _REFUSALS}
        assert counts == {what: clocked.driver.counters(name)[what] for what in _REFUSALS}
        # One by the wall clock, two by stream time.
        assert counts["late"] == 3


@pytest.mark.rule("R117")
def test_the_first_suppression_that_closes_a_window_closes_it_for_the_others(clocked: _Clocked) -> None:
    (first, *_) = clocked.kinds
    closed = [key for _, key, value, _ in clocked.told[f"{first}_out"] if value == (1, "wall_clock")]
    slow = {key: value for _, key, value, _ in clocked.told["slow_out"]}
    assert [slow[key] for key in closed] == [(1, "stream_time")] * len(closed)


@pytest.mark.rule("R117")
def test_a_suppression_by_stream_time_alone_tells_each_window_once_where_another_one_goes_by_the_clock(
    clocked: _Clocked,
) -> None:
    others = [(ms, key, value[:1], us) for ms, key, value, us in clocked.told["slow_out"]]
    assert clocked.told["plain_out"] == others
    assert len({key for _, key, *_ in others}) == len(others) > 1


@pytest.mark.slow
@pytest.mark.rule("R117")
def test_what_a_suppression_lets_out_as_a_window_behind_it_is_due_comes_too_late_in_both_engines(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    limit = Suppressed.until_wall_clock_time_limit("3 seconds", _UNBOUNDED)
    calm = builder.table("in", Materialized.key_value("latest"), name="table", **_SOURCE).suppress(limit, name="calm")
    for name in ("tumbling", "session"):
        final = Suppressed.until_window_closes(_UNBOUNDED, retention="3 seconds")
        counts = calm.to_stream().group_by_key().windowed_by(_WINDOWS[name]).count(name=name)
        ended = counts.suppress(final, name=f"{name}_final").to_stream()
        # Final results that go into windows of their own, which are due at the same moments.
        plain = ended.group_by(lambda key, value: {"k": key.k})
        again = plain.windowed_by(TimeWindows.of("1 hour")).count(name=f"{name}_again")
        again.suppress(final, name=f"{name}_last").to_changelog(f"{name}_out")
    steps = [(ms, (Input("in", "a", "x", at), Input("in", "b", "x", at))) for ms, at in _DUE_TOGETHER]
    app = application(spark, tmp_path, builder.build())
    _run_steps(spark, app, tmp_path, steps)
    driver, wanted = _driven(app.topology, steps)
    ledger = _ledger(spark, app)
    assert _timed_rows(spark, app, ledger) == wanted
    assert all(wanted.values())
    for name in ("tumbling", "session", "tumbling_again", "session_again"):
        counts_of = {what: sum(row["counts"].get(f"{name}.{what}", 0) for row in ledger) for what in _REFUSALS}
        assert counts_of == {what: driver.counters(name)[what] for what in _REFUSALS}


@pytest.mark.slow
@pytest.mark.rule("R117")
def test_what_leaves_at_a_record_that_only_met_windows_closed_by_the_clock_is_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace("1 minute", "30 seconds")
    counts = builder.stream("events", name="stream", **_SOURCE).group_by_key().windowed_by(windows).count(name="counts")
    idle = Suppressed.until_window_closes(_UNBOUNDED, close_idle=True, retention="3 seconds")
    counts.suppress(idle, name="idle").to_changelog("idle_out")
    counts.suppress(Suppressed.until_window_closes(_UNBOUNDED), name="plain").to_changelog("plain_out")
    steps = [(0, "a", 60_000), (2_500, "b", 59_000), (3_000, None, 0), (3_100, "a", 119_000)]
    app = application(spark, tmp_path, builder.build())
    _run_steps(spark, app, tmp_path, [(ms, (Input("events", k, "x", at),) if k else ()) for ms, k, at in steps])
    newest = _ledger(spark, app)[-1]
    assert (newest["counts"]["counts.late"], newest["counts"].get("counts.accepted", 0)) == (1, 0)
    assert newest["counts"]["plain.emitted"] == newest["counts"]["plain_out.emitted"] == 1
    assert newest["stream_times"]["plain"] == newest["stream_times"]["counts"]


@pytest.mark.rule("R117")
@pytest.mark.parametrize(
    ("tells_scopes", "left"),
    [(True, ["just now", "new", "silent", "unknown"]), (False, ["just now", "new", "old", "silent", "unknown"])],
    ids=["its scope", "none, as in tables of before"],
)
def test_what_keeps_records_out_of_a_window_that_the_clock_closed_goes_by_the_stream_time_of_its_scope(
    tells_scopes: bool, left: list[str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A device of the scope 0 is silent for ever; the store keeps windows for a day.
    day = 86_400
    at = {"silent": (0, 0), "old": (0, 1), "new": (9 * day, 1), "unknown": (0, 2)}
    rows = [(k, start, start + 60, scope) for k, (start, scope) in at.items()]
    seconds = spark.createDataFrame(
        [*rows, ("just now", 10 * day, 10 * day + 60, 1)], "k STRING, s LONG, e LONG, n INT"
    )
    windows = seconds.selectExpr("k", "timestamp_seconds(s) windowStart", "timestamp_seconds(e) windowEnd", "n _scope")
    marks = windows.where("k != 'just now'").drop(*([] if tells_scopes else ["_scope"]))
    operator: Any = operators_of(_by_the_clock(["tumbling"]), None, True)["tumbling_final"]
    monkeypatch.setattr(suppressing, "read_table", lambda *_: marks)
    monkeypatch.setattr(operator, "_just_closed", lambda: windows.where("k = 'just now'"))
    times = {0: 30_000_000, 1: 10 * day * 1_000_000}
    batch: Any = SimpleNamespace(session=spark, root=TableRef.parse("/t"), times_of=lambda _: times)
    replaced = operator._replace_marks(batch)
    assert replaced.frame.columns == marks.columns
    assert sorted(row["k"] for row in replaced.frame.collect()) == left


@pytest.mark.rule("R13")
def test_a_late_record_changes_no_row_of_the_window_table(clocked: _Clocked) -> None:
    assert clocked.after == clocked.before
    assert clocked.after == {
        name: sorted(
            (key.k, value["count"], key.windowStart, key.windowEnd, ts_us)
            for key, value, ts_us in clocked.driver.stores[name].items()
            if value is not None
        )
        for name in clocked.kinds
    }


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


@pytest.mark.rule("R115", "R120", "R124", "R125")
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


@pytest.mark.slow
def test_a_tick_that_died_behind_its_last_table_gets_its_ledger_row_though_what_is_left_is_not_due_yet(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology, now_ms = _limited(Suppressed.until_wall_clock_time_limit("3 seconds", _UNBOUNDED)), 0
    app = application(spark, tmp_path, topology)

    def arrived_now(rows: DataFrame) -> dict[str, Arrived]:
        return {name: replace(said, clock_us=_START_US + now_ms * 1000) for name, said in arrived(rows).items()}

    monkeypatch.setattr(running, "arrived", arrived_now)
    for number, key in enumerate("ab"):
        now_ms = number * 2_000
        write_records(spark, tmp_path, topology, [Input("in", key, "x", number)], number)
        app.run()
    now_ms = 3_000
    with faults.armed(crash_at("before:ledger/row")), pytest.raises(StreamingQueryException):
        app.run()
    again = application(spark, tmp_path, topology)
    again.run()
    ledger = spark.read.format("delta").load(str(again.table("ledger"))).orderBy("batch_id")
    told = [(row["input"], row["counts"].get("out.emitted", 0)) for row in ledger.select("input", "counts").collect()]
    assert (told, _rows(spark, again, "out")) == ([(1, 0), (1, 0), (0, 1)], [("a", "x")])
    assert examine(again).findings == ()


@pytest.mark.rule("R35", "R42", "R47")
def test_a_full_strict_buffer_commits_nothing_and_goes_on_with_a_larger_bound(
    spark: SparkSession, tmp_path: Path
) -> None:
    def plan(bound: int) -> Topology:
        strict = BufferConfig.unbounded().with_max_records(bound)
        return _limited(Suppressed.until_time_limit("1 second", strict))

    records = [Input("in", key, "x", 1) for key in "abc"]
    app = application(spark, tmp_path, plan(2))
    write_records(spark, tmp_path, plan(2), records)
    with pytest.raises(StreamingQueryException) as failure:
        app.run()
    message = str(failure.value)
    assert all(part in message for part in ("calm", "3 of 2 records", "Raise the bound, shorten the wait", "spill"))
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
    with pytest.raises(TopologyError, match=r"^calm: where its records wait they would have \['size'\] twice"):
        application(spark, tmp_path, builder.build())
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.rule("R59")
def test_a_drain_lets_a_key_go_once_though_the_input_that_is_left_makes_several_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    topology = _limited(Suppressed.until_time_limit("1 hour", _UNBOUNDED))
    for number, value in enumerate("xyz"):
        write_records(spark, tmp_path, topology, [Input("in", "a", value, number)], number)
    app = application(spark, tmp_path, topology, files_per_batch=1)
    app.drain("calm")
    assert _ledger_batches(spark, app) == 4
    assert sink_rows(spark, app, topology) == {"out": [(("a",), ("z",), 2_000)]}


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


def _timers() -> Topology:
    """Windows, held back by each timer and from the start of the window."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", name="stream", **_SOURCE).group_by_key()
    counts = grouped.windowed_by(TimeWindows.of_size_and_grace("20 ms", "1 second")).count(name="counts")
    limits = {
        "first": Suppressed.until_time_limit("6 ms", _UNBOUNDED),
        "record": Suppressed.until_time_limit("6 ms", BufferConfig.max_records(3), timer="record"),
        "last": Suppressed.until_time_limit("6 ms", _UNBOUNDED, timer="last", max_age="11 ms"),
        "start": Suppressed.until_time_limit("6 ms", _UNBOUNDED, clock="window_start"),
    }
    for name, limit in limits.items():
        counts.suppress(limit, name=f"by_{name}").to_changelog(name)
    return builder.build()


#: The first key is updated again and again, once out of order; others move the time, one of them late.
_UPDATES = [
    Input("in", key, "x", ms) for key, ms in zip("abaaaacbdace", (0, 1, 4, 8, 2, 9, 10, 3, 11, 12, 26, 60), strict=True)
]


@pytest.mark.rule("R30", "R56", "R106", "R107")
@pytest.mark.slow
def test_each_timer_and_clock_lets_rows_out_as_on_the_driver_though_a_batch_ends_between_updates(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = _timers()
    wanted = on_driver(plan, _UPDATES)
    assert len({str(rows) for rows in wanted.values()}) == len(wanted)
    app = on_spark(spark, tmp_path, plan, _UPDATES, [3, 6, len(_UPDATES)])
    assert sink_rows(spark, app, plan) == wanted
