"""What the log of a table tells: all of its commits, and which one a write left there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from versioned.commit import Append, Step, commit
from versioned.identifiers import TableRef
from versioned.table_log import commits_between, every_commit, history, newest_own

#: Linux ticks every 10 ms at the slowest, and file systems that know milliseconds only round once more.
_COARSEST_FILE_CLOCK_US: Final = 11_000


def _step(batch_id: int) -> Step:
    return Step("app", "node", "main", 1, batch_id)


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> TableRef:
    """A table that batch 0 wrote."""
    ref = TableRef.parse(str(tmp_path / "table"))
    commit(ref, lambda: Append(spark.range(1)), _step(0))
    return ref


@pytest.fixture(scope="module")
def four_commits(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableRef:
    """A table with as many, most of them of batches."""
    ref = TableRef.parse(str(tmp_path_factory.mktemp("commits") / "t"))
    for step in (None, _step(0), _step(1), _step(2)):
        commit(ref, lambda: Append(spark.range(1)), step)
    return ref


@pytest.mark.parametrize("page", [1, 2, 4, 5])
def test_every_commit_is_told_once_newest_first_however_many_a_page_has(
    spark: SparkSession, four_commits: TableRef, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr("versioned.table_log._PAGE", page)
    names = ("version", "operation", "userMetadata")
    told, wanted = every_commit(spark, four_commits), history(spark, four_commits, 100)
    assert [[row[name] for name in names] for row in told] == [[row[name] for name in names] for row in wanted]
    assert len(wanted) == 4


def test_where_one_version_follows_another_nothing_is_read_of_what_lies_between() -> None:
    session = Mock(spec_set=())
    assert commits_between(session, TableRef.parse("/t"), 5, 6) == []


@pytest.mark.parametrize("tells_files", [True, False], ids=["by the log's files", "by the history"])
def test_the_commits_between_two_versions_are_told_newest_first(
    spark: SparkSession, four_commits: TableRef, monkeypatch: pytest.MonkeyPatch, tells_files: bool
) -> None:
    if not tells_files:
        monkeypatch.setattr("versioned.table_log.commit_infos", lambda *_: {})
    told = commits_between(spark, four_commits, 0, 3)
    assert [(row["version"], row["operation"]) for row in told] == [(2, "WRITE"), (1, "WRITE")]


def test_the_own_commit_is_found_below_maintenance(spark: SparkSession, target: TableRef) -> None:
    landed = commit(target, lambda: Append(spark.range(1)), _step(1))
    for _ in range(4):
        commit(target, lambda: Append(spark.range(1)))
    found = newest_own(spark, target, _step(1).identity)
    assert found is not None
    assert found.version == landed.version < history(spark, target, 1)[0]["version"]


def test_a_commit_tells_when_it_was_made_by_the_log_and_by_the_history_in_any_time_zone(
    spark: SparkSession, target: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_us = time.time_ns() // 1_000
    landed = commit(target, lambda: Append(spark.range(1)))
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        by_history = newest_own(spark, target)
    time.tzset()
    assert by_history is not None
    ended_us = time.time_ns() // 1_000
    # The history tells the time of the log's file, and some file systems round that down to the kernel's last tick.
    for told_us in (landed.at_us, by_history.at_us):
        assert began_us - _COARSEST_FILE_CLOCK_US <= told_us <= ended_us
