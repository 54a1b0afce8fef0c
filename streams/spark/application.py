"""``StreamingApplication``: one topology, one streaming query, plain Delta tables.

Each micro-batch: read the input once, order it, build every operator's output lazily, count, then write downstream
first and the ledger last. A batch without input, and without anything due, does nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streams.lateness import SuggestedGrace
from streams.nodes import Topology, sources_of
from streams.options import Action
from streams.spark.alarms import with_alarms
from streams.spark.applying import EmptyFlows, apply_all
from streams.spark.arrival import Arrived, arrived
from streams.spark.batch_report import BatchReport, batch_report
from streams.spark.checkpoint import add_sources, default_checkpoint, read_checkpoint
from streams.spark.columns import in_ansi_mode
from streams.spark.contract import action_at
from streams.spark.counting import Counting
from streams.spark.engine import checked_operators, tables_read, tally, writers_of
from streams.spark.explain import explain, kafka_topics
from streams.spark.few_tasks import in_few_tasks
from streams.spark.flow import Flow, NodeReport, counts_of, times_after
from streams.spark.giving_back import giving_back
from streams.spark.gone_files import naming_gone_files
from streams.spark.guards import BatchGuard, GuardPolicy
from streams.spark.input_checks import checked_rules
from streams.spark.intake import OFFSET, IntakeRule, bounds_of, maxima_before, offsets_at, offsets_of, shape, survey_of
from streams.spark.interpreted import Interpretation
from streams.spark.kafka_sink import KafkaSink
from streams.spark.ledger import Ledger, LedgerState, tables_after
from streams.spark.lost_ledger import told_by_tables
from streams.spark.lost_scopes import refuse_lost_scopes
from streams.spark.metrics import MetricsLevel, metric_rows, metric_values, totals_after
from streams.spark.operator import BUFFERS, REPORT, Batch
from streams.spark.orphans import buffer_clocks, holding_tables, refuse_orphans, refuse_returned
from streams.spark.personal import check_personal
from streams.spark.pictures import buffer_of, grace_of, lateness_of
from streams.spark.places import Order, placed
from streams.spark.reader_options import readable
from streams.spark.recovery import (
    RecoverySurvey,
    begin_epoch,
    checkpoint_of,
    refuse_damage,
    refuse_epoch,
    refuse_running,
    shut_out_older,
    survey,
    written_before_crash,
)
from streams.spark.rejects import Rejects
from streams.spark.source_checks import check_reasons, look_at
from streams.spark.sources import SparkSource, check_shared_sequence, check_topics, records_of, topics_in_order, unite
from streams.spark.store import refuse_promises
from streams.spark.suppress import SuppressOperator
from streams.spark.table_names import check_table_names
from streams.spark.told_batches import told_after
from streams.spark.trigger import trigger_of
from streams.spark.writing import write_all
from versioned import faults
from versioned import spark_functions as F
from versioned.choices import check_choice
from versioned.drawing import Picture
from versioned.durations import Duration, optional_span_us, span_us
from versioned.errors import CheckpointMismatchError, ConfigurationError
from versioned.identifiers import TableRef
from versioned.replay import CHECKPOINT, DRIVER, FINGERPRINTS, check_origin, this_driver
from versioned.session_settings import with_sound_reads
from versioned.side_by_side import side_by_side
from versioned.statistics import hidden_names, hide
from versioned.stream_times import newest_times

_LOG: Final = logging.getLogger(__name__)


class StreamingApplication:
    """Runs a topology on Spark.

    Args:
        spark: The session.
        name: Stable name of the application: part of every transaction id. Renaming it is starting anew.
        topology: The plan.
        root: A folder, or a catalog name; every table lies below it under its node's name.
        sources: Topic -> where its records come from.
        order: How several sources are merged: ``"arrival"`` or, with one sequence over all, ``"sequence"``. Then no
            source may run ahead of the others: what a batch brings comes after all that came before it.
        max_future_skew: A record further ahead of the batch clock is rejected (``FUTURE_TS``).
        suppressed_record_retention: ``suppressed.record.retention.ms``: the longest that a suppression of a time limit,
            or final results with ``close_idle``, hold a record by the wall clock (KIP-539); off by default.
        keys_cross_partitions: Whether a new key (``select_key``, ``group_by``, foreign-key joins) may come from several
            partitions of a source. Then its records share one stream-time scope from there on. False: each keeps its
            own, as partitions that have nothing to do with each other should, such as tenants; at most 1,000 of them.
        metrics_level: ``"debug"`` adds lateness and the sizes of buffers (R63-R74); it costs a sort per measured node.
        checkpoint: The query's checkpoint folder; default ``<root>/_checkpoint``. Epochs after the first have their own
            beside it, ``<checkpoint>-epoch-2``.
        pii_columns: Columns with personal data, under the names that they have anywhere in the plan: tables that are
            made from now on keep no statistics of them, so that Delta's log never tells a value (see ``erase``).
        new_epoch: Whether the next start begins a new epoch: it shuts every older driver out of the tables and reads
            the sources from their starting offsets, with the tables as they are. For a checkpoint that is lost.
        add_columns: Whether versioned and plain tables and sinks that lack columns of the plan get them, null in the
            rows so far; not within an unfinished batch. For one start with a changed plan.
        guards: Whether each batch is followed by a check of what it wrote, one Spark job: ``"warn"`` logs broken
            invariants, ``"fail"`` ends the query before the next batch builds on them.
        kafka: Changelog sink -> the Kafka topic that its rows are sent to as well, at least once.
        on_batch: Called with a :class:`BatchReport` after each batch: of those without input, each that had something
            due.

    Raises:
        ConfigurationError: a topic without source, a source without topic, offsets of Kafka as one sequence of several
            sources, a table name that is reserved or repeated, or ``kafka`` names no changelog sink.
        TopologyError: the Spark engine does not run one of the nodes yet.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        topology: Topology,
        root: str,
        sources: Mapping[str, SparkSource],
        *,
        order: Order = "arrival",
        max_future_skew: Duration = timedelta(days=1),
        suppressed_record_retention: Duration | None = None,
        keys_cross_partitions: bool = True,
        metrics_level: MetricsLevel = "info",
        checkpoint: str | None = None,
        pii_columns: Iterable[str] = (),
        new_epoch: bool = False,
        add_columns: bool = False,
        guards: GuardPolicy = "none",
        kafka: Mapping[str, KafkaSink] | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
    ) -> None:
        self._spark = spark
        self.name = name
        self.topology = topology
        self._root = TableRef.parse(root)
        retention_us = optional_span_us("suppressed_record_retention", suppressed_record_retention)
        self._make = partial(checked_operators, topology, retention_us, keys_cross_partitions, dict(kafka or {}))
        self._sources = dict(sources)
        self._topic_of = {node.name: node.topic for node in sources_of(topology)}
        check_choice("order", order, Order)
        self._order: Order = order
        self._metrics_level: MetricsLevel = metrics_level
        self._max_future_us = span_us("max_future_skew", max_future_skew)
        self._checkpoint = checkpoint or default_checkpoint(self._root)
        self._on_batch = on_batch
        self._ledger = Ledger(spark, self._root.child("ledger"), name)
        self._pii_columns = hidden_names(pii_columns)
        self._contracts = {topic: source.contract for topic, source in sources.items()}
        self._rejects = Rejects(self._root.child("rejects"), self._action, self._pii_columns)
        self._state: LedgerState | None = None
        self._topics: tuple[str, ...] = ()
        self._new_epoch = new_epoch
        self._adds_columns = add_columns
        self._found: RecoverySurvey | None = None
        self._query: str | None = None
        self._interpretation: Interpretation | None = None
        self._there: set[TableRef] = set()
        self._landed_report: dict[str, Any] | None = None
        self._drains: tuple[str, ...] = ()
        self._guards: GuardPolicy = guards
        self._rules: list[IntakeRule] = []
        self._build()
        check_topics({node.topic for node in sources_of(topology)}, self._sources)
        check_shared_sequence(order, {topic: said.goes_by_offset for topic, said in sources.items()})
        check_table_names(table.short_name for table in chain.from_iterable(self._owned.values()))

    def _build(self) -> None:
        """What goes for one query only: operators know that their tables are there, which may be gone by the next."""
        self._operators = self._make()
        self._counting = Counting(self.topology, self._operators, self._metrics_level)
        self._owned = {name: operator.tables(self._root) for name, operator in self._operators.items()}
        self._guard = BatchGuard(self._owned, self._rejects.target, self._guards)
        self._empty, self._is_kept = EmptyFlows(), False

    def table(self, name: str) -> TableRef:
        """Where a table of this application lies."""
        return self._root.child(name)

    def tables(self) -> list[TableRef]:
        """Every table of this application but the ledger: the operators' and the rejects."""
        return [self._rejects.target, *chain.from_iterable(self._owned.values())]

    @property
    def root(self) -> TableRef:
        """The folder or catalog name below which every table lies."""
        return self._root

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    @property
    def epoch(self) -> int:
        """The epoch of the newest start; 0 before the first."""
        return 0 if self._state is None else self._state.epoch

    def metrics(self) -> DataFrame:
        """The metrics of every batch, one row each: ``ts, epoch, batch_id, name, level, group, tags, value``.

        Raises:
            ConfigurationError: there is no ledger yet.
        """
        rows = self._ledger.rows().select("clock", "epoch", "batch_id", F.explode("metrics").alias("metric"))
        return rows.select(F.col("clock").alias("ts"), "epoch", "batch_id", "metric.*")

    def reports(self, after: tuple[int, int] = (0, -1), until: tuple[int, int] | None = None) -> list[BatchReport]:
        """Reports of batches, as the ledger has them: after one, up to another, each given as epoch and batch."""
        return told_after(self._ledger, self.topology, self._action, after, until)

    def lateness(self, node: str) -> SuggestedGrace:
        """The grace that the lateness of a node's records suggests (with ``metrics_level="debug"``)."""
        return grace_of(self._ledger.rows(), node)

    def lateness_picture(self, node: str | None = None, share: float = 0.999) -> Picture:
        """How late a node's records came, with the grace that it suggests (with ``metrics_level="debug"``).

        Args:
            node: A node's name; the records of all sources if not given.
            share: Of the records, that are to come within that grace: above 0, at most 1.

        Raises:
            ConfigurationError: no such node, nothing was measured, or the share is none.
        """
        return lateness_of(self._ledger.rows(), self.topology, node, share)

    def buffer_picture(self, node: str, batches: int = 1_000) -> Picture:
        """How many records and bytes a suppression held after each of the newest batches, and its bounds.

        Raises:
            ConfigurationError: the node is no suppression with a buffer, or the batches are fewer than one.
        """
        operator = self._operators.get(node)
        if not isinstance(operator, SuppressOperator):
            raise ConfigurationError(f'"{node}" holds no buffer; those that do are {sorted(self._buffers())}.')
        return buffer_of(self._ledger.rows(), operator.node, operator.rule, batches)

    def explain(self) -> str:
        """What a batch does, operator by operator: tables and Kafka topics, predicates, Spark jobs, commits."""
        return explain(self._operators, self._root, self._sources)

    def kafka_topics(self) -> dict[str, str]:
        """What sources read from Kafka and what sinks send there, in words, by node name."""
        return kafka_topics(self._operators, self._sources)

    def start(self, trigger: str = "available_now") -> StreamingQuery:
        """Start the query.

        Args:
            trigger: ``"available_now"`` (all there is, then stop) or an interval such as ``"10 seconds"``.

        Raises:
            ConfigurationError: the trigger is neither, or ``pii_columns`` has a name that no column has, and nothing of
                the plan was written; or the plan left out what rows wait for, or the application runs in this session.
            CheckpointMismatchError: checkpoint, ledger and tables do not belong together; says what to do.
            FencedError: a newer epoch has begun.
        """
        told = trigger_of(trigger)
        refuse_running(self._spark, self.name)
        if self._interpretation is not None:  # what an earlier query of this object had
            self._build()
        self._state = self._agreed_state()
        assert self._found is not None
        self._topics = topics = self.refuse_changes(self._found)
        united = self._united(topics)
        self._ledger.create()
        # Each query has a session of its own.
        read = tables_read(self._operators, self._root)
        beside = [table for table in self.tables() if table not in read]
        reads_more = any(source.may_read_tables for source in self._sources.values())
        self._interpretation = Interpretation(read, self._found.measured(read, beside), beside, reads_more=reads_more)
        self._there = self._found.there()
        self._rejects.create(self._spark, is_there=self._rejects.target in self._there)
        for target in self._there - {self._rejects.target} if self._pii_columns else ():
            hide(self._spark, target, self._pii_columns)
        self._state = with_alarms(self._spark, self._root, self._state, self._operators, self._there)
        self._refuse_broken(self._state)
        # Only now: a topic that was refused may be taken out again.
        add_sources(self._spark, self._epoch_checkpoint(), len(topics) + 1)
        self._ledger.keep_topics(topics, self._found.topics)
        writer = united.writeStream.queryName(self.name).option("checkpointLocation", self._epoch_checkpoint())
        return writer.foreachBatch(giving_back(naming_gone_files(self.name, self._run_batch))).trigger(**told).start()

    def survey(self) -> RecoverySurvey:
        """The ledger, the checkpoint and the tables as they are found now; nothing is changed."""
        return self._survey(self._ledger.last_if_any())

    def _survey(self, state: LedgerState) -> RecoverySurvey:
        writers = writers_of(self._operators, self._root)
        steps = [self._rejects.step, *(step for each in self._operators.values() for step in each.steps(self._root))]
        return survey(self._spark, self._ledger, state, self.tables(), self._checkpoint, writers, steps)

    def refuse_changes(self, found: RecoverySurvey) -> tuple[str, ...]:
        """Refuse a plan that left out what rows wait for or topics that were read, or takes in what it was without.

        Returns:
            The topics in their order.

        Raises:
            ConfigurationError, CheckpointMismatchError: it does; says what to do.
        """
        self._refuse_waiting(found.state, found)
        refuse_returned(self._spark, self._root, found, self.topology, self._operators)
        # What the last start kept comes first: it may have died before its first ledger row.
        return topics_in_order(self.name, found.topics or found.state.topics, self._sources)

    def _refuse_waiting(self, state: LedgerState, found: RecoverySurvey) -> None:
        """Refuse a plan in which rows wait for what it has no more, or that counts on what no table promises."""
        refuse_promises(self._root, self._operators, found.tables)
        refuse_orphans(self._spark, self._root, state, self._operators, found)
        whole = {n.name for n in sources_of(self.topology) if self._sources[n.topic].scope_column is None}
        refuse_lost_scopes(self._spark, self._root, state, self._operators, whole)

    def _united(self, topics: Iterable[str]) -> DataFrame:
        """All sources as one, once their columns were found to do."""
        united = unite(self._spark, {topic: self._sources[topic] for topic in topics})
        self._rules = checked_rules(self.topology, self._sources, self._order, self._max_future_us, united.schema)
        check_personal(self._pii_columns, self.topology, self._rules, united.schema)
        check_reasons(united, self._sources)
        return united

    def _agreed_state(self) -> LedgerState:
        """The state to go on from, once ledger, checkpoint and tables are found to belong together."""
        if self._new_epoch:
            before = self.survey()
            refuse_epoch(before)
            told = told_by_tables(before, holding_tables(self._operators)) if before.has_lost_ledger else before.state
            # What the start would refuse is found before anybody is shut out.
            self._refuse_waiting(told, before)
            self._united(sorted(self._sources))
            self._ledger.create()
            state = begin_epoch(self._spark, self._ledger, told, before, self._checkpoint, self.survey)
            self._ledger.keep_topics(tuple(sorted(self._sources)), before.topics)
            self._new_epoch = False
        else:
            state = self._ledger.last_if_any()
        self._found = self._survey(state)
        for wrong in self._found.findings():
            raise wrong.error()
        if state.epoch > 1 and state.batch_id < 0:
            shut_out_older(self._spark, state, self._found)
        self._query = self._found.checkpoint.query
        return state

    def _epoch_checkpoint(self) -> str:
        assert self._state is not None
        return checkpoint_of(self._checkpoint, self._state.epoch)

    def _query_id(self) -> str:
        """Who counts the batches: Spark writes its id into the checkpoint before the first of them."""
        if self._query is None:
            self._query = read_checkpoint(self._spark, self._epoch_checkpoint()).query or ""
        return self._query

    def drain(self, *suppressions: str) -> None:
        """Run what input there is and empty the buffers of these suppressions, of each partition oldest first (R59).

        Raises:
            ConfigurationError: one of them is no suppression with a buffer.
        """
        unknown = sorted(set(suppressions) - set(self._buffers()))
        if unknown:
            raise ConfigurationError(f"{unknown} hold no buffer; those that do are {sorted(self._buffers())}.")
        # What input there is may be several batches: what waits leaves once, behind the last of them.
        self.run()
        self._drains = suppressions
        try:
            self.run()
        finally:
            self._drains = ()

    def run(self, trigger: str = "available_now") -> None:
        """Start the query and wait until it ends."""
        self.start(trigger).awaitTermination()

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the server of Spark Connect, where batches run: all but the client's session."""
        return {name: held for name, held in self.__dict__.items() if name not in ("_spark", "_ledger")}

    def _run_batch(self, frame: DataFrame, batch_id: int) -> int:
        """Run a batch; how many records it had."""
        started = time.monotonic()
        if not hasattr(self, "_spark"):  # In the server of Spark Connect.
            self._spark = frame.sparkSession
            self._ledger = Ledger(self._spark, self._root.child("ledger"), self.name)
        assert self._state is not None
        if self._state.has_done(batch_id, self._query_id()):
            return 0
        in_ansi_mode(frame.sparkSession)
        with_sound_reads(frame.sparkSession)
        input_rows = in_few_tasks(frame, more=1).persist()
        try:
            came = arrived(input_rows)
            batch = self._batch(frame.sparkSession, batch_id, came)
            if not batch.details[FINGERPRINTS] and not batch.is_due:
                self._keep_checkpoint()
                return 0
            counted = {topic: said.count for topic, said in came.items() if topic in self._sources}
            self._process(batch, input_rows, counted, started)
            return sum(counted.values())
        finally:
            input_rows.unpersist()

    def _batch(self, session: SparkSession, batch_id: int, came: Mapping[str, Arrived]) -> Batch:
        assert self._state is not None
        if batch_id < self._state.batch_id:
            raise CheckpointMismatchError(
                f'The ledger of "{self.name}" has batch {self._state.batch_id}, but the checkpoint starts again at '
                f"batch {batch_id}: it was lost, or belongs to another run. Nothing was written. Restore the "
                f"checkpoint {self._epoch_checkpoint()}, or start with --new-epoch."
            )
        state = self._state
        # A batch may have no row at all, such as one of an empty file.
        wall_us = max((said.clock_us for said in came.values()), default=state.clock_us)
        batch = self._batch_behind(state, session, batch_id, state.clock_at(wall_us))
        batch.wall_us, batch.there = wall_us, self._there
        batch.pii_columns, batch.adds_columns = self._pii_columns, self._adds_columns
        landed = self._landed_before_crash(batch)
        batch.is_replay = landed is not None
        this = batch.epoch, batch_id
        if batch.is_replay and self._found is not None:
            batch.landed, steps = self._found.versions(*this), self._found.newest_steps(*this)
            batch.spared = written_before_crash(self.topology, self._operators, self._root, steps)
        batch.drains = tuple(landed.get("drains", ())) if landed else self._drains
        prints = {topic: said.fingerprint for topic, said in came.items() if topic in self._sources}
        batch.details |= {"drains": batch.drains, CHECKPOINT: self._query_id(), FINGERPRINTS: prints, **this_driver()}
        batch.details[BUFFERS] = holding_tables(self._operators)
        check_origin(f'Batch {batch_id} of "{self.name}"', this, landed or {}, batch.details)
        self._landed_report = landed.get(REPORT) if landed else None
        return batch

    def _batch_behind(self, state: LedgerState, session: SparkSession, batch_id: int, clock_us: int) -> Batch:
        return Batch(session, self.name, self._root, state.epoch, batch_id, clock_us, state.stream_times, state.alarms)

    def _keep_checkpoint(self) -> None:
        """Let the ledger know its checkpoint although it has no row yet: a batch with nothing to do leaves no other."""
        assert self._state is not None
        assert self._found is not None
        if self._state.checkpoint is None and self._found.ledger.checkpoint != self._query_id() and not self._is_kept:
            self._ledger.keep_checkpoint(self._state.epoch, self._query_id())
            self._is_kept = True

    def _process(self, batch: Batch, rows: DataFrame, arrived: Mapping[str, int], started: float) -> None:
        assert self._interpretation is not None
        batch.is_small = self._interpretation.choose(batch.session, sum(arrived.values()))
        flows = self._begin(batch, rows, arrived)
        try:
            reached = apply_all(self.topology, self._operators, batch, flows, self._empty)
            reports = self._reports(batch, flows, arrived, reached)
            self._write(batch)
            self._close(batch, reports, arrived, time.monotonic() - started)
        finally:
            batch.release()
            for operator in self._operators.values():
                operator.release()

    def _begin(self, batch: Batch, rows: DataFrame, arrived: Mapping[str, int]) -> dict[str, Flow]:
        """The records of every source node, unless the checks of a source or the tables speak against this batch."""
        assert self._state is not None
        flows: dict[str, Flow] = {}
        refuse = partial(
            refuse_damage, batch.session, self._ledger, self._state, self._query_id(), self.tables(), self._found
        )

        def take() -> None:
            look_at(self._sources, lambda topic: readable(records_of(rows, topic)), arrived, batch.batch_id)
            flows.update(self._intake(batch, rows, arrived))

        # Each mostly waits for Spark. Of two errors that of the tables is told.
        side_by_side([refuse, take], batch.session)
        return flows

    def _intake(self, batch: Batch, input_rows: DataFrame, arrived: Mapping[str, int]) -> dict[str, Flow]:
        """The records of every source node, computed once, with their bounds: one job for all of them."""
        shaped: dict[str, DataFrame] = {}
        for rule in self._rules:
            name, topic = rule.node.name, rule.node.topic
            offsets = batch.times_of(offsets_at(topic)) or batch.times_of(f"{name}/{OFFSET}")  # As they were kept once.
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
            flows[name] = Flow(records, bounds_of(rows), maxima_before(rows, self._order, maxima))
        # Of a topic that came there may be invalid records although no valid one is known: their frame stays.
        return {
            name: flow if self._topic_of[name] in arrived else self._empty.light(f"{name}/records", batch.session, flow)
            for name, flow in flows.items()
        }

    def _action(self, node: str, reason: str) -> Action:
        return action_at(self.topology.node(node), reason, self._contracts)

    def _reports(
        self,
        batch: Batch,
        flows: Mapping[str, Flow],
        arrived: Mapping[str, int],
        reached: Mapping[str, list[Flow]],
    ) -> dict[str, NodeReport]:
        """Counts and stream times of all nodes; of a batch that landed in part, those it told then."""
        tally(self._operators, self._counting.frames(batch, reached))
        reports = {name: operator.report(batch) for name, operator in self._operators.items()}
        self._counting.complete(batch, reports, {name: arrived.get(self._topic_of[name], 0) for name in flows})
        if self._landed_report is not None:
            # A node that was added since tells for itself; of what is spared that is nothing.
            reports |= {name: NodeReport() for name in batch.spared}
            reports |= {name: NodeReport.from_json(said) for name, said in self._landed_report.items()}
        # Those of a node that was taken out since landed first of all, and have no action any more.
        told_now = {name: told.rejected for name, told in reports.items() if name in self._operators}
        batch.rejected = {(name, why): n for name, rejected in told_now.items() for why, n in rejected.items()}
        maxima = {name: newest_times(self._maxima(name), flow.newest()) for name, flow in flows.items()}
        said_now = {name: report.to_json() for name, report in reports.items()}
        batch.details.update({REPORT: said_now, "maxima": maxima})
        return reports

    def _landed_before_crash(self, batch: Batch) -> dict[str, Any] | None:
        """What the ledger or a table says of this very batch, if it landed before a restart."""
        assert self._state is not None
        if batch.batch_id == self._state.batch_id:
            prints = self._state.fingerprints
            return None if prints is None else {CHECKPOINT: self._state.checkpoint, FINGERPRINTS: prints}
        landed = None if self._found is None else self._found.landed(batch.epoch, batch.batch_id)
        return None if landed is None else dict(landed)

    def _buffers(self) -> tuple[str, ...]:
        return tuple(name for name, operator in self._operators.items() if isinstance(operator, SuppressOperator))

    def _refuse_broken(self, state: LedgerState) -> None:
        """With guards that fail nothing builds on broken rows, also when the query is just started again."""
        assert self._found is not None
        if state.batch_id >= 0:  # A new epoch takes the tables as they are.
            newest = self._batch_behind(state, self._spark, state.batch_id, state.clock_us)
            self._guard.look_again(newest, sorted(state.tables.keys() - self._found.ahead()))

    def _maxima(self, node: str) -> Mapping[int, int]:
        assert self._state is not None
        return self._state.maxima.get(node, {})

    def _write(self, batch: Batch) -> None:
        left = {name: operator for name, operator in self._operators.items() if name not in batch.spared}
        write_all(self.topology, left, self._rejects.ready(batch), batch)

    def _close(
        self, batch: Batch, reports: Mapping[str, NodeReport], arrived: Mapping[str, int], seconds: float
    ) -> None:
        """Write the ledger row: the batch's commit point."""
        assert self._state is not None
        times = times_after(self._state.stream_times, reports)
        times = {name: scopes for name, scopes in times.items() if not name.endswith(f"/{OFFSET}")}
        totals = totals_after(self._state.totals, reports)
        alarms = {name: report.alarm_us for name, report in reports.items() if report.alarm_us is not None}
        after = LedgerState(
            batch.epoch, batch.batch_id, times | batch.offsets, batch.details["maxima"], self._topics, alarms,
            holding_tables(self._operators), buffer_clocks(self._operators), batch.clock_us, totals,
            checkpoint=self._query_id(), fingerprints=batch.details[FINGERPRINTS],
            tables=tables_after(self._state, batch.landed, self.tables()),
        )  # fmt: skip
        clocks = (self._state.clock_us or None, batch.clock_us)
        metrics = metric_values(self.name, self.topology, self._state.totals, totals, clocks, self._metrics_level)
        row = {
            "application": self.name,
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
        self._ledger.append(batch.session, row, batch.step("ledger", "row"), origin)
        faults.point("end:batch")
        self._state = after
        if self._on_batch is not None:
            self._on_batch(batch_report(self.topology, row, arrived, sum(batch.rejected.values()), metrics))
        self._guard.look(batch, batch.landed, reports)
