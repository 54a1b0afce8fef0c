"""The doctor beside a driver that runs: its batches land between what is read first and what is read last."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from streams.recovery_rules import BatchOf, CheckpointFacts, LedgerFacts
from streams.spark import SparkSource, StreamingApplication, erase
from streams.spark.recovery import RecoverySurvey, settled
from streams.spark.sources import topics_in_order
from streams.topology import StreamsBuilder
from versioned.errors import CheckpointMismatchError


def _look(batch: int, *, is_torn: bool) -> RecoverySurvey:
    """A look at the ledger's row of a batch; where it is torn its history had one more, as after a RESTORE."""
    newest = (1, batch + 1) if is_torn else (1, batch)
    ledger = LedgerFacts("shop", 1, batch, "query", newest)
    return RecoverySurvey(ledger, CheckpointFacts("/checkpoint", "query", batch, batch), {})


def _found(looks: list[tuple[int, bool]], rows: list[int]) -> tuple[BatchOf, list[str]]:
    """The batch and the findings of looks, of a batch and whether torn; ``rows`` are the ledger's after each."""
    surveys, newest = iter(looks), iter(rows)

    def look() -> RecoverySurvey:
        batch, is_torn = next(surveys)
        return _look(batch, is_torn=is_torn)

    found, told = settled(look, lambda: (1, next(newest)))
    return found.ledger.batch, [each.rule for each in told]


@pytest.mark.parametrize(
    ("looks", "rows", "told"),
    [
        pytest.param([(3, False)], [], (3, []), id="nothing wrong, so no second look"),
        pytest.param([(3, True)], [3], (3, ["ledger-restored"]), id="wrong, and the ledger stands still"),
        pytest.param([(3, True), (5, True), (8, True)], [4, 6, 9], (8, []), id="each look torn by another batch"),
        pytest.param([(3, True), (4, False)], [4], (4, []), id="a second look finds all well"),
        pytest.param([(3, True), (3, True), (3, True)], [4, 4, 4], (3, ["ledger-restored"]), id="the same each time"),
        pytest.param([(3, True), (5, True)], [4, 5], (5, ["ledger-restored"]), id="wrong once the driver has ended"),
    ],
)
def test_a_driver_that_writes_meanwhile_is_not_taken_for_damage_and_damage_is(
    looks: list[tuple[int, bool]], rows: list[int], told: tuple[int, list[str]]
) -> None:
    (_, batch), rules = _found(looks, rows)
    assert (batch, rules) == told


@pytest.mark.parametrize(
    "begin", [StreamingApplication._agreed_state, erase._refuse_unfinished], ids=["start", "erase"]
)
def test_a_batch_that_lands_while_ledger_and_tables_are_read_is_not_told_as_a_restored_ledger(
    begin: Callable[[StreamingApplication], RecoverySurvey], monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, nobody = StreamsBuilder(), cast(SparkSession, None)
    builder.stream("in")
    application = StreamingApplication(nobody, "shop", builder.build(), "/shop", {"in": SparkSource("rate")})
    looks = [_look(3, is_torn=True), _look(4, is_torn=False)]
    monkeypatch.setattr(application, "survey", lambda: looks.pop(0))
    monkeypatch.setattr(application, "_ledger", SimpleNamespace(newest_row=lambda: (1, 4)))
    monkeypatch.setattr(erase, "refuse_running", lambda *_: None)
    assert begin(application).ledger.batch == (1, 4)


def test_a_topic_that_was_read_and_is_gone_is_refused_by_its_name() -> None:
    with pytest.raises(CheckpointMismatchError, match=r'"shop" has read the topics \[\'prices\'\] before'):
        topics_in_order("shop", ("prices", "orders"), ["orders", "clicks"])
