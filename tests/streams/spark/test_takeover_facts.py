"""What a takeover keeps of a history, which may have a hundred thousand commits: no more than its rules need."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from streams.recovery_rules import BatchOf
from streams.rollback_rules import CommitFacts, restoration
from streams.spark.operator import REPORT
from streams.spark.takeover import commits_behind
from versioned.replay import COLUMNS_OF, ERASED
from versioned.written import OWNER

_LONG = {REPORT: {"counts": 1}}


def _row(version: int, batch: BatchOf | None = None, operation: str = "WRITE", **details: Any) -> dict[str, Any]:
    identity = {} if batch is None else {"txn": "app/store/main", "epoch": batch[0], "batch": batch[1]}
    said = json.dumps({"versioned": identity, "details": details})
    return {"version": version, "operation": operation, "userMetadata": said}


#: Newest first.
_ROWS = [
    _row(9, (7, -1)),
    {"version": 8, "operation": "VACUUM END", "userMetadata": None},
    _row(7, None, "RESTORE"),
    _row(6, None, **{ERASED: True}, counted=3),
    _row(5, (1, 3), n=5, **_LONG),
    _row(4, (1, 2), n=4, **_LONG),
    {**_row(3), "userMetadata": '{"versioned": 1}'},
    _row(2, (1, 1), n=2, **_LONG),
    _row(1, (1, 0), n=1, **_LONG),
    _row(0),
]


def _facts(row: BatchOf) -> list[CommitFacts]:
    return commits_behind(_ROWS, "app", 7, row)


def test_every_commit_is_there_but_those_that_shut_others_out_just_now() -> None:
    facts = _facts((1, 2))
    assert [fact.version for fact in facts] == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert [fact.batch for fact in facts] == [None, None, None, (1, 3), (1, 2), None, (1, 1), (1, 0), None]
    assert [fact.version for fact in facts if fact.restores] == [7]
    assert [fact.version for fact in facts if fact.foreign] == [3]


@pytest.mark.parametrize(
    ("details", "by_hand"),
    [({OWNER: "app"}, True), ({OWNER: None}, True), ({"backfill": {"accepted": 1}}, False)],
    ids=["in the application's name", "before it ran", "a backfill, which the ledger tells"],
)
def test_a_put_by_hand_is_foreign_and_no_reason_to_take_a_table_back(details: dict[str, Any], by_hand: bool) -> None:
    said = json.dumps({"versioned": {"write": "5f"}, "details": details})
    put = {"version": 10, "operation": "WRITE", "userMetadata": said}
    (fact, *_) = commits_behind([put, *_ROWS], "app", 7, (1, 2))
    assert (fact.batch, fact.foreign, fact.stays) == (None, by_hand, by_hand)


#: Batch 3 of a plan that has fields more, behind batch 2.
_WIDER = [
    _row(5, (1, 3)),
    _row(4, None, "SET TBLPROPERTIES", **{COLUMNS_OF: [1, 3]}),
    _row(3, None, "ADD COLUMNS", **{COLUMNS_OF: [1, 3]}),
    _row(2, None, "SET TBLPROPERTIES", **{COLUMNS_OF: [1, 3]}),
    _row(1, (1, 2)),
    _row(0),
]


@pytest.mark.parametrize(
    ("rows", "row", "stay", "version"),
    [
        pytest.param(_WIDER, (1, 2), False, 1, id="that it wrote with them"),
        pytest.param(_WIDER[1:], (1, 2), False, 1, id="that died behind them"),
        pytest.param(_WIDER[2:], (1, 2), False, 1, id="that died among them"),
        pytest.param(_WIDER, (1, 3), False, None, id="that stays"),
        pytest.param(_WIDER[1:], (1, 5), False, None, id="that stays and had nothing to write"),
        pytest.param(_WIDER[1:], (3, 2), False, None, id="of a former epoch"),
        pytest.param(_WIDER, (1, 2), True, 4, id="whose rows alone are undone"),
        pytest.param(_WIDER[1:], (1, 2), True, None, id="that died behind them, whose rows alone are undone"),
    ],
)
def test_columns_that_a_table_got_go_with_the_batch_that_needed_them(
    rows: list[dict[str, Any]], row: BatchOf, stay: bool, version: int | None
) -> None:
    facts = commits_behind(rows, "app", 7, row, keeps_foreign=stay)
    assert restoration("t", facts, row, 1).version == version


@pytest.mark.parametrize(("row", "version"), [((1, 3), 5), ((1, 2), 4), ((1, 0), 1), ((6, 0), 5)])
def test_only_the_newest_commit_up_to_the_batch_keeps_what_it_told(row: BatchOf, version: int) -> None:
    kept = {fact.version: fact.details for fact in _facts(row) if fact.details and fact.version != 6}
    assert [*kept] == [version]
    assert {"n": version, **_LONG}.items() <= kept[version].items()


def test_a_commit_that_erased_rows_keeps_that_alone() -> None:
    assert [fact.details for fact in _facts((1, 2)) if fact.version == 6] == [{ERASED: True}]


def test_batches_of_other_applications_are_none() -> None:
    assert {fact.batch for fact in commits_behind(_ROWS, "other", 7, (1, 2))} == {None}


@pytest.mark.parametrize("row", [(1, 3), (1, 2), (1, 1), (1, 0)])
def test_the_rules_decide_by_these_facts_as_by_all_that_the_commits_told(row: BatchOf) -> None:
    kept = _facts(row)
    said = {one["version"]: json.loads(one["userMetadata"] or "{}").get("details", {}) for one in _ROWS}
    whole = [replace(fact, details=said[fact.version]) for fact in kept]
    found, wanted = restoration("t", kept, row, None), restoration("t", whole, row, None)
    assert (found.version, found.erased_again) == (wanted.version, wanted.erased_again)
    assert wanted.details.items() <= found.details.items()
