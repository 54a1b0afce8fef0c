"""Twenty SIGKILLs of the whole process group, at writes and at any time, leave the tables of an uninterrupted run."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from fault_chain import Script, run_through
from fault_compare import Differences, Tables, differences, tables_of
from fault_plans import application, write_batches
from kill_chain import Kill, Life, live_and_die, told
from pyspark.sql import SparkSession

#: Fewer kills for a quick look: ``KILLS=5 pytest -m slow tests/streams/spark/test_kills.py``.
_KILLS = int(os.environ.get("KILLS", "20"))
_KIND = "stream-table join"
_TABLES = ("rejects/main", "joined/main", "newest/main", "versions_c/splice", "versions_c/main", "ledger/row")
_POINTS = [f"{moment}:{step}" for step in _TABLES for moment in ("before", "after")]
#: A start that ends by itself before its time is no kill; so many of them are allowed for each kill.
_PATIENCE = 2
_LONGEST_S = 8.0
#: Batches that wait at each start.
_AHEAD = 2


def _kill(chance: random.Random) -> Kill:
    if chance.random() < 0.5:
        return Kill(point=chance.choice(_POINTS))
    return Kill(after_s=chance.uniform(0.0, _LONGEST_S))


def _lives(folder: Path, seed: int) -> list[Life]:
    """So many kills; no start is without work."""
    chance, lives = random.Random(seed), list[Life]()
    while sum(life.was_killed for life in lives) < _KILLS and len(lives) < _KILLS * _PATIENCE:
        written = len(list((folder / "in" / "a").glob("*.json")))
        if written - len(list((folder / "killed" / "_checkpoint" / "commits").glob("[0-9]*"))) < _AHEAD:
            write_batches(folder / "in", 1, first=written)
        lives.append(live_and_die(_KIND, folder / "in", folder / "killed", folder / "log", _kill(chance)))
    return lives


def _tables(spark: SparkSession, folder: Path, out: str) -> Tables:
    """What is there once all input is done, in this process."""
    app = run_through(lambda: application(spark, _KIND, folder / "in", folder / out), Script())
    return tables_of(spark, app, versions=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_chain_of_kills_loses_doubles_and_changes_nothing(
    seed: int, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_batches(tmp_path / "in", _AHEAD)
    lives = _lives(tmp_path, seed)
    killed, wanted = (_tables(spark, tmp_path, out) for out in ("killed", "whole"))
    found = differences(killed, wanted)
    with capsys.disabled():
        print(f"\nseed {seed}: {told(lives)}; {found}")
    assert sum(life.was_killed for life in lives) == _KILLS
    assert found == Differences(), found.examples
