"""What the log of a table tells of an earlier erasure, and of the vacuums behind it."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from streams.spark import past_erasure as past_erasure_module
from streams.spark.past_erasure import newest_erasure, past_erasure
from versioned.identifiers import TableRef

_WEEK = timedelta(days=7)


def _row(day: int, operation: str, said: dict[str, Any] | None = None, **parameters: str) -> dict[str, Any]:
    """A commit at noon of a day of January."""
    metadata = None if said is None else json.dumps({"versioned": {}, "details": said})
    at = datetime(2026, 1, day, 12, tzinfo=timezone.utc)
    return {"timestamp": at, "operation": operation, "operationParameters": parameters, "userMetadata": metadata}


def _vacuum(
    day: int, status: str = "COMPLETED", said: dict[str, Any] | None = None, retain: timedelta | None = None
) -> list[Any]:
    """Its end and its begin, newest first."""
    kept = {"defaultRetentionMillis": "604800000"}
    if retain is not None:
        kept["specifiedRetentionMillis"] = str(retain // timedelta(milliseconds=1))
    return [_row(day, "VACUUM END", said, status=status), _row(day, "VACUUM START", said, **kept)]


#: On the first of January.
_ERASED = [_row(1, "MERGE", {"erased": True})]


@pytest.mark.parametrize(
    ("behind", "gone"),
    [
        pytest.param([], date(2026, 1, 10), id="none"),
        pytest.param(_vacuum(9), date(2026, 1, 10), id="before the day"),
        pytest.param(_vacuum(10), None, id="on the day"),
        pytest.param([_row(20, "OPTIMIZE", {}), *_vacuum(12), *_vacuum(5)], None, id="one of several"),
        pytest.param(_vacuum(12, "FAILED"), date(2026, 1, 10), id="one that failed"),
        pytest.param(_vacuum(12)[1:], date(2026, 1, 10), id="one that did not end"),
        pytest.param([*_vacuum(14, "FAILED"), *_vacuum(12)], None, id="one that failed behind one that ended"),
        pytest.param(_vacuum(12, retain=timedelta(days=10)), date(2026, 1, 10), id="one that kept files for longer"),
        pytest.param(_vacuum(13, retain=timedelta(days=10)), None, id="one that kept files for longer on its day"),
        pytest.param(_vacuum(2, retain=timedelta()), date(2026, 1, 10), id="at once"),
        pytest.param(_vacuum(12, said={"erased": True}), None, id="one that went on telling of the erasure"),
    ],
)
def test_files_are_gone_once_a_vacuum_ended_that_began_on_the_day_that_was_told(
    behind: list[Any], gone: date | None
) -> None:
    found = newest_erasure([*behind, *_ERASED])
    assert found is not None
    assert found.files_gone(_WEEK) == gone


def test_a_table_that_keeps_files_for_longer_is_waited_for() -> None:
    found = newest_erasure([*_vacuum(12), *_ERASED])
    assert found is not None
    assert found.files_gone(timedelta(days=30)) == date(2026, 2, 2)


def test_of_several_erasures_the_newest_counts_and_no_vacuum_before_it() -> None:
    found = newest_erasure([_row(20, "REORG", {"erased": True}), *_vacuum(12), *_ERASED])
    assert found is not None
    assert (found.at.day, found.vacuums) == (20, ())


@pytest.mark.parametrize(
    "others",
    [[], [_row(1, "MERGE", {"counted": 3})], [{**_row(1, "MERGE"), "userMetadata": '{"erased": true}'}], _vacuum(3)],
    ids=["nothing", "another write", "somebody else's", "a vacuum"],
)
def test_what_is_no_erasure_of_this_library_tells_of_none(others: list[Any]) -> None:
    assert newest_erasure(others) is None


@pytest.mark.parametrize(
    ("newest", "found", "looked_at"),
    [(5, [], [1_000]), (5_000, [], [1_000, 100_000]), (5_000, _ERASED, [1_000])],
    ids=["a short log", "a long one", "a long one with a new erasure"],
)
def test_a_long_log_is_read_far_back_only_if_its_newest_commits_tell_of_no_erasure(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, newest: int, found: list[Any], looked_at: list[int]
) -> None:
    history = Mock(return_value=found)
    monkeypatch.setattr(past_erasure_module, "history", history)
    past_erasure(spark, TableRef.parse("/data/prices"), newest)
    assert [call.args[2] for call in history.call_args_list] == looked_at
