"""``doctor``: checks an application's ledger, checkpoint and tables, and says what is wrong and what to do.

It changes nothing, and may be used while another driver runs the application. It reports at once everything about
ledger, checkpoint and tables that a start would refuse, and more. It does not look for faults of the plan itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

from streams.describe import span
from streams.recovery_rules import Finding, ledger_lost
from streams.spark.application import StreamingApplication
from streams.spark.recovery import RecoverySurvey
from versioned import spark_functions as F
from versioned.errors import VersionedError
from versioned.reading import read_table
from versioned.table_details import is_missing

#: Clocks of two machines may differ by some seconds, so only an hour or more counts.
_FAR_AHEAD_US: Final = 3_600_000_000


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found; ``findings`` that are not wrong are notes."""

    application: str
    root: str
    checkpoint: str
    epoch: int
    batch_id: int
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether a start would go on."""
        return not any(found.is_wrong for found in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as plain values, for JSON."""
        return {**asdict(self), "healthy": self.is_healthy}

    def __str__(self) -> str:
        head = f"{self.application} in {self.root}: epoch {self.epoch}, batch {self.batch_id}"
        told = [f"  {'WRONG' if found.is_wrong else 'note'}  {found.rule}: {found}" for found in self.findings]
        end = "ledger, checkpoint and tables fit together" if self.is_healthy else "it will not start like this"
        return "\n".join([head, *told, f"  {end}"])


def examine(application: StreamingApplication) -> Diagnosis:
    """Examine an application; nothing is started, made or changed.

    Args:
        application: It need not have run yet, and may run elsewhere.

    >>> print(examine(app))                                              # doctest: +SKIP
    sales in /data/sales: epoch 1, batch 41
      ledger, checkpoint and tables fit together
    """
    found, told = application.settled_survey()
    told += _doubled(application)
    told += _lost_ledger(found, told) if told else []
    # Damaged tables are not read any further.
    told += _refused(application, found) if not told else []
    told += [*_notes(found), *_clock_ahead(found, time.time_ns() // 1_000)] if not told else []
    at = found.checkpoint.place, found.ledger.epoch, found.ledger.batch_id
    return Diagnosis(application.name, str(application.root), *at, tuple(told))


def _refused(application: StreamingApplication, found: RecoverySurvey) -> Iterable[Finding]:
    """The start's objection to the plan, given the existing tables."""
    try:
        application.refuse_changes(found)
    except VersionedError as error:
        yield Finding("plan-refused", "plan", str(error), "change the plan and its sources as said, or take the former")


def _lost_ledger(found: RecoverySurvey, told: Iterable[Finding]) -> Iterable[Finding]:
    """A note that the ledger is lost, unless the findings already say so: only it knew some of the state."""
    if found.has_lost_ledger and all(each.rule != "ledger-lost" for each in told):
        yield ledger_lost(found.ledger.application, is_wrong=False)


def _notes(found: RecoverySurvey) -> Iterable[Finding]:
    ledger = found.ledger
    ahead = sorted(t.name for t in found.facts() if t.batch is not None and t.batch > ledger.batch)
    if ahead:
        said = f"Batch {found.checkpoint.offset} is unfinished: it is in {', '.join(ahead)}, but not in the ledger."
        yield Finding("unfinished-batch", "ledger", said, "start the application: it finishes the batch", False)
    elif ledger.batch_id < 0:
        said = f'"{ledger.application}" has written no batch in epoch {ledger.epoch} yet.'
        yield Finding("no-batch", "ledger", said, "start the application", False)


def _clock_ahead(found: RecoverySurvey, now_us: int) -> Iterable[Finding]:
    """A note if the batch clock is far ahead: it never goes back, so rows that wait by it wait until then."""
    ahead_us = found.state.clock_us - now_us
    if ahead_us > _FAR_AHEAD_US:
        ahead = span(timedelta(minutes=ahead_us // 60_000_000))
        said = (
            f'The batch clock of "{found.ledger.application}" is {ahead} ahead, as a machine\'s was in some batch. '
            "What came since and waits by the wall clock leaves only then."
        )
        remedy = "let it leave at once by versioned suppress drain; or versioned rollback to the batch before"
        yield Finding("clock-ahead", "ledger", said, remedy, False)


def _doubled(application: StreamingApplication) -> Iterable[Finding]:
    target = application.table("ledger")
    if is_missing(application.spark, target):
        return
    rows = read_table(application.spark, target).where(F.col("application") == application.name)
    ids = F.count_distinct("epoch", "batch_id")
    doubled = rows.agg((F.count("*") - ids).alias("n")).collect()[0]["n"]
    if doubled:
        said = f'The ledger of "{application.name}" has {doubled} batches twice: somebody else wrote to it.'
        remedy = "restore the ledger to the version before, or delete the rows that are no batch's own"
        yield Finding("ledger-doubled", "ledger", said, remedy)
