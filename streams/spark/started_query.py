"""``StartedQuery``: what a started query of an application knows, and what its batches do.

Each micro-batch reads the input once, orders it, builds every operator's output lazily, counts, then writes: downstream
first, the ledger last. A batch without input, and with nothing due, does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streams.nodes import Topology, sources_of
from streams.options import Action
from streams.spark.applying import EmptyFlows, apply_all
from streams.spark.arrival import Arrived, arrived
from streams.spark.batch_report import BatchReport, batch_report
from streams.spark.checkpoint import read_checkpoint
from streams.spark.columns import in_ansi_mode, in_utc, with_plain_values
from streams.spark.contract import action_at
from streams.spark.counting import Counting
from streams.spark.engine import Operators, tally
from streams.spark.few_tasks import in_few_tasks
from streams.spark.flow import Flow, NodeReport, counts_of, times_after
from streams.spark.guards import BatchGuard, GuardPolicy
from streams.spark.intake import OFFSET, IntakeRule, bounds_of, maxima_before, offsets_at, offsets_of, shape, survey_of
from streams.spark.interpreted import Interpretation
from streams.spark.ledger import Ledger, LedgerState, tables_after
from streams.spark.meanwhile import refuse_damage, refuse_restored_ledger
from streams.spark.metrics import MetricsLevel, metric_rows, metric_values, totals_after
from streams.spark.operator import BUFFERS, REPORT, Batch
from streams.spark.orphans import buffer_clocks, final_windows, holding_tables
from streams.spark.places import Order, placed
from streams.spark.reader_options import readable
from streams.spark.recovery import RecoverySurvey, checkpoint_of, written_before_crash
from streams.spark.rejects import Rejects
from streams.spark.source_checks import look_at
from streams.spark.sources import SparkSource, records_of
from streams.spark.writing import write_all
from versioned import faults
from versioned.errors import CheckpointMismatchError
from versioned.identifiers import TableRef
from versioned.replay import CHECKPOINT, DRIVER, FINGERPRINTS, check_origin, this_driver
from versioned.session_settings import with_sound_reads
from versioned.side_by_side import side_by_side
from versioned.stream_times import newest_times


@dataclass(frozen=True)
class Setup:
    """The settings of an application; see :class:`streams.spark.application.StreamingApplication`."""

    name: str
    topology: Topology
    root: TableRef
    checkpoint: str
    sources: Mapping[str, SparkSource]
    order: Order
    metrics_level: MetricsLevel
    guards: GuardPolicy
    pii_columns: frozenset[str]
    adds_columns: bool
    on_batch: Callable[[BatchReport], None] | None

    @property
    def ledger(self) -> TableRef:
        """The ledger's table."""
        return self.root.child("ledger")

    def action(self, node: str, reason: str) -> Action:
        """What to do with a node's records that are put aside for a reason."""
        contracts = {topic: source.contract for topic, source in self.sources.items()}
        return action_at(self.topology.node(node), reason, contracts)


class Assembly:
    """The parts that run a plan, for one query only.

    Operators remember that their tables exist, which may no longer be true for the next query.

    Args:
        setup: The application's settings.
        operators: The plan's operators, made for this query.
    """

    def __init__(self, setup: Setup, operators: Operators) -> None:
        self.operators = operators
        self.rejects = Rejects(setup.root.child("rejects"), setup.action, setup.pii_columns)
        self.counting = Counting(setup.topology, operators, setup.metrics_level)
        owned = {name: operator.tables(setup.root) for name, operator in operators.items()}
        self.guard = BatchGuard(owned, self.rejects.target, setup.guards)
        #: The operators' tables; ``tables`` adds the rejects, so it is every table but the ledger.
        self.owned = tuple(chain.from_iterable(owned.values()))
        self.tables = (self.rejects.target, *self.owned)


class StartedQuery:
    """Runs the batches of one query.

    Args:
        spark: The session.
        setup: The application's settings.
        parts: The parts that run its plan; no other query uses them.
        ledger: Its ledger.
        found: The survey of ledger, checkpoint and tables at the start; they fit together.
        state: The state to go on from.
        topics: The topics in their order.
        rules: The intake rules of the source nodes.
        interpretation: Decides for which batches Spark compiles code.
        drains: The suppressions whose buffers each batch empties.
    """

    def __init__(
        self,
        spark: SparkSession,
        setup: Setup,
        parts: Assembly,
        ledger: Ledger,
        found: RecoverySurvey,
        state: LedgerState,
        *,
        topics: tuple[str, ...],
        rules: Sequence[IntakeRule],
        interpretation: Interpretation,
        drains: tuple[str, ...],
    ) -> None:
        self._spark = spark
        self._setup, self._parts = setup, parts
        self._name, self._topology, self._sources = setup.name, setup.topology, setup.sources
        self._operators = parts.operators
        self._ledger = ledger
        self._found = found
        self._state = state
        self._topics = topics
        self._rules = rules
        self._interpretation = interpretation
        self._drains = drains
        self._there = found.there()
        self._topic_of = {node.name: node.topic for node in sources_of(setup.topology)}
        self._query = found.checkpoint.query
        self._empty, self._is_kept = EmptyFlows(), False
        self._landed_report: Mapping[str, Any] | None = None

    def refuse_broken(self) -> None:
        """Raise if guards with policy ``fail`` find broken rows: a restart must not build on them either."""
        state = self._state
        if state.batch_id >= 0:  # A new epoch takes the tables as they are.
            newest = self._batch_behind(state, self._spark, state.batch_id, state.clock_us)
            self._parts.guard.look_again(newest, sorted(state.tables.keys() - self._found.ahead()))

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle for Spark Connect, whose server runs the batches: all but the client's session."""
        return {name: held for name, held in self.__dict__.items() if name not in ("_spark", "_ledger")}

    def run_batch(self, frame: DataFrame, batch_id: int) -> int:
        """Run a batch and return its number of records."""
        started = time.monotonic()
        if not hasattr(self, "_spark"):  # On the server of Spark Connect.
            self._spark = frame.sparkSession
            self._ledger = Ledger(self._spark, self._setup.ledger, self._name)
        if self._state.has_done(batch_id, self._query_id()):
            return 0
        in_ansi_mode(frame.sparkSession)
        with_plain_values(frame.sparkSession)
        with_sound_reads(frame.sparkSession)
        input_rows = in_few_tasks(frame, more=1).persist()
        try:
            # This reads the sources and caches the rows; everything after it is in UTC.
            came = arrived(input_rows)
            with in_utc(frame.sparkSession):
                return self._run(frame.sparkSession, batch_id, input_rows, came, started)
        finally:
            input_rows.unpersist()

    def _run(
        self, session: SparkSession, batch_id: int, rows: DataFrame, came: Mapping[str, Arrived], started: float
    ) -> int:
        batch = self._batch(session, batch_id, came)
        if not batch.details[FINGERPRINTS] and not batch.is_due:
            self._keep_checkpoint()
            return 0
        counted = {topic: said.count for topic, said in came.items() if topic in self._sources}
        self._process(batch, rows, counted, started)
        return sum(counted.values())

    def _query_id(self) -> str:
        """The query's id, which Spark writes into the checkpoint before the first batch."""
        if self._query is None:
            self._query = read_checkpoint(self._spark, self._checkpoint()).query or ""
        return self._query

    def _checkpoint(self) -> str:
        return checkpoint_of(self._setup.checkpoint, self._state.epoch)

    def _batch(self, session: SparkSession, batch_id: int, came: Mapping[str, Arrived]) -> Batch:
        if batch_id < self._state.batch_id:
            raise CheckpointMismatchError(
                f'The ledger of "{self._name}" has batch {self._state.batch_id}, but the checkpoint starts again at '
                f"batch {batch_id}: it was lost, or belongs to another run. Nothing was written. Restore the "
                f"checkpoint {self._checkpoint()}, or start with --new-epoch."
            )
        state = self._state
        # A batch may have no rows at all, for example that of an empty file.
        wall_us = max((said.clock_us for said in came.values()), default=state.clock_us)
        batch = self._batch_behind(state, session, batch_id, state.clock_at(wall_us))
        batch.wall_us, batch.there = wall_us, self._there
        batch.pii_columns, batch.adds_columns = self._setup.pii_columns, self._setup.adds_columns
        landed = self._landed_before_crash(batch)
        batch.is_replay = landed is not None
        this = batch.epoch, batch_id
        if batch.is_replay:
            batch.landed, steps = self._found.versions(*this), self._found.newest_steps(*this)
            batch.spared = written_before_crash(self._topology, self._operators, self._setup.root, steps)
        batch.drains = tuple(landed.get("drains", ())) if landed else self._drains
        prints = {topic: said.fingerprint for topic, said in came.items() if topic in self._sources}
        batch.details |= {"drains": batch.drains, CHECKPOINT: self._query_id(), FINGERPRINTS: prints, **this_driver()}
        batch.details[BUFFERS] = holding_tables(self._operators)
        check_origin(f'Batch {batch_id} of "{self._name}"', this, landed or {}, batch.details)
        self._landed_report = landed.get(REPORT) if landed else None
        return batch

    def _batch_behind(self, state: LedgerState, session: SparkSession, batch_id: int, clock_us: int) -> Batch:
        times, alarms = state.stream_times, state.alarms
        return Batch(session, self._name, self._setup.root, state.epoch, batch_id, clock_us, times, alarms)

    def _keep_checkpoint(self) -> None:
        """Store the checkpoint's id in the ledger's properties: a batch with nothing to do writes no row with it."""
        if self._state.checkpoint is None and self._found.ledger.checkpoint != self._query_id() and not self._is_kept:
            self._ledger.keep_checkpoint(self._state.epoch, self._query_id())
            self._is_kept = True

    def _process(self, batch: Batch, rows: DataFrame, arrived: Mapping[str, int], started: float) -> None:
        batch.is_small = self._interpretation.choose(batch.session, sum(arrived.values()))
        flows = self._begin(batch, rows, arrived)
        try:
            reached = apply_all(self._topology, self._operators, batch, flows, self._empty)
            reports = self._reports(batch, flows, arrived, reached)
            self._write(batch)
            self._close(batch, reports, arrived, time.monotonic() - started)
        finally:
            batch.release()
            for operator in self._operators.values():
                operator.release()

    def _begin(self, batch: Batch, rows: DataFrame, arrived: Mapping[str, int]) -> dict[str, Flow]:
        """The records of every source node; raises if a source's check or the state of the tables forbids the batch."""
        flows: dict[str, Flow] = {}

        def refuse() -> None:
            batch.seen = refuse_damage(
                batch.session, self._ledger, self._state, self._query_id(), self._parts.tables, self._found
            )

        def take() -> None:
            look_at(self._sources, lambda topic: readable(records_of(rows, topic)), arrived, batch.batch_id)
            flows.update(self._intake(batch, rows, arrived))

        # Each mostly waits for Spark. If both fail, the error of the tables is raised.
        side_by_side([refuse, take], batch.session)
        return flows

    def _intake(self, batch: Batch, input_rows: DataFrame, arrived: Mapping[str, int]) -> dict[str, Flow]:
        """The records of every source node, computed once, with their bounds; one job surveys all of them."""
        shaped: dict[str, DataFrame] = {}
        for rule in self._rules:
            name, topic = rule.node.name, rule.node.topic
            offsets = batch.times_of(offsets_at(topic)) or batch.times_of(f"{name}/{OFFSET}")  # Their former name.
            batch.offsets[offsets_at(topic)] = newest_times(batch.offsets.get(offsets_at(topic), {}), offsets)
            records = shape(records_of(input_rows, topic), rule, batch.wall_us, offsets, arrived.get(topic, 0))
            shaped[name] = batch.cut(records) if topic in arrived else records
        surveyed = survey_of({name: frame for name, frame in shaped.items() if self._topic_of[name] in arrived})
        flows: dict[str, Flow] = {}
        for rule in self._rules:
            name, rows, maxima = rule.node.name, surveyed.get(rule.node.name, []), self._maxima(rule.node.name)
            known = offsets_at(rule.node.topic)
            batch.offsets[known] = newest_times(batch.offsets[known], offsets_of(rows))
            records = placed(shaped[name], rule.places, rows, maxima, batch.number)
            flows[name] = Flow(records, bounds_of(rows), maxima_before(rows, self._setup.order, maxima))
        # A topic that has rows may have invalid ones even where no valid one is known, so its frame is kept.
        return {
            name: flow if self._topic_of[name] in arrived else self._empty.light(f"{name}/records", batch.session, flow)
            for name, flow in flows.items()
        }

    def _reports(
        self,
        batch: Batch,
        flows: Mapping[str, Flow],
        arrived: Mapping[str, int],
        reached: Mapping[str, list[Flow]],
    ) -> dict[str, NodeReport]:
        """Counts and stream times of all nodes; for a batch that landed in part, those that it reported then."""
        tally(self._operators, self._parts.counting.frames(batch, reached))
        reports = {name: operator.report(batch) for name, operator in self._operators.items()}
        self._parts.counting.complete(batch, reports, {name: arrived.get(self._topic_of[name], 0) for name in flows})
        if self._landed_report is not None:
            # Nodes that were added since report for themselves; spared ones among them have nothing to report.
            reports |= {name: NodeReport() for name in batch.spared}
            reports |= {name: NodeReport.from_json(said) for name, said in self._landed_report.items()}
        # Without nodes that were taken out since: their rejects landed before the tables, and have no action any more.
        told_now = {name: told.rejected for name, told in reports.items() if name in self._operators}
        batch.rejected = {(name, why): n for name, rejected in told_now.items() for why, n in rejected.items()}
        maxima = {name: newest_times(self._maxima(name), flow.newest()) for name, flow in flows.items()}
        said_now = {name: report.to_json() for name, report in reports.items()}
        batch.details.update({REPORT: said_now, "maxima": maxima})
        return reports

    def _landed_before_crash(self, batch: Batch) -> dict[str, Any] | None:
        """What the ledger or a table recorded of this batch, if it landed before a restart, maybe in part; or None."""
        if batch.batch_id == self._state.batch_id:
            prints = self._state.fingerprints
            return None if prints is None else {CHECKPOINT: self._state.checkpoint, FINGERPRINTS: prints}
        landed = self._found.landed(batch.epoch, batch.batch_id)
        return None if landed is None else dict(landed)

    def _maxima(self, node: str) -> Mapping[int, int]:
        return self._state.maxima.get(node, {})

    def _write(self, batch: Batch) -> None:
        left = {name: operator for name, operator in self._operators.items() if name not in batch.spared}
        write_all(self._topology, left, self._parts.rejects.ready(batch), batch)

    def _close(
        self, batch: Batch, reports: Mapping[str, NodeReport], arrived: Mapping[str, int], seconds: float
    ) -> None:
        """Write the ledger row: the batch's commit point."""
        times = times_after(self._state.stream_times, reports)
        times = {name: scopes for name, scopes in times.items() if not name.endswith(f"/{OFFSET}")}
        totals = totals_after(self._state.totals, reports)
        alarms = {name: report.alarm_us for name, report in reports.items() if report.alarm_us is not None}
        after = LedgerState(
            batch.epoch, batch.batch_id, times | batch.offsets, batch.details["maxima"], self._topics, alarms,
            holding_tables(self._operators), buffer_clocks(self._operators),
            final_windows(self._setup.root, self._operators), batch.clock_us, totals,
            checkpoint=self._query_id(), fingerprints=batch.details[FINGERPRINTS],
            tables=tables_after(self._state, batch.landed, self._parts.tables),
        )  # fmt: skip
        clocks = (self._state.clock_us or None, batch.clock_us)
        before, level = self._state.totals, self._setup.metrics_level
        metrics = metric_values(self._name, self._topology, before, totals, clocks, level)
        row = {
            "application": self._name,
            "epoch": batch.epoch,
            "batch_id": batch.batch_id,
            "clock_us": batch.clock_us,
            "seconds": seconds,
            "input": sum(arrived.values()),
            "counts": counts_of(reports),
            "stream_times": times,
            "versions": dict(batch.landed),
            "metrics": metric_rows(metrics),
            "state": after.to_json(),
        }
        origin = {name: batch.details[name] for name in (CHECKPOINT, FINGERPRINTS, DRIVER)}
        refuse = partial(refuse_restored_ledger, batch.session, self._ledger, self._state, self._query_id())
        self._ledger.append(batch.session, row, batch.step("ledger", "row"), origin, refuse)
        faults.point("end:batch")
        self._state = after
        if self._setup.on_batch is not None:
            self._setup.on_batch(batch_report(self._topology, row, arrived, sum(batch.rejected.values()), metrics))
        self._parts.guard.look(batch, batch.landed, reports)
