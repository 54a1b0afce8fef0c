"""Texts that stand for dates and instants: the driver reads what Spark reads, and nothing else."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streams.time_texts import date_of, instant_of, instant_text, is_time_alone

_TEXTS = [
    "2026", "2026-1", "2026-01", "2026-01-05", "2026-1-5", " 2026-01-05\t", "+2026-01-05", "02026-01-05",
    "26-1-5", "2026-13-01", "2026-02-30", "2024-02-29", "0001-01-01", "1500-02-28", "9999-12-31", "2026-01-05X",
    "20260105", "2026-01-05 abc", "2026-01-05T", "2026-01-05Tabc", "2026-01 x", "", "abc", "٢٠٢٦-01-05",
    "2026-01-05 09", "2026-01-05T9", "2026-01-05 09:", "2026-01-05 09:30", "2026-01-05 9:3:1", "2026-01-05T09:30:15",
    "2026-01-05 24:00:00", "2026-01-05 09:60:00", "2026-01-05 09:30:15.", "2026-01-05 09:30:15.25",
    "2026-01-05 09:30:15.123456789", "2026-01-05T09:30:15Z", "2026-01-05 09:30:15 UTC", "2026-01-05 09:30:15z",
    "2026-01-05 09:30:15+01:00", "2026-01-05 09:30:15.5-05:30", "2026-01-05 09:30:15+1", "2026-01-05 09:30:15+01",
    "2026-01-05 09:30:15 +1:30", "2026-01-05 09:30:15+0100", "2026-01-05 09:30:15UTC+2",
    "2026-01-05 09:30:15 GMT-03:00", "2026-01-05 09:30:15+01:5", "2026-01-05 09:30+01:00", "2026-01-05 09:30Z",
    "2026-01-05 09:30:15 Europe/Berlin", "2026-03-29 02:30:00 Europe/Berlin",
    "2026-10-25 02:30:00 Europe/Berlin", "2026-01-05 09:30:15 Nowhere/Town",
    "2026-01-05 09:30:15+25:00", "2026-01-05 09:30:15 ../UTC", "2026-01-05 09:30:15x",
    "\x00\x1f2026-01-05\x7f", "\u00a02026-01-05", "2026-01-05 09:30\u2003", "2026-01-05 09:30:15 \x00Z",
    *(f"2026-07-05 09:30:15{offset}" for offset in ("+18:00", "-18:00", "+18:01", "+19:00", "UTC+19", "+05:99")),
    *(f"2026-07-05 09:30:15 {zone}" for zone in (
        "ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT", "EST", "HST", "IET",
        "IST", "JST", "MIT", "MST", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "VST", "CET", "GMT", "UT", "XYZ",
    )),
]  # fmt: skip


def test_a_text_is_the_date_and_the_instant_that_spark_reads(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in _TEXTS], "text string")
    columns = [F.col("text").try_cast(kind).cast("string") for kind in ("date", "timestamp")]
    read = {text: (day, at) for text, day, at in frame.select("text", *columns).collect()}
    here = {text: (_day(date_of(text)), _at(instant_of(text))) for text in _TEXTS}
    assert here == read


def _day(value: date | None) -> str | None:
    return None if value is None else value.isoformat()


def _at(value: datetime | None) -> str | None:
    return None if value is None else instant_text(value)


@pytest.mark.parametrize("text", ["now", "today", "tomorrow", "09:30", "T09:30:15", "12026-01-05", "-2026-01-05"])
def test_a_text_that_asks_the_clock_or_is_beyond_the_calendar_is_none(text: str) -> None:
    assert date_of(text) is None
    assert instant_of(text) is None


@pytest.mark.parametrize(("text", "day"), [("2026", date(2026, 1, 1)), ("2026-3", date(2026, 3, 1))])
def test_a_year_or_a_month_alone_is_its_first_day(text: str, day: date) -> None:
    assert date_of(text) == day


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-01-05 10", "2026-01-05 10:00:00"),
        ("2026-01-05 10:30", "2026-01-05 10:30:00"),
        ("2026-01-05", "2026-01-05 00:00:00"),
        ("2026-03", "2026-03-01 00:00:00"),
    ],
)
def test_what_an_instant_leaves_out_is_the_first_there_is(text: str, written: str) -> None:
    assert _at(instant_of(text)) == written


@pytest.mark.parametrize(
    ("text", "is_alone"),
    [("9:30", True), ("\x7f\t9:30", True), ("T9", True), ("T2026", False), ("2026-01-05 9:30", False)],
)
def test_a_time_alone_is_told_from_one_with_its_day(text: str, is_alone: bool) -> None:
    assert is_time_alone(text) is is_alone


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 1, 5, 9), "2026-01-05 09:00:00"),
        (datetime(2026, 1, 5, 9, tzinfo=timezone.utc), "2026-01-05 09:00:00"),
        (datetime(2026, 1, 5, 9, 0, 10, 120_000, tzinfo=timezone.utc), "2026-01-05 09:00:10.12"),
        (datetime(1, 1, 1, tzinfo=timezone.utc), "0001-01-01 00:00:00"),
    ],
)
def test_an_instant_is_written_in_utc_without_zone(value: datetime, text: str) -> None:
    assert instant_text(value) == text
