"""The line that a running job shows for each micro-batch."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import progress
from jobs.progress import HEADER, Progress, application_frames, batch_line, summary
from streams.spark import BatchReport
from versioned.identifiers import TableRef

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


def test_tables_that_no_batch_has_made_yet_are_left_out_of_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    made, missing = TableRef.parse("/data/events"), TableRef.parse("/data/alerts")
    monkeypatch.setattr(progress, "is_missing", lambda _, table: table == missing)
    monkeypatch.setattr(progress, "read_table", lambda _, table: table)
    app: Any = SimpleNamespace(spark=None, root="/root", tables=lambda: [made, missing])
    assert list(application_frames(app)) == ["events"]


def test_a_summary_without_any_table_says_that_there_is_none_yet() -> None:
    app: Any = SimpleNamespace(root="/root")
    assert summary(app, Progress(), {}).splitlines() == [
        "0 micro-batches in this run: no new input", "  no batch has made a table in /root yet",
    ]  # fmt: skip
