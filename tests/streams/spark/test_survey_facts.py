"""What a survey makes of an application's ledger and tables. No session here."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest

from streams.recovery_rules import BatchOf, CheckpointFacts, LedgerFacts
from streams.spark import doctor, operator, recovery
from streams.spark.ledger import LedgerState
from streams.spark.operator import REPORT, Batch
from streams.spark.recovery import RecoverySurvey
from versioned.errors import CheckpointMismatchError, ConfigurationError
from versioned.identifiers import TableRef
from versioned.written import TableState, Written

_SINK, _STORE = (TableRef.parse(f"/data/{name}") for name in ("told", "prices"))


def _written(batch: BatchOf, details: Mapping[str, Any] | None = None, application: str = "shop") -> TableState:
    said = {REPORT: {}} if details is None else details
    return TableState(True, 4, Written(*batch, application, "node", "main", said))


def _survey(ledger: BatchOf, tables: Mapping[TableRef, TableState], **more: Any) -> RecoverySurvey:
    facts = LedgerFacts("shop", *ledger)
    return RecoverySurvey(facts, CheckpointFacts("/checkpoint"), tables, state=LedgerState(*ledger), **more)


def test_of_two_runs_of_a_batch_that_died_the_one_with_the_larger_plan_tells_all_nodes() -> None:
    reports: list[dict[str, Any]] = [{"orders": {}}, {"orders": {}, "added": {}}]
    for first, second in (reports, reports[::-1]):
        tables = {_STORE: _written((1, 3), {REPORT: first}), _SINK: _written((1, 3), {REPORT: second})}
        landed = _survey((1, 2), tables).landed(1, 3)
        assert landed is not None
        assert sorted(landed[REPORT]) == ["added", "orders"]


@pytest.mark.parametrize(
    ("state", "recorded", "left"),
    [
        pytest.param(_written((1, 7)), {}, (1, 7), id="made by a driver that was shut out"),
        pytest.param(_written((1, 7)), {"told": 4}, None, id="there when the epoch began"),
        pytest.param(_written((1, 3)), {}, None, id="of a batch that ended"),
        pytest.param(_written((2, 0)), {}, None, id="of this epoch"),
        pytest.param(_written((1, 7), application="other"), {}, None, id="of another application"),
        pytest.param(_written((1, -1), {}), {}, None, id="shut, and never written"),
        pytest.param(_written((1, -1), {"writer": ["n", 1, 7]}), {}, (1, 7), id="shut, and written before"),
        pytest.param(TableState(exists=False), {}, None, id="not there"),
    ],
)
def test_what_a_former_epoch_wrote_to_a_table_that_this_one_does_not_know_is_found(
    state: TableState, recorded: Mapping[str, int], left: BatchOf | None
) -> None:
    ledger = Mock(application="shop", row_ids=lambda: [(1, 3), (2, -1)])
    found = recovery._left_by_former(ledger, LedgerState(2, -1, tables=recorded), {_SINK: state})
    assert found == ({} if left is None else {_SINK: left})


@pytest.mark.parametrize(
    ("state", "strange"),
    [
        pytest.param({}, True, id="with rows"),
        pytest.param({"size_bytes": 0}, False, id="without any"),
        pytest.param({"by_others": False}, False, id="with a commit of ours, or a log that was cleaned"),
        pytest.param({"properties": {"versioned.sink": "latest"}}, False, id="that says what it is"),
        pytest.param({"properties": {"versioned.copied": "true"}}, False, id="that is said to be a copy"),
        pytest.param({"properties": {"delta.appendOnly": "true"}}, True, id="with a property of others"),
    ],
)
def test_neither_a_start_nor_a_new_epoch_takes_a_table_of_nobody(state: Mapping[str, Any], strange: bool) -> None:
    found = _survey((1, -1), {_STORE: TableState(**{"size_bytes": 7, "by_others": True, **state})})
    assert [each.rule for each in found.findings()] == (["table-by-hand"] if strange else [])
    with pytest.raises(ConfigurationError, match=r"prices has rows.*another root") if strange else nullcontext():
        recovery.refuse_epoch(found)


def test_a_table_that_a_driver_shut_out_has_made_since_the_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "is_unmade", lambda *_: False)
    monkeypatch.setattr(operator, "newest", lambda *_: _written((1, 7)))
    root = TableRef.parse("/data")
    assert not Batch(Mock(), "shop", root, 1, 8, 0, {}).is_missing(_SINK)
    assert not Batch(Mock(), "shop", root, 2, 0, 0, {}, there={_SINK}).is_missing(_SINK)
    with pytest.raises(
        CheckpointMismatchError, match="told has rows of batch 7 of epoch 1, which is not in the ledger"
    ):
        Batch(Mock(), "shop", root, 2, 0, 0, {}).is_missing(_SINK)


def test_a_table_that_another_application_has_made_since_the_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "is_unmade", lambda *_: False)
    monkeypatch.setattr(operator, "newest", lambda *_: _written((1, 7), application="other"))
    with pytest.raises(CheckpointMismatchError, match='told was written by the application "other", not by "shop"'):
        Batch(Mock(), "shop", TableRef.parse("/data"), 1, 0, 0, {}).is_missing(_SINK)


def test_a_new_epoch_over_an_unfinished_batch_says_that_its_input_must_come_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        recovery._tell_unfinished(_survey((1, 2), {_SINK: _written((1, 3)), _STORE: _written((1, 2))}))
    (said,) = caplog.messages
    assert said.startswith("Batch 3 of epoch 1 landed in part, in ['told'].")
    assert "only if the sources begin before its input" in said


def test_the_doctor_says_what_is_lost_with_the_ledger() -> None:
    (note,) = doctor._lost_ledger(_survey((1, -1), {_SINK: _written((1, 7))}), [])
    assert (note.rule, note.is_wrong) == ("ledger-lost", False)
    assert "totals of metrics, the batch clock" in str(note)
    assert list(doctor._lost_ledger(_survey((1, 7), {_SINK: _written((1, 7))}), [])) == []


def test_without_a_ledger_nobody_is_told_of_a_takeover_that_did_not_end_or_of_a_newer_driver() -> None:
    shut = _written((12, -1), {"takeover": 1})
    found = _survey((1, -1), {_SINK: shut, _STORE: shut})
    assert [told.rule for told in found.findings()] == ["ledger-lost"]
    assert found.findings()[0].is_wrong
    assert list(doctor._lost_ledger(found, found.findings())) == []
    recovery.refuse_epoch(found)


def test_a_takeover_of_another_application_says_whose_the_tables_are() -> None:
    shut = {_SINK: _written((12, -1), {"takeover": 1}, application="other")}
    rules = [told.rule for told in _survey((1, 3), shut).findings()]
    assert (rules[0], "unfinished-takeover" in rules) == ("table-of-other", False)


def test_a_takeover_that_did_not_end_stands_before_all_else() -> None:
    rules = [told.rule for told in _survey((1, 3), {_SINK: _written((12, -1), {"takeover": 1})}).findings()]
    assert rules[0] == "unfinished-takeover"


@pytest.mark.parametrize(("ahead_us", "rules"), [(3_600_000_000, []), (7_200_000_001, ["clock-ahead"]), (-1, [])])
def test_the_doctor_says_that_the_batch_clock_is_far_ahead(ahead_us: int, rules: list[str]) -> None:
    now_us = 1_700_000_000_000_000
    ledger = LedgerFacts("shop", 1, 3)
    found = RecoverySurvey(
        ledger, CheckpointFacts("/checkpoint"), {}, state=LedgerState(1, 3, clock_us=now_us + ahead_us)
    )
    notes = list(doctor._clock_ahead(found, now_us))
    assert [note.rule for note in notes] == rules
    assert all("2 hours" in str(note) and not note.is_wrong for note in notes)
