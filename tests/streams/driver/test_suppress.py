"""``suppress`` on the test driver: KIP-328's patterns and examples, KIP-539, joins with a suppressed table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from suppressions import HOUR_US, HOURLY, MINUTE_US, SECOND_US, finals, limited, piped, shown

from streams.driver.processor import Processor
from streams.driver.registry import OPERATORS
from streams.driver.suppress import SuppressProcessor
from streams.nodes import Materialized
from streams.rows import Row
from streams.testing import OutputRecord, TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig, StrictBufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, Windows
from versioned.errors import BufferFullError


def of_records(running: TopologyTestDriver) -> list[Any]:
    """Every metric but rates and what buffers hold, and the counts of every node."""
    told = [value for value in running.metrics if not value.name.endswith("-rate")]
    counters = [dict(running.counters(node)) for node in ("stream-events", "counts", "raw", "finals", "out")]
    return [value for value in told if not value.name.startswith("suppression-buffer")] + counters


def ends(records: list[OutputRecord]) -> list[tuple[int, int]]:
    """The windows of the records, in whole minutes."""
    return [(r.key.windowStart // MINUTE_US, r.key.windowEnd // MINUTE_US) for r in records if r.key is not None]


VISITS = [("ann", 0), ("bob", 5), ("ann", 20), ("bob", 3), ("ann", 59), ("cyd", 61), ("bob", 69), ("bob", 58)]


def visits(running: TopologyTestDriver) -> list[tuple[Any, Any, int]]:
    return piped(running, "events", *((user, "x", minute * MINUTE_US) for user, minute in VISITS))


@pytest.mark.rule("R36", "R51", "R52", "R79")
def test_users_with_fewer_than_three_events_in_an_hour_raise_one_alert_each_when_the_hour_is_final() -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()), alert_below=3)
    minutes = [("ann", 0), ("bob", 1), ("bob", 2), ("cyd", 59), ("eve", 69), ("bob", 3), ("cyd", 58)]
    assert piped(running, "events", *((user, "x", minute * MINUTE_US) for user, minute in minutes)) == []
    closing = piped(running, "events", ("eve", "x", 70 * MINUTE_US), ("ann", "x", 5 * MINUTE_US))
    assert closing == [("ann", 1, 0), ("cyd", 2, 59 * MINUTE_US)]


@pytest.mark.parametrize(
    "buffer",
    [
        pytest.param(BufferConfig.unbounded(), marks=pytest.mark.rule("R80")),
        pytest.param(BufferConfig.max_bytes(5_000_000).shut_down_when_full(), marks=pytest.mark.rule("R81")),
        pytest.param(BufferConfig.max_bytes(5_000_000).spill_to_disk_when_full(), marks=pytest.mark.rule("R82")),
        pytest.param(BufferConfig.max_records(1).spill_to_disk_when_full(), marks=pytest.mark.rule("R34")),
    ],
    ids=["unbounded", "shut down", "spill", "spill from the second key on"],
)
def test_each_kind_of_strict_buffer_gives_one_final_row_per_key_and_window(buffer: StrictBufferConfig) -> None:
    running = finals(Suppressed.until_window_closes(buffer))
    visits(running)
    closed = piped(running, "events", ("eve", "x", 70 * MINUTE_US))
    assert closed == [("ann", 3, 59 * MINUTE_US), ("bob", 3, 58 * MINUTE_US)]


#: Memory, grace, or the disk.
_REMEDIES = "Raise the bound, begin in a new root with a shorter grace, or let it spill"


@pytest.mark.rule("R35", "R83")
def test_a_full_strict_buffer_stops_the_run_and_names_the_three_remedies() -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.max_records(2).shut_down_when_full()))
    piped(running, "events", ("ann", "x", 0), ("bob", "x", 1))
    with pytest.raises(BufferFullError, match=r"finals: .* 3 of 2 records.*" + _REMEDIES):
        piped(running, "events", ("cyd", "x", 2))


@pytest.mark.rule("R53")
def test_without_suppress_every_change_comes_out() -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()))
    visits(running)
    # A count has the newest time of its visits; bob's last comes within the grace of his first hour.
    counts = [("ann", 1, 0), ("bob", 1, 5), ("ann", 2, 20), ("bob", 2, 5)]
    counts += [("ann", 3, 59), ("cyd", 1, 61), ("bob", 1, 69), ("bob", 3, 58)]
    assert shown(running.read_output("raw")) == [(user, n, minute * MINUTE_US) for user, n, minute in counts]


@pytest.mark.rule("R53")
def test_without_suppress_a_record_changes_each_of_its_windows() -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()), HOURLY.advance_by("20 minutes"))
    running.pipe_input("events", "ann", "x", 50 * MINUTE_US)
    starts = [record.key.windowStart for record in running.read_output("raw") if record.key is not None]
    assert starts == [0, 20 * MINUTE_US, 40 * MINUTE_US]


@pytest.mark.rule("R33", "R37", "R40", "R41", "R76", "R84")
def test_a_best_effort_rate_limit_emits_the_oldest_when_a_thousand_keys_are_held() -> None:
    running = limited(Suppressed.until_time_limit("30 seconds", BufferConfig.max_records(1_000)))
    updates = ((f"k{number:04}", value, number) for number in range(1_000) for value in ("u", "v"))
    assert (piped(running, "in", *updates), running.total("emitted")) == ([], 0)
    assert (piped(running, "in", ("k1000", "v", 1_000)), running.total("emitted")) == ([("k0000", "v", 0)], 1)


@pytest.mark.rule("R38", "R39", "R55")
@pytest.mark.parametrize("buffer", [BufferConfig.unbounded(), BufferConfig.max_records(5).spill_to_disk_when_full()])
def test_a_strict_rate_limit_emits_a_key_at_most_once_per_wait(buffer: StrictBufferConfig) -> None:
    running = limited(Suppressed.until_time_limit("30 seconds", buffer))
    emitted = piped(running, "in", *(("busy", f"v{second}", second * SECOND_US) for second in range(100)))
    assert emitted == [("busy", f"v{second}", second * SECOND_US) for second in (30, 61, 92)]


@pytest.mark.rule("R1", "R2")
def test_two_suppressions_of_one_table_keep_their_own_waits() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", Materialized(name="in"))
    for sink, wait in (("soon", "5 us"), ("late", "9 us")):
        table.suppress(Suppressed.until_time_limit(wait, BufferConfig.unbounded()), name=f"{sink}-buffer").to_changelog(
            sink
        )
    running = TopologyTestDriver(builder.build())
    times: dict[str, list[int]] = {"soon": [], "late": []}
    for key, ts in (("a", 0), ("t", 5), ("t", 9)):
        running.pipe_input("in", key, "v", ts)
        for sink, seen in times.items():
            seen += [ts] * len(running.read_output(sink))
    assert times == {"soon": [5], "late": [9]}


@pytest.mark.rule("R29")
@pytest.mark.parametrize(
    ("buffer", "left_at"),
    [(BufferConfig.unbounded(), 9), (BufferConfig.max_records(2), 3), (BufferConfig.max_bytes(50), 3)],
    ids=["how long", "how many", "how large"],
)
def test_a_limit_says_how_long_and_how_much(buffer: Any, left_at: int) -> None:
    running = limited(Suppressed.until_time_limit("8 us", buffer))
    left = [ts for ts in range(1, 12) if piped(running, "in", (f"{ts:09}", "v", ts))]
    assert left[0] == left_at


@pytest.mark.rule("R60")
def test_a_wait_of_zero_lets_every_update_through() -> None:
    running = limited(Suppressed.until_time_limit("0 seconds", BufferConfig.unbounded()))
    records = [("a", "1", 5), ("a", "2", 3), ("b", "3", 9), ("a", None, 9), ("a", None, 9)]
    assert piped(running, "in", *records) == records


@pytest.mark.rule("R25", "R31")
def test_a_key_created_and_deleted_within_the_wait_comes_out_as_a_tombstone() -> None:
    running = limited(Suppressed.until_time_limit("5 us", BufferConfig.unbounded()))
    assert piped(running, "in", ("a", "1", 0), ("a", None, 1), ("t", "t", 5)) == [("a", None, 1)]


def test_an_emitted_change_tells_what_downstream_knew_before() -> None:
    running = limited(Suppressed.until_time_limit("5 us", BufferConfig.unbounded()))
    for key, value, ts in [("a", "1", 0), ("t", "t", 5), ("a", "2", 6), ("a", "3", 7), ("t", "t", 11)]:
        running.pipe_input("in", key, value, ts)
    olds = [record.old and record.old.value for record in running.read_output("out") if record.key == Row(key="a")]
    assert olds == [None, "1"]


def test_a_join_sees_of_a_suppressed_table_what_it_has_emitted() -> None:
    builder = StreamsBuilder()
    source, other = (builder.table(name, Materialized(name=name)) for name in ("in", "other"))
    held = source.suppress(Suppressed.until_time_limit("5 us", BufferConfig.unbounded()))
    other.join(held, lambda left, right: {"left": left.value, "right": right.value}).to_changelog("out")
    running = TopologyTestDriver(builder.build())
    for topic, key, value, ts in [
        ("in", "a", "1", 0),
        ("in", "t", "t", 5),
        ("in", "a", "2", 6),
        ("other", "a", "x", 7),
    ]:
        running.pipe_input(topic, key, value, ts)
    assert [record.value for record in running.read_output("out")] == [Row(left="x", right="1")]


def test_bounds_hold_for_each_partition_on_its_own() -> None:
    running = limited(Suppressed.until_time_limit("1 hour", BufferConfig.max_records(1)))
    for partition in (0, 1):
        running.pipe_input("in", f"k{partition}", "v", 0, partition=partition)
    assert running.read_output("out") == []
    running.pipe_input("in", "more", "v", 1, partition=1)
    assert shown(running.read_output("out")) == [("k1", "v", 0)]


@pytest.mark.rule("R4")
@pytest.mark.parametrize(
    ("windows", "counts"),
    [
        (TimeWindows.of("10 us").grace("5 us"), [2]),
        (SessionWindows.of("10 us").grace("5 us"), [2]),
        (SlidingWindows.of_time_difference_and_grace("10 us", "5 us"), [2, 1]),
    ],
    ids=["tumbling", "session", "sliding"],
)
def test_the_newest_record_of_another_partition_in_a_window_makes_no_window_final_too_early(
    windows: Windows, counts: list[int]
) -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()), windows)
    for key, ts, partition in (("j", 1, 1), ("k", 18, 0), ("k", 11, 1), ("x", 12, 1), ("j", 8, 1), ("y", 60, 1)):
        running.pipe_input("events", key, "v", ts, partition=partition)
    assert [count for key, count, _ in shown(running.read_output("out")) if key == "j"] == counts


@pytest.mark.rule("R59", "R123")
@pytest.mark.parametrize("leave", ["tick", "drain"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["the slow one last", "the fast one last"])
def test_what_leaves_by_a_tick_or_a_drain_goes_on_in_its_own_partition(leave: str, order: tuple[int, int]) -> None:
    builder = StreamsBuilder()
    first = Suppressed.until_wall_clock_time_limit("10 seconds", BufferConfig.unbounded())
    second = Suppressed.until_time_limit("5 us", BufferConfig.unbounded())
    table = builder.table("in", Materialized(name="in"))
    table.suppress(first, name="first").suppress(second, name="second").to_changelog("out")
    running = TopologyTestDriver(builder.build())
    for partition in order:
        running.pipe_input("in", f"k{partition}", "v", (100, 3)[partition], partition=partition)
    running.advance_wall_clock("11 seconds") if leave == "tick" else running.drain("first")
    # In one partition the time of the fast one would release the other.
    assert running.read_output("out") == []


@pytest.mark.rule("R59", "R118")
@pytest.mark.parametrize("leave", ["tick", "drain"])
def test_what_leaves_several_partitions_by_a_tick_or_a_drain_comes_partition_by_partition(leave: str) -> None:
    running = limited(Suppressed.until_wall_clock_time_limit("10 seconds", BufferConfig.unbounded()))
    for key, partition in (("d", 1), ("a", 1), ("b", 0), ("c", 0)):
        running.pipe_input("in", key, "v", 1, partition=partition)
    running.advance_wall_clock("11 seconds") if leave == "tick" else running.drain("limit")
    assert [key for key, *_ in shown(running.read_output("out"))] == ["b", "c", "a", "d"]


def test_what_a_tick_lets_go_comes_to_the_next_suppression_before_that_one_ticks() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", Materialized(name="in"))
    for name, wait in (("first", "10 seconds"), ("second", "5 seconds")):
        table = table.suppress(Suppressed.until_wall_clock_time_limit(wait, BufferConfig.unbounded()), name=name)
    table.to_changelog("out")
    running = TopologyTestDriver(builder.build())
    running.pipe_input("in", "k", "v1", 1)
    running.advance_wall_clock("12 seconds")
    running.pipe_input("in", "k", "v2", 2)
    running.advance_wall_clock("10 seconds")
    # Both were due, the older one for longer; but its key was replaced first.
    assert shown(running.read_output("out")) == [("k", "v2", 2)]


@pytest.mark.rule("R117")
def test_what_a_tick_lets_go_comes_too_late_for_a_window_that_is_due_at_that_tick() -> None:
    builder = StreamsBuilder()
    limit = Suppressed.until_wall_clock_time_limit("3 seconds", BufferConfig.unbounded())
    calm = builder.table("in", Materialized(name="in")).suppress(limit, name="calm")
    counts = calm.to_stream().group_by_key().windowed_by(TimeWindows.of("1 hour")).count(name="counts")
    final = Suppressed.until_window_closes(BufferConfig.unbounded(), retention="3 seconds")
    counts.suppress(final, name="final").to_changelog("out")
    running = TopologyTestDriver(builder.build())
    for _ in range(3):
        running.pipe_input("in", "k", "v", 1)
        running.advance_wall_clock("3 seconds")
    assert [record.value for record in running.read_output("out")] == [Row(count=1, closed_by="wall_clock")]
    # The second came as the window was due, the third behind that.
    assert running.counters("counts")["late"] == 2


@pytest.mark.rule("R110", "R118", "R123")
def test_a_sensor_that_is_silent_for_a_day_emits_nothing_without_a_wall_clock_limit() -> None:
    running = limited(Suppressed.until_time_limit("1 hour", BufferConfig.unbounded()))
    running.pipe_input("in", "sensor", "v", 0)
    for _ in range(24):
        running.advance_wall_clock("1 hour")
    assert running.read_output("out") == []


@pytest.mark.rule("R109", "R112", "R113", "R115")
def test_a_wall_clock_limit_flushes_the_silent_sensor_once_its_wait_is_over() -> None:
    running = limited(Suppressed.until_wall_clock_time_limit("2 hours", BufferConfig.unbounded()))
    running.pipe_input("in", "sensor", "v1", 0)
    running.advance_wall_clock("1 hour")
    running.pipe_input("in", "sensor", "v2", 1)
    assert running.read_output("out") == []
    running.advance_wall_clock("1 hour")
    assert shown(running.read_output("out")) == [("sensor", "v2", 1)]


@pytest.mark.rule("R114")
def test_a_wall_clock_buffer_heeds_its_bound_too() -> None:
    running = limited(Suppressed.until_wall_clock_time_limit("2 hours", BufferConfig.max_records(1)))
    assert piped(running, "in", ("a", "1", 9), ("b", "2", 3)) == [("a", "1", 9)]


@pytest.mark.rule("R123")
def test_a_tick_moves_no_stream_time_and_counts_as_no_record() -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()))
    piped(running, "events", ("ann", "x", 9), ("bob", "x", 0))
    before = of_records(running)
    running.advance_wall_clock("99 hours")
    assert of_records(running) == before
    assert (running.read_output("raw")[2:], running.read_output("out")) == ([], [])
    assert piped(running, "events", ("ann", "x", 1)) == []
    assert running.counters("counts")["late"] == 0


@pytest.mark.rule("R116")
@pytest.mark.parametrize(
    ("suppressed", "application", "flushed"),
    [
        (Suppressed.until_time_limit("9 hours", BufferConfig.unbounded()), None, None),
        (Suppressed.until_time_limit("9 hours", BufferConfig.unbounded()), "3 hours", 3),
        (Suppressed.until_time_limit("9 hours", BufferConfig.unbounded(), retention="5 hours"), "3 hours", 5),
        (Suppressed.until_wall_clock_time_limit("9 hours", BufferConfig.unbounded()), "3 hours", 3),
    ],
    ids=["off by default", "of the application", "of the node before that of the application", "wall clock"],
)
def test_a_retention_flushes_limit_buffers(suppressed: Suppressed, application: Any, flushed: int | None) -> None:
    running = limited(suppressed, suppressed_record_retention=application)
    running.pipe_input("in", "sensor", "v", 0)
    hours = []
    for hour in range(1, 9):
        running.advance_wall_clock("1 hour")
        hours += [hour] * len(running.read_output("out"))
    assert hours == ([] if flushed is None else [flushed])


#: Windows, those that hold minute 90, and the minute of a later record that only they would take.
IDLE: dict[str, tuple[Windows, list[tuple[int, int]], int]] = {
    "tumbling": (TimeWindows.of("1 hour"), [(60, 120)], 61),
    "hopping": (TimeWindows.of("1 hour").advance_by("30 minutes"), [(60, 120), (90, 150)], 119),
    "session": (SessionWindows.of("1 hour"), [(90, 90)], 150),
    "sliding": (SlidingWindows.of_time_difference_with_no_grace("1 hour"), [(30, 90)], 90),
}


@pytest.mark.rule("R117")
@pytest.mark.parametrize(
    ("options", "application", "closes"),
    [({}, "3 hours", False), ({"close_idle": True}, "3 hours", True), ({"retention": "3 hours"}, None, True),
     ({"close_idle": True}, None, False)],
    ids=["the application's does not apply", "unless close_idle", "or the node has its own", "nothing to apply"],
)  # fmt: skip
def test_a_retention_closes_idle_windows_only_where_it_is_asked_to(
    options: dict[str, Any], application: Any, closes: bool
) -> None:
    running = finals(
        Suppressed.until_window_closes(BufferConfig.unbounded(), **options), suppressed_record_retention=application
    )
    piped(running, "events", ("ann", "x", 0))
    running.advance_wall_clock("3 hours")
    values = [record.value for record in running.read_output("out")]
    assert values == ([Row(count=1, closed_by="wall_clock")] if closes else [])


@pytest.mark.rule("R117")
@pytest.mark.parametrize(("windows", "closed", "later"), IDLE.values(), ids=IDLE)
def test_the_wall_clock_closes_idle_windows_of_every_kind_and_later_records_for_them_are_late(
    windows: Windows, closed: list[tuple[int, int]], later: int
) -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded(), retention="3 hours"), windows)
    piped(running, "events", ("ann", "x", 90 * MINUTE_US))
    running.advance_wall_clock("3 hours")
    told = running.read_output("out")
    assert (ends(told), {record.value for record in told}) == (closed, {Row(count=1, closed_by="wall_clock")})
    stored = list(running.stores["counts"].items())
    assert piped(running, "events", ("ann", "x", later * MINUTE_US)) == []
    assert running.counters("counts")["late"] == 1
    assert list(running.stores["counts"].items()) == stored
    # Stream time, too, closes none of them once more.
    assert piped(running, "events", ("eve", "x", 99 * HOUR_US)) == []


@pytest.mark.rule("R117")
@pytest.mark.parametrize(
    ("kind", "later", "expired", "taken_by"),
    [
        ("hopping", 125, 1, [(120, 180)]),
        ("sliding", 80, 1, [(20, 80), (80, 140)]),
        ("sliding", 91, 0, [(90, 150), (31, 91)]),
    ],
)
def test_a_record_counts_in_those_of_its_windows_that_the_wall_clock_did_not_close(
    kind: str, later: int, expired: int, taken_by: list[tuple[int, int]]
) -> None:
    windows = replace(IDLE[kind][0], grace_us=HOUR_US)
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded(), retention="3 hours"), windows)
    running.pipe_input("events", "ann", "x", 90 * MINUTE_US)
    running.advance_wall_clock("3 hours")
    running.read_output("raw")
    running.pipe_input("events", "ann", "x", later * MINUTE_US)
    assert ends(running.read_output("raw")) == taken_by
    assert (running.counters("counts")["late"], running.counters("counts")["expired"]) == (0, expired)


@pytest.mark.rule("R117")
def test_a_window_that_the_wall_clock_closed_stays_closed_through_a_grace_of_many_days() -> None:
    patient = TimeWindows.of("1 hour").grace("10 days")
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded(), retention="3 hours"), patient)
    piped(running, "events", ("ann", "x", 0))
    running.advance_wall_clock("3 hours")
    assert [record.value for record in running.read_output("out")] == [Row(count=1, closed_by="wall_clock")]
    later = (("eve", "x", 72 * HOUR_US), ("eve", "x", 144 * HOUR_US), ("ann", "x", 1), ("eve", "x", 900 * HOUR_US))
    assert [key for key, *_ in piped(running, "events", *later)] == ["eve", "eve"]
    assert running.counters("counts")["late"] == 1


@pytest.mark.rule("R59", "R117")
@pytest.mark.parametrize(
    ("leave", "closed_by"),
    [
        (lambda running: running.pipe_input("events", "ann", "x", 9 * HOUR_US), "stream_time"),
        (lambda running: running.advance_wall_clock("3 hours"), "wall_clock"),
        (lambda running: running.drain("finals"), "drain"),
    ],
    ids=["stream time", "wall clock", "drain"],
)
def test_a_result_that_the_wall_clock_may_close_says_what_let_it_go(leave: Any, closed_by: str) -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded(), retention="3 hours"))
    running.pipe_input("events", "ann", "x", 0)
    leave(running)
    assert [record.value for record in running.read_output("out")] == [Row(count=1, closed_by=closed_by)]


@pytest.mark.rule("R5", "R54", "R59")
def test_a_window_that_was_drained_while_it_was_open_is_told_again_with_what_came_later() -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()))
    running.pipe_input("events", "ann", "x", 0)
    running.drain("finals")
    assert shown(running.read_output("out")) == [("ann", 1, 0)]
    assert piped(running, "events", ("ann", "x", 1), ("eve", "x", 9 * HOUR_US)) == [("ann", 2, 1)]


def _kinds(kind: type[Processor] = Processor) -> Iterator[type[Processor]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def test_every_node_that_the_driver_runs_has_a_processor_of_a_known_kind() -> None:
    assert {made for made in OPERATORS.values() if isinstance(made, type)} <= set(_kinds())


@pytest.mark.rule("R118", "R119", "R120")
@pytest.mark.parametrize("kind", sorted(_kinds(), key=lambda kind: kind.__name__))
def test_every_operator_but_suppress_lets_ticks_pass(kind: type[Processor]) -> None:
    assert (kind.tick is not Processor.tick) == issubclass(kind, SuppressProcessor)


@pytest.mark.rule("R119")
def test_a_tick_that_nobody_heeds_gives_nothing() -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()))
    piped(running, "events", ("ann", "x", 0))
    assert list(running.processor("counts").tick(10**15)) == []


@pytest.mark.rule("R59")
def test_a_drain_sends_everything_held_downstream_oldest_first() -> None:
    running = limited(Suppressed.until_time_limit("1 hour", BufferConfig.unbounded()))
    piped(running, "in", ("a", "1", 5), ("b", "2", 3))
    running.drain("limit")
    assert shown(running.read_output("out")) == [("b", "2", 3), ("a", "1", 5)]
    running.drain("limit")
    assert running.read_output("out") == []


RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.sampled_from("xyz")), st.integers(0, 60)), max_size=30
)
BUFFERS = st.sampled_from(
    [BufferConfig.unbounded(), BufferConfig.max_records(2), BufferConfig.max_records(1).spill_to_disk_when_full()]
)


@pytest.mark.rule("R27", "R59")
@settings(max_examples=80)
@given(records=RECORDS, buffer=BUFFERS, wait_us=st.integers(0, 30), partitions=st.integers(1, 3))
def test_after_a_drain_the_suppressed_table_equals_its_source_and_every_update_is_counted(
    records: list[tuple[str, Any, int]], buffer: Any, wait_us: int, partitions: int
) -> None:
    running = limited(Suppressed.until_time_limit(f"{wait_us} us", buffer))
    for place, (key, value, ts_us) in enumerate(records):
        running.pipe_input("in", key, value, ts_us, partition=place % partitions)
    suppressed = running.processor("limit")
    running.drain("limit")
    keys = [Row(key=key) for key, _, _ in records]
    assert [suppressed.get(key) for key in keys] == [running.processor("in").get(key) for key in keys]
    counts = running.counters("limit")
    assert counts["input"] == counts["suppressed"] + counts["emitted"]


@pytest.mark.rule("R5", "R54")
@settings(max_examples=80)
@given(
    records=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 100)), max_size=30),
    windows=st.sampled_from([TimeWindows.of("10 us").grace("5 us"), SessionWindows.of("5 us").grace("5 us")]),
)
def test_no_window_of_a_key_is_emitted_twice(records: list[tuple[str, int]], windows: Windows) -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()), windows)
    piped(running, "events")
    for key, ts in [*records, ("flush", 10_000)]:
        running.pipe_input("events", key, "x", ts)
    emitted = running.read_output("out")
    stored = running.stores["counts"]
    assert len({record.key for record in emitted}) == len(emitted)
    assert all(stored.get(record.key) == (record.value, record.ts_us) for record in emitted if record.key is not None)
