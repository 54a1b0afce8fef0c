"""The interface of operators of the Spark engine: what each one does in a batch, and what it may use.

In each batch the runner calls, for all operators, ``apply`` (build the output, lazily), then ``report`` (counts; may
run jobs, but writes nothing), then ``write`` (one commit per step), then ``release``. An operator is applied once all
its parents are, and written once all operators below it in the plan are: a table only after everything that reads its
state before the batch (docs/operations.md, "The life of a batch"). Independent operators are applied, and written, at
the same time; so whatever several children may ask of a parent is computed ``Once``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from streams.nodes import Node
from streams.recovery_rules import LedgerFacts, TableFacts, of_older_driver, of_other, of_table
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, WAS_KEY, WAS_US, Flow, NodeReport, in_one_scope
from streams.spark.lookup_table import LookupTable
from streams.spark.of_keys import MOST_SENT, Amount
from streams.spark.stored_shape import check_beside, check_rows
from versioned import spark_functions as F
from versioned.adding import add_columns, lacking
from versioned.commit import EPOCH_BITS, Step, Write, commit, saying
from versioned.identifiers import TableRef
from versioned.making import is_unmade, make_table
from versioned.reading import read_table
from versioned.replay import COLUMNS_OF, check_driver
from versioned.schema import create_plain
from versioned.sql_types import JSON_INSTANTS
from versioned.statistics import indexed_first
from versioned.table_log import Landed, told_so_far
from versioned.written import is_taken_back, newest

N = TypeVar("N", bound=Node)
#: What has a stream time of its own, and its stream time before the batch, where that is not the scope.
GROUP, BEFORE_US = "_group", "_before_us"
#: A record that cannot be told by its key and value: the raw row as JSON.
RAW = "_raw"
#: A write that a batch may make: the table, and as which node and step. The last two are parts of its transaction id.
StepOf = tuple[TableRef, str, str]
#: In the details of every write of a batch.
REPORT: Final = "report"
#: Beside it: the tables in which rows may wait once the batch has landed.
BUFFERS: Final = "buffers"
#: In those of a commit that shuts others out: node, epoch and batch of the write whose rows the table has.
WRITER: Final = "writer"


@dataclass
class Batch:
    """One micro-batch: its identity, its clock and what the batches before it left."""

    session: SparkSession
    application: str
    root: TableRef
    epoch: int
    batch_id: int
    clock_us: int
    stream_times: Mapping[str, Mapping[int, int]]
    #: The wall clock at which a node has something to do without input, microseconds.
    alarms: Mapping[str, int] = field(default_factory=dict)
    #: Suppressions that are emptied in this batch.
    drains: tuple[str, ...] = ()
    #: Whether some write of this very batch landed before a restart: then its report was made before.
    is_replay: bool = False
    #: The nodes that wrote all that they had of it before a restart: nothing comes to them again.
    spared: Collection[str] = frozenset()
    #: Whether records and tables are so few that each write makes one file; more only take time, also to read them.
    is_small: bool = False
    #: The stream-time scopes that there are, with those that appear in this batch.
    scopes: frozenset[int] = frozenset()
    #: What is put aside: by which node, and the rows.
    rejects: list[tuple[str, DataFrame]] = field(default_factory=list)
    #: What the machine's own clock said, microseconds: unlike the batch clock it may go back.
    wall_us: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    #: The version of each table that was looked at before the batch.
    seen: Mapping[TableRef, int] = field(default_factory=dict)
    #: The version of each table that the batch wrote.
    landed: dict[str, int] = field(default_factory=dict)
    #: Records put aside, by node and reason; known before the first write.
    rejected: dict[tuple[str, str], int] = field(default_factory=dict)
    #: Of sources in which no sequence comes twice: the greatest of the batch by scope. Kept as stream times are.
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    #: Columns of which tables keep no statistics.
    pii_columns: frozenset[str] = frozenset()
    #: Whether tables get columns that they lack.
    adds_columns: bool = False
    #: Tables known to be there: those that the driver found when it started, and those it made since.
    there: set[TableRef] = field(default_factory=set)
    _origins: list[DataFrame] = field(default_factory=list)

    @property
    def number(self) -> int:
        """What stored rows carry as ``_batch_id``: the batch id; in later epochs, whose ids start anew, above it."""
        return ((self.epoch - 1) << EPOCH_BITS) + self.batch_id

    @property
    def is_due(self) -> bool:
        """Whether a batch without input, a mere tick of the clock, has anything to do.

        One that landed in part has its ledger row to write, though what let rows out then may be due no more.
        """
        is_any_due = any(alarm_us <= self.clock_us for alarm_us in self.alarms.values())
        return is_any_due or bool(self.drains) or self.is_replay

    def amount(self, flow: Flow) -> Amount:
        """How many records a flow has; ``unknown`` in small batches too: their tables are moved in no time."""
        if self.is_small or flow.most is None:
            return "unknown"
        return "few" if flow.most <= MOST_SENT else "many"

    def has_few(self, flow: Flow) -> bool:
        """Whether a flow's records are so few that tables are read where they lie (:mod:`streams.spark.of_keys`)."""
        return self.amount(flow) == "few"

    def cut(self, frame: DataFrame) -> DataFrame:
        """The rows of a frame, computed once, without the plan that made them.

        Steps of a batch build on each other. Were each to carry the plans of all steps before it, Spark would analyse,
        compare and print them anew for every query; in a plan of several joins most of a small batch went into that.
        The rows are given back when nothing refers to them any more.
        """
        # Tasks still tell metrics of the plan when it is cut off: Spark must not forget it before the batch ends.
        self._origins.append(frame)
        return frame.localCheckpoint(eager=False)

    def release(self) -> None:
        """Forget the plans that were cut off; a batch may be referred to long after its end."""
        self._origins.clear()

    def step(self, node: str, name: str) -> Step:
        """The identity of one write of this batch."""
        return Step(self.application, node, name, self.epoch, self.batch_id)

    def commit(self, target: TableRef, build: Callable[[], Write], node: str, step: str) -> Landed:
        """Write one step; the batch's whole report travels in the commit, for a replay to find.

        Raises:
            FencedError, CheckpointMismatchError: as :meth:`note`.
        """
        landed = commit(target, build, self.step(node, step), self.details, in_one_task=self.is_small)
        self.note(target, landed)
        return landed

    def note(self, target: TableRef, landed: Landed) -> None:
        """Keep the version of a table that the batch wrote: of each write, in their order.

        Where it is the next one, nobody else was there, and nothing is looked at.

        Raises:
            FencedError: another driver has written it, and not before this one started.
            CheckpointMismatchError: the table was restored, or another one took its place, while the batch was under
                way.
        """
        if landed.version > self.landed.get(target.short_name, -1):
            this = self.epoch, self.batch_id
            check_driver(f"Batch {self.batch_id} in {target}", this, landed.details, self.details)
        self._refuse_taken_back(target, landed.version)
        self.landed[target.short_name] = landed.version

    def _refuse_taken_back(self, target: TableRef, landed: int) -> None:
        name, this = target.short_name, (self.epoch, self.batch_id)
        known = max(self.seen.get(target, -1), self.landed.get(name, -1))
        if known < 0:
            return  # The batch made it.
        # What a batch that begins again had written before is not written anew; but no first commit is a batch's.
        is_replaced = landed <= known and not (self.is_replay and landed > 0)
        if is_replaced or is_taken_back(self.session, target, known, landed):
            found = TableFacts(name, True, landed, self.application, this, restored=True, recorded=known)
            for wrong in of_table(LedgerFacts(self.application, self.epoch, self.batch_id - 1), found):
                raise wrong.error("The batch has not ended.")

    def create(
        self,
        target: TableRef,
        empty: DataFrame,
        properties: Mapping[str, str] = MappingProxyType({}),
        *,
        found_by: Collection[str] = (),
    ) -> None:
        """Make a table with the columns of a frame, without statistics of those with personal data.

        Args:
            target: The table.
            empty: Has its columns.
            properties: What it says of itself.
            found_by: Columns by which its rows are looked for, however many there are before them.
        """
        indexed = indexed_first(empty.schema, found_by)
        made = create_plain(target, empty.schema, self.pii_columns, properties=properties, indexed=indexed)
        make_table(self.session, target, made, or_take=True)
        self.there.add(target)

    def create_or_check(self, target: TableRef, node: str, empty: DataFrame, *, by_name: bool = False) -> None:
        """As :meth:`create`; a state table that is there must be able to give back the rows of the plan as they were.

        Args:
            target: The table.
            node: Whose it is.
            empty: Has its columns: those of the key, and its own beside them.
            by_name: As of :func:`~streams.spark.stored_shape.check_rows`.

        Raises:
            ConfigurationError: it holds other columns, or the key has a field that is called as one of its own.
        """
        check_beside(node, target.short_name, empty.columns)
        if self.is_missing(target):
            self.create(target, empty)
        else:
            there = read_table(self.session, target).schema
            check_rows(node, target.short_name, there, empty.schema, by_name=by_name)

    def addable(self, there: StructType, made: StructType) -> StructType:
        """The columns of a plan's rows that a table lacks and may get; none where other rows of the batch have landed.

        Args:
            there: The columns of the table.
            made: Those of the rows.
        """
        return lacking(there, made) if self.adds_columns and not self.is_replay else StructType()

    def add_columns(
        self,
        target: TableRef,
        columns: StructType,
        add: Callable[[SparkSession, TableRef, StructType], object] = add_columns,
    ) -> None:
        """Give a table the columns that it lacks; those with personal data are hidden already.

        Its commits say for which batch, by which a rollback to one before takes them back.

        Args:
            target: The table.
            columns: What it lacks; there may be none.
            add: Gives it these.
        """
        if columns.fields:
            of_batch = {COLUMNS_OF: [self.epoch, self.batch_id]}
            with saying(self.session, {**told_so_far(self.session, target), **of_batch}):
                add(self.session, target, columns)

    def is_missing(self, target: TableRef) -> bool:
        """Whether there is no such table yet; of one that is known to be there nothing is asked.

        Raises:
            CheckpointMismatchError: a driver that was shut out, or another application, has made it since this one
                started, and written to it.
        """
        if target in self.there:
            return False
        if is_unmade(self.session, target):
            return True
        said = newest(self.session, target).written
        if said is not None and said.application != self.application:
            raise of_other(target.short_name, said.application, self.application).error()
        if said is not None and said.epoch < self.epoch:
            raise of_older_driver(target.short_name, (said.epoch, said.batch_id)).error()
        return False

    def times_of(self, node: str) -> Mapping[int, int]:
        """Stream time per scope of a node before the batch, microseconds."""
        return self.stream_times.get(node, {})

    def reject(self, node: str, frame: DataFrame, reason: Column) -> None:
        """Put records aside with a reason; they are written to the rejects table, where those of the spared are."""
        if node in self.spared:
            return
        key = F.col(WAS_KEY if WAS_KEY in frame.columns else KEY)
        record = F.to_json(F.struct(key.alias("key"), F.col(VALUE).alias("value")), JSON_INSTANTS)
        if RAW in frame.columns:
            record = F.coalesce(F.col(RAW), record)
        rows = frame.select(
            F.lit(node).alias("node"),
            reason.alias("reason"),
            F.timestamp_micros(WAS_US if WAS_US in frame.columns else US).alias("ts"),
            F.col(SCOPE).alias("scope"),
            F.col(PLACE).alias("place"),
            record.alias("record"),
        )
        self.rejects.append((node, rows))


class Operator(ABC, Generic[N]):
    """One node of the plan on the Spark engine."""

    def __init__(self, node: N) -> None:
        self.node = node
        #: The node's table, for operators that look into it; None if it keeps none.
        self.state: LookupTable | None = None
        #: What :meth:`tally` came to in this batch.
        self.tallied: Mapping[str, int] = {}
        #: Whether a new key never comes from two partitions, so that their scopes stay.
        self.keeps_scopes = False
        #: Whether all that comes is taken to one scope, since one side of the join is there.
        self.gathers = False
        #: Whether a table is looked up by the slowest of its stream times.
        self.asks_across = False
        #: Whether all records of the node share one stream time, whatever partition they came from.
        self.is_in_one_scope = False
        #: The node's place in the plan.
        self.position = 0

    @abstractmethod
    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow | None:
        """Build the node's output from its parents' outputs; None for sinks."""

    def tally(self) -> DataFrame | None:
        """Counts as rows (``what`` string, ``n`` long), or None; those of all operators are read together."""
        return None

    def measured(self) -> DataFrame | None:
        """The records of the batch whose lateness is measured (``_us _scope _place``), as the test driver does.

        Where each key has a stream time of its own, ``_group`` and ``_before_us`` tell it.
        """
        return None

    def tally_debug(self) -> DataFrame | None:
        """As :meth:`tally`, for what only the level ``debug`` asks for."""
        return None

    def report(self, batch: Batch) -> NodeReport:
        """Counts and stream times of the batch; called before anything is written."""
        return NodeReport()

    def write(self, batch: Batch) -> None:
        """Commit the node's state or output."""

    def rescoped(self, frame: DataFrame) -> DataFrame:
        """Records under a new key, in the one scope that they share from here on."""
        return frame if self.keeps_scopes else in_one_scope(frame)

    def release(self) -> None:
        """Give back what was cached for the batch."""

    def tables(self, root: TableRef) -> list[TableRef]:
        """The tables that this node owns."""
        return []

    def steps(self, root: TableRef) -> list[StepOf]:
        """Every write that a batch may make to them, in the order in which it does."""
        return [(table, self.node.name, "main") for table in self.tables(root)]

    def holding(self) -> list[str]:
        """The names of those in which rows wait that only this node lets go."""
        return []
