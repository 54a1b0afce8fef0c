"""Takes over an application's tables from whoever runs it, back to the state after one of its batches.

The order of steps ensures that after a crash at any point the application refuses to start until it is taken over
again:

1. Look: the ledger's row, the version of each table, its files, the checkpoint. Nothing is written if one is missing.
2. Shut out: fences of a new epoch in the ledger and in each table, for each step that writes to it or ever did. Delta
   skips writes with an older transaction version, so nothing that a running driver still writes can land.
3. Restore: each table that has anything of a later batch.
4. The caller's work.
5. Hand over: a copy of the checkpoint that ends at the batch; a commit of the next epoch on each table that was
   restored; the order of sources as of the batch; and last, in one commit of the ledger, the row with which that epoch
   goes on from the batch, which replaces the later rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import Row

from streams.recovery_rules import BatchOf
from streams.rollback_rules import CommitFacts, Restoration, restoration, row_of, undone
from streams.spark.application import StreamingApplication
from streams.spark.checkpoint_copy import check_copy, check_free, copy_checkpoint
from streams.spark.ledger import Ledger, LedgerState
from streams.spark.lost_input import lost_behind
from streams.spark.recovery import (
    HELD_BY,
    TAKEOVER,
    RecoverySurvey,
    checkpoint_of,
    fence,
    refuse_running,
    telling,
    writer_of,
)
from versioned import faults
from versioned.append_only import refuse_append_only
from versioned.commit import Step
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.replay import COLUMNS_OF, ERASED
from versioned.restore import check_version, restore
from versioned.side_by_side import side_by_side
from versioned.table_details import is_missing, properties_of
from versioned.table_log import every_commit, history, is_foreign, own_details, takes_back
from versioned.written import is_put_by_hand, newest, written_by

#: The findings about tables that going back to a batch does not repair.
_NOT_TAKEN_BACK: Final = ("table-of-other", "table-gone", "empty-commit", "table-of-older-driver")
_UNSAID: Final[Mapping[str, Any]] = {}


@dataclass
class HeldApplication:
    """An application whose tables nobody else can write, as they were after a batch, and what was undone for that.

    * ``restored``: the tables that were taken back, with the version.
    * ``undone``: the batches that the ledger loses.
    * ``erased_again``: the tables in which erased rows came back.
    * ``by_others``: the tables in which changes by somebody else were undone.
    * ``lost_input``: the missing files that later batches had read.
    * ``lost_backfills``: the tables in which a backfill was undone.
    * ``counts``: go into the ledger's row.
    * ``advice``: what is left to do by hand, known at the end.
    """

    application: StreamingApplication
    row: BatchOf
    epoch: int
    state: LedgerState
    restored: Mapping[str, int] = field(default_factory=dict)
    undone: tuple[int, ...] = ()
    erased_again: tuple[str, ...] = ()
    by_others: tuple[str, ...] = ()
    lost_input: tuple[str, ...] = ()
    lost_backfills: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    advice: str | None = None


@dataclass(frozen=True)
class _Plan:
    ledger: Ledger
    found: RecoverySurvey
    checkpoint: str
    base: str
    shut_out: int
    state: LedgerState
    row: BatchOf
    rows: tuple[BatchOf, ...]
    #: Whether to keep changes that somebody else made after the batch, and columns that its tables have got since.
    keeps_foreign: bool
    #: Distinguishes its commits from those of another takeover at the same time.
    token: str = field(default_factory=lambda: uuid.uuid4().hex)


def check_takeover(application: StreamingApplication, batch_id: int | None = None) -> HeldApplication:
    """What :func:`taken_over` would do, without writing anything.

    Raises:
        ConfigurationError, CheckpointMismatchError, RetentionError: as :func:`taken_over`.
    """
    plan = _planned(application, batch_id)
    return _held(application, plan, _restorations(application, plan))


@contextmanager
def taken_over(application: StreamingApplication, batch_id: int | None = None) -> Iterator[HeldApplication]:
    """Hold an application's tables as they were after a batch; at the end, the application can go on from there.

    Args:
        application: The application that owns the tables. It must not run in this session; a driver that runs elsewhere
            is shut out, and ends with :class:`~versioned.errors.FencedError` at its next write.
        batch_id: The batch; later changes by somebody else are undone too. None = the newest batch in the ledger, and
            later changes by somebody else stay. A batch that landed in part is undone.

    Raises:
        ConfigurationError: there is no such batch, the application runs in this session, the plan lacks a table in
            which rows could wait after that batch, or its ledger is append-only.
        CheckpointMismatchError: the checkpoint does not reach back to that batch.
        RetentionError: a table's files of that time are gone.
        FencedError: somebody else takes the application over at the same time.
    """
    plan = _planned(application, batch_id)
    spark = application.spark
    nobody, taken = Step(application.name, "", "", plan.shut_out, -1), {TAKEOVER: plan.row[1], HELD_BY: plan.token}
    looked = _restorations(application, plan)
    told = {plan.ledger.target: _UNSAID, **{target: needed.details for target, needed in looked.items()}}
    fences = [
        partial(fence, spark, one, nobody, {**said, **taken}, plan.found.steps_of(one)) for one, said in told.items()
    ]
    side_by_side(fences, spark)
    faults.point("takeover:shut-out")
    # Read again: a driver may have written, and ended a batch, before it was shut out.
    plan = replace(plan, rows=tuple(sorted(plan.ledger.row_ids())))
    wanted = _restorations(application, plan, looked)
    side_by_side([partial(restore, spark, one, version) for one, version in _versions(wanted).items()], spark)
    faults.point("takeover:restored")
    held = _held(application, plan, wanted)
    yield held
    _hand_over(plan, held, wanted)


def _planned(application: StreamingApplication, batch_id: int | None) -> _Plan:
    spark = application.spark
    refuse_running(spark, application.name)
    ledger = Ledger(spark, application.table("ledger"), application.name)
    if is_missing(spark, ledger.target):
        raise ConfigurationError(f'"{application.name}" has no ledger in {application.root}: it has never run.')
    # Only the ledger: its rows are deleted, while a RESTORE also works on append-only tables.
    refuse_append_only({ledger.target: properties_of(spark, ledger.target)}, "Going back to a batch")
    found = application.survey()
    for wrong in found.findings():
        if wrong.rule in _NOT_TAKEN_BACK:
            raise wrong.error()
    told = ledger.row_ids()
    row = row_of(told, batch_id)
    place = found.checkpoint.place
    base = place.removesuffix(f"-epoch-{found.ledger.epoch}") if found.ledger.epoch > 1 else place
    check_copy(spark, place, row[1])
    newest = max(found.newest_epoch(), *(epoch for epoch, _ in told))
    check_free(checkpoint_of(base, newest + 2))
    # The state of the newest row was read with the tables.
    state = found.state if (found.state.epoch, found.state.batch_id) == row else ledger.after(*row)
    _refuse_left_out(application, state, row)
    return _Plan(ledger, found, place, base, newest + 1, state, row, tuple(sorted(told)), batch_id is None)


def _refuse_left_out(application: StreamingApplication, state: LedgerState, row: BatchOf) -> None:
    """Refuse to go back to before a node's removal with a plan that lacks the node.

    Rows that waited in its table at that time would be lost: they left in batches that would be undone.
    """
    spark, planned = application.spark, {target.short_name for target in application.tables()}
    left_out = {name: application.table(name) for name in sorted(set(state.buffers) - planned)}
    there = {name: target for name, target in left_out.items() if not is_missing(spark, target)}
    written = {name: newest(spark, target, application.name).written for name, target in there.items()}
    writers = {name: writer_of(said) for name, said in written.items() if said is not None}
    names = [name for name, writer in writers.items() if writer is not None and writer[1] > row]
    if names:
        raise ConfigurationError(
            f"Rows could wait in {names} when batch {row[1]} ended, and later batches have let them go. The plan has "
            "nothing that keeps these tables any more, so what waited would be lost. Nothing was written. Do it with "
            f"the plan of batch {row[1]}; take out what keeps them once nothing waits there (a suppression is emptied "
            "by drain)."
        )


def _there(application: StreamingApplication) -> list[TableRef]:
    return [target for target in application.tables() if not is_missing(application.spark, target)]


def _restorations(
    application: StreamingApplication, plan: _Plan, before: Mapping[TableRef, Restoration] = MappingProxyType({})
) -> dict[TableRef, Restoration]:
    """What each table needs; checks that the files of versions to restore exist, unless that was done ``before``."""
    targets = _there(application)
    found: dict[TableRef, Restoration] = {}

    def look(target: TableRef) -> None:
        told, keeps = every_commit(application.spark, target), plan.keeps_foreign
        commits = commits_behind(told, application.name, plan.shut_out, plan.row, keeps_foreign=keeps)
        name = target.short_name
        needed = restoration(name, commits, plan.row, plan.state.tables.get(name), plan.found.state.tables.get(name))
        looked = before[target].version if target in before else None
        if needed.version is not None and needed.version != looked:
            check_version(application.spark, target, needed.version)
        found[target] = needed

    side_by_side([partial(look, target) for target in targets], application.spark)
    return {target: found[target] for target in targets}


def _versions(wanted: Mapping[TableRef, Restoration]) -> dict[TableRef, int]:
    return {target: needed.version for target, needed in wanted.items() if needed.version is not None}


def commits_behind(
    rows: Iterable[Row | Mapping[str, Any]],
    application: str,
    shut_out: int,
    row: BatchOf,
    *,
    keeps_foreign: bool = False,
) -> list[CommitFacts]:
    """The commits of a table, without this takeover's fences, and reduced to what is needed of each.

    Args:
        rows: All commits, newest first.
        application: The application whose batches count.
        shut_out: The epoch of the fences to leave out.
        row: The batch to go back to. Only the newest commit up to this batch keeps all of its details; others only keep
            whether they erased rows, since a table may have a hundred thousand commits.
        keeps_foreign: Whether changes by others, and columns from later batches, are no reason to restore the table;
            puts by hand never are one.
    """
    commits, is_told = list[CommitFacts](), False
    for one in rows:
        said, written = (own_details(one) or {}).get("details", {}), written_by(one)
        own = written is not None and written.application == application
        batch = (written.epoch, written.batch_id) if written is not None and own else None
        if batch is not None and batch[0] == shut_out:
            continue
        if tuple(said.get(COLUMNS_OF, ())) > row and not keeps_foreign:
            batch = tuple(said[COLUMNS_OF])  # Undone with that batch: the plan to go back to lacks the columns.
        details: Mapping[str, Any] = {ERASED: said[ERASED]} if ERASED in said else _UNSAID
        if batch is not None and batch <= row and not is_told:
            is_told, details = True, telling(written)
        by_hand = is_put_by_hand(one)
        foreign, stays = by_hand or is_foreign(one), by_hand or keeps_foreign
        commits.append(CommitFacts(int(one["version"]), batch, details, takes_back(one), foreign, stays))
    return commits


def _held(application: StreamingApplication, plan: _Plan, wanted: Mapping[TableRef, Restoration]) -> HeldApplication:
    return HeldApplication(
        application,
        plan.row,
        plan.shut_out + 1,
        plan.state,
        {target.short_name: version for target, version in _versions(wanted).items()},
        undone(plan.rows, plan.row),
        tuple(target.short_name for target, each in wanted.items() if each.erased_again),
        tuple(target.short_name for target, each in wanted.items() if each.by_others),
        lost_behind(plan.checkpoint, plan.row[1]),
        plan.ledger.backfilled_behind(plan.row) if plan.row < plan.rows[-1] else (),
    )


def _hand_over(plan: _Plan, held: HeldApplication, wanted: Mapping[TableRef, Restoration]) -> None:
    application, spark, (_, batch) = held.application, held.application.spark, plan.row
    copy = checkpoint_of(plan.base, held.epoch)
    topics = held.state.topics
    held.advice = copy_checkpoint(plan.checkpoint, copy, batch, len(topics) + 1 if topics else None)
    faults.point("takeover:checkpoint")
    owner = Step(application.name, "", "", held.epoch, batch)
    # A commit after a RESTORE must name the owner again; fences on the other tables already do.
    told = {one: {**wanted[one].details, TAKEOVER: batch, HELD_BY: plan.token} for one in _versions(wanted)}
    fences = [
        partial(fence, spark, one, owner, said, plan.found.steps_of(one), every_step=False)
        for one, said in told.items()
    ]
    side_by_side(fences, spark)
    faults.point("takeover:handed-over")
    if topics:  # Sources may have been added since, which the plan of the batch does not have.
        plan.ledger.keep_topics(topics, plan.found.topics)
    versions = {target.short_name: int(history(spark, target, 1)[0]["version"]) for target in wanted}
    # A table that the batch's plan did not have stays unknown: the start refuses it, or it begins empty.
    known = {name: at for name, at in versions.items() if name in held.state.tables or not held.state.tables}
    begun = replace(held.state, epoch=held.epoch, batch_id=batch, tables=known)
    plan.ledger.append_epoch(spark, begun, held.counts, [row for row in plan.rows if row > plan.row])
