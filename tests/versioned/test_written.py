"""What the newest commits of a table tell: rows of its history, newest first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from versioned.commit import Step
from versioned.errors import ConfigurationError
from versioned.written import Written, state_of, written_by


def _commit(version: int, operation: str | None = "WRITE", txn: str | None = None, batch: int = 0) -> dict[str, Any]:
    identity = {"txn": txn, "epoch": 1, "batch": batch} if txn else {}
    said = json.dumps({"versioned": identity, "details": {"n": batch}})
    return {"version": version, "operation": operation, "userMetadata": said if operation == "WRITE" else None}


def test_maintenance_on_top_hides_no_batch() -> None:
    state = state_of([_commit(8, "OPTIMIZE"), _commit(7), _commit(6, txn="app/store/main", batch=4)])
    assert (state.version, state.written, state.restored) == (8, Written(1, 4), False)
    assert state.written is not None
    assert (state.written.application, state.written.node, state.written.details) == ("app", "store", {"n": 4})


def test_only_a_restore_on_top_of_the_newest_batch_counts() -> None:
    batch = _commit(6, txn="app/store/main")
    assert state_of([_commit(7, "RESTORE"), batch]).restored
    assert not state_of([batch, _commit(5, "RESTORE")]).restored


def test_batches_of_other_applications_are_passed_over_if_asked() -> None:
    commits = [_commit(7, txn="other/ledger/row", batch=9), _commit(6, txn="app/ledger/row", batch=3)]
    assert state_of(commits, "app").written == Written(1, 3)
    assert state_of(commits).written == Written(1, 9)


def test_a_newest_commit_that_says_nothing_is_blank() -> None:
    assert state_of([_commit(7, None), _commit(6, txn="app/store/main")]).blank
    assert not state_of([_commit(7, "VACUUM END"), _commit(6, None)]).blank


def test_names_of_applications_may_have_slashes() -> None:
    told = written_by(_commit(1, txn="a/b/store/main"))
    assert told is not None
    assert (told.application, told.node, told.step) == ("a/b", "store", "main")


@pytest.mark.parametrize(("node", "step"), [("store/waiting", "main"), ("store", "a/b")])
def test_names_of_nodes_and_steps_have_none(node: str, step: str) -> None:
    with pytest.raises(ConfigurationError, match='No "/" may be'):
        Step("app", node, step, epoch=1, batch_id=0)


def test_foreign_commits_are_no_batches() -> None:
    assert written_by({"version": 1, "operation": "WRITE", "userMetadata": "not ours"}) is None
