"""Which batch an application can be rolled back to, and which table version belongs to it. Pure rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.recovery_rules import BatchOf
from versioned.errors import ConfigurationError, RetentionError
from versioned.replay import ERASED, way_back


@dataclass(frozen=True)
class CommitFacts:
    """One commit of a table: the batch that wrote it (None = no batch of this application) and its details.

    ``restores`` is whether it is a RESTORE, by whomever, or put another table in place of this one. ``foreign`` is
    whether somebody else changed rows with it, which includes puts in the application's name. ``stays`` is whether that
    alone is no reason to take the table back.
    """

    version: int
    batch: BatchOf | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    restores: bool = False
    foreign: bool = False
    stays: bool = False


@dataclass(frozen=True)
class Restoration:
    """How to take a table back: the version to restore (None = it is still as it was then), and its commit's details.

    ``erased_again`` are the versions in which rows were erased that the restoration brings back, ``by_others`` those in
    which somebody else changed rows, which it undoes too.
    """

    version: int | None
    details: Mapping[str, Any]
    erased_again: tuple[int, ...] = ()
    by_others: tuple[int, ...] = ()


def row_of(rows: Collection[BatchOf], batch_id: int | None) -> BatchOf:
    """The ledger's row with the state after a batch; if the batch wrote nothing, that of the batch before.

    An epoch that continues after a batch of the epoch before begins with a row of that batch. An epoch that started
    over, with ``--new-epoch``, begins with a row of batch -1. The batches before that are out of reach, since they have
    another checkpoint.

    Args:
        rows: Epoch and batch id of all rows.
        batch_id: The batch; None = the newest.

    Raises:
        ConfigurationError: there is no such batch.

    >>> row_of([(1, 0), (1, 1), (1, 4)], 2)
    (1, 1)
    """
    reachable: list[BatchOf] = []
    least: int | None = None
    for epoch in sorted({epoch for epoch, _ in rows}, reverse=True):
        batches = [batch for other, batch in rows if other == epoch and (least is None or batch < least)]
        reachable += [(epoch, batch) for batch in batches if batch >= 0]
        least = min([batch for other, batch in rows if other == epoch])
        if least < 0:
            break
    newest = max(reachable, key=lambda row: row[1], default=None)
    if newest is None:
        epoch = max((epoch for epoch, _ in rows), default=1)
        raise ConfigurationError(
            "The application has written no batch in this epoch: there is nothing to go back to. "
            f"If its first batch cannot end, {way_back(epoch, 0)}."
        )
    if batch_id is None:
        return newest
    found = max((row for row in reachable if row[1] <= batch_id), key=lambda row: row[1], default=None)
    if found is None or batch_id > newest[1]:
        first = min(batch for _, batch in reachable)
        raise ConfigurationError(f"There is no batch {batch_id} to go back to; there are {first} to {newest[1]}.")
    return found


def undone(rows: Collection[BatchOf], row: BatchOf) -> tuple[int, ...]:
    """The batches after a row, each once, even if a later epoch begins with another row of the same batch.

    Args:
        rows: Epoch and batch id of all rows.
        row: The row with the state to go back to.

    >>> undone([(1, 0), (1, 1), (1, 2), (3, 1), (3, 2)], (1, 0))
    (1, 2)
    """
    return tuple(sorted({batch for epoch, batch in rows if (epoch, batch) > row and batch > row[1]}))


def restoration(
    table: str, commits: Sequence[CommitFacts], row: BatchOf, recorded: int | None, newest: int | None = None
) -> Restoration:
    """The newest version of a table before anything of a later batch, or foreign, was written to it.

    That is the version in the ledger's row, or a later one that includes upkeep.

    Args:
        table: Its name, for errors.
        commits: Its history, newest first, as far back as it goes.
        row: Epoch and batch of the ledger's row.
        recorded: The version in this row, if the table had been written by then.
        newest: The version in the ledger's newest row, if there is one. If it differs from ``recorded``, a later batch
            has written the table, even if Delta has cleaned that batch's commits.

    Raises:
        RetentionError: the history does not go back that far.
        ConfigurationError: the table was made by a later batch.
    """
    later = [commit for commit in commits if commit.batch is not None and commit.batch > row]
    told = next((commit for commit in commits if commit.batch is not None and commit.batch <= row), None)
    details = {} if told is None else told.details
    is_whole = bool(commits) and commits[-1].version == 0
    last = later[-1].version - 1 if later else None
    meddled = [] if told is None else [one.version for one in commits if _is_meddled(one, told.version, last)]
    if told is not None and meddled:
        # Somebody else undid the batch itself, or changed what it left. A backfill is no batch, but its row records it.
        version = max(told.version, min(meddled[-1] - 1, told.version if recorded is None else recorded))
    elif last is not None:
        version = last
    elif told is None and newest != recorded and not is_whole:
        version = -1 if recorded is None else recorded
    else:
        return Restoration(None, details)
    erased = tuple(commit.version for commit in commits if ERASED in commit.details and commit.version > version)
    by_others = tuple(commit.version for commit in commits if commit.foreign and commit.version > version)
    oldest = commits[-1].version if commits else version + 1
    if version >= oldest and (told is not None or (recorded is None and is_whole)):
        return Restoration(version, details, erased, by_others)
    if recorded is not None:
        # Delta has cleaned the log, but the files of that version may still be there.
        return Restoration(recorded, details, erased, by_others)
    if version < 0 and is_whole:
        raise ConfigurationError(f"The table {table} was made by a later batch. Delete it, then go back again.")
    raise RetentionError(
        f"The history of {table} goes back to version {oldest} only, but an older version is needed: "
        "Delta has cleaned its log. Name a later batch."
    )


def others_undone(tables: Collection[str], *, dry_run: bool) -> list[str]:
    """A line for each table in which changes by somebody else are undone.

    >>> others_undone(["orders"], dry_run=False)
    ['  CHANGES BY OTHERS in orders were undone: DESCRIBE HISTORY names them']
    """
    undone = "would be" if dry_run else "were"
    return [f"  CHANGES BY OTHERS in {table} {undone} undone: DESCRIBE HISTORY names them" for table in tables]


def _is_meddled(commit: CommitFacts, after: int, until: int | None) -> bool:
    """Whether a commit between two versions is one in which somebody else changed what a batch had left."""
    meddles = commit.restores or (commit.foreign and not commit.stays)
    return meddles and after < commit.version and (until is None or commit.version <= until)
