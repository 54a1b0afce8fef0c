"""What must be consistent before an application resumes: its ledger, checkpoint and tables. Pure rules.

A batch writes, in this order: its offsets to the checkpoint, the tables (downstream first), the ledger row, and the
checkpoint's commit. So after a crash at any point, the checkpoint knows every batch that a table has, the tables have
every batch that the ledger has, and at most one batch, the checkpoint's newest, is unfinished. Anything else is damage,
which these rules find before a batch is processed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from versioned.errors import (
    CheckpointMismatchError,
    ConfigurationError,
    FencedError,
    ReplayMismatchError,
    VersionedError,
)
from versioned.replay import GIVE_UP, way_back

_OTHER_ROOT: Final = "give the application the name that it had there, or another root"
_LEDGER_BACK: Final = "put its ledger back, and give the other application a root of its own"
#: Table property by which users declare that this library made the rows of a copy, whose commits do not say so.
COPIED: Final = "versioned.copied"
_RESET: Final = f"or {GIVE_UP}; or start over with a new root and a new checkpoint"

#: Epoch and batch id.
BatchOf = tuple[int, int]


@dataclass(frozen=True)
class LedgerFacts:
    """What the ledger says: its newest batch (-1 = none in this epoch), and the id of the checkpoint that counts them.

    ``newest_commit`` is the newest batch in the history of its commits, which may be newer than its newest row.
    ``blank`` is whether its newest commit is an empty file, ``forgets`` whether Delta forgets which batches it has.
    ``others`` are other applications that were started in its root before this one ever was.
    """

    application: str
    epoch: int = 1
    batch_id: int = -1
    checkpoint: str | None = None
    newest_commit: BatchOf | None = None
    blank: bool = False
    forgets: bool = False
    others: tuple[str, ...] = ()

    @property
    def batch(self) -> BatchOf:
        """Epoch and batch id of the newest row."""
        return self.epoch, self.batch_id


@dataclass(frozen=True)
class CheckpointFacts:
    """What a checkpoint folder holds: the query's id (None = no checkpoint), its newest offsets and commit.

    ``lost`` are the files that the unfinished batch has to read and that are gone.
    """

    place: str
    query: str | None = None
    offset: int = -1
    commit: int = -1
    damage: str | None = None
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableFacts:
    """What a table's newest commits say; ``recorded`` is its version after the ledger's newest batch.

    ``writer`` is the node whose rows the table has, ``node`` the node of the plan that keeps its rows there; None = not
    known. ``left`` is the batch that wrote it last, if an earlier epoch left the table there: the batch is not in the
    ledger, and the table did not exist when this epoch began. ``strange`` is whether it has rows and nothing says that
    they are this library's.
    """

    name: str
    exists: bool = True
    version: int = -1
    owner: str | None = None
    batch: BatchOf | None = None
    restored: bool = False
    blank: bool = False
    forgets: bool = False
    recorded: int | None = None
    writer: str | None = None
    node: str | None = None
    left: BatchOf | None = None
    strange: bool = False


@dataclass(frozen=True)
class Finding:
    """Something that does not fit together: a short name of the rule, what was found, and what to do."""

    rule: str
    about: str
    found: str
    remedy: str
    is_wrong: bool = True

    def __str__(self) -> str:
        return f"{self.found} To go on: {self.remedy}."

    def error(self, left: str = "Nothing was written.") -> VersionedError:
        """The error that refuses a start, or a batch.

        Args:
            left: A sentence on what is left behind.
        """
        kind = _ERRORS.get(self.rule, CheckpointMismatchError)
        return kind(f"{self.found} {left} To go on: {self.remedy}.")


_ERRORS: Final[dict[str, type[VersionedError]]] = {
    "newer-epoch": FencedError,
    "other-driver": FencedError,
    "table-forgets": ConfigurationError,
    "table-of-node": ConfigurationError,
    "table-by-hand": ConfigurationError,
    "input-gone": ReplayMismatchError,
}
#: How many lost files are named.
_FEW: Final = 3


#: What a new epoch does not repair: it would begin all the same, and shut out of every table those who could go on.
_NO_EPOCH_MENDS: Final = frozenset(
    {"table-of-other", "table-of-node", "table-by-hand", "table-forgets", "empty-commit", "unfinished-takeover"}
)


def left_by_epoch(found: Iterable[Finding]) -> list[Finding]:
    """The findings that a new epoch would not repair: with any of them, none may begin.

    >>> left_by_epoch(findings(LedgerFacts("app", batch_id=3), CheckpointFacts("/c"), []))
    []
    """
    return [each for each in found if each.rule in _NO_EPOCH_MENDS]


def findings(ledger: LedgerFacts, checkpoint: CheckpointFacts, tables: Iterable[TableFacts]) -> list[Finding]:
    """Everything that does not fit together, causes before their consequences.

    >>> [found.rule for found in findings(LedgerFacts("app", batch_id=3), CheckpointFacts("/c"), [])]
    ['checkpoint-lost']
    """
    known = list(tables)
    has_run = any(_is_ours(ledger, table) for table in known)
    found = [*_of_ledger(ledger, has_run), *(each for table in known for each in of_table(ledger, table))]
    own = [ledger.batch, *(t.batch for t in known if t.batch and _is_ours(ledger, t))]
    newest = max(own)
    of_epoch = [batch for epoch, batch in own if epoch == ledger.epoch]
    last = newest[1] if newest[0] == ledger.epoch else ledger.batch_id
    return [*found, *of_checkpoint(ledger, checkpoint, last, of_epoch), *_of_input(ledger, checkpoint)]


def of_checkpoint(
    ledger: LedgerFacts, checkpoint: CheckpointFacts, newest: int, written: Iterable[int] = ()
) -> list[Finding]:
    """The first thing that is wrong with a checkpoint.

    Args:
        ledger: What the ledger says.
        checkpoint: The folder.
        newest: The newest batch of this epoch that a table or the ledger has.
        written: The newest batches of this epoch of all tables.
    """
    return list(_checkpoint_rules(ledger, checkpoint, newest, written))[:1]


def _checkpoint_rules(
    ledger: LedgerFacts, checkpoint: CheckpointFacts, newest: int, written: Iterable[int]
) -> Iterator[Finding]:
    name, place, back = ledger.application, checkpoint.place, f"restore the checkpoint {checkpoint.place}, {_RESET}"

    def found(rule: str, words: str, remedy: str = back) -> Finding:
        return Finding(rule, place, words, remedy)

    if checkpoint.offset < 0 and checkpoint.damage is None:
        if newest >= 0:
            yield found("checkpoint-lost", f'"{name}" has written batch {newest}, but {place} holds no batch at all.')
        return
    if ledger.checkpoint and checkpoint.query and ledger.checkpoint != checkpoint.query:
        said = f"belongs to another query ({checkpoint.query}); the batches of"
        yield found(
            "checkpoint-foreign", f'The checkpoint {place} {said} "{name}" were counted by {ledger.checkpoint}.'
        )
    if ledger.checkpoint is None and ledger.batch_id < 0 and checkpoint.commit >= 0:
        said = f"has finished batch {checkpoint.commit}, of which the ledger of"
        remedy = f"use the checkpoint and the ledger that belong together, {_RESET}"
        yield found("checkpoint-foreign", f'The checkpoint {place} {said} "{name}" knows nothing.', remedy)
    if checkpoint.damage is not None:
        yield found("checkpoint-damaged", f"The checkpoint {place} cannot be used: {checkpoint.damage}.")
    if checkpoint.offset < max(newest, checkpoint.commit):
        said = f"ends at batch {checkpoint.offset}, but batch {max(newest, checkpoint.commit)} is"
        done = "written: it is an older copy, or was cut off." if newest >= checkpoint.commit else "finished in it."
        remedy = f"{back}; or, to run the rest again, versioned rollback --batch {checkpoint.offset}"
        yield found("checkpoint-behind", f"The checkpoint {place} {said} {done}", remedy)
    # Only the checkpoint's newest batch may be unfinished: any earlier batch that is in the tables was in the ledger.
    ended = max(checkpoint.commit, checkpoint.offset - 1)
    missing = max((batch for batch in {newest, *written} if ledger.batch_id < batch <= ended), default=None)
    if missing is not None:
        said = (
            f"ends at batch {ledger.batch_id}, but batch {missing} is in the tables and the checkpoint has finished it."
        )
        remedy = f"restore the ledger to the version that has batch {missing}, {_RESET}"
        yield Finding("ledger-behind", "ledger", f'The ledger of "{name}" {said}', remedy)


def _of_input(ledger: LedgerFacts, checkpoint: CheckpointFacts) -> Iterator[Finding]:
    """Input files that Spark would silently leave out; nothing is read any more for a batch that the ledger has."""
    if checkpoint.lost and checkpoint.offset > ledger.batch_id:
        batch = checkpoint.offset
        files = ", ".join(checkpoint.lost[:_FEW])
        said = f"Batch {batch} has begun, and {len(checkpoint.lost)} files of its input are gone since: {files}."
        without = way_back(ledger.epoch, batch)
        yield Finding("input-gone", checkpoint.place, said, f"put them back; or, to go on without them, {without}")


def _of_ledger(ledger: LedgerFacts, has_run: bool) -> Iterator[Finding]:
    name, (epoch, batch) = ledger.application, ledger.batch
    if ledger.blank:
        yield _blank("ledger")
    if ledger.forgets:
        yield _forgets("ledger")
    if ledger.others:
        theirs = " and ".join(f'"{other}"' for other in ledger.others)
        said = f'The root is that of the application {theirs}, and has room for one only; "{name}" never ran there.'
        if has_run:
            said = f'The ledger is that of the application {theirs}, though "{name}" ran there: its own is gone.'
        yield Finding("table-of-other", "ledger", said, _LEDGER_BACK if has_run else _OTHER_ROOT)
    if ledger.newest_commit is not None and ledger.newest_commit > ledger.batch:
        theirs = f"batch {ledger.newest_commit[1]} of epoch {ledger.newest_commit[0]}"
        said = (
            f'The rows of the ledger of "{name}" end at batch {batch} of epoch {epoch}, but {theirs} was written to it:'
        )
        remedy = "RESTORE the ledger to its version before that, or take the tables back as well"
        rollback = f"versioned rollback --batch {batch}"
        yield Finding("ledger-restored", "ledger", f"{said} it was restored.", f"{remedy}: {rollback}")


def of_table(ledger: LedgerFacts, table: TableFacts) -> Iterator[Finding]:
    """Everything that is wrong with one table."""

    def found(rule: str, words: str, remedy: str) -> Finding:
        return Finding(rule, table.name, f"The table {table.name} {words}", remedy)

    copy = f"put back a copy of it that has version {table.recorded}, {_RESET}"
    if not table.exists:
        if table.recorded is not None:
            yield found("table-gone", f"is gone; it was at version {table.recorded}.", copy)
        return
    if table.blank:
        yield _blank(table.name)
    if table.forgets:
        yield _forgets(table.name)
    if table.owner is not None and not _is_ours(ledger, table):
        yield of_other(table.name, table.owner, ledger.application)
        return
    yield from _of_writer(table)
    if table.recorded is not None and table.version < table.recorded:
        said = f"is at version {table.version}, but was at {table.recorded}: an older copy took its place."
        yield found("table-replaced", said, copy)
    elif table.restored and table.batch is not None:
        yield found("table-restored", *_of_restored(ledger, table, table.batch))
    if table.batch is not None and table.batch[0] > ledger.epoch:
        said = f"was written in epoch {table.batch[0]}; this is epoch {ledger.epoch}."
        yield found("newer-epoch", said, "stop this driver: a newer one has taken over. Or restore the ledger")


def _of_restored(ledger: LedgerFacts, table: TableFacts, batch: BatchOf) -> tuple[str, str]:
    """What to say of a table that was restored, and what to do about it."""
    if batch[0] == ledger.epoch and batch[1] > ledger.batch_id:
        # Delta still knows that the batch was written: taken to an older version, the table would not get it again.
        said = f"was restored while batch {batch[1]} was under way, or since: its rows do not fit the ledger's."
        return said, way_back(*batch) if batch[1] <= 0 else f"{way_back(*batch)}, {_RESET}"
    # The commit with which a rollback or a backfill shuts others out belongs to no batch; it follows the ledger's.
    last = batch[1] if batch[1] >= 0 else ledger.batch_id
    said = f"was restored after batch {last}: its rows do not fit the ledger's."
    version = "" if table.recorded is None else f"take it to version {table.recorded} by RESTORE, or "
    return said, f"{version}versioned rollback --batch {ledger.batch_id}, {_RESET}"


def ledger_lost(application: str, *, is_wrong: bool = True) -> Finding:
    """The finding that the ledger is gone, and with it what only the ledger knew.

    Args:
        application: The application whose ledger it was.
        is_wrong: Whether this finding must refuse a start, since no other one does.
    """
    said = (
        f'The ledger of "{application}" is gone, though its tables have batches. A new epoch goes on with the stream '
        "times that the tables tell; the totals of metrics, the batch clock and what is known of sequences that come "
        "once begin anew."
    )
    return Finding("ledger-lost", "ledger", said, "put the ledger back; else start with --new-epoch", is_wrong)


def _of_writer(table: TableFacts) -> Iterator[Finding]:
    """What is wrong with the origin of a table's rows.

    They may be somebody else's, of a batch that never ended, or of a node of another name, without whose stream time
    the table would go on.
    """
    # A table that the ledger knows is ours, and so is a clone of it beside a clone of the ledger.
    if table.strange and table.recorded is None:
        yield _by_hand(table.name)
    if table.left is not None:
        yield of_older_driver(table.name, table.left)
    if None in (table.writer, table.node) or table.writer == table.node:
        return
    said = (
        f'The table {table.name} was written by the node "{table.writer}", not by "{table.node}". Stream times go by '
        "the names of nodes: under another one records beyond grace would be taken in, and final windows open again."
    )
    remedy = f'call the node "{table.writer}" again, with a store called "{table.name}" (a join: with its Joined)'
    other = "give its store, or Joined, another name, under which it begins empty"
    yield Finding("table-of-node", table.name, said, f"{remedy}, or {other}")


def _by_hand(name: str) -> Finding:
    said = f"The table {name} has rows, and neither a commit nor a property of it says that this library wrote them."
    remedy = (
        "give the step (its store, where that is named) another name, or the application another root. Only if it is a "
        f"copy of a table of this application, say so: ALTER TABLE ... SET TBLPROPERTIES ('{COPIED}' = 'true')"
    )
    return Finding("table-by-hand", name, said, remedy)


def of_other(name: str, owner: str, application: str) -> Finding:
    """The finding that the newest batch of a table is another application's.

    Args:
        name: The table.
        owner: The application that wrote the batch.
        application: The application that is about to write to the table.
    """
    said = f'The table {name} was written by the application "{owner}", not by "{application}".'
    return Finding("table-of-other", name, said, _OTHER_ROOT)


def of_older_driver(name: str, batch: BatchOf) -> Finding:
    """The finding that a table has rows of a batch that is not in the ledger, whose input a later epoch reads again.

    These rows would be there twice. If the table were deleted, rows of earlier batches could be missing: their input is
    not read again.

    Args:
        name: The table.
        batch: The batch.
    """
    said = (
        f"The table {name} has rows of batch {batch[1]} of epoch {batch[0]}, which is not in the ledger. It never "
        "ended, and a driver that was shut out made the table when the next epoch had begun; or a rollback undid it "
        "with a plan that was without the table."
    )
    remedy = (
        "look which batches have written it (DESCRIBE HISTORY, userMetadata). If the ledger has none of them, delete "
        "the table, which is made anew. Otherwise that would lose what they left: RESTORE it to the last version of a "
        "batch that the ledger has, and start with --new-epoch, with sources that begin behind that batch"
    )
    return Finding("table-of-older-driver", name, said, remedy)


def _is_ours(ledger: LedgerFacts, table: TableFacts) -> bool:
    return table.owner == ledger.application


def _forgets(name: str) -> Finding:
    said = (
        f"The table {name} has delta.setTransactionRetentionDuration set: Delta would forget which batches it has, and "
        "repeat them."
    )
    return Finding("table-forgets", name, said, "unset that property")


def _blank(name: str) -> Finding:
    said = f"The newest commit of {name} is an empty file, which Delta reads as no change: the machine lost power."
    remedy = "remove that newest file and its .crc from _delta_log; if the ledger has its batch, restore from a copy"
    return Finding("empty-commit", name, said, remedy)


def turn(
    ledger: LedgerFacts, newest: BatchOf | None, checkpoint: tuple[str | None, str | None], restored: bool
) -> Finding | None:
    """Why this driver must not write a batch: somebody else has written to the ledger since; ``None`` if it may.

    Args:
        ledger: The ledger as this driver left it.
        newest: The newest batch that is in the ledger now.
        checkpoint: The ids of the checkpoint that counted it, and of this driver's own.
        restored: Whether a RESTORE came after it.

    >>> turn(LedgerFacts("app", batch_id=3), (1, 3), ("a", "a"), False) is None
    True
    """
    name, stop = ledger.application, "stop this driver; if it is the rightful one, start it with --new-epoch"
    theirs, ours = checkpoint
    if restored:
        remedy = f"stop, RESTORE it to its version before that, {_RESET}"
        return Finding("ledger-restored", "ledger", f'The ledger of "{name}" was restored meanwhile.', remedy)
    if newest is None or newest < ledger.batch:
        return None  # Delta has cleaned the log.
    if newest[0] > ledger.epoch:
        said = f'Epoch {newest[0]} of "{name}" has begun; this driver runs epoch {ledger.epoch}.'
        return Finding("newer-epoch", "ledger", said, stop)
    if newest > ledger.batch or (theirs and ours and theirs != ours):
        said = f'Another driver of "{name}" has written batch {newest[1]}; this one was at batch {ledger.batch_id}.'
        return Finding("other-driver", "ledger", said, stop)
    return None
