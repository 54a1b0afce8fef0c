"""Writes that fail or are overtaken: nothing stays on the session, and a conflict with maintenance is made good."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fault_chain import WRITE_SETTINGS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned import commit as commits
from versioned.commit import Append, Merge, ReplaceWhere, Step, Write, commit
from versioned.errors import CommitError
from versioned.identifiers import TableRef
from versioned.reading import read_table

_STEP = Step("app", "node", "main", epoch=1, batch_id=7)
_PATIENCE_S = 60


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> TableRef:
    """A table of two small files, which OPTIMIZE makes one of."""
    ref = TableRef.parse(str(tmp_path / "table"))
    for number in (1, 2):
        commit(ref, lambda number=number: Append(spark.range(number, number + 1).coalesce(1)))  # type: ignore[misc]
    return ref


@pytest.mark.parametrize(
    "write",
    [
        lambda rows: Merge(rows, "t.id = s.id", lambda merge: merge.whenNotMatchedInsertAll()),
        lambda rows: ReplaceWhere(rows, "id = 1"),
        lambda rows: Append(rows),
    ],
    ids=["merge", "replace", "append"],
)
def test_a_write_that_fails_leaves_no_setting_on_its_session(
    write: Callable[[DataFrame], Write], spark: SparkSession, target: TableRef
) -> None:
    failing = spark.range(3).select(F.raise_error(F.lit("no more disk")).cast("long").alias("id"))
    with pytest.raises(Exception, match=r"no more disk|TASK_WRITE_FAILED"):
        commit(target, lambda: write(failing), _STEP)
    assert [name for name in WRITE_SETTINGS if spark.conf.get(name, None) is not None] == []


def test_a_write_that_maintenance_overtakes_is_built_again_and_lands_once(
    spark: SparkSession, target: TableRef, tmp_path: Path
) -> None:
    begun, may_go_on = tmp_path / "begun", tmp_path / "may_go_on"
    builds: list[int] = []

    def build() -> Merge:
        builds.append(len(builds))
        rows = _held_back(spark.range(2, 4, numPartitions=1), begun, may_go_on)
        return Merge(rows, "t.id = s.id", lambda merge: merge.whenMatchedUpdateAll().whenNotMatchedInsertAll())

    def maintain() -> None:
        _wait_for(begun)
        spark.sql(f"OPTIMIZE {target.sql}")
        may_go_on.touch()

    with ThreadPoolExecutor(1) as pool:
        maintained = pool.submit(maintain)
        landed = commit(target, build, _STEP)
        maintained.result()
    assert builds == [0, 1]
    assert sorted(row["id"] for row in read_table(spark, target).collect()) == [1, 2, 3]
    assert commit(target, build, _STEP).version == landed.version


def test_a_table_that_stays_in_conflict_is_given_up_after_six_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def conflict(*_: object) -> None:
        tries.append("one")
        raise RuntimeError("io.delta.exceptions.ConcurrentAppendException: files were added")

    monkeypatch.setattr(commits, "_execute", conflict)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(CommitError, match="each of 6 tries"):
        commit(TableRef.parse("/anywhere"), lambda: Append(None), _STEP)  # type: ignore[arg-type]
    assert len(tries) == 6


def _held_back(rows: DataFrame, begun: Path, may_go_on: Path) -> DataFrame:
    """The rows, computed only after another commit: the write that asks for them has read the table by then."""
    told, awaited, patience_s = str(begun), str(may_go_on), _PATIENCE_S

    def hold(number: int) -> int:
        Path(told).touch()
        until = time.monotonic() + patience_s
        while not Path(awaited).exists() and time.monotonic() < until:
            time.sleep(0.05)
        return number

    return rows.select(F.udf(hold, "long")("id").alias("id"))


def _wait_for(file: Path) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.05)
