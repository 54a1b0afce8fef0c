"""Reads what must be consistent before an application resumes, and begins new epochs. The rules are pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from pyspark.sql import SparkSession

from streams.nodes import Topology
from streams.recovery_rules import (
    BatchOf,
    CheckpointFacts,
    Finding,
    LedgerFacts,
    TableFacts,
    findings,
    ledger_lost,
    left_by_epoch,
    of_checkpoint,
)
from streams.spark.checkpoint import read_checkpoint
from streams.spark.checkpoint_copy import check_free
from streams.spark.engine import Operators
from streams.spark.interpreted import Measured, measured
from streams.spark.ledger import Ledger, LedgerState, kept_checkpoint, kept_topics, others_of
from streams.spark.lost_input import lost_input
from streams.spark.operator import REPORT, WRITER, Operator, StepOf
from streams.spark.sinks import ChangelogSinkOperator
from versioned import spark_functions as F
from versioned.commit import Append, Step, commit
from versioned.errors import ConfigurationError, FencedError
from versioned.identifiers import TableRef
from versioned.reading import read_table
from versioned.replay import without_origin
from versioned.side_by_side import side_by_side
from versioned.table_log import recall
from versioned.written import TableState, Written, is_taken_back, look, steps_of

_LOG: Final = logging.getLogger(__name__)
#: In the details of a commit that shuts others out: the batch after which the tables are to stand.
TAKEOVER: Final = "takeover"
#: In the same: by which of several takeovers at a time.
HELD_BY: Final = "heldBy"
#: How often one looks where a driver that runs is always ahead.
_LOOKS: Final = 3
_FORGETS: Final = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True)
class RecoverySurvey:
    """An application's ledger, checkpoint and tables as they are found."""

    ledger: LedgerFacts
    checkpoint: CheckpointFacts
    tables: Mapping[TableRef, TableState]
    #: The order of sources that the application was last started with; empty before its first start.
    topics: tuple[str, ...] = ()
    #: The ledger's newest row.
    state: LedgerState = field(default_factory=LedgerState)
    #: The node of the plan that keeps its rows in a table.
    nodes: Mapping[TableRef, str] = field(default_factory=dict)
    #: Every write that a batch of the plan may make, those of a table in their order.
    steps: Sequence[StepOf] = ()
    #: The ledger's newest write.
    newest_of_ledger: Written | None = None
    #: Of tables that were not there when the epoch began: the batch of a former epoch, not in the ledger, in them.
    left: Mapping[TableRef, BatchOf] = field(default_factory=dict)
    #: Where each table that is there lies, the ledger too, as Spark tells it.
    locations: Mapping[TableRef, str] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """Everything that does not fit together; a takeover that died explains all else that is found then.

        Without a ledger none can be told from one that was ended, and no table is of a newer epoch.
        """
        told = findings(self.ledger, self.checkpoint, self.facts())
        if not self.has_lost_ledger:
            return [*self._unfinished_takeover(), *told]
        others = [each for each in told if each.rule != "newer-epoch"]
        return told if len(others) == len(told) else [ledger_lost(self.ledger.application), *others]

    def facts(self) -> list[TableFacts]:
        """What the rules need to know of each table."""
        recorded = self.state.tables
        return [
            facts_of(table, state, recorded, self.nodes.get(table), self.left.get(table))
            for table, state in self.tables.items()
        ]

    def landed(self, epoch: int, batch_id: int) -> Mapping[str, Any] | None:
        """What a commit of this batch says of it, if one is in a table; of several runs that died, the last one's.

        Where the plan grew in between, that one tells of nodes of which the others do not.
        """
        told = [said.details for _, said in self._written_in(epoch, batch_id) if REPORT in said.details]
        return max(told, key=lambda details: len(details[REPORT]), default=None)

    def unfinished(self) -> Mapping[str, Any]:
        """What a commit says of the batch behind the newest one of the ledger; nothing if none is in a table."""
        epoch, batch_id = self.ledger.batch
        return self.landed(epoch, batch_id + 1) or {}

    def versions(self, epoch: int, batch_id: int) -> dict[str, int]:
        """What a batch that landed in part has written already: the version by table."""
        return {target.short_name: self.tables[target].version for target, _ in self._written_in(epoch, batch_id)}

    def steps_of(self, table: TableRef) -> list[tuple[str, str]]:
        """As which nodes and steps the plan writes a table."""
        return [(node, step) for target, node, step in self.steps if target == table]

    def newest_steps(self, epoch: int, batch_id: int) -> set[StepOf]:
        """The newest write of each table that such a batch has written to."""
        return {(target, said.node, said.step) for target, said in self._written_in(epoch, batch_id)}

    def _written_in(self, epoch: int, batch_id: int) -> Iterator[tuple[TableRef, Written]]:
        """The tables whose newest write is of this batch, with that write."""
        for target, state in self.tables.items():
            said = state.written
            if said is not None and (said.epoch, said.batch_id) == (epoch, batch_id):
                yield target, said

    def there(self) -> set[TableRef]:
        """The tables that exist."""
        return set(self.seen())

    def seen(self) -> dict[TableRef, int]:
        """The version of each table that exists."""
        return {target: state.version for target, state in self.tables.items() if state.exists}

    def measured(self, tables: Collection[TableRef], others: Collection[TableRef] = ()) -> Measured:
        """Some of the tables, as batches that may read them must know them, and others that are read beside them."""
        return measured((self.tables[target] for target in tables), (self.tables[target] for target in others))

    def left_out(self) -> dict[TableRef, BatchOf]:
        """Tables with rows of a batch that is over, of which the newest batch's plan did not know, with that batch."""
        if not self.state.tables:
            return {}
        unknown = _unknown(self.ledger.application, self.state, self.tables)
        over = {target: batch for target, batch in unknown.items() if batch <= self.ledger.batch}
        return {target: batch for target, batch in over.items() if target not in self.left}

    def ahead(self) -> set[str]:
        """The tables that have something of a batch that is not in the ledger."""
        return {table.name for table in self.facts() if table.batch is not None and table.batch > self.ledger.batch}

    @property
    def has_lost_ledger(self) -> bool:
        """Whether the ledger has no row of an application that has written to its tables.

        Before its first row an application has told the ledger its topics: then its first batch is unfinished.
        """
        written = any(said.written is not None and self._is_ours(said.written) for said in self.tables.values())
        is_first = bool(self.topics) and self.ledger.newest_commit is None
        return written and not is_first and self.ledger.batch == LedgerFacts(self.ledger.application).batch

    def _is_ours(self, said: Written) -> bool:
        return said.application == self.ledger.application

    def newest_epoch(self) -> int:
        """The newest epoch that any commit tells of."""
        told = [state.written.epoch for state in self.tables.values() if state.written is not None]
        return max(self.ledger.epoch, *(self.ledger.newest_commit or (0,))[:1], *told)

    def _unfinished_takeover(self) -> Iterator[Finding]:
        """A rollback or backfill that died: the tables are shut to everybody, and the ledger does not know it yet."""
        shut = {"ledger": self.newest_of_ledger}  # First, and for a moment alone.
        shut |= {target.short_name: state.written for target, state in self.tables.items()}
        for about, said in shut.items():
            if said is not None and self._is_ours(said) and TAKEOVER in said.details and said.epoch > self.ledger.epoch:
                batch = said.details[TAKEOVER]
                words = f"A rollback or backfill behind batch {batch} did not end; the tables are shut to every driver."
                remedy = f"run it again, or versioned rollback --batch {batch}, which also undoes what a backfill wrote"
                yield Finding("unfinished-takeover", about, words, remedy)
                return


def settled(
    look: Callable[[], RecoverySurvey], newest_row: Callable[[], BatchOf]
) -> tuple[RecoverySurvey, list[Finding]]:
    """A look, and what is wrong by it; of looks that a running driver's batches fall into, what two of them say alike.

    Ledger, checkpoint and tables are read moments apart: after a batch between them the row that was read is old.

    Args:
        look: Looks at everything.
        newest_row: The newest row of the ledger now.
    """
    before: list[Finding] = []
    alike: list[Finding] = []
    for _ in range(_LOOKS):
        found = look()
        told = found.findings()
        if not told or newest_row() == found.ledger.batch:
            return found, told
        alike = [each for each in told if each in before]
        before = told
    return found, alike


def begin_ledger(ledger: Ledger, found: RecoverySurvey) -> None:
    """Make the ledger if it is not there; of several applications that begin in one root at once, one goes on.

    Args:
        ledger: The application's ledger.
        found: What the start found, before which another application may not have been there.

    Raises:
        CheckpointMismatchError: another one has made the ledger since.
    """
    ledger.create()
    # Who was there before is in the survey; of an application that has been started here no other one matters.
    others = () if found.topics or found.state != LedgerState() else ledger.others()
    if others:
        told = replace(found, ledger=replace(found.ledger, others=others)).findings()
        raise next(each for each in told if each.rule == "table-of-other").error()


def refuse_running(spark: SparkSession, name: str) -> None:
    """Refuse what needs the tables for itself while the application runs in this session.

    Args:
        spark: The session.
        name: The application's name.

    Raises:
        ConfigurationError: it does.
    """
    if any(query.name == name for query in spark.streams.active):
        raise ConfigurationError(f'"{name}" runs in this session. Stop it first.')


def checkpoint_of(base: str, epoch: int) -> str:
    """Each epoch counts its batches in a checkpoint of its own, beside the first one's.

    >>> checkpoint_of("/data/app/_checkpoint", 1), checkpoint_of("/data/app/_checkpoint/", 2)
    ('/data/app/_checkpoint', '/data/app/_checkpoint-epoch-2')
    """
    return base if epoch <= 1 else f"{base.rstrip('/')}-epoch-{epoch}"


def survey(
    spark: SparkSession,
    ledger: Ledger,
    state: LedgerState,
    tables: Sequence[TableRef],
    checkpoint: str,
    nodes: Mapping[TableRef, str],
    steps: Sequence[StepOf],
) -> RecoverySurvey:
    """Look at the newest commits of all tables, side by side, and at the checkpoint; nothing is changed.

    Args:
        spark: The session.
        ledger: The application's ledger.
        state: Its newest row.
        tables: The application's tables.
        checkpoint: The checkpoint folder of the first epoch.
        nodes: The nodes of the plan that keep their rows in some of the tables.
        steps: The writes that a batch of the plan may make to them.
    """
    found: dict[TableRef, TableState] = {}

    def looked(target: TableRef) -> None:
        application = ledger.application if target == ledger.target else None
        if target.short_name in state.tables:
            recall(target, state.tables[target.short_name])
        found[target] = _with_unfinished(spark, target, look(spark, target, application), state)

    side_by_side([partial(looked, target) for target in (ledger.target, *tables)], spark)
    own = found[ledger.target]
    newest_commit = None if own.written is None else (own.written.epoch, own.written.batch_id)
    query = state.checkpoint or kept_checkpoint(own.properties, ledger.application, state.epoch)
    forgets = _FORGETS in own.properties
    facts = LedgerFacts(ledger.application, state.epoch, state.batch_id, query, newest_commit, own.blank, forgets)
    topics = kept_topics(own.properties, ledger.application)
    if not topics and state == LedgerState():
        facts = replace(facts, others=others_of(own.properties, ledger.application))
    read = read_checkpoint(spark, checkpoint_of(checkpoint, state.epoch), len(topics or state.topics) + 1)
    read = replace(read, lost=lost_input(read))
    seen = {target: found[target] for target in tables}
    left = _left_by_former(ledger, state, seen)
    locations = {target: table.location for target, table in found.items() if table.exists}
    return RecoverySurvey(facts, read, seen, topics, state, nodes, steps, own.written, left, locations)


def _with_unfinished(spark: SparkSession, target: TableRef, seen: TableState, state: LedgerState) -> TableState:
    """A table as it was seen; of one that has a batch which did not end, also whether it was restored before that."""
    known, said = state.tables.get(target.short_name), seen.written
    if known is None or said is None or said.epoch != state.epoch or said.batch_id <= state.batch_id:
        return seen
    return replace(seen, restored=seen.restored or is_taken_back(spark, target, known, seen.version + 1))


def _left_by_former(ledger: Ledger, state: LedgerState, seen: Mapping[TableRef, TableState]) -> dict[TableRef, BatchOf]:
    """Tables whose rows a former epoch wrote that are not known to this one, in a batch that the ledger does not have.

    An epoch knows the tables that were there when it began. A driver that was shut out then may have made one since.
    """
    unknown = _unknown(ledger.application, state, seen)
    found = {target: batch for target, batch in unknown.items() if batch[0] < state.epoch}
    ended = set(ledger.row_ids()) if found else set()
    return {target: batch for target, batch in found.items() if batch not in ended}


def _unknown(application: str, state: LedgerState, seen: Mapping[TableRef, TableState]) -> dict[TableRef, BatchOf]:
    """Tables with rows of an application's batches of which its ledger's newest row knows nothing, with the batch."""
    found: dict[TableRef, BatchOf] = {}
    for target, table in seen.items():
        said = table.written
        if said is not None and said.application == application and target.short_name not in state.tables:
            writer = writer_of(said)
            if writer is not None:
                found[target] = writer[1]
    return found


def written_before_crash(
    topology: Topology, operators: Operators, root: TableRef, landed: Collection[StepOf]
) -> frozenset[str]:
    """The nodes of a replayed batch that have nothing more to write.

    A table is written only after everything that reads it. So where a table has landed, all below it in the plan have
    written too, or had nothing to write; and what they would write now comes from a table that has moved on. The same
    is true of its own node once the last of its writes is there. User code must not meet such a state: taking a value
    away a second time may fail, now and at every start. Whatever else is written has nothing above it that landed.

    Args:
        topology: The plan.
        operators: Its operators by name.
        root: Where the tables lie.
        landed: The newest write to each table that the batch wrote to before it died.
    """
    tables = {table for table, _, _ in landed}
    moved = {name for name, op in operators.items() if not tables.isdisjoint(op.tables(root))}
    over = {name for name, op in operators.items() if _has_ended(op, op.steps(root), landed)}
    for node in topology:
        if any(parent.name in moved | over for parent in node.parents):
            over.add(node.name)
    return frozenset(over)


def _has_ended(operator: Operator[Any], steps: Sequence[StepOf], landed: Collection[StepOf]) -> bool:
    # What a changelog wrote may still have to be sent to Kafka.
    return not isinstance(operator, ChangelogSinkOperator) and bool(steps) and steps[-1] in landed


def refuse_epoch(found: RecoverySurvey) -> None:
    """Refuse what a new epoch cannot mend either.

    Args:
        found: Ledger and tables as they are.

    Raises:
        CheckpointMismatchError: the tables are another application's, or are shut by a takeover that died.
        ConfigurationError: a table was written by a node that the plan calls otherwise, or forgets its batches.
    """
    for wrong in left_by_epoch(found.findings()):
        raise wrong.error()


def begin_epoch(
    spark: SparkSession,
    ledger: Ledger,
    state: LedgerState,
    found: RecoverySurvey,
    checkpoint: str,
    look: Callable[[], RecoverySurvey],
) -> LedgerState:
    """Begin the next epoch: a row in the ledger, then a commit in each table for each step that writes to it or did.

    From the row on no older driver starts a batch; from the commits on none can finish one, since Delta skips what has
    an older transaction version. Stream times and counters go on; the checkpoint is a new one. If another driver has
    ended a batch before it was shut out, the epoch is begun once more, with the state behind that batch.

    Args:
        spark: The session.
        ledger: The application's ledger.
        state: What to go on from: the newest row that was found.
        found: What was found before.
        checkpoint: The checkpoint folder of the first epoch.
        look: Finds it anew.

    Raises:
        CheckpointMismatchError: the new epoch's checkpoint folder is there already, or as :func:`refuse_epoch` says.
        ConfigurationError: as :func:`refuse_epoch` says.
    """
    refuse_epoch(found)
    epoch = found.newest_epoch() + 1
    # Offsets that lie there are of tables that are gone: Spark would go on from them.
    check_free(checkpoint_of(checkpoint, epoch))
    read = read_checkpoint(spark, checkpoint_of(checkpoint, epoch))
    for wrong in of_checkpoint(LedgerFacts(ledger.application, epoch), read, -1):
        raise wrong.error()
    _tell_unfinished(found)
    # A table that is gone before the epoch has written to it is missed like any other.
    versions = {target.short_name: seen.version for target, seen in found.tables.items() if seen.exists}
    begun = state.begun_anew(epoch, versions, found.ledger.batch)
    ledger.append_epoch(spark, begun)
    shut_out_older(spark, begun, found)
    missed = ledger.ended_since(found.ledger.batch, epoch)
    return begun if missed is None else begin_epoch(spark, ledger, missed, look(), checkpoint, look)


def shut_out_older(spark: SparkSession, begun: LedgerState, found: RecoverySurvey) -> None:
    """Fence every table that the epoch has not shut yet; whoever began it may have died before the last commit.

    Args:
        spark: The session.
        begun: The state with which the epoch begins.
        found: The tables as they are.
    """
    owner = Step(found.ledger.application, "", "", begun.epoch, -1)
    for target, seen in found.tables.items():
        steps = found.steps_of(target)
        if seen.exists and not _is_shut(seen.written, begun.epoch, steps):
            fence(spark, target, owner, telling(seen.written), steps)


def _is_shut(said: Written | None, epoch: int, steps: Sequence[tuple[str, str]]) -> bool:
    if said is None or said.epoch < epoch:
        return False
    # The fence of the plan's last step is a table's last; a batch begins only when all are there.
    return said.batch_id >= 0 or [(said.node, said.step)] == list(steps[-1:])


def telling(said: Written | None) -> Mapping[str, Any]:
    """What a commit that shuts others out goes on telling: what the one before told, and whose rows the table has.

    The newest of such commits is that of any node that may write to the table, whoever did.

    Args:
        said: The newest write of a batch, if there is one.
    """
    if said is None:
        return {}
    # Who held the tables in a takeover that is over is told no more.
    details, writer = {name: told for name, told in said.details.items() if name != HELD_BY}, writer_of(said)
    return details if writer is None else {**details, WRITER: [writer[0], *writer[1]]}


def writer_of(said: Written) -> tuple[str, BatchOf] | None:
    """Whose rows a table has, and of which batch; None where no node has written to it.

    Args:
        said: The newest write of a batch, which may only shut others out.
    """
    if WRITER in said.details:
        node, epoch, batch_id = said.details[WRITER]
        return node, (epoch, batch_id)
    return (said.node, (said.epoch, said.batch_id)) if REPORT in said.details else None


def fence(
    spark: SparkSession,
    target: TableRef,
    identity: Step,
    told: Mapping[str, Any],
    planned: Sequence[tuple[str, str]],
    *,
    every_step: bool = True,
) -> None:
    """Empty commits that take the place of whatever an older epoch may still write.

    Args:
        spark: The session.
        target: The table.
        identity: Application, epoch and batch of these commits; there is one for each node and step.
        told: What the newest commits of the table have told.
        planned: As which nodes and steps the plan writes it; a driver may be about to do so for the first time. Those
            that wrote to it under another plan are shut out as well.
        every_step: False for one commit only, where older epochs are shut out already.

    Raises:
        FencedError: another takeover has shut the table at the same time.
    """
    # The newest commit of a table always tells what the ones before it told; but not whose batch it was.
    details = without_origin(told)
    nothing = read_table(spark, target).where(F.lit(False))
    steps = list(planned)
    if every_step or not planned:
        # The whole history is read for these.
        steps = [step for step in steps_of(spark, target, identity.application) if step not in planned] + steps
    for node, step in steps if every_step else steps[-1:]:
        landed = commit(target, lambda: Append(nothing), replace(identity, node=node, step=step), details)
        if landed.details.get(HELD_BY) != details.get(HELD_BY):
            raise FencedError(
                f"Somebody else takes {identity.application} over at the same time, and has shut {target}. Wait until "
                "that rollback or backfill is over, then look where the application stands: versioned doctor."
            )


def _tell_unfinished(found: RecoverySurvey) -> None:
    ahead = sorted(found.ahead())
    if found.has_lost_ledger:
        _LOG.warning("The ledger is gone; stream times go on as the newest commits of %s tell.", ahead)
    elif ahead:
        epoch, batch_id = max(table.batch for table in found.facts() if table.batch is not None)
        _LOG.warning(
            "Batch %d of epoch %d landed in part, in %s. A new epoch does not finish it: only if the sources begin "
            "before its input, the rest of it is written, and sent to Kafka.",
            batch_id,
            epoch,
            ahead,
        )
    if found.left:
        names = sorted(target.short_name for target in found.left)
        _LOG.warning("Rows of batches that never ended are in %s; a new epoch takes these tables as they are.", names)


def facts_of(
    target: TableRef,
    state: TableState,
    recorded: Mapping[str, int],
    node: str | None = None,
    left: BatchOf | None = None,
) -> TableFacts:
    name, said = target.short_name, state.written
    writer = None if said is None else writer_of(said)
    return TableFacts(
        name,
        state.exists,
        state.version,
        None if said is None else said.application,
        None if said is None else (said.epoch, said.batch_id),
        state.restored,
        state.blank,
        _FORGETS in state.properties,
        recorded.get(name),
        None if writer is None else writer[0],
        node,
        left,
        state.is_strange,
    )
