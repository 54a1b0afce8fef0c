"""The line that a running job shows for each micro-batch."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from jobs.progress import HEADER, Progress, batch_line
from streams.spark import BatchReport

_REPORT = BatchReport(
    batch_id=7,
    clock=datetime(2026, 1, 1, tzinfo=timezone.utc),
    input={"flights": 14_000, "weather": 1_000},
    emitted={"departures": 900, "flights_with_weather": 13_900},
    late=41,
    rejected=283,
    seconds=12.34,
)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("batch", "7"),
        ("records", "15,000"),
        ("late", "41"),
        ("rejected", "283"),
        ("emitted", "14,800"),
        ("seconds", "12.3"),
    ],
)
def test_each_column_shows_its_number(column: str, value: str) -> None:
    assert dict(zip(HEADER.split(), batch_line(_REPORT).split(), strict=True))[column] == value


def test_numbers_stand_below_their_heading() -> None:
    assert len(batch_line(_REPORT)) == len(HEADER)


def test_a_run_remembers_numbers_and_no_reports() -> None:
    done = Progress()
    for _ in range(3):
        done.add(_REPORT)
    assert (done.batches, dict(done.records)) == (3, {"flights": 42_000, "weather": 3_000})
