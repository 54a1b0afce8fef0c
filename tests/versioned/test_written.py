"""What the newest commits of a table tell: rows of its history, newest first."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from versioned import written
from versioned.commit import Append, Step, commit
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.table import VersionedTable
from versioned.table_log import history, own_details, recall
from versioned.written import (
    Written,
    are_newest,
    are_taking_back,
    newest,
    refuse_between_writes,
    state_of,
    written_by,
)


def _commit(version: int, operation: str | None = "WRITE", txn: str | None = None, batch: int = 0) -> dict[str, Any]:
    identity = {"txn": txn, "epoch": 1, "batch": batch} if txn else {}
    said = json.dumps({"versioned": identity, "details": {"n": batch}})
    return {"version": version, "operation": operation, "userMetadata": said if operation == "WRITE" else None}


def _restore(version: int, to: int | None) -> dict[str, Any]:
    said = {"version": None if to is None else str(to), "timestamp": None}
    return {**_commit(version, "RESTORE"), "operationParameters": said}


def _put_in_place(version: int, operation: str) -> dict[str, Any]:
    return {**_commit(version, operation), "operationParameters": {"source": "delta.`/copies/store`"}}


def test_maintenance_on_top_hides_no_batch() -> None:
    state = state_of([_commit(8, "OPTIMIZE"), _commit(7), _commit(6, txn="app/store/main", batch=4)])
    assert (state.version, state.written, state.restored) == (8, Written(1, 4), False)
    assert state.written is not None
    assert (state.written.application, state.written.node, state.written.details) == ("app", "store", {"n": 4})


@pytest.mark.parametrize("operation", ["OPTIMIZE", "CREATE TABLE", "CREATE OR REPLACE TABLE"])
def test_what_delta_commits_by_itself_beside_a_batch_is_none_of_that_batch(operation: str) -> None:
    beside = {**_commit(8, txn="app/other/main", batch=4), "operation": operation, "operationParameters": {}}
    own = _commit(7, txn="app/store/main", batch=4)
    state = state_of([beside, own])
    assert state.written is not None
    assert (state.version, state.written.node) == (8, "store")
    assert own_details(beside) is None


_BATCH = _commit(6, txn="app/store/main")


@pytest.mark.parametrize(
    ("newest_first", "restored"),
    [
        pytest.param([_restore(7, 5), _BATCH], True, id="the batch was taken back"),
        pytest.param([_BATCH, _restore(5, 3)], False, id="a batch came after it"),
        pytest.param([_restore(7, 6), _BATCH], False, id="to the batch itself"),
        pytest.param([_restore(9, 7), _commit(8), _commit(7), _BATCH], False, id="only upkeep was taken back"),
        pytest.param([_restore(8, 6), _restore(7, 5), _BATCH], False, id="taken back, then brought forward"),
        pytest.param([_restore(9, 7), _commit(8), _restore(7, 5), _BATCH], True, id="back to where it was taken back"),
        pytest.param([_restore(8, 5), _restore(7, 6), _BATCH], True, id="brought forward, then taken back"),
        pytest.param([_restore(7, None), _BATCH], True, id="to an instant, which tells no version"),
        pytest.param([_put_in_place(7, "CLONE"), _BATCH], True, id="a clone took its place"),
        pytest.param([_put_in_place(7, "CREATE OR REPLACE TABLE AS SELECT"), _BATCH], True, id="other rows did"),
        pytest.param([_put_in_place(0, "CLONE")], False, id="a clone that is the table's first commit"),
        pytest.param([_restore(8, 6), _put_in_place(7, "CLONE"), _BATCH], False, id="a clone did, and was taken back"),
    ],
)
def test_a_restore_counts_if_it_takes_the_newest_batch_back(newest_first: list[dict[str, Any]], restored: bool) -> None:
    assert state_of(newest_first).restored is restored


@pytest.mark.parametrize(
    ("newest_first", "is_back"),
    [
        ([_commit(7), _commit(6, "OPTIMIZE")], False),
        ([_commit(7), _restore(6, 4)], True),
        ([_restore(6, 5)], False),
        ([_restore(7, 5), _restore(6, 4)], False),
        ([_restore(7, 6), _commit(6)], False),
        ([_restore(7, 6), _restore(6, 4)], True),
        ([_restore(6, None)], True),
        ([_put_in_place(6, "CLONE")], True),
        ([{"version": 6, "operation": "DELETE", "userMetadata": None}], False),
    ],
)
def test_between_two_versions_a_table_is_taken_back_by_what_leaves_it_without_the_rows_of_the_first(
    newest_first: list[dict[str, Any]], is_back: bool
) -> None:
    assert are_taking_back(newest_first, 5) is is_back


_MADE = {"version": 0, "operation": "CREATE TABLE", "userMetadata": None}
_FOREIGN = {"version": 8, "operation": "MERGE", "userMetadata": "a load"}


@pytest.mark.parametrize(
    ("newest_first", "by_others"),
    [
        pytest.param([{**_FOREIGN, "version": 1}, _MADE], True, id="written by hand"),
        pytest.param([{**_MADE, "operation": "CREATE TABLE AS SELECT"}], True, id="made of a query"),
        pytest.param([{**_MADE, "operation": "CLONE"}], True, id="a clone, of whose table no commit tells"),
        pytest.param([_FOREIGN, {**_FOREIGN, "version": 7}], True, id="written by hand, its log cleaned"),
        pytest.param([_commit(8, "OPTIMIZE"), _commit(7, "VACUUM END")], False, id="tended, its log cleaned"),
        pytest.param([_FOREIGN, _commit(7)], False, id="put to by hand, then changed by others"),
        pytest.param([{**_FOREIGN, "version": 2}, _commit(1, txn="app/n/main"), _MADE], False, id="of a batch"),
    ],
)
def test_a_table_is_of_others_only_if_its_commits_tell_it(newest_first: list[dict[str, Any]], by_others: bool) -> None:
    assert state_of(newest_first).by_others is by_others


def test_a_version_is_the_newest_until_another_is_committed_or_the_table_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    target, told = TableRef.parse(str(tmp_path / "t")), list[tuple[bool, bool]]()
    for version in range(2):
        spark.range(version).write.format("delta").mode("append").save(str(target))
        told.append((are_newest(spark, {target: version - 1}), are_newest(spark, {target: version})))
    assert told == [(False, True), (False, True)]
    shutil.rmtree(tmp_path / "t")
    assert not are_newest(spark, {target: 1})


def test_one_of_several_tables_that_was_written_to_is_enough(spark: SparkSession, tmp_path: Path) -> None:
    targets = [TableRef.parse(str(tmp_path / name)) for name in "ab"]
    for target in targets:
        spark.range(1).write.format("delta").save(str(target))
    told = [are_newest(spark, dict.fromkeys(targets, 0))]
    spark.range(1).write.format("delta").mode("append").save(str(targets[1]))
    assert [*told, are_newest(spark, dict.fromkeys(targets, 0))] == [True, False]


def test_of_a_table_that_only_a_catalog_knows_nothing_is_told(spark: SparkSession) -> None:
    assert not are_newest(spark, {TableRef.parse("some_catalog.some_schema.t"): 0})


def test_batches_of_other_applications_are_passed_over_if_asked() -> None:
    commits = [_commit(7, txn="other/ledger/row", batch=9), _commit(6, txn="app/ledger/row", batch=3)]
    assert state_of(commits, "app").written == Written(1, 3)
    assert state_of(commits).written == Written(1, 9)


def test_a_newest_commit_that_says_nothing_is_blank() -> None:
    assert state_of([_commit(7, None), _commit(6, txn="app/store/main")]).blank
    assert not state_of([_commit(7, "VACUUM END"), _commit(6, None)]).blank


def _by_hand(version: int, owner: str | None) -> dict[str, Any]:
    said = json.dumps({"versioned": {"write": "f00"}, "details": {"owner": owner}})
    return {"version": version, "operation": "WRITE", "userMetadata": said}


_LATE = _commit(6, txn="shop/n/splice", batch=4)


@pytest.mark.parametrize(
    ("newest_first", "refused"),
    [
        pytest.param([_LATE], True, id="the late records of a batch"),
        pytest.param([_by_hand(8, "shop"), _commit(7, "OPTIMIZE"), _LATE], True, id="with other commits on them"),
        pytest.param([_commit(7, txn="shop/n/main", batch=4), _LATE], False, id="the whole batch"),
        pytest.param([_restore(7, 5), _LATE], False, id="they were taken back"),
        pytest.param([_by_hand(8, "shop")], False, id="no batch"),
    ],
)
def test_a_put_by_hand_does_not_come_between_the_two_writes_of_a_batch(
    newest_first: list[dict[str, Any]], refused: bool
) -> None:
    wrong = pytest.raises(ConfigurationError, match=r"Batch 4 of the application shop .* Start the application once")
    with wrong if refused else nullcontext():
        refuse_between_writes(TableRef.parse("/t"), state_of(newest_first))


@pytest.mark.parametrize(
    ("newest_first", "owner", "searches"),
    [
        pytest.param([_commit(13)], "app", [5, 100], id="far below"),
        pytest.param([_by_hand(13, None)], None, [], id="a put by hand found none"),
        pytest.param([_commit(14), _by_hand(13, "app")], "app", [], id="a put by hand in the name of one"),
        pytest.param([_by_hand(14, None), _commit(13, txn="app/store/main")], "app", [], id="a batch came between"),
        pytest.param([_commit(1), _commit(0)], None, [], id="all there is tells none"),
    ],
)
def test_who_owns_a_table_is_searched_for_until_something_tells(
    monkeypatch: pytest.MonkeyPatch, newest_first: list[dict[str, Any]], owner: str | None, searches: list[int]
) -> None:
    below = [_commit(version) for version in range(12, 0, -1)] + [_commit(0, txn="app/store/main")]
    asked = list[int]()

    def history(_session: object, _target: object, limit: int) -> list[dict[str, Any]]:
        asked.append(limit)
        return [*newest_first, *below][:limit]

    monkeypatch.setattr("versioned.table_log.history", history)
    told = written.owner_of(None, TableRef.parse("t"), newest_first)  # type: ignore[arg-type]
    assert (told, asked) == (owner, searches)


def _commit_by_others(log: Path, version: int, said: str | None = None) -> None:
    info = {"commitInfo": {"timestamp": 0, "operation": "WRITE", "operationParameters": {}, "userMetadata": said}}
    (log / f"{version:020}.json").write_text(json.dumps(info))


def test_a_table_belongs_to_its_application_however_many_commits_of_others_came_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = VersionedTable.create(spark, f"{tmp_path}/t", "k STRING", keys="k", history_retention="1 day")
    records, log = spark.sql("SELECT 'a' AS k, timestamp_seconds(5) AS ts"), tmp_path / "t" / "_delta_log"
    table.put(records)
    assert written.told_owner(history(spark, table.target, 1)) == (None,)
    _commit_by_others(log, 2, _commit(2, txn="shop/prices/main")["userMetadata"])
    for version in range(3, 15):
        _commit_by_others(log, version)
    with pytest.raises(ConfigurationError, match=r"belongs to the application shop.* is gone for good.*owner=\"shop\""):
        table.put(records)


def test_every_step_that_wrote_to_a_table_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    txns = ("app/b/main", None, "app/a/late", "other/c/main", "app/a/late", "app/a/main")
    rows = [_commit(version, txn=txn) for version, txn in enumerate(txns)]
    monkeypatch.setattr(written, "every_commit", lambda _session, _target: iter(rows[::-1]))
    told = written.steps_of(None, TableRef.parse("t"), "app")  # type: ignore[arg-type]
    assert told == [("a", "late"), ("a", "main"), ("b", "main")]


def test_names_of_applications_may_have_slashes() -> None:
    told = written_by(_commit(1, txn="a/b/store/main"))
    assert told is not None
    assert (told.application, told.node, told.step) == ("a/b", "store", "main")


@pytest.mark.parametrize(("node", "step"), [("store/waiting", "main"), ("store", "a/b")])
def test_names_of_nodes_and_steps_have_none(node: str, step: str) -> None:
    with pytest.raises(ConfigurationError, match='No "/" may be'):
        Step("app", node, step, epoch=1, batch_id=0)


@pytest.mark.parametrize(
    "said",
    [
        "not ours",
        "[1]",
        '{"versioned": 3}',
        '{"versioned": {"txn": "a/b"}}',
        '{"versioned": {"txn": "a/b/c"}}',
        '{"versioned": {"txn": "a/b/c", "epoch": 1, "batch": 0}, "details": null}',
        '{"versioned": {"txn": 7, "epoch": 1, "batch": 0}}',
    ],
)
def test_foreign_commits_are_no_batches_even_if_they_use_a_word_of_ours(said: str) -> None:
    assert written_by({"version": 1, "operation": "WRITE", "userMetadata": said}) is None


def _batches(spark: SparkSession, target: TableRef, number: int) -> None:
    spark.range(0).write.format("delta").save(str(target))
    for batch_id in range(number):
        commit(target, lambda: Append(spark.range(1)), Step("app", "node", "main", 1, batch_id))


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process, which has seen no table."""
    monkeypatch.setattr("versioned.table_log._SEEN", {})


@pytest.mark.usefixtures("no_memory")
def test_the_newest_batch_of_a_table_seen_before_is_told_without_its_history(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TableRef.parse(str(tmp_path / "t"))
    _batches(spark, target, 2)
    monkeypatch.setattr("versioned.table_log.history", None)
    recall(target, 1)
    assert (newest(spark, target).version, newest(spark, target).written) == (2, Written(1, 1))


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize(
    ("known", "behind"),
    [
        pytest.param(2, "", id="the file behind the known version is empty"),
        pytest.param(0, '{"commitInfo":{"operation":"OPTIMIZE"}}', id="the batch lies far behind"),
        pytest.param(9, "", id="the table was made anew and has fewer versions"),
    ],
)
def test_what_the_log_may_not_tell_the_history_does(
    spark: SparkSession, tmp_path: Path, known: int, behind: str
) -> None:
    target = TableRef.parse(str(tmp_path / "t"))
    _batches(spark, target, 2)
    numbers = range(3, 9) if behind else (3,)
    for number in numbers:
        (tmp_path / "t" / "_delta_log" / f"{number:020}.json").write_text(behind)
    recall(target, known)
    found = newest(spark, target)
    assert (found.version, found.written, found.blank) == (numbers[-1], Written(1, 1), not behind)
