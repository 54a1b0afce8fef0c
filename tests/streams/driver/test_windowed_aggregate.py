"""Windowed aggregates on the test driver: grace, late records and their counts, kinds of aggregates and windows."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from streams.nodes import Materialized
from streams.rows import Row
from streams.testing import OutputRecord, TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.window_rules import FOREVER_US
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US, Resolution

HOURLY = TimeWindows.of("1 hour").grace("10 minutes")
HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000

Result = tuple[Any, int, Any, int]


def driver(
    windows: Windows,
    kind: str = "count",
    *args: Any,
    group_by: str | None = None,
    late_policy: Any = "drop",
    **options: Any,
) -> TopologyTestDriver:
    """A windowed aggregate of the given kind over the topic ``in``."""
    builder = StreamsBuilder()
    source = builder.stream("in", value="amount")
    grouped = source.group_by_key() if group_by is None else source.group_by(group_by)
    windowed = grouped.windowed_by(windows, late_policy=late_policy)
    getattr(windowed, kind)(*args, name="agg", **options).to_changelog("out")
    return TopologyTestDriver(builder.build())


def results(records: list[OutputRecord]) -> list[Result]:
    """Key, window start, value and timestamp of each output."""
    return [
        (
            next(iter(record.key.values())),
            record.key.windowStart,
            record.value and next(iter(record.value.values())),
            record.ts_us,
        )
        for record in records
        if record.key is not None
    ]


def piped(running: TopologyTestDriver, *records: tuple[Any, Any, Any]) -> list[Result]:
    for key, amount, ts in records:
        running.pipe_input("in", key, amount, ts)
    return results(running.read_output("out"))


@pytest.mark.rule("R6", "R10")
def test_a_record_counts_until_its_window_and_the_grace_have_passed() -> None:
    running = driver(HOURLY)
    piped(running, ("a", 1, 0), ("b", 1, 70 * MINUTE_US - 1))
    assert piped(running, ("a", 1, 5)) == [("a", 0, 2, 5)]
    assert piped(running, ("b", 1, 70 * MINUTE_US), ("a", 1, 6))[1:] == []


@pytest.mark.rule("R13")
def test_a_late_record_touches_no_row_of_the_window_table() -> None:
    running = driver(HOURLY)
    piped(running, ("a", 1, 0), ("b", 1, 70 * MINUTE_US))
    key = Row(key="a", windowStart=0, windowEnd=HOUR_US)
    before = running.stores["agg"].get(key)
    piped(running, ("a", 1, 6))
    assert running.stores["agg"].get(key) == before == (Row(count=1), 0)


@pytest.mark.rule("R23")
def test_a_late_record_is_logged_at_debug_and_nowhere_above(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    piped(driver(HOURLY), ("a", 1, 0), ("b", 1, 2 * HOUR_US), ("a", 1, 6))
    assert [(record.levelname, "late" in record.getMessage()) for record in caplog.records] == [("DEBUG", True)]


def test_a_late_record_goes_to_the_side_table_with_the_reason_if_the_policy_says_so() -> None:
    running = driver(HOURLY, late_policy="side_table")
    piped(running, ("b", 1, 2 * HOUR_US), ("a", 7, 6))
    assert [(reject.reason, reject.key, reject.ts_us) for reject in running.rejects] == [("LATE", Row(key="a"), 6)]


@pytest.mark.rule("R62", "R66", "R68")
def test_a_hopping_record_that_some_window_took_is_not_late_although_others_had_expired() -> None:
    running = driver(TimeWindows.of("10 ms").advance_by("5 ms"))
    piped(running, ("a", 1, 12_000), ("a", 1, 7_000))
    assert {name: running.counters("agg")[name] for name in ("late", "expired", "dropped")} == {
        "late": 0, "expired": 1, "dropped": 0,
    }  # fmt: skip


@pytest.mark.rule("R62")
def test_a_record_without_key_is_skipped_and_rejected_and_is_not_late() -> None:
    running = driver(HOURLY)
    piped(running, (None, 1, 99 * HOUR_US), ("a", 1, 0))
    assert (running.counters("agg")["skipped"], running.counters("agg")["late"]) == (1, 0)
    assert [reject.reason for reject in running.rejects] == ["NULL_KEY"]


@pytest.mark.rule("R11", "R63")
def test_lateness_is_measured_after_the_record_moved_stream_time() -> None:
    running = driver(HOURLY)
    piped(running, ("a", 1, 0), ("a", 1, 9_000), ("a", 1, 3_000))
    lateness = {value.name: value.value for value in running.metrics if value.tags.get("processor-node-id") == "agg"}
    assert (lateness["record-lateness-avg"], lateness["record-lateness-max"]) == (2.0, 6.0)


@pytest.mark.rule("R67", "R68")
@pytest.mark.parametrize(("stored", "store"), [(None, "agg"), (Materialized(name="held"), "held")])
@pytest.mark.parametrize(("windows", "kind"), [(HOURLY, "window"), (SessionWindows.of("1 hour"), "session")])
def test_expired_windows_are_reported_for_the_kind_and_the_name_of_the_store_that_holds_them(
    windows: Windows, kind: str, stored: Materialized | None, store: str
) -> None:
    running = driver(windows, materialized=stored)
    piped(running, ("b", 1, 9 * HOUR_US), ("a", 1, 0))
    (total,) = (v for v in running.metrics if v.name == "expired-window-record-drop-total" and v.value)
    assert (total.group, total.tags[f"{kind}-state-id"]) == (f"stream-{kind}-state-metrics", store)


@pytest.mark.rule("R111", "R159")
@pytest.mark.parametrize(("scope", "late"), [("partition", 1), ("store", 1), ("key", 0)])
def test_with_stream_time_by_key_a_fast_key_does_not_make_another_late(scope: Any, late: int) -> None:
    running = driver(HOURLY, materialized=Materialized(time_scope=scope))
    piped(running, ("fast", 1, 99 * HOUR_US), ("slow", 1, 0))
    assert running.counters("agg")["late"] == late


@pytest.mark.parametrize(("scope", "late"), [("partition", 0), ("store", 1)])
def test_stream_time_is_kept_apart_by_partition_unless_the_store_shares_one(scope: Any, late: int) -> None:
    running = driver(HOURLY, materialized=Materialized(time_scope=scope))
    running.pipe_input("in", "a", 1, 99 * HOUR_US, partition=0)
    running.pipe_input("in", "b", 1, 0, partition=1)
    assert running.counters("agg")["late"] == late


@pytest.mark.parametrize(
    ("kind", "result"),
    [("count", 2), ("sum", 6), ("avg", 3.0), ("min", 2), ("max", 4)],
)
def test_a_built_in_aggregate_leaves_nulls_out_as_sql_does(kind: Any, result: Any) -> None:
    outputs = piped(driver(HOURLY, kind, "amount"), ("a", 4, 0), ("a", None, 1), ("a", 2, 2))
    assert outputs[-1] == ("a", 0, result, 2)


@pytest.mark.parametrize("amounts", [(4, None), (None, 4), (None, None)], ids=["later", "earlier", "alone"])
@pytest.mark.parametrize(
    ("kind", "of_four", "of_none"),
    [("count", 1, 0), ("sum", 4, None), ("avg", 4.0, None), ("min", 4, None), ("max", 4, None)],
)
def test_a_session_of_nulls_changes_nothing_of_one_that_it_merges_with(
    kind: str, of_four: Any, of_none: Any, amounts: tuple[Any, Any]
) -> None:
    running = driver(SessionWindows(gap_us=10, grace_us=100), kind, "amount")
    outputs = piped(running, *zip("aaa", (*amounts, None), (0, 20, 10), strict=True))
    assert outputs[-1] == ("a", 0, of_four if 4 in amounts else of_none, 20)


def test_count_without_an_expression_counts_null_values_too() -> None:
    assert piped(driver(HOURLY), ("a", None, 0), ("a", 1, 1))[-1] == ("a", 0, 2, 1)


def test_sliding_windows_skip_null_values() -> None:
    running = driver(SlidingWindows.of_time_difference_with_no_grace("10 ms"))
    assert piped(running, ("a", None, 0)) == []
    assert [reject.reason for reject in running.rejects] == ["NULL_VALUE"]


@pytest.mark.parametrize(
    ("windows", "starts"),
    [
        (TimeWindows.of("10 us"), [-10]),
        (TimeWindows.of("10 us").advance_by("5 us"), [-10, -5]),
        (SessionWindows.of("5 us"), [-3]),
        (SlidingWindows.of_time_difference_with_no_grace("10 us"), [-13]),
        (UnlimitedWindows(start_us=-100), [-100]),
    ],
    ids=["tumbling", "hopping", "session", "sliding", "unlimited"],
)
def test_a_record_before_the_epoch_has_its_windows_too(windows: Windows, starts: list[int]) -> None:
    assert [start for _, start, _, _ in piped(driver(windows), ("a", 1, -3))] == starts


@pytest.mark.parametrize(
    ("windows", "taken"),
    [
        (TimeWindows.of("7 days"), []),
        (TimeWindows.of("2 days").advance_by("1 day"), []),
        (SlidingWindows.of_time_difference_with_no_grace("1 us"), []),
        (SessionWindows.of("1 day"), [FIRST_INSTANT_US]),
        (TimeWindows.of("1 day"), [FIRST_INSTANT_US]),
    ],
    ids=["tumbling", "hopping", "sliding", "session", "no earlier window"],
)
def test_a_record_with_a_window_before_the_first_instant_is_put_aside(windows: Windows, taken: list[int]) -> None:
    running = driver(windows)
    assert [start for _, start, _, _ in piped(running, ("a", 1, FIRST_INSTANT_US))] == taken
    assert [reject.reason for reject in running.rejects] == ["BEFORE_WINDOWS"] * (not taken)
    assert running.counters("agg")["skipped"] == len(running.rejects)


@pytest.mark.parametrize(
    ("windows", "taken"),
    [
        (TimeWindows.of("1 hour"), 0),
        (TimeWindows.of("1 hour").advance_by("7 minutes"), 0),
        (TimeWindows.of(timedelta.max), 0),
        (SlidingWindows.of_time_difference_with_no_grace("1 hour"), 0),
        (SessionWindows.of("1 hour"), 1),
        (UnlimitedWindows.of(), 1),
    ],
    ids=["tumbling", "hopping", "for ever", "sliding", "session", "unlimited"],
)
def test_a_record_with_a_window_behind_the_last_instant_is_put_aside_and_moves_no_time(
    windows: Windows, taken: int
) -> None:
    running = driver(windows)
    piped(running, ("a", 1, LAST_INSTANT_US - 1_800_000_000))
    assert [reject.reason for reject in running.rejects] == ["AFTER_WINDOWS"] * (1 - taken)
    assert running.counters("agg")["skipped"] == len(running.rejects)
    piped(running, ("a", 1, 3))
    assert running.counters("agg")["late"] == (taken if isinstance(windows, SessionWindows) else 0)


@pytest.mark.rule("R9")
def test_an_unlimited_window_takes_every_record_from_its_start_on() -> None:
    running = driver(UnlimitedWindows(start_us=10, grace_us=5))
    assert piped(running, ("a", 1, 10), ("a", 1, 10**15), ("a", 1, 11))[-1] == ("a", 10, 3, 10**15)
    assert running.stores["agg"].get(Row(key="a", windowStart=10, windowEnd=FOREVER_US)) is not None
    piped(running, ("a", 1, 9))
    assert [reject.reason for reject in running.rejects] == ["BEFORE_WINDOWS"]


def test_the_time_resolution_floors_finer_timestamps() -> None:
    running = driver(SessionWindows.of("5 ms"), materialized=Materialized(time_resolution=Resolution.MILLISECOND))
    assert piped(running, ("a", 1, 1_999)) == [("a", 1_000, 1, 1_000)]


@pytest.mark.rule("R20")
def test_a_final_window_stays_readable_for_a_day_by_default_and_longer_if_asked() -> None:
    key = Row(key="a", windowStart=0, windowEnd=HOUR_US)
    for retention, readable in ((None, False), (timedelta(days=9), True)):
        running = driver(HOURLY, materialized=Materialized(retention=retention))
        piped(running, ("a", 1, 0), ("b", 1, 25 * HOUR_US))
        assert running.stores["agg"].get(key) is not None
        piped(running, ("b", 1, 72 * HOUR_US))
        assert (running.stores["agg"].get(key) is not None) is readable


@pytest.mark.rule("R21")
def test_a_final_window_that_is_kept_for_ever_stays_readable_after_many_years() -> None:
    running = driver(HOURLY, materialized=Materialized().with_retention(None))
    piped(running, ("a", 1, 0), ("b", 1, 900 * 365 * 24 * HOUR_US))
    assert running.stores["agg"].get(Row(key="a", windowStart=0, windowEnd=HOUR_US)) is not None


def test_records_can_be_grouped_by_their_value() -> None:
    running = driver(HOURLY, group_by="amount")
    assert piped(running, ("a", 7, 0), ("b", 7, 1))[-1] == (7, 0, 2, 1)


def test_every_record_is_accepted_or_dropped_and_counted_once() -> None:
    running = driver(TimeWindows.of("10 ms"))
    records = [("a", 1, 0), ("a", 1, 25_000), ("a", 1, 3_000), (None, 1, 30_000), ("b", 1, 29_000)]
    accepted = len(piped(running, *records))
    counters = running.counters("agg")
    assert (accepted, counters["late"], counters["skipped"], counters["dropped"]) == (3, 1, 1, 2)


@pytest.mark.rule("R14", "R20")
@pytest.mark.parametrize(
    "windows",
    [TimeWindows.of("1 hour").grace("10 days"), SessionWindows.of("1 hour").grace("10 days"),
     SlidingWindows.of_time_difference_and_grace("1 hour", "10 days")],
    ids=["tumbling", "session", "sliding"],
)  # fmt: skip
def test_a_window_is_kept_as_long_as_it_can_change_where_no_retention_is_stated(windows: Windows) -> None:
    running = driver(windows)
    for day in (0, 3, 6):
        running.pipe_input("in", "a", 1, day * 24 * HOUR_US)
    running.read_output("out")
    running.pipe_input("in", "a", 1, 0)
    assert results(running.read_output("out"))[-1][2] == 2
