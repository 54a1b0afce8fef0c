"""Which commits shut an older driver out of a table: one for each step as which it may write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from streams.spark import recovery
from versioned.commit import Step
from versioned.identifiers import TableRef
from versioned.table_log import Landed

_MAIN, _SPLICE, _FORMER = ("late-alerts", "main"), ("late-alerts", "splice"), ("alerts", "main")


@pytest.mark.parametrize(
    ("written", "planned", "every_step", "fenced"),
    [
        pytest.param([], [_MAIN], True, [_MAIN], id="a table that was never written"),
        pytest.param([_MAIN], [_SPLICE, _MAIN], True, [_SPLICE, _MAIN], id="a step that never came"),
        pytest.param([_FORMER, _MAIN], [_MAIN], True, [_FORMER, _MAIN], id="a node of another plan"),
        pytest.param([_MAIN], [], True, [_MAIN], id="a table that no node of the plan writes"),
        pytest.param([_FORMER, _MAIN], [_SPLICE, _MAIN], False, [_MAIN], id="one commit only"),
    ],
)
def test_every_step_of_the_plan_and_of_the_history_is_fenced_and_the_last_of_the_plan_last(
    written: list[tuple[str, str]],
    planned: list[tuple[str, str]],
    every_step: bool,
    fenced: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Step] = []

    def commit(_: TableRef, __: Any, step: Step, details: Mapping[str, Any]) -> Landed:
        told.append(step)
        return Landed(len(told), details)

    monkeypatch.setattr(recovery, "steps_of", lambda *_: written)
    monkeypatch.setattr(recovery, "read_table", Mock())
    monkeypatch.setattr(recovery, "F", Mock())
    monkeypatch.setattr(recovery, "commit", commit)
    table, owner = TableRef.parse("/data/late-alerts"), Step("app", "", "", 2, -1)
    recovery.fence(Mock(), table, owner, {}, planned, every_step=every_step)
    assert told == [Step("app", node, step, 2, -1) for node, step in fenced]
