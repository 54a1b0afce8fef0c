"""Instants on a line, and their ticks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from versioned.durations import instant_us
from versioned.errors import RecordError
from versioned.time_axis import TimeAxis, given_us, instant_text

_FIRST, _LAST = instant_us(datetime(1, 1, 1)), instant_us(datetime(9999, 12, 31, 23, 59, 59, 999_999))
_INSTANTS = st.integers(_FIRST, _LAST)
_2026 = instant_us(datetime(2026, 1, 1))


def _axis(start_us: int, end_us: int) -> TimeAxis:
    return TimeAxis(start_us, end_us, left=100, right=900)


@given(_INSTANTS, st.integers(0, 60), st.integers(0, 9))
@example(_FIRST, 47, 2)  # every second year from the year 1 on, before which there is none
def test_ticks_of_any_span_lie_inside_in_order_and_apart(start_us: int, power: int, digit: int) -> None:
    axis = _axis(start_us, min(start_us + digit * 2**power, _LAST))
    ticks = axis.ticks(apart=90)
    places = [axis.x(tick.at_us) for tick in ticks]
    assert all(axis.start_us <= tick.at_us <= axis.end_us for tick in ticks)
    assert all(after - before > 89.999 for before, after in pairwise(places))


@pytest.mark.parametrize("power", range(1, 57))
def test_any_span_has_ticks(power: int) -> None:
    assert 1 <= len(_axis(_2026 - 2**power // 2, _2026 + 2**power // 2).ticks()) <= 10


@given(_INSTANTS, _INSTANTS, _INSTANTS)
def test_places_are_in_the_order_of_instants(one: int, other: int, third: int) -> None:
    start, middle, end = sorted((one, other, third))
    axis = _axis(start, end)
    assert 100 == axis.x(start) <= axis.x(middle) <= axis.x(end) <= 900


@pytest.mark.parametrize(("at_us", "x"), [(-50, 100), (0, 100), (25, 300), (100, 900), (5_000, 900)])
def test_places_are_in_proportion_to_time_and_end_at_the_edges(at_us: int, x: float) -> None:
    assert _axis(0, 100).x(at_us) == x


def test_one_instant_has_one_tick() -> None:
    (tick,) = _axis(_2026 + 1, _2026 + 1).ticks()
    assert (tick.at_us, tick.text, tick.within) == (_2026 + 1, "00:00:00.000001", "1 Jan 2026")


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(microseconds=4), ["00:00:00.000000", "00:00:00.000001"]),
        (timedelta(milliseconds=40), ["00:00:00.000", "00:00:00.005"]),
        (timedelta(seconds=40), ["00:00:00", "00:00:05"]),
        (timedelta(minutes=40), ["00:00", "00:05"]),
        (timedelta(days=7), ["1 Jan", "2 Jan"]),
        (timedelta(days=300), ["Jan", "Apr"]),
        (timedelta(days=2_900), ["2026", "2027"]),
        (timedelta(days=290_000), ["2100", "2200"]),
    ],
)
def test_ticks_are_told_as_finely_as_they_need_to_be(span: timedelta, words: list[str]) -> None:
    ticks = _axis(_2026, _2026 + span // timedelta(microseconds=1)).ticks()
    assert [tick.text for tick in ticks][:2] == words


def test_the_day_is_told_where_it_begins() -> None:
    ticks = _axis(_2026 - 6 * 3_600_000_000, _2026 + 6 * 3_600_000_000).ticks()
    told = [(tick.text, tick.within) for tick in ticks if tick.within]
    assert told == [("18:00", "31 Dec 2025"), ("00:00", "1 Jan 2026")]


def test_weeks_begin_on_mondays() -> None:
    ticks = _axis(_2026, _2026 + 40 * 86_400_000_000).ticks()
    assert {(datetime(1970, 1, 1) + timedelta(microseconds=tick.at_us)).weekday() for tick in ticks} == {0}


@pytest.mark.parametrize(
    ("value", "us"),
    [
        (datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
        (pd.Timestamp("1970-01-01 00:00:01"), 1_000_000),
        (-1, -1),
        (None, None),
        (pd.NaT, None),
        (pd.NA, None),
        (float("nan"), None),
    ],
)
def test_instants_come_as_datetimes_integers_or_nulls(value: Any, us: int | None) -> None:
    assert given_us(value, "validFrom") == us


@pytest.mark.parametrize("value", ["2026-01-01", True, 1.5, _LAST + 1, _FIRST - 1])
def test_what_is_no_instant_is_refused_with_its_column(value: Any) -> None:
    with pytest.raises(RecordError, match="validFrom"):
        given_us(value, "validFrom")


@pytest.mark.parametrize(
    ("at_us", "words"),
    [(_FIRST, "0001-01-01 00:00:00 UTC"), (_LAST, "9999-12-31 23:59:59.999999 UTC"), (0, "1970-01-01 00:00:00 UTC")],
)
def test_instants_are_told_exactly(at_us: int, words: str) -> None:
    assert instant_text(at_us) == words
