"""Durations and instants as integers of microseconds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from versioned.durations import (
    FIRST_INSTANT_US,
    LAST_INSTANT_US,
    LONGEST_US,
    duration,
    duration_us,
    in_words,
    instant,
    instant_us,
    span_us,
)
from versioned.errors import ConfigurationError

_HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("10 minutes", 600_000_000),
        ("1 minute", 60_000_000),
        ("1 day 2 hours", 26 * _HOUR_US),
        ("1 day, 2 hours", 26 * _HOUR_US),
        ("interval 3 weeks", 21 * 24 * _HOUR_US),
        ("INTERVAL 1 Hour", _HOUR_US),
        ("  5   seconds ", 5_000_000),
        ("300ms", 300_000),
        ("7 us", 7),
        ("2 h 30 min", _HOUR_US * 5 // 2),
        ("1 d", 24 * _HOUR_US),
        ("0 seconds", 0),
        ("-3 seconds", -3_000_000),
        ("1 hour -1 minute", 59 * 60_000_000),
    ],
)
def test_a_text_is_read_as_people_write_durations(text: str, us: int) -> None:
    assert duration_us(text) == us


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "  ",
            "interval",
            "10",
            "minutes",
            "1.5 hours",
            "5 months",
            "1 year",
            "10 minutes later",
            "1 h 30",
            "P7D",
        ),
        *("5 ss", "5 mss", "5 s,,,", ",5 s", "1 h,, 5 s", "+-5 s"),
    ],
)
def test_a_text_that_is_no_duration_is_refused_with_what_was_written(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a duration") as refused:
        duration_us(text)
    assert f'"{text}"' in str(refused.value)


@pytest.mark.parametrize("text", ["10 m", "10 sec", "2 w", "1 month", "1.5 days"])
def test_a_number_and_a_unit_that_are_refused_are_told_all_units_that_there_are(text: str) -> None:
    with pytest.raises(ConfigurationError, match="whole numbers only") as refused:
        duration_us(text)
    short, _, longest = str(refused.value).partition("Units: ")[2].partition(", or in words up to ")
    assert sorted(duration_us(f"1 {unit}") for unit in short.split(", ")) == sorted(
        duration_us(f"1 {unit}") for unit in ["microsecond", "millisecond", "second", "minute", "hour", "day"]
    )
    assert duration_us(f"2 {longest.partition(';')[0]}") == 14 * 24 * _HOUR_US


@given(st.integers(-LONGEST_US, LONGEST_US))
def test_a_duration_in_words_is_read_as_itself(us: int) -> None:
    words = in_words(us)
    assert words == "0" if us == 0 else duration_us(words) == us


@pytest.mark.parametrize("value", [30, 1.5, None, True])
@pytest.mark.parametrize("read", [duration, duration_us])
def test_what_is_neither_a_text_nor_a_timedelta_is_refused_with_what_it_was(
    read: Callable[[Any], object], value: object
) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{value} is not a duration. Write a number and a unit"):
        read(value)


@pytest.mark.parametrize(
    "text",
    ["99999999999999999999 ms", "-1000000000 days", "1000000000 days", "999999999 days 24 hours", f"{'9' * 5_000} s"],
)
@pytest.mark.parametrize("read", [duration, duration_us])
def test_a_text_longer_than_any_duration_is_refused_with_the_longest(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"at most 999,999,999 days") as refused:
        read(text)
    assert f'"{text[:60]}' in str(refused.value)


@pytest.mark.parametrize("length", [timedelta.max, timedelta(days=10_000_001), "999999999 days", "10000000 days"])
def test_a_duration_longer_than_time_is_ten_million_days(length: timedelta | str) -> None:
    assert duration(length) == timedelta(microseconds=LONGEST_US) == timedelta(days=10_000_000)


@pytest.mark.parametrize("length", [timedelta.min, "-999999999 days"])
def test_a_negative_duration_is_bounded_alike(length: timedelta | str) -> None:
    assert duration_us(length) == -LONGEST_US


def test_the_longest_duration_is_longer_than_time_and_eight_of_them_fit_in_64_bits() -> None:
    assert LAST_INSTANT_US - FIRST_INSTANT_US < LONGEST_US < 2**63 // 8 - LAST_INSTANT_US // 8


def test_a_span_may_be_of_no_length_but_not_negative() -> None:
    assert span_us("max_future_skew", "0 seconds") == 0
    with pytest.raises(ConfigurationError, match="max_future_skew must not be negative"):
        span_us("max_future_skew", "-1 us")


@given(st.timedeltas(min_value=timedelta(days=-100_000), max_value=timedelta(days=100_000)))
def test_a_timedelta_keeps_every_microsecond(length: timedelta) -> None:
    assert duration(length) == timedelta(microseconds=duration_us(length)) == length


def test_a_datetime_without_zone_is_utc() -> None:
    naive = datetime(2013, 1, 1, 12, 30, 0, 1)
    assert instant_us(naive) == instant_us(naive.replace(tzinfo=timezone.utc))


def test_the_zone_of_a_datetime_counts() -> None:
    east = timezone(timedelta(hours=2))
    assert instant_us(datetime(1970, 1, 1, 2, tzinfo=east)) == 0


@pytest.mark.parametrize("value", [pd.NaT, "2026-01-31", 0], ids=repr)
def test_what_is_no_datetime_and_what_pandas_has_for_none_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{value!r} is no instant. Give a datetime"):
        instant_us(value)


def test_an_instant_before_1970_is_negative() -> None:
    assert instant_us(datetime(1969, 12, 31, 23, 59, 59, 999_999)) == -1


@given(st.datetimes(timezones=st.just(timezone.utc)))
def test_an_instant_comes_back_as_the_same_datetime(at: datetime) -> None:
    assert instant(instant_us(at)) == at
