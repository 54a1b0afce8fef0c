"""What others did to an application's ledger and tables since its driver last checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import SparkSession

from streams.recovery_rules import Finding, LedgerFacts, TableFacts, of_table, turn
from streams.spark.ledger import Ledger, LedgerState
from streams.spark.recovery import RecoverySurvey, facts_of
from versioned.identifiers import TableRef
from versioned.replay import CHECKPOINT
from versioned.side_by_side import side_by_side
from versioned.written import are_newest, look, newest


def refuse_damage(
    session: SparkSession,
    ledger: Ledger,
    state: LedgerState,
    query: str,
    tables: Sequence[TableRef],
    found: RecoverySurvey | None,
) -> dict[TableRef, int]:
    """Raise, before a batch, if another driver has written one meanwhile, or a table was taken back.

    Args:
        session: The session.
        ledger: The application's ledger, whose newest commits are read once.
        state: The state that this driver's newest batch left.
        query: Id of this driver's checkpoint.
        tables: The application's tables; the newest commits are read of those that somebody else has changed.
        found: The survey at the start: until a batch has ended, nothing may have been written since.

    Returns:
        The versions of the tables.

    Raises:
        FencedError: another driver has taken over.
        CheckpointMismatchError: the ledger or a table was restored, replaced or deleted.
    """
    seen: dict[TableRef, int] = {}
    wrong = turn_of(session, ledger, state, query)
    if wrong is None:
        if found is not None and found.ledger.batch == (state.epoch, state.batch_id):
            known = found.seen()
        else:
            known = {target: state.tables[target.short_name] for target in tables if target.short_name in state.tables}
        wrong, seen = _damage_since(session, ledger, state, known)
    if wrong is not None:
        raise wrong.error()
    return seen


def refuse_restored_ledger(session: SparkSession, ledger: Ledger, state: LedgerState, query: str) -> None:
    """Raise, before the ledger's row of a batch is written, if the ledger was restored: the row would hide that.

    Writes of another driver are not checked here: the row's commit finds them, and reports more about them.

    Raises:
        CheckpointMismatchError: the ledger was restored.
    """
    wrong = turn_of(session, ledger, state, query)
    if wrong is not None and wrong.rule == "ledger-restored":
        raise wrong.error("The batch has not ended.")


def turn_of(session: SparkSession, ledger: Ledger, state: LedgerState, query: str) -> Finding | None:
    """Why this driver must not write the next batch, by the ledger's newest commits; None if it may."""
    this = state.epoch, state.batch_id, query
    fits = ledger.fitting is not None and ledger.fitting[0] == this
    if ledger.fitting is not None and fits and are_newest(session, {ledger.target: ledger.fitting[1]}):
        return None
    found = newest(session, ledger.target, ledger.application)
    facts, said = LedgerFacts(ledger.application, state.epoch, state.batch_id), found.written
    if said is None:
        wrong = turn(facts, None, (None, query), found.restored and state.batch_id >= 0)
    else:
        wrong = turn(facts, (said.epoch, said.batch_id), (said.details.get(CHECKPOINT), query), found.restored)
    ledger.fitting = (this, found.version) if wrong is None else None
    return wrong


def _damage_since(
    session: SparkSession, ledger: Ledger, state: LedgerState, known: Mapping[TableRef, int]
) -> tuple[Finding | None, dict[TableRef, int]]:
    """What is wrong with a table since its known version, if anything, and the versions of the tables now."""
    seen = dict(known)
    if not known or are_newest(session, known):
        return None, seen
    facts: dict[str, TableFacts] = {}

    def looked(target: TableRef) -> None:
        if not are_newest(session, {target: known[target]}):
            there = look(session, target)
            facts[target.short_name], seen[target] = facts_of(target, there, state.tables), there.version

    side_by_side([partial(looked, target) for target in known], session)
    own = LedgerFacts(ledger.application, state.epoch, state.batch_id)
    return next((found for name in sorted(facts) for found in of_table(own, facts[name])), None), seen
