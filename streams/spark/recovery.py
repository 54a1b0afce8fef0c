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
#: In the details of a takeover's fences: the batch after which the tables are to stand.
TAKEOVER: Final = "takeover"
#: In the same details: the id of the takeover, to tell it from others at the same time.
HELD_BY: Final = "heldBy"
#: How many times :func:`settled` looks while a running driver keeps changing what is read.
_LOOKS: Final = 3
_FORGETS: Final = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True)
class RecoverySurvey:
    """An application's ledger, checkpoint and tables as they are found."""

    ledger: LedgerFacts
    checkpoint: CheckpointFacts
    tables: Mapping[TableRef, TableState]
    #: The order of the sources at the application's last start; empty before its first start.
    topics: tuple[str, ...] = ()
    #: The state in the ledger's newest row.
    state: LedgerState = field(default_factory=LedgerState)
    #: The node of the plan that owns each table.
    nodes: Mapping[TableRef, str] = field(default_factory=dict)
    #: Every write that a batch of the plan may make; those to one table are in order.
    steps: Sequence[StepOf] = ()
    #: The ledger's newest write.
    newest_of_ledger: Written | None = None
    #: Tables unknown to the epoch that hold rows of a former epoch's batch which is not in the ledger, with that batch.
    left: Mapping[TableRef, BatchOf] = field(default_factory=dict)
    #: The location of each existing table, including the ledger, as Spark reports it.
    locations: Mapping[TableRef, str] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """Everything that does not fit together. An unfinished takeover comes first, since it explains the rest.

        Without a ledger, an unfinished takeover looks like a finished one, and that tables are of a newer epoch only
        means that the ledger is lost.
        """
        told = findings(self.ledger, self.checkpoint, self.facts())
        if not self.has_lost_ledger:
            return [*self._unfinished_takeover(), *told]
        others = [each for each in told if each.rule != "newer-epoch"]
        return told if len(others) == len(told) else [ledger_lost(self.ledger.application), *others]

    def facts(self) -> list[TableFacts]:
        """The facts about each table that the rules judge."""
        recorded = self.state.tables
        return [
            facts_of(table, state, recorded, self.nodes.get(table), self.left.get(table))
            for table, state in self.tables.items()
        ]

    def landed(self, epoch: int, batch_id: int) -> Mapping[str, Any] | None:
        """The details of a commit of this batch, if any table has one.

        If several runs of the batch died, those of the run that reports most nodes: the plan may have grown between
        them, and the last run knows the most.
        """
        told = [said for _, said in self._written_in(epoch, batch_id) if REPORT in said.details]
        return max(told, key=nodes_reported).details if told else None

    def unfinished(self) -> Mapping[str, Any]:
        """The commit details of the batch after the ledger's newest one; empty if no table has such a commit."""
        epoch, batch_id = self.ledger.batch
        return self.landed(epoch, batch_id + 1) or {}

    def versions(self, epoch: int, batch_id: int) -> dict[str, int]:
        """The version of each table that a batch which landed in part has already written."""
        return {target.short_name: self.tables[target].version for target, _ in self._written_in(epoch, batch_id)}

    def steps_of(self, table: TableRef) -> list[tuple[str, str]]:
        """The nodes and steps with which the plan writes a table, in order."""
        return [(node, step) for target, node, step in self.steps if target == table]

    def newest_steps(self, epoch: int, batch_id: int) -> set[StepOf]:
        """The newest write of each table to which a batch that landed in part has written."""
        return {(target, said.node, said.step) for target, said in self._written_in(epoch, batch_id)}

    def _written_in(self, epoch: int, batch_id: int) -> Iterator[tuple[TableRef, Written]]:
        """The tables whose newest write belongs to this batch, with that write."""
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
        """Size and kind of the tables that batches may read, and of others that are read beside them."""
        return measured((self.tables[target] for target in tables), (self.tables[target] for target in others))

    def left_out(self) -> dict[TableRef, BatchOf]:
        """Tables that the plan of the newest batch did not have, with the finished batch that last wrote to them."""
        if not self.state.tables:
            return {}
        unknown = _unknown(self.ledger.application, self.state, self.tables)
        over = {target: batch for target, batch in unknown.items() if batch <= self.ledger.batch}
        return {target: batch for target, batch in over.items() if target not in self.left}

    def ahead(self) -> set[str]:
        """The names of tables that have writes of a batch which is not in the ledger."""
        return {table.name for table in self.facts() if table.batch is not None and table.batch > self.ledger.batch}

    @property
    def has_lost_ledger(self) -> bool:
        """Whether the application has written to its tables, but the ledger has no row of it.

        If the ledger has the application's topics but no commit of a batch, the first batch is merely unfinished.
        """
        written = any(said.written is not None and self._is_ours(said.written) for said in self.tables.values())
        is_first = bool(self.topics) and self.ledger.newest_commit is None
        return written and not is_first and self.ledger.batch == LedgerFacts(self.ledger.application).batch

    def _is_ours(self, said: Written) -> bool:
        return said.application == self.ledger.application

    def newest_epoch(self) -> int:
        """The newest epoch in any commit, of the ledger or of a table."""
        told = [state.written.epoch for state in self.tables.values() if state.written is not None]
        return max(self.ledger.epoch, *(self.ledger.newest_commit or (0,))[:1], *told)

    def _unfinished_takeover(self) -> Iterator[Finding]:
        """A rollback or backfill that died: some tables are fenced, and the ledger has no row of its epoch yet."""
        shut = {"ledger": self.newest_of_ledger}  # Fenced along with the tables; it may be the only one.
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
    """A survey and its findings, without those that only arise because a driver runs batches meanwhile.

    Ledger, checkpoint and tables are read moments apart, and a batch in between makes the ledger row outdated. The
    survey is then repeated; if no quiet moment comes, only findings that two surveys in a row share are kept.

    Args:
        look: Surveys everything.
        newest_row: Reads epoch and batch of the ledger's newest row.
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
    """Make the ledger if it is missing; if several applications begin in one root at once, only one goes on.

    Args:
        ledger: The application's ledger.
        found: What the start found; another application may have begun since.

    Raises:
        CheckpointMismatchError: another one has made the ledger since.
    """
    ledger.create()
    # Applications that were there before are in the survey; none matters to one that has been started here before.
    others = () if found.topics or found.state != LedgerState() else ledger.others()
    if others:
        told = replace(found, ledger=replace(found.ledger, others=others)).findings()
        raise next(each for each in told if each.rule == "table-of-other").error()


def refuse_running(spark: SparkSession, name: str) -> None:
    """Raise if the application runs in this session; for operations that need its tables for themselves.

    Args:
        spark: The session.
        name: The application's name.

    Raises:
        ConfigurationError: the application runs.
    """
    if any(query.name == name for query in spark.streams.active):
        raise ConfigurationError(f'"{name}" runs in this session. Stop it first.')


def checkpoint_of(base: str, epoch: int) -> str:
    """The checkpoint folder of an epoch; each one after the first has its own, beside that of the first.

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
    """Read the newest commits of all tables, in parallel, and the checkpoint; nothing is changed.

    Args:
        spark: The session.
        ledger: The application's ledger.
        state: The state in its newest row.
        tables: The application's tables.
        checkpoint: The checkpoint folder of the first epoch.
        nodes: The node of the plan that owns each table.
        steps: The writes that a batch of the plan may make to the tables.
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
    """A table's state; if it has writes of an unfinished batch, also whether it was restored before them."""
    known, said = state.tables.get(target.short_name), seen.written
    if known is None or said is None or said.epoch != state.epoch or said.batch_id <= state.batch_id:
        return seen
    return replace(seen, restored=seen.restored or is_taken_back(spark, target, known, seen.version + 1))


def _left_by_former(ledger: Ledger, state: LedgerState, seen: Mapping[TableRef, TableState]) -> dict[TableRef, BatchOf]:
    """Tables unknown to this epoch with rows of a former epoch's batch that is not in the ledger, with that batch.

    An epoch knows the tables that existed when it began. A driver that was shut out may have made one since.
    """
    unknown = _unknown(ledger.application, state, seen)
    found = {target: batch for target, batch in unknown.items() if batch[0] < state.epoch}
    ended = set(ledger.row_ids()) if found else set()
    return {target: batch for target, batch in found.items() if batch not in ended}


def _unknown(application: str, state: LedgerState, seen: Mapping[TableRef, TableState]) -> dict[TableRef, BatchOf]:
    """Tables that the application's batches wrote but its newest ledger row does not list, with the batch."""
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

    A table is written only after everything that reads it. So if a table has landed, all nodes below it in the plan
    have written too, or had nothing to write; running them again would read a table that has already moved on. The same
    holds for the table's own node once the last of its writes is there. User code must not see such a state: taking a
    value away a second time may fail, now and at every start. All other nodes have nothing above them that landed.

    Args:
        topology: The plan.
        operators: Its operators by name.
        root: Where the tables lie.
        landed: The newest write to each table that the batch had written before it died.
    """
    tables = {table for table, _, _ in landed}
    moved = {name for name, op in operators.items() if not tables.isdisjoint(op.tables(root))}
    over = {name for name, op in operators.items() if _has_ended(op, op.steps(root), landed)}
    for node in topology:
        if any(parent.name in moved | over for parent in node.parents):
            over.add(node.name)
    return frozenset(over)


def _has_ended(operator: Operator[Any], steps: Sequence[StepOf], landed: Collection[StepOf]) -> bool:
    # The rows of a changelog may still have to be sent to Kafka.
    return not isinstance(operator, ChangelogSinkOperator) and bool(steps) and steps[-1] in landed


def refuse_epoch(found: RecoverySurvey) -> None:
    """Raise for findings that even a new epoch cannot resolve.

    Args:
        found: Ledger and tables as they are.

    Raises:
        CheckpointMismatchError: the tables are another application's, or are fenced by a takeover that died.
        ConfigurationError: a table was written by a node that now has another name, or its table properties let Delta
            forget which batches wrote it.
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
    """Begin the next epoch: a row in the ledger, then fences in each table for every step that writes or wrote to it.

    Once the row is there, no older driver starts a batch; once the fences are there, none can finish one, since Delta
    skips writes with an older transaction version. Stream times and counters go on; the checkpoint is a new one. If
    another driver ended a batch before it was shut out, the epoch is begun again, with the state after that batch.

    Args:
        spark: The session.
        ledger: The application's ledger.
        state: The state to go on from: that of the newest row.
        found: The survey so far.
        checkpoint: The checkpoint folder of the first epoch.
        look: Makes a new survey.

    Raises:
        CheckpointMismatchError: the new epoch's checkpoint folder already exists, or as for :func:`refuse_epoch`.
        ConfigurationError: as for :func:`refuse_epoch`.
    """
    refuse_epoch(found)
    epoch = found.newest_epoch() + 1
    # Spark would continue from offsets that it finds there, which belong to tables that are gone.
    check_free(checkpoint_of(checkpoint, epoch))
    read = read_checkpoint(spark, checkpoint_of(checkpoint, epoch))
    for wrong in of_checkpoint(LedgerFacts(ledger.application, epoch), read, -1):
        raise wrong.error()
    _tell_unfinished(found)
    # The epoch knows all existing tables, so that a loss is noticed even before the epoch has written to them.
    versions = {target.short_name: seen.version for target, seen in found.tables.items() if seen.exists}
    begun = state.begun_anew(epoch, versions, found.ledger.batch)
    ledger.append_epoch(spark, begun)
    shut_out_older(spark, begun, found)
    missed = ledger.ended_since(found.ledger.batch, epoch)
    return begun if missed is None else begin_epoch(spark, ledger, missed, look(), checkpoint, look)


def shut_out_older(spark: SparkSession, begun: LedgerState, found: RecoverySurvey) -> None:
    """Fence every table that the epoch has not fenced yet; the driver that began it may have died half-way.

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
    # The fence of the plan's last step comes last; a batch begins only when all fences are there.
    return said.batch_id >= 0 or [(said.node, said.step)] == list(steps[-1:])


def telling(said: Written | None) -> Mapping[str, Any]:
    """The details for a fence: those of the commit before it, and which node and batch wrote the table's rows.

    A fence carries the name of any node that may write to the table, so its own identity does not say who did.

    Args:
        said: The newest write of a batch, if there is one.
    """
    if said is None:
        return {}
    # Without the holder of a former takeover, which is over.
    details, writer = {name: told for name, told in said.details.items() if name != HELD_BY}, writer_of(said)
    return details if writer is None else {**details, WRITER: [writer[0], *writer[1]]}


def nodes_reported(said: Written) -> int:
    """How many nodes a commit reports. If several runs of a batch died, the one that reports most knows the most."""
    return len(said.details[REPORT])


def writer_of(said: Written) -> tuple[str, BatchOf] | None:
    """The node and the batch that last wrote rows to a table; None if none has.

    Args:
        said: The table's newest write, which may be a fence.
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
    """Shut older epochs out of a table, with empty commits that use up the transaction ids of their writes.

    Args:
        spark: The session.
        target: The table.
        identity: Application, epoch and batch of these commits; there is one for each node and step.
        told: The details of the table's newest commit, to carry on.
        planned: The nodes and steps with which the plan writes the table: a driver may be about to do so for the first
            time. Those that wrote to it under another plan are shut out as well.
        every_step: False for a single commit, where older epochs are shut out already.

    Raises:
        FencedError: another takeover has fenced the table at the same time.
    """
    # As every commit, these carry on the details of the one before; but not its origin, which is another batch.
    details = without_origin(told)
    nothing = read_table(spark, target).where(F.lit(False))
    steps = list(planned)
    if every_step or not planned:
        # This reads the table's whole history.
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
