"""Windows as values: what they hold, how they are made, what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US
from versioned.errors import ConfigurationError

_HOUR: Any = timedelta(hours=1)

_GRACEFUL = [
    TimeWindows.of("1 hour"),
    SlidingWindows.of_time_difference_with_no_grace("1 hour"),
    SessionWindows.of("1 hour"),
    UnlimitedWindows.of(),
    JoinWindows.of("1 hour"),
]


def _kind(value: object) -> str:
    return type(value).__name__


@pytest.mark.rule("R6", "R7", "R8", "R9", "R12")
@pytest.mark.parametrize("windows", _GRACEFUL, ids=_kind)
def test_every_kind_of_windows_takes_a_grace_and_tells_it(windows: Windows | JoinWindows) -> None:
    assert windows.grace("10 minutes").grace_period_ms == 600_000


@pytest.mark.parametrize("windows", _GRACEFUL, ids=_kind)
def test_grace_is_zero_unless_given(windows: Windows | JoinWindows) -> None:
    assert windows.grace_us == 0


@pytest.mark.parametrize("windows", _GRACEFUL, ids=_kind)
def test_setting_a_grace_leaves_the_original_as_it_was(windows: Windows | JoinWindows) -> None:
    windows.grace("1 minute")
    assert windows.grace_us == 0


@pytest.mark.parametrize("windows", _GRACEFUL, ids=_kind)
def test_a_negative_grace_is_refused(windows: Windows | JoinWindows) -> None:
    with pytest.raises(ConfigurationError, match="Grace must not be negative; got -1 millisecond"):
        windows.grace(timedelta(milliseconds=-1))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: TimeWindows.of("1 hour").advance_by("2 hours"), "got advance 2 hours and size 1 hour."),
        (lambda: JoinWindows.of("1 s").before("-2 hours"), "got before -2 hours and after 1 second."),
        (lambda: SessionWindows.of("-90 s"), "got -1 minute -30 seconds. Give a longer one."),
    ],
)
def test_a_wrong_duration_is_told_in_the_words_that_people_write(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make()
    assert str(refused.value).endswith(told)


@pytest.mark.rule("R12")
def test_the_grace_in_milliseconds_is_rounded_down() -> None:
    assert TimeWindows.of("1 s").grace(timedelta(microseconds=1_999)).grace_period_ms == 1


def test_windows_tumble_unless_they_advance() -> None:
    assert TimeWindows.of("1 hour").advance_us == TimeWindows.of("1 hour").size_us == 3_600_000_000


def test_hopping_windows_start_every_advance() -> None:
    assert TimeWindows.of("1 hour").advance_by("20 minutes").advance_us == 1_200_000_000


@pytest.mark.parametrize(
    ("made", "same"),
    [
        (TimeWindows.of_size_with_no_grace("5 ms"), TimeWindows.of("5 ms")),
        (TimeWindows.of_size_and_grace("5 ms", "2 ms"), TimeWindows(5_000, 5_000, 2_000)),
        (SlidingWindows.of_time_difference_and_grace("5 ms", "2 ms"), SlidingWindows(5_000, 2_000)),
        (SessionWindows.of_inactivity_gap_with_no_grace("5 ms"), SessionWindows(5_000)),
        (SessionWindows.of_inactivity_gap_and_grace("5 ms", "2 ms"), SessionWindows(5_000, 2_000)),
        (UnlimitedWindows.of().start_on(7), UnlimitedWindows(7)),
        (UnlimitedWindows.of().start_on(datetime(1970, 1, 1, 0, 0, 1)), UnlimitedWindows(1_000_000)),
        (SlidingWindows.of("5 ms").grace("2 ms"), SlidingWindows.of_time_difference_and_grace("5 ms", "2 ms")),
        (JoinWindows.of_time_difference_with_no_grace("5 ms"), JoinWindows(5_000, 5_000)),
        (JoinWindows.of_time_difference_and_grace("5 ms", "2 ms"), JoinWindows(5_000, 5_000, 2_000)),
        (JoinWindows.of("5 ms").before("1 ms").after("9 ms"), JoinWindows(1_000, 9_000)),
        (TimeWindows.of(timedelta(hours=1)), TimeWindows.of("60 minutes")),
    ],
)
def test_factories_make_the_same_windows_as_their_fields(made: object, same: object) -> None:
    assert made == same


@pytest.mark.parametrize(
    "make",
    [
        lambda: TimeWindows.of("0 s"),
        lambda: TimeWindows.of("-1 s"),
        lambda: TimeWindows.of("5 ms").advance_by("0 ms"),
        lambda: TimeWindows.of("5 ms").advance_by("6 ms"),
        lambda: TimeWindows.of("5 ms").advance_by("-1 ms"),
        lambda: SessionWindows.of("-1 ms"),
        lambda: SlidingWindows.of_time_difference_with_no_grace("-1 ms"),
        lambda: JoinWindows.of("5 ms").before("-6 ms"),
        lambda: JoinWindows.of("-1 ms"),
        lambda: TimeWindows.of("soon"),
    ],
)
def test_sizes_that_can_never_work_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.parametrize(
    "windows",
    [
        SessionWindows.of("0 ms"),
        SlidingWindows.of_time_difference_with_no_grace("0 ms"),
        JoinWindows.of("0 ms"),
        JoinWindows.of("5 ms").before("-5 ms"),
        UnlimitedWindows.of().start_on(-1),
        UnlimitedWindows(FIRST_INSTANT_US),
        UnlimitedWindows(LAST_INSTANT_US),
    ],
)
def test_zero_gaps_and_differences_and_negative_instants_are_valid(windows: object) -> None:
    assert windows == windows


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: TimeWindows(_HOUR, _HOUR), r"Window size takes a whole number .*TimeWindows.of\(size\).* got 1:00:00"),
        (lambda: TimeWindows(5, "1 ms"), r"Advance takes .*advance_by.* got .1 ms"),
        (lambda: TimeWindows(5, 5, _HOUR), "Grace takes"),
        (lambda: TimeWindows(True, True), "got True"),
        (lambda: SlidingWindows("1 hour"), r"Time difference takes .*SlidingWindows.of\(difference\)"),
        (lambda: SessionWindows(_HOUR), "Session gap takes"),
        (lambda: UnlimitedWindows(datetime(2026, 1, 1)), "Start takes .*start_on"),
        (lambda: UnlimitedWindows.of().start_on("2026-01-01"), 'start_on takes a datetime.* got "2026-01-01"'),
        (lambda: UnlimitedWindows.of().start_on(-(10**18)), "of the years 1 to 9999; got -10{18}"),
        (lambda: UnlimitedWindows(253_402_300_800_000_000), "of the years 1 to 9999; got 253402300800000000"),
        (lambda: JoinWindows(_HOUR, _HOUR), "before takes"),
        (lambda: JoinWindows(5, 1.5), "after takes .* got 1.5"),
    ],
)
def test_windows_made_of_anything_but_microseconds_are_refused_with_what_takes_it(
    make: Callable[[], object], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()


def test_the_message_about_an_advance_names_both_numbers() -> None:
    with pytest.raises(ConfigurationError, match="advance 6 milliseconds and size 5 milliseconds"):
        TimeWindows.of("5 ms").advance_by("6 ms")


@pytest.mark.rule("R15", "R17", "R22")
@pytest.mark.parametrize("windows", _GRACEFUL, ids=_kind)
def test_windows_say_nothing_of_retention_or_segments(windows: Windows | JoinWindows) -> None:
    told = {name.lower().replace("_", "") for name in dir(windows)}
    assert not told & {"until", "maintainms", "retention", "retentionms", "segments", "segmentinterval"}
