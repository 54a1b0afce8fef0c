"""From what a plan says to what a buffer does."""

from __future__ import annotations

from typing import Any

import pytest

from suppress.buffer_config import BufferConfig
from suppress.buffer_rules import BufferRule
from suppress.suppress_rules import buffer_rule, tie_order, warn_of_idle
from suppress.suppressed import AnySuppressed, Suppressed
from suppress.window_rules import Window
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.errors import ConfigurationError

MINUTE_US = 60_000_000
FINAL = Suppressed.until_window_closes(BufferConfig.unbounded())


@pytest.mark.parametrize(
    ("buffer", "expected"),
    [
        pytest.param(BufferConfig.unbounded(), (None, None, "shut_down"), marks=pytest.mark.rule("R45")),
        pytest.param(
            BufferConfig.unbounded().with_max_records(5), (5, None, "shut_down"), marks=pytest.mark.rule("R42")
        ),
        pytest.param(BufferConfig.max_records(5), (5, None, "emit_early"), marks=pytest.mark.rule("R41")),
        pytest.param(BufferConfig.max_bytes(5), (None, 5, "emit_early"), marks=pytest.mark.rule("R43")),
        pytest.param(
            BufferConfig.max_records(5).with_max_bytes(9), (5, 9, "emit_early"), marks=pytest.mark.rule("R32")
        ),
        pytest.param(
            BufferConfig.max_bytes(5).shut_down_when_full(), (None, 5, "shut_down"), marks=pytest.mark.rule("R47")
        ),
        pytest.param(
            BufferConfig.max_bytes(5).spill_to_disk_when_full(), (None, 5, "spill"), marks=pytest.mark.rule("R48")
        ),
    ],
)
def test_a_buffer_configuration_becomes_bounds_and_what_happens_beyond_them(buffer: Any, expected: Any) -> None:
    rule = buffer_rule("n", Suppressed.until_time_limit("1 minute", buffer))
    assert (rule.max_records, rule.max_bytes, rule.when_full) == expected


@pytest.mark.rule("R52")
@pytest.mark.parametrize(
    ("windows", "wait_us"),
    [
        (TimeWindows.of("1 hour").grace("1 minute"), MINUTE_US),
        (SessionWindows.of("1 minute").grace("1 minute"), 2 * MINUTE_US + 1_000),
        (SlidingWindows.of_time_difference_and_grace("1 hour", "1 minute"), MINUTE_US + 1_000),
    ],
)
def test_final_results_wait_from_the_window_end_until_it_closes(windows: Windows, wait_us: int) -> None:
    rule = buffer_rule("n", FINAL, windows, unit_us=1_000)
    assert (rule.clock, rule.wait_us, rule.final) == ("window_end", wait_us, True)


@pytest.mark.rule("R28", "R52")
@pytest.mark.parametrize(
    ("windows", "lead_us"),
    [(TimeWindows.of("1 hour"), 0), (SessionWindows.of("1 minute"), 1_000), (SlidingWindows.of("1 hour"), 1_000)],
)
def test_a_tombstone_leaves_at_an_inclusive_end_and_not_after_it(windows: Windows, lead_us: int) -> None:
    assert buffer_rule("n", FINAL, windows, unit_us=1_000).tombstone_lead_us == lead_us


@pytest.mark.rule("R54", "R117")
@pytest.mark.parametrize(
    ("retention", "windows", "told"),
    [
        ("13 us", TimeWindows(10, 10, 3), None),
        ("12 us", TimeWindows(10, 10, 3), "the retention of 12 microseconds"),
        ("12 us", SlidingWindows(10, 3), "the retention of 12 microseconds"),
        ("6 us", SessionWindows(5, 2), "the retention of 6 microseconds"),
        (None, TimeWindows(10, 10, 3), "closes no window"),
    ],
)
def test_a_retention_that_ends_while_a_window_takes_records_or_that_is_missing_is_warned_of(
    retention: str | None, windows: Windows, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    idle = Suppressed.until_window_closes(BufferConfig.unbounded(), close_idle=True, retention=retention)
    warn_of_idle("n", idle, buffer_rule("n", idle, windows), windows)
    assert len(caplog.messages) == (told is not None)
    assert all(str(told) in message for message in caplog.messages)


@pytest.mark.parametrize(
    "suppressed", [FINAL, Suppressed.until_time_limit("1 us", BufferConfig.unbounded(), retention="5 us")]
)
def test_who_asks_for_no_closing_of_idle_windows_is_not_warned(
    suppressed: AnySuppressed, caplog: pytest.LogCaptureFixture
) -> None:
    windows = TimeWindows(10, 10, 3)
    warn_of_idle("n", suppressed, buffer_rule("n", suppressed, windows), windows)
    assert caplog.messages == []


@pytest.mark.rule("R9", "R51")
@pytest.mark.parametrize("windows", [None, UnlimitedWindows.of()], ids=["no windows", "unlimited"])
def test_final_results_need_windows_that_close(windows: Windows | None) -> None:
    with pytest.raises(ConfigurationError, match="need windows that close"):
        buffer_rule("n", FINAL, windows)


@pytest.mark.rule("R112")
def test_a_wall_clock_limit_counts_from_the_arrival() -> None:
    rule = buffer_rule("n", Suppressed.until_wall_clock_time_limit("1 minute", BufferConfig.unbounded()))
    assert (rule.clock, rule.wait_us) == ("wall", MINUTE_US)


@pytest.mark.rule("R106")
def test_the_last_timer_brings_its_maximal_age() -> None:
    suppressed = Suppressed.until_time_limit(
        "1 minute", BufferConfig.unbounded(), timer="last", max_age="3 minutes", clock="window_start"
    )
    rule = buffer_rule("n", suppressed)
    assert (rule.timer, rule.max_age_us, rule.clock) == ("last", 3 * MINUTE_US, "window_start")


@pytest.mark.rule("R116", "R117")
@pytest.mark.parametrize(
    ("suppressed", "retention_us"),
    [
        (Suppressed.until_time_limit("1 hour", BufferConfig.unbounded()), 7),
        (Suppressed.until_time_limit("1 hour", BufferConfig.unbounded(), retention="5 us"), 5),
        (FINAL, None),
        (Suppressed.until_window_closes(BufferConfig.unbounded(), close_idle=True), 7),
        (Suppressed.until_window_closes(BufferConfig.unbounded(), retention="5 us"), 5),
    ],
)
def test_the_retention_of_the_application_spares_final_results_unless_asked(
    suppressed: AnySuppressed, retention_us: int | None
) -> None:
    assert buffer_rule("n", suppressed, TimeWindows.of("1 hour"), default_retention_us=7).retention_us == retention_us


@pytest.mark.rule("R54", "R117")
@pytest.mark.parametrize(("own", "default_us"), [("0 s", None), ("0 s", 7), (None, 0), (None, -5)])
def test_a_retention_that_would_close_a_window_with_its_first_record_is_refused(
    own: str | None, default_us: int | None
) -> None:
    idle = Suppressed.until_window_closes(BufferConfig.unbounded(), close_idle=True, retention=own)
    with pytest.raises(ConfigurationError, match=r"n: a retention of (0|-5 microseconds) would close each window"):
        buffer_rule("n", idle, TimeWindows.of("1 hour"), default_retention_us=default_us)


@pytest.mark.parametrize(("wait", "retention"), [("10 s", "3 s"), ("3 s", "10 s"), ("3 s", None)])
def test_a_row_waits_by_the_wall_clock_for_the_shorter_of_limit_and_retention(wait: str, retention: str | None) -> None:
    limit = Suppressed.until_wall_clock_time_limit(wait, BufferConfig.unbounded(), retention=retention)
    assert buffer_rule("n", limit).clock_wait_us == 3_000_000


@pytest.mark.rule("R110", "R116")
@pytest.mark.parametrize(("retention", "waits_us"), [(None, None), ("3 s", 3_000_000), ("10 s", 10_000_000)])
def test_under_an_event_time_limit_the_wall_clock_counts_for_the_retention_only(
    retention: str | None, waits_us: int | None
) -> None:
    limit = Suppressed.until_time_limit("5 s", BufferConfig.unbounded(), retention=retention)
    assert buffer_rule("n", limit).clock_wait_us == waits_us


@pytest.mark.parametrize(
    "places",
    [
        [("a", 0, 10), ("a", 5, 15), ("b", 0, 10)],
        [("a", 5, 8), ("a", 0, 9), ("a", 3, 9), ("b", 0, 1)],
    ],
    ids=["of one length", "sessions"],
)
def test_ties_are_ordered_by_key_then_by_the_end_of_the_window_then_by_its_start(
    places: list[tuple[str, int, int]],
) -> None:
    backwards = places[::-1]
    assert sorted(backwards, key=lambda place: tie_order([place[0]], Window(*place[1:]))) == places


def test_the_default_rule_keeps_the_first_timer_and_no_bound() -> None:
    rule = BufferRule("n", wait_us=1)
    assert (rule.max_records, rule.max_bytes) == (None, None)
    assert (rule.timer, rule.when_full, rule.retention_us) == ("first", "shut_down", None)
