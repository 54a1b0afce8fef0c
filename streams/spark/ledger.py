"""The batch ledger: one row per batch, written last; its commit is the batch's commit point.

The ledger holds stream times, running maxima and counters, so that a restart resumes exactly where the last batch
ended.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, SparkSession

from versioned import spark_functions as F
from versioned.commit import Append, Merge, Step, Write, commit, same_keys, with_retry
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef
from versioned.making import make_table
from versioned.reading import read_table
from versioned.replay import CHECKPOINT, check_driver
from versioned.schema import create_plain
from versioned.table_details import is_missing, properties_of, set_properties

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder

_LOG: Final = logging.getLogger(__name__)
#: A node with more stream-time scopes causes a warning, since all of them go into each commit of a batch.
MOST_SCOPES: Final = 1_000
#: Not plain TIMESTAMP, which a session may take for the type without a time zone.
_COLUMNS: Final = {
    "application": "STRING",
    "epoch": "LONG",
    "batch_id": "LONG",
    "clock": "TIMESTAMP_LTZ",
    "seconds": "DOUBLE",
    "input": "LONG",
    "counts": "MAP<STRING, LONG>",
    "stream_times": "MAP<STRING, MAP<INT, TIMESTAMP_LTZ>>",
    "versions": "MAP<STRING, LONG>",
    # GROUP is a reserved word in sessions that enforce the SQL standard's.
    "metrics": "ARRAY<STRUCT<name: STRING, level: STRING, `group`: STRING, tags: MAP<STRING, STRING>, value: DOUBLE>>",
    "state": "STRING",
}
_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())

#: Table property: the order of an application's sources.
_TOPICS: Final = "versioned.topics"
#: Table property: the checkpoint of an application that has had nothing to do yet.
_CHECKPOINT: Final = "versioned.checkpoint"
#: The columns that identify a row; and the mark, in the source of a merge, of rows to delete.
_ROW: Final = ("application", "epoch", "batch_id")
_GONE: Final = "_gone"
#: In names of counts, between a table and the outcome of records of a backfill into it.
BACKFILLED: Final = ".backfilled."
#: Scope -> instant in microseconds.
Times = dict[int, int]


@dataclass(frozen=True)
class LedgerState:
    """The state that the batches so far leave for the next one; times are in microseconds.

    ``stream_times`` per node and ``maxima`` per source node are instants by scope; ``topics`` the sources in the
    checkpoint's order; ``alarms`` the wall-clock times at which nodes have something to do without input; ``buffers``
    the tables in which rows may wait; ``buffer_clocks`` the clock by which each suppression releases rows; ``finals``
    the table of the windows of each suppression without a buffer; ``clock_us`` the clock of the last batch; ``totals``
    the metrics' counts so far.
    """

    epoch: int = 1
    batch_id: int = -1
    stream_times: Mapping[str, Times] = field(default_factory=dict)
    maxima: Mapping[str, Times] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    alarms: Mapping[str, int] = field(default_factory=dict)
    buffers: tuple[str, ...] = ()
    buffer_clocks: Mapping[str, str] = field(default_factory=dict)
    finals: Mapping[str, str] = field(default_factory=dict)
    clock_us: int = 0
    totals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: Id of the checkpoint that counted the newest batch, and the fingerprints of that batch's input by topic.
    checkpoint: str | None = None
    fingerprints: Mapping[str, str] | None = None
    #: The version of each table after the newest batch.
    tables: Mapping[str, int] = field(default_factory=dict)
    #: In a new epoch's first row: epoch and batch of the newest row that was read when the epoch was begun. A driver
    #: that was not shut out yet may have ended more batches before the epoch's row was written.
    behind: tuple[int, int] | None = None

    def has_done(self, batch_id: int, checkpoint: str) -> bool:
        """Whether a batch of this checkpoint is already in the ledger, so that a restart need not run it again.

        Its input may be gone by now. It need not be compared, since ledger and checkpoint were found to match.

        >>> LedgerState(batch_id=3, checkpoint="q").has_done(3, "q"), LedgerState(batch_id=3).has_done(4, "q")
        (True, False)
        """
        return batch_id == self.batch_id and self.checkpoint in (None, checkpoint)

    def begun_anew(self, epoch: int, tables: Mapping[str, int], behind: tuple[int, int]) -> LedgerState:
        """The first state of an epoch that continues from this one with a checkpoint of its own.

        Args:
            epoch: The epoch.
            tables: The version of each existing table.
            behind: Epoch and batch of the newest row that was found.
        """
        return replace(
            self, epoch=epoch, batch_id=-1, tables=tables, behind=behind, topics=(), checkpoint=None, fingerprints=None
        )

    def clock_at(self, wall_us: int) -> int:
        """The clock of the next batch, given the wall clock. It never goes back: a clock set back delays rows (R121).

        >>> [LedgerState(clock_us=100).clock_at(wall_us) for wall_us in (40, 101)]
        [100, 101]
        """
        return max(self.clock_us, wall_us)

    def to_json(self) -> str:
        """The state as JSON, for the ledger's column ``state``."""
        said: dict[str, Any] = {"stream_times": self.stream_times, "maxima": self.maxima, "topics": self.topics}
        said |= {"alarms": self.alarms, "buffers": self.buffers, "clock_us": self.clock_us}
        said |= {"totals": self.totals, "buffer_clocks": self.buffer_clocks, "finals": self.finals}
        said |= {"checkpoint": self.checkpoint, "fingerprints": self.fingerprints, "tables": self.tables}
        said |= {} if self.behind is None else {"behind": self.behind}
        return json.dumps(said, sort_keys=True)

    @classmethod
    def from_json(cls, epoch: int, batch_id: int, text: str) -> LedgerState:
        """The inverse of :meth:`to_json`."""
        said = json.loads(text)
        times, maxima = _int_keys(said["stream_times"]), _int_keys(said["maxima"])
        rest = {"alarms": said.get("alarms", {}), "clock_us": said.get("clock_us", 0)}
        rest |= {"totals": said.get("totals", {}), "tables": said.get("tables", {})}
        rest |= {"buffer_clocks": said.get("buffer_clocks", {}), "finals": said.get("finals", {})}
        rest |= {"checkpoint": said.get("checkpoint"), "fingerprints": said.get("fingerprints")}
        rest |= {"behind": tuple(said["behind"]) if "behind" in said else None}
        return cls(
            epoch, batch_id, times, maxima, tuple(said["topics"]), buffers=tuple(said.get("buffers", ())), **rest
        )


def tables_after(state: LedgerState, landed: Mapping[str, int], planned: Iterable[TableRef]) -> dict[str, int]:
    """The version of each table of the plan after a batch.

    Tables of nodes that were taken out of the plan are forgotten: a node that comes back would lack what came in
    between, and a table that is deleted is not missed.

    Args:
        state: The state before the batch.
        landed: The version of each table that the batch wrote.
        planned: The tables of the plan.
    """
    names = {table.short_name for table in planned}
    return {name: version for name, version in {**state.tables, **landed}.items() if name in names}


class Ledger:
    """Reads and appends the ledger table of one application."""

    def __init__(self, spark: SparkSession, target: TableRef, application: str) -> None:
        self._spark = spark
        self.target = target
        self.application = application
        #: Epoch, batch and checkpoint of the driver, and the table's version at which they were last found to match.
        self.fitting: tuple[tuple[int, int, str | None], int] | None = None
        self._is_warned = False

    def create(self) -> None:
        """Make the table if it is missing; its properties name this application from the first commit on.

        So if several applications begin in one root at the same time, exactly one owns it. The topics are kept later
        (:meth:`keep_topics`), so that one which makes the start fail can still be taken out.
        """
        if is_missing(self._spark, self.target):
            columns, named = self._spark.createDataFrame([], _SCHEMA).schema, {self._named(_TOPICS): json.dumps([])}
            make_table(self._spark, self.target, create_plain(self.target, columns, properties=named), or_take=True)

    def others(self) -> tuple[str, ...]:
        """The other applications that the table names; the table must exist."""
        return others_of(properties_of(self._spark, self.target), self.application)

    def keep_topics(self, topics: tuple[str, ...], known: tuple[str, ...]) -> None:
        """Store the order of the sources, before the query's checkpoint depends on it, unless ``known`` is the same."""
        if topics != known:
            self._keep(_TOPICS, json.dumps(topics))

    def keep_checkpoint(self, epoch: int, query: str) -> None:
        """Store which checkpoint counts the batches of an epoch, before its first row says so."""
        self._keep(_CHECKPOINT, json.dumps([epoch, query]))

    def _keep(self, name: str, text: str) -> None:
        # A second driver that starts at the same moment stores its own; the first batch decides which one goes on.
        with_retry(self.target, lambda: set_properties(self._spark, self.target, {self._named(name): text}))

    def _named(self, name: str) -> str:
        return f"{name}.{self.application}"

    def last(self) -> LedgerState:
        """The state after the newest batch; the initial state if there was none.

        If an epoch died right after its first row, the state includes batches that an older driver ended before that
        row was written, just as the epoch itself would have included them.
        """
        newest = self._newest_id()
        if newest is None:
            return LedgerState()
        state = self.after(*newest)
        if state.behind is None:
            return state
        missed = self.ended_since(state.behind, state.epoch)
        return (
            state if missed is None else missed.begun_anew(state.epoch, {**missed.tables, **state.tables}, state.behind)
        )

    def last_if_any(self) -> LedgerState:
        """As :meth:`last`; also the initial state if there is no ledger."""
        return LedgerState() if is_missing(self._spark, self.target) else self.last()

    def row_ids(self) -> list[tuple[int, int]]:
        """Epoch and batch of every row, without the states: a year of batches each minute would make gigabytes."""
        rows = self._own_rows().select("epoch", "batch_id").collect()
        return [(row["epoch"], row["batch_id"]) for row in rows]

    def after(self, epoch: int, batch_id: int) -> LedgerState:
        """The state in the row of a batch, which must exist."""
        row = self._own_rows().where((F.col("epoch") == epoch) & (F.col("batch_id") == batch_id))
        return LedgerState.from_json(epoch, batch_id, row.select("state").collect()[0]["state"])

    def ended_since(self, seen: tuple[int, int], epoch: int) -> LedgerState | None:
        """The state in the newest row after ``seen`` and before an epoch; None if there is no such row."""
        later = [row for row in self.row_ids() if seen < row < (epoch, -1)]
        return self.after(*max(later)) if later else None

    def newest_row(self) -> tuple[int, int]:
        """Epoch and batch of the newest row; those of the initial state if there is no row or no ledger."""
        newest = None if is_missing(self._spark, self.target) else self._newest_id()
        return newest or (LedgerState.epoch, LedgerState.batch_id)

    def _newest_id(self) -> tuple[int, int] | None:
        # Only the ids: this reads all rows, and the state of one alone is needed.
        rows = self._own_rows().select("epoch", "batch_id")
        newest = rows.orderBy(F.desc("epoch"), F.desc("batch_id")).limit(1).collect()
        return (newest[0]["epoch"], newest[0]["batch_id"]) if newest else None

    def batches(self) -> DataFrame:
        """The rows of batches, without those of :meth:`append_epoch`, which have 0 seconds.

        Raises:
            ConfigurationError: there is no ledger yet.
        """
        return self.rows().where(F.col("seconds") > 0)

    def rows(self) -> DataFrame:
        """The rows of this application: one per batch, and one at the beginning of each epoch after the first.

        Raises:
            ConfigurationError: there is no ledger yet.
        """
        if is_missing(self._spark, self.target):
            raise ConfigurationError(f'"{self.application}" has no ledger at {self.target} yet. Run it first.')
        return self._own_rows()

    def backfilled_behind(self, row: tuple[int, int]) -> tuple[str, ...]:
        """The sorted names of the tables that were backfilled after a row (epoch and batch id)."""
        names = self._own_rows().where(is_later(row)).select(F.explode(F.map_keys("counts")).alias("name"))
        told = names.where(F.col("name").contains(BACKFILLED)).distinct().collect()
        return tuple(sorted({row["name"].partition(BACKFILLED)[0] for row in told}))

    def _own_rows(self) -> DataFrame:
        return read_table(self._spark, self.target).where(F.col("application") == self.application)

    def append(
        self,
        session: SparkSession,
        row: Mapping[str, Any],
        step: Step,
        details: Mapping[str, Any] | None = None,
        refuse: Callable[[], object] = lambda: None,
        forgotten: Collection[tuple[int, int]] = (),
    ) -> None:
        """Write the batch's row, which completes the batch.

        Args:
            session: The session.
            row: The row.
            step: Identity of the write.
            details: Facts to record in the commit.
            refuse: Called right before each attempt; raises if the row must not be written.
            forgotten: Epoch and batch of rows to delete in the same commit.
        """
        self._warn_of_scopes(row["stream_times"])

        def build() -> Write:
            refuse()
            return _in_place_of(forgotten, ledger_frame(session, row), self.application)

        landed = commit(self.target, build, step, details)
        batch = step.epoch, step.batch_id
        check_driver(f"The ledger's row of batch {step.batch_id}", batch, landed.details, details or {})
        self.fitting = (*batch, (details or {}).get(CHECKPOINT)), landed.version

    def _warn_of_scopes(self, times: Mapping[str, Times]) -> None:
        """Warn, once, of very many stream-time scopes."""
        known = max(map(len, times.values()), default=0)
        if known > MOST_SCOPES and not self._is_warned:
            self._is_warned = True
            _LOG.warning(
                '"%s" keeps %d stream-time scopes, more than %d: the stream times of all of them go into the ledger '
                "and into every commit of each batch. Let partition_by of the source name a column that puts many into "
                "one, such as pmod(hash(tenant), 64).",
                self.application,
                known,
                MOST_SCOPES,
            )

    def append_epoch(
        self,
        session: SparkSession,
        state: LedgerState,
        counts: Mapping[str, int] | None = None,
        forgotten: Collection[tuple[int, int]] = (),
    ) -> None:
        """Write the row with which an epoch begins: no batch of its own yet, but all state of the epoch before.

        Until the epoch's first batch it is the newest row, from which views and checks read the nodes' stream times.

        Args:
            session: The session.
            state: Its batch id is -1 for an epoch with a new checkpoint, else that of the batch from which it goes on.
            counts: Changes to the tables outside of batches.
            forgotten: Epoch and batch of rows to delete in the same commit. With two commits, a driver that died in
                between would no longer know what it has to undo.
        """
        row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {
            "application": self.application,
            "epoch": state.epoch,
            "batch_id": state.batch_id,
        }
        row |= {"clock_us": state.clock_us or None, "stream_times": state.stream_times}
        row |= {"versions": {}, "metrics": []}
        row |= {"seconds": 0.0, "input": 0, "counts": dict(counts or {}), "state": state.to_json()}
        step = Step(self.application, "ledger", "row", state.epoch, state.batch_id)
        self.append(session, row, step, forgotten=forgotten)


def is_later(than: tuple[int, int]) -> Column:
    """Condition: the row is of a batch after the one given as epoch and batch id."""
    epoch, batch_id = than
    return (F.col("epoch") > epoch) | ((F.col("epoch") == epoch) & (F.col("batch_id") > batch_id))


def kept_topics(properties: Mapping[str, str], application: str) -> tuple[str, ...]:
    """The order of an application's sources, from a ledger's table properties; empty if they have none."""
    kept = properties.get(f"{_TOPICS}.{application}")
    return () if kept is None else tuple(json.loads(kept))


def others_of(properties: Mapping[str, str], application: str) -> tuple[str, ...]:
    """The other applications named in a ledger's table properties.

    >>> others_of({"versioned.topics.app": '["a"]', "versioned.topics.shop": '["b"]'}, "app")
    ('shop',)
    """
    named = sorted(key.removeprefix(f"{_TOPICS}.") for key in properties if key.startswith(f"{_TOPICS}."))
    return tuple(name for name in named if name != application)


def kept_checkpoint(properties: Mapping[str, str], application: str, epoch: int) -> str | None:
    """The checkpoint's id for an epoch, from a ledger's table properties; None if they name none.

    >>> kept_checkpoint({"versioned.checkpoint.app": '[2, "a"]'}, "app", 1) is None
    True
    """
    kept = json.loads(properties.get(f"{_CHECKPOINT}.{application}", "[0, null]"))
    return kept[1] if kept[0] == epoch else None


def ledger_frame(session: SparkSession, row: Mapping[str, Any]) -> DataFrame:
    """One ledger row as a DataFrame; ``row`` has its instants in microseconds."""
    flat = {**row, "clock": row["clock_us"], "stream_times": row["stream_times"]}
    instants = _SCHEMA.replace("TIMESTAMP_LTZ", "LONG")
    raw = session.createDataFrame([tuple(flat[name] for name in _COLUMNS)], instants)
    times = F.transform_values(
        "stream_times", lambda _, scopes: F.transform_values(scopes, lambda _, us: F.timestamp_micros(us))
    )
    return raw.withColumn("clock", F.timestamp_micros("clock")).withColumn("stream_times", times)


def _in_place_of(forgotten: Collection[tuple[int, int]], frame: DataFrame, application: str) -> Write:
    """The write that adds a row and deletes others."""
    if not forgotten:
        return Append(frame)
    rows = [(application, *row) for row in sorted(forgotten)]
    gone = frame.sparkSession.createDataFrame(rows, ", ".join(f"{name} {_COLUMNS[name]}" for name in _ROW))
    both = frame.withColumn(_GONE, F.lit(False)).unionByName(gone.withColumn(_GONE, F.lit(True)), True)

    def clauses(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
        new = merge.whenMatchedDelete(f"s.{_GONE}")
        return new.whenNotMatchedInsert(f"NOT s.{_GONE}", values={name: f"s.{name}" for name in _COLUMNS})

    return Merge(both, same_keys(_ROW), clauses)


def _int_keys(times: Mapping[str, Mapping[str, int]]) -> dict[str, Times]:
    return {node: {int(scope): us for scope, us in scopes.items()} for node, scopes in times.items()}
