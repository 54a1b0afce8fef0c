"""The interface of operators of the Spark engine: what each one does in a batch, and what it may use.

In each batch the runner calls, for all operators, ``apply`` (build the output, lazily), then ``report`` (counts; may
run jobs, still nothing written), then ``write`` (one commit per step), then ``release``. An operator is applied when
all its parents are, and written when all those below it in the plan are: a table only after everything that reads its
state before the batch (docs/operations.md, "The life of a batch"). Operators that do not wait for each other are
applied, and written, at the same time; so whatever several children may ask a parent for is computed ``Once``.
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
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, WAS_KEY, WAS_PLACE, WAS_US, Flow, NodeReport, in_one_scope
from streams.spark.lookup_table import LookupTable
from streams.spark.of_keys import MOST_SENT, Amount
from streams.spark.stored_shape import check_beside, check_rows
from versioned import spark_functions as F
from versioned.adding import add_columns, lacking
from versioned.append_only import REPLACES_ROWS
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
#: Columns for records whose stream time is not kept per scope: what it is kept for, and its value before the batch.
GROUP, BEFORE_US = "_group", "_before_us"
#: The raw row as JSON, of a record that key and value do not represent.
RAW = "_raw"
#: A write that a batch may make: table, node and step. Node and step are parts of its transaction id.
StepOf = tuple[TableRef, str, str]
#: In the details of every commit of a batch: the reports of its nodes.
REPORT: Final = "report"
#: In the same details: the tables in which rows may wait once the batch has landed.
BUFFERS: Final = "buffers"
#: In the details of a fence (a commit that shuts other drivers out): node, epoch and batch that wrote the table's rows.
WRITER: Final = "writer"


@dataclass
class Batch:
    """One micro-batch: its identity, its clock, the state before it, and what it has written so far."""

    session: SparkSession
    application: str
    root: TableRef
    epoch: int
    batch_id: int
    clock_us: int
    stream_times: Mapping[str, Mapping[int, int]]
    #: The wall-clock time, in microseconds, at which a node has something to do even without input.
    alarms: Mapping[str, int] = field(default_factory=dict)
    #: Suppressions whose buffers are emptied in this batch.
    drains: tuple[str, ...] = ()
    #: Whether a write of this batch landed before a restart: its reports were made then.
    is_replay: bool = False
    #: Nodes that wrote everything they had before a restart: no records reach them again.
    spared: Collection[str] = frozenset()
    #: Whether records and tables are so small that each write makes one file; more files only take longer.
    is_small: bool = False
    #: All stream-time scopes so far, including those that first appear in this batch.
    scopes: frozenset[int] = frozenset()
    #: Records put aside: the node, and their rows.
    rejects: list[tuple[str, DataFrame]] = field(default_factory=list)
    #: The machine's own clock, in microseconds; unlike the batch clock it may go back.
    wall_us: int = 0
    details: dict[str, Any] = field(default_factory=dict)
    #: The version of each table before the batch.
    seen: Mapping[TableRef, int] = field(default_factory=dict)
    #: The version of each table that the batch has written.
    landed: dict[str, int] = field(default_factory=dict)
    #: Records put aside, by node and reason; known before the first write.
    rejected: dict[tuple[str, str], int] = field(default_factory=dict)
    #: The greatest sequence so far by scope, of sources in which no sequence comes twice. Stored like stream times.
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    #: Columns with personal data, of which tables keep no statistics.
    pii_columns: frozenset[str] = frozenset()
    #: Whether tables get the columns of the plan that they lack.
    adds_columns: bool = False
    #: Tables known to exist: those found at the driver's start, and those made since.
    there: set[TableRef] = field(default_factory=set)
    _origins: list[DataFrame] = field(default_factory=list)

    @property
    def number(self) -> int:
        """The ``_batch_id`` of stored rows: the batch id, made unique across epochs, which may count from 0 again."""
        return ((self.epoch - 1) << EPOCH_BITS) + self.batch_id

    @property
    def is_due(self) -> bool:
        """Whether a batch without input (a mere tick of the clock) has anything to do.

        A batch that landed in part must still write its ledger row, even if what was due then no longer is.
        """
        is_any_due = any(alarm_us <= self.clock_us for alarm_us in self.alarms.values())
        return is_any_due or bool(self.drains) or self.is_replay

    def amount(self, flow: Flow) -> Amount:
        """Whether a flow has few records or many; ``unknown`` in small batches too, whose tables are moved quickly."""
        if self.is_small or flow.most is None:
            return "unknown"
        return "few" if flow.most <= MOST_SENT else "many"

    def has_few(self, flow: Flow) -> bool:
        """Whether a flow has so few records that their keys are broadcast (:mod:`streams.spark.of_keys`)."""
        return self.amount(flow) == "few"

    def cut(self, frame: DataFrame) -> DataFrame:
        """The rows of a frame, computed once and without the plan that made them (a lazy local checkpoint).

        Steps of a batch build on each other. If each carried the plans of all steps before it, Spark would analyse,
        compare and print them again for every query; with several joins, that would be most of a small batch's time.
        Spark frees the rows when nothing refers to them any more.
        """
        # Tasks report metrics of the plan even after it is cut off: keep it alive until the batch ends.
        self._origins.append(frame)
        return frame.localCheckpoint(eager=False)

    def release(self) -> None:
        """Release the plans that were cut off, since the batch object may live long after the batch has ended."""
        self._origins.clear()

    def step(self, node: str, name: str) -> Step:
        """The identity of one write of this batch."""
        return Step(self.application, node, name, self.epoch, self.batch_id)

    def commit(self, target: TableRef, build: Callable[[], Write], node: str, step: str) -> Landed:
        """Write one step of the batch; the commit carries the reports of all nodes, for a replay to find.

        Raises:
            FencedError, CheckpointMismatchError: as :meth:`note`.
        """
        landed = commit(target, build, self.step(node, step), self.details, in_one_task=self.is_small)
        self.note(target, landed)
        return landed

    def note(self, target: TableRef, landed: Landed) -> None:
        """Record the version that a write of the batch made, and raise if somebody else has changed the table.

        If the version follows directly on the known one, nobody else has written, and the table is not inspected. Call
        it for every write, in their order.

        Raises:
            FencedError: another driver made this commit after this one started.
            CheckpointMismatchError: the table was restored or replaced while the batch was under way.
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
            return  # The batch made the table.
        # A replayed batch finds its own earlier writes; but version 0 is never a batch's write.
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
        only_grows: bool = False,
    ) -> None:
        """Make a table with the columns of a frame, without statistics of those with personal data.

        Args:
            target: The table.
            empty: A frame with its columns.
            properties: Table properties.
            found_by: Columns by which its rows are looked up: they get statistics, wherever they stand.
            only_grows: Whether its rows are never replaced or removed, so that it may be append-only.
        """
        indexed = indexed_first(empty.schema, found_by)
        said = properties if only_grows else {**properties, **REPLACES_ROWS}
        made = create_plain(target, empty.schema, self.pii_columns, properties=said, indexed=indexed)
        make_table(self.session, target, made, or_take=True)
        self.there.add(target)

    def create_or_check(self, target: TableRef, node: str, empty: DataFrame, *, by_name: bool = False) -> None:
        """Make a state table as :meth:`create`, or check that an existing one can hold the rows of the plan.

        Args:
            target: The table.
            node: The node that owns it.
            empty: A frame with its columns: those of the key, and its own.
            by_name: As for :func:`~streams.spark.stored_shape.check_rows`.

        Raises:
            ConfigurationError: it has other columns, or a key field has the name of one of the table's own columns.
        """
        check_beside(node, target.short_name, empty.columns)
        if self.is_missing(target):
            self.create(target, empty)
        else:
            there = read_table(self.session, target).schema
            check_rows(node, target.short_name, there, empty.schema, by_name=by_name)

    def addable(self, there: StructType, made: StructType) -> StructType:
        """The columns that a table lacks and may get now; none in a replayed batch.

        Args:
            there: The columns of the table.
            made: The columns of the plan's rows.
        """
        return lacking(there, made) if self.adds_columns and not self.is_replay else StructType()

    def add_columns(
        self,
        target: TableRef,
        columns: StructType,
        add: Callable[[SparkSession, TableRef, StructType], object] = add_columns,
    ) -> None:
        """Add columns to a table; those with personal data are already hidden from its statistics.

        The commits name the batch, so that a rollback to an earlier one can undo them.

        Args:
            target: The table.
            columns: The columns to add; may be none.
            add: The function that adds them.
        """
        if columns.fields:
            of_batch = {COLUMNS_OF: [self.epoch, self.batch_id]}
            with saying(self.session, {**told_so_far(self.session, target), **of_batch}):
                add(self.session, target, columns)

    def is_missing(self, target: TableRef) -> bool:
        """Whether there is no such table yet; one that is known to exist is not looked at again.

        Raises:
            CheckpointMismatchError: another application, or a driver that was shut out, has created the table and
                written to it since this driver started.
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
        """A node's stream time per scope before the batch, in microseconds."""
        return self.stream_times.get(node, {})

    def reject(self, node: str, frame: DataFrame, reason: Column) -> None:
        """Put records aside with a reason, to be written to the rejects table.

        Those of spared nodes are ignored: the rejects table has them already.
        """
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
            F.col(WAS_PLACE if WAS_PLACE in frame.columns else PLACE).alias("place"),
            record.alias("record"),
        )
        self.rejects.append((node, rows))


class Operator(ABC, Generic[N]):
    """One node of the plan on the Spark engine."""

    def __init__(self, node: N) -> None:
        self.node = node
        #: The node's table, for operators that look records up in it; None if it has none.
        self.state: LookupTable | None = None
        #: The counts of :meth:`tally` in this batch.
        self.tallied: Mapping[str, int] = {}
        #: Whether a new key never comes from two partitions, so that records keep their scopes.
        self.keeps_scopes = False
        #: Whether all input is moved into one scope, because one side of the join is in it.
        self.gathers = False
        #: Whether look-ups in a table go by the slowest of its stream times.
        self.asks_across = False
        #: Whether all records of the node share one stream time, whatever partition they came from.
        self.is_in_one_scope = False
        #: The node's place in the plan.
        self.position = 0

    @abstractmethod
    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow | None:
        """Build the node's output from its parents' outputs; None for sinks."""

    def tally(self) -> DataFrame | None:
        """Counts as rows (``what`` string, ``n`` long), or None; one job reads those of all operators."""
        return None

    def measured(self) -> DataFrame | None:
        """The records whose lateness is measured (``_us _scope _place``), the same as in the test driver.

        Where each key has a stream time of its own, they also have ``_group`` and ``_before_us``.
        """
        return None

    def tally_debug(self) -> DataFrame | None:
        """As :meth:`tally`, for counts that only the metrics level ``debug`` needs."""
        return None

    def report(self, batch: Batch) -> NodeReport:
        """Counts and stream times of the batch; called before anything is written."""
        return NodeReport()

    def write(self, batch: Batch) -> None:
        """Commit the node's state or output."""

    def rescoped(self, frame: DataFrame) -> DataFrame:
        """Records under a new key: moved into one scope, unless scopes are kept."""
        return frame if self.keeps_scopes else in_one_scope(frame)

    def release(self) -> None:
        """Release what was cached for the batch."""

    def tables(self, root: TableRef) -> list[TableRef]:
        """The tables that this node owns."""
        return []

    def steps(self, root: TableRef) -> list[StepOf]:
        """Every write that a batch may make to these tables, in their order."""
        return [(table, self.node.name, "main") for table in self.tables(root)]

    def holding(self) -> list[str]:
        """The names of those tables in which rows wait that only this node can release."""
        return []
