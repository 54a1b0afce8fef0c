"""The one commit function: idempotent per step, never skipped in silence, leaving no settings behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from versioned import commit as commit_module
from versioned import faults
from versioned.commit import Append, Merge, ReplaceWhere, Step, Write, commit, same_keys, saying
from versioned.errors import FencedError
from versioned.identifiers import TableRef
from versioned.reading import read_table
from versioned.session_settings import session_settings
from versioned.table_log import history, newest_own, own_details

#: What a write may put on the session for its own length.
_SETTINGS: Final = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.commitInfo.userMetadata",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled",
    "spark.sql.maxConcurrentOutputFileWriters",
    "spark.sql.parquet.outputTimestampType",
)


def _step(batch_id: int, *, epoch: int = 1, step: str = "main") -> Step:
    return Step("app", "node", step, epoch, batch_id)


def _frame(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(number, number > 5) for number in ids], "id INT, big BOOLEAN")


def _ids(spark: SparkSession, target: TableRef) -> list[int]:
    return sorted(row["id"] for row in read_table(spark, target).collect())


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> TableRef:
    """A table with the row 1, written by batch 0."""
    ref = TableRef.parse(str(tmp_path / "table"))
    commit(ref, lambda: Append(_frame(spark, 1)), _step(0))
    return ref


def test_a_replayed_step_writes_nothing_and_tells_what_landed_first(spark: SparkSession, target: TableRef) -> None:
    first = commit(target, lambda: Append(_frame(spark, 2)), _step(1), {"rows": 1})
    again = commit(target, lambda: Append(_frame(spark, 2)), _step(1), {"rows": 99})
    assert (again.version, again.details) == (first.version, {"rows": 1})
    assert _ids(spark, target) == [1, 2]


def test_two_steps_of_one_batch_on_one_table_both_land(spark: SparkSession, target: TableRef) -> None:
    commit(target, lambda: Append(_frame(spark, 2)), _step(1, step="splice"))
    commit(target, lambda: Append(_frame(spark, 3)), _step(1, step="main"))
    assert _ids(spark, target) == [1, 2, 3]


def test_an_older_epoch_is_fenced_instead_of_skipped_in_silence(spark: SparkSession, target: TableRef) -> None:
    commit(target, lambda: Append(_frame(spark, 2)), _step(0, epoch=2))
    with pytest.raises(FencedError, match="newer epoch"):
        commit(target, lambda: Append(_frame(spark, 3)), _step(9, epoch=1))
    assert _ids(spark, target) == [1, 2]


@pytest.mark.parametrize(("driver", "is_own"), [({"driver": "this"}, True), ({"driver": "other"}, False), ({}, False)])
def test_a_commit_whose_answer_was_lost_is_not_taken_for_that_of_another_driver(
    spark: SparkSession, target: TableRef, monkeypatch: pytest.MonkeyPatch, driver: dict[str, str], is_own: bool
) -> None:
    landed = commit(target, lambda: Append(_frame(spark, 2)), _step(1), {"n": 7, **driver})

    def meets_itself(*_: Any) -> None:
        raise RuntimeError("io.delta.exceptions.ConcurrentTransactionException: it has been updated meanwhile")

    monkeypatch.setattr(commit_module, "_execute", meets_itself)
    said = {"n": 7, **({"driver": "this"} if driver else {})}
    with nullcontext() if is_own else pytest.raises(FencedError, match="Another driver wrote"):
        assert commit(target, lambda: Append(_frame(spark, 2)), _step(1), said) == landed


def test_a_replayed_merge_is_skipped_too(spark: SparkSession, target: TableRef) -> None:
    def merge() -> Merge:
        return Merge(_frame(spark, 1, 2), "t.id = s.id", lambda m: m.whenMatchedDelete().whenNotMatchedInsertAll())

    commit(target, merge, _step(1))
    assert _ids(spark, target) == [2]
    commit(target, merge, _step(1))
    assert _ids(spark, target) == [2]


def test_replacing_where_lets_rows_move_out_of_the_replaced_part(spark: SparkSession, tmp_path: Path) -> None:
    target = TableRef.parse(str(tmp_path / "parts"))
    spark.sql(f"CREATE TABLE {target.sql} (id INT, big BOOLEAN) USING DELTA PARTITIONED BY (big)")
    commit(target, lambda: Append(_frame(spark, 1, 7)), _step(0))
    commit(target, lambda: ReplaceWhere(_frame(spark, 2, 8), "big = false"), _step(1))
    assert _ids(spark, target) == [2, 7, 8]


def test_what_is_written_in_one_task_is_one_file(spark: SparkSession, target: TableRef) -> None:
    commit(target, lambda: Append(_frame(spark, 1, 2, 3, 4).repartition(4)), _step(1), in_one_task=True)
    assert history(spark, target, 1)[0]["operationMetrics"]["numFiles"] == "1"
    assert _ids(spark, target) == [1, 1, 2, 3, 4]


def test_a_replacement_is_tried_again_where_a_merge_beside_it_has_said_half_of_its_identity(
    spark: SparkSession, target: TableRef
) -> None:
    tries = []

    def replace() -> ReplaceWhere:
        tries.append(1)
        if len(tries) == 1:
            spark.conf.set(_SETTINGS[0], "of the merge")
        else:
            spark.conf.unset(_SETTINGS[0])
        return ReplaceWhere(_frame(spark, 2), "big = false")

    commit(target, replace, _step(1))
    assert (len(tries), _ids(spark, target)) == (2, [2])


def test_no_write_leaves_a_setting_on_the_session(spark: SparkSession, target: TableRef) -> None:
    before = [spark.conf.get(name, None) for name in _SETTINGS]
    commit(target, lambda: Merge(_frame(spark, 4), "t.id = s.id", lambda m: m.whenNotMatchedInsertAll()), _step(1))
    commit(target, lambda: ReplaceWhere(_frame(spark, 5), "id = 4"), _step(2))
    assert [spark.conf.get(name, None) for name in _SETTINGS] == before


@pytest.mark.slow
def test_a_merge_beside_a_maintenance_command_tells_its_own_facts(spark: SparkSession, target: TableRef) -> None:
    # As a thread, or a batch, gets it.
    same = SparkSession(spark.sparkContext, spark._jsparkSession)

    def merged() -> None:
        commit(
            target,
            lambda: Merge(_frame(same, 4), "t.id = s.id", lambda m: m.whenNotMatchedInsertAll()),
            _step(1),
            {"of": "merge"},
        )

    with ThreadPoolExecutor(1) as pool:
        with saying(spark, {"of": "upkeep"}):
            beside = pool.submit(merged)
            wait([beside], timeout=3)
            spark.sql(f"ALTER TABLE {target.sql} SET TBLPROPERTIES ('a' = '1')")
        beside.result()
    told = {row["operation"]: (own_details(row) or {})["details"] for row in history(spark, target, 2)}
    assert told == {"SET TBLPROPERTIES": {"of": "upkeep"}, "MERGE": {"of": "merge"}}


def test_a_merge_in_another_session_waits_for_no_maintenance(spark: SparkSession, target: TableRef) -> None:
    other = spark.newSession()
    with ThreadPoolExecutor(1) as pool, saying(spark, {"of": "upkeep"}):
        merge = Merge(_frame(other, 4), "t.id = s.id", lambda m: m.whenNotMatchedInsertAll())
        pool.submit(commit, target, lambda: merge, _step(1), {"of": "merge"}).result(timeout=60)
    assert (own_details(history(spark, target, 1)[0]) or {})["details"] == {"of": "merge"}


@pytest.mark.slow
def test_every_write_stores_instants_as_microseconds(spark: SparkSession, tmp_path: Path) -> None:
    ref = TableRef.parse(str(tmp_path / "instants"))

    def frame(*ids: int) -> DataFrame:
        return _frame(spark, *ids).withColumn("at", F.timestamp_seconds("id"))

    commit(ref, lambda: Append(frame(1)), _step(0))
    commit(ref, lambda: Merge(frame(1, 2), "t.id = s.id", lambda m: m.whenMatchedUpdateAll()), _step(1))
    commit(ref, lambda: ReplaceWhere(frame(3), "id = 9"), _step(2))
    with saying(spark, {}):
        spark.sql(f"OPTIMIZE {ref.sql}")
    assert [row["operation"] for row in history(spark, ref, 4)] == ["OPTIMIZE", "WRITE", "MERGE", "WRITE"]
    files = (tmp_path / "instants").glob("*.parquet")
    assert {pq.ParquetFile(file).schema.column(2).physical_type for file in files} == {"INT64"}


def test_the_commit_of_a_write_is_not_that_of_the_compaction_behind_it(spark: SparkSession, target: TableRef) -> None:
    automatic = {
        "spark.databricks.delta.autoCompact.enabled": "true",
        "spark.databricks.delta.autoCompact.minNumFiles": "2",
    }
    for number in range(2, 4):
        commit(target, lambda number=number: Append(_frame(spark, number)), _step(number))
    with session_settings(spark, automatic):
        landed = commit(
            target, lambda: Merge(_frame(spark, 4), "t.id = s.id", lambda m: m.whenNotMatchedInsertAll()), _step(4)
        )
    compacted, merged = history(spark, target, 2)
    assert (compacted["operation"], merged["operation"]) == ("OPTIMIZE", "MERGE")
    # It carries what the MERGE says, and is none of its commits.
    assert compacted["userMetadata"] == merged["userMetadata"]
    assert (own_details(compacted), own_details(merged) is None) == (None, False)
    found = newest_own(spark, target, _step(4).identity)
    assert found is not None
    assert landed.version == found.version == merged["version"]


@pytest.fixture
def histories(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commits were asked for whenever a table's history was."""
    asked: list[int] = []

    def told(session: SparkSession, target: TableRef, limit: int) -> list[Row]:
        asked.append(limit)
        return history(session, target, limit)

    monkeypatch.setattr("versioned.table_log.history", told)
    return asked


@pytest.mark.parametrize(
    ("others", "asked"),
    [pytest.param(0, [], id="none"), pytest.param(2, [], id="few"), pytest.param(3, [3], id="more")],
)
def test_the_history_is_asked_only_where_many_others_wrote_meanwhile(
    spark: SparkSession, target: TableRef, histories: list[int], others: int, asked: list[int]
) -> None:
    for _ in range(others):
        _frame(spark, 7).write.format("delta").mode("append").save(str(target))
    landed = commit(target, lambda: Append(_frame(spark, 2)), _step(1), {"rows": 1})
    assert (landed.version, landed.details, histories) == (others + 1, {"rows": 1}, asked)


def test_a_write_outside_a_batch_is_not_taken_for_another_one(
    spark: SparkSession, target: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, others = commit_module._write_with_retry, [{"who": "other"}]

    def and_another_behind(*asked: Any) -> SparkSession:
        session = write(*asked)
        if others:
            commit(target, lambda: Append(_frame(spark, 8)), None, others.pop())
        return session

    monkeypatch.setattr(commit_module, "_write_with_retry", and_another_behind)
    landed = commit(target, lambda: Append(_frame(spark, 2)), None, {"who": "own"})
    assert (landed.version, landed.details) == (1, {"who": "own"})


def test_a_write_outside_a_batch_that_changes_nothing_tells_of_the_one_before(
    spark: SparkSession, target: TableRef
) -> None:
    before = commit(target, lambda: Append(_frame(spark, 2)), None, {"who": "own"})
    gone = _frame(spark, 99)
    nothing = commit(target, lambda: Merge(gone, same_keys(["id"]), lambda merge: merge.whenMatchedDelete()))
    assert (nothing, history(spark, target, 1)[0]["version"]) == (before, before.version)


def test_what_others_commit_with_the_same_words_is_not_taken_for_the_own(spark: SparkSession, target: TableRef) -> None:
    # As OPTIMIZE does that runs in the session of a MERGE.
    words = json.dumps({"versioned": {"txn": "app/node/main", "epoch": 1, "batch": 1}, "details": {}})
    _frame(spark, 7).write.format("delta").mode("append").option("userMetadata", words).save(str(target))
    assert commit(target, lambda: Append(_frame(spark, 2)), _step(1)).version == 2


def test_in_a_table_that_replaced_another_the_own_commit_is_found(spark: SparkSession, target: TableRef) -> None:
    commit(target, lambda: Append(_frame(spark, 2)), _step(1))
    shutil.rmtree(str(target))
    for batch in (2, 3):
        assert commit(target, lambda: Append(_frame(spark, 3)), _step(batch)).version == batch - 2


def test_a_write_outside_a_batch_lands_whatever_transaction_the_session_names(
    spark: SparkSession, target: TableRef
) -> None:
    users = {"spark.databricks.delta.write.txnAppId": "theirs", "spark.databricks.delta.write.txnVersion": "7"}
    with session_settings(spark, users):
        commit(target, lambda: Append(_frame(spark, 2)))
        commit(target, lambda: Append(_frame(spark, 3)))
        commit(target, lambda: Merge(_frame(spark, 1), "t.id = s.id", lambda merge: merge.whenMatchedDelete()))
        assert {name: spark.conf.get(name) for name in users} == users
    assert _ids(spark, target) == [2, 3]


def test_a_crash_between_two_steps_is_completed_by_the_replay(spark: SparkSession, target: TableRef) -> None:
    class Crash(BaseException):
        pass

    def crash(name: str) -> None:
        if name == "before:node/main":
            raise Crash

    def batch() -> None:
        commit(target, lambda: Append(_frame(spark, 2)), _step(1, step="splice"))
        commit(target, lambda: Append(_frame(spark, 3)), _step(1, step="main"))

    with faults.armed(crash), pytest.raises(Crash):
        batch()
    assert _ids(spark, target) == [1, 2]
    batch()
    assert _ids(spark, target) == [1, 2, 3]


@pytest.mark.slow
def test_writes_at_the_same_time_keep_their_own_identities_and_leave_no_settings(
    spark: SparkSession, tmp_path: Path
) -> None:
    def replace() -> ReplaceWhere:
        # The new row lies outside of what is replaced, which Delta refuses unless its check is off.
        return ReplaceWhere(_frame(spark, 9), "big = false")

    def merge() -> Merge:
        return Merge(_frame(spark, 9), "t.id = s.id", lambda m: m.whenMatchedDelete().whenNotMatchedInsertAll())

    def append() -> Append:
        return Append(_frame(spark, 9))

    kinds: list[Callable[[], Write]] = [replace, merge, append]
    tables = [TableRef.parse(str(tmp_path / f"{kind.__name__}-{n}")) for n in range(2) for kind in kinds]
    for table in tables:
        commit(table, lambda: Append(_frame(spark, 1)), _step(0))

    def write(number: int) -> None:
        step = Step("app", f"node{number}", "main", 1, 1)
        landed = commit(tables[number], kinds[number % 3], step, {"node": number})
        assert (landed.version, landed.details) == (1, {"node": number})

    for _ in ("first", "replayed"):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(6)))
    assert [_ids(spark, table) for table in tables] == [[9], [1, 9], [1, 9]] * 2
    assert [spark.conf.get(name, None) for name in _SETTINGS] == [None] * len(_SETTINGS)
