"""``StreamingApplication``: one topology, one streaming query, plain Delta tables.

This module checks what a start finds and refuses what does not fit; ``started_query.py`` runs the batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streams.lateness import SuggestedGrace
from streams.nodes import Topology, check_plan, sources_of
from streams.recovery_rules import Finding
from streams.spark.alarms import with_alarms
from streams.spark.batch_report import BatchReport
from streams.spark.checkpoint import add_sources, default_checkpoint
from streams.spark.engine import checked_operators, tables_read, writers_of
from streams.spark.explain import explain, kafka_topics
from streams.spark.giving_back import giving_back
from streams.spark.gone_files import naming_gone_files
from streams.spark.guards import GuardPolicy
from streams.spark.input_checks import checked_rules
from streams.spark.intake import IntakeRule
from streams.spark.interpreted import Interpretation
from streams.spark.kafka_sink import KafkaSink
from streams.spark.ledger import Ledger, LedgerState
from streams.spark.lost_ledger import told_by_tables
from streams.spark.lost_scopes import refuse_lost_scopes
from streams.spark.metrics import MetricsLevel
from streams.spark.orphans import holding_tables, refuse_orphans, refuse_returned, warn_of_unheard_results
from streams.spark.own_sources import check_own_sources, refuse_own_sources
from streams.spark.personal import check_personal
from streams.spark.pictures import buffer_of, grace_of, lateness_of
from streams.spark.places import Order
from streams.spark.query_settings import query_settings
from streams.spark.recovery import (
    RecoverySurvey,
    begin_epoch,
    begin_ledger,
    checkpoint_of,
    refuse_epoch,
    refuse_running,
    settled,
    shut_out_older,
    survey,
)
from streams.spark.source_checks import check_reasons
from streams.spark.sources import SparkSource, check_shared_sequence, check_topics, topics_in_order, unite
from streams.spark.started_query import Assembly, Setup, StartedQuery
from streams.spark.store import refuse_promises
from streams.spark.suppress import SuppressOperator
from streams.spark.table_names import check_table_names
from streams.spark.told_batches import told_after
from streams.spark.trigger import trigger_of
from versioned import spark_functions as F
from versioned.choices import check_choice
from versioned.drawing import Picture
from versioned.durations import Duration, optional_span_us, span_us
from versioned.errors import ConfigurationError
from versioned.given import check_flag, check_function, check_kind, check_mapping, check_optional
from versioned.identifiers import TableRef
from versioned.statistics import hidden_names, hide

_LOG: Final = logging.getLogger(__name__)


class StreamingApplication:
    """Runs a topology on Spark.

    Args:
        spark: The session.
        name: Stable name of the application; part of every transaction id. A renamed application starts anew.
        topology: The plan.
        root: A folder, or a catalog name. Every table is below it, under the name of its node.
        sources: Topic -> where its records come from.
        order: How several sources are merged: ``"arrival"`` or, with one sequence over all, ``"sequence"``. Then no
            source may run ahead of the others: the records of a batch come after those of all earlier batches.
        max_future_skew: Records further ahead of the machine's clock are rejected (``FUTURE_TS``).
        suppressed_record_retention: ``suppressed.record.retention.ms``: the longest time that a suppression with a time
            limit, or final results with ``close_idle``, hold a record by the wall clock (KIP-539). Off by default.
        keys_cross_partitions: Whether a new key (``select_key``, ``group_by``, foreign-key joins) may occur in several
            partitions of a source. Then its records share one stream-time scope from there on. False: each partition
            keeps its own, which suits independent partitions such as tenants; at most 1,000 of them.
        metrics_level: ``"debug"`` adds lateness and buffer sizes (R63-R74), at the cost of a sort per measured node.
        checkpoint: The query's checkpoint folder. Default: ``<root>/_checkpoint``. Each epoch after the first has a
            folder next to it, ``<checkpoint>-epoch-2``.
        pii_columns: Columns with personal data, under every name that they have in the plan. Tables created from now on
            keep no statistics of them, so that Delta's log never contains their values (see ``erase``).
        new_epoch: Whether the next start begins a new epoch: it shuts every older driver out of the tables, and reads
            the sources from their starting offsets, with the tables as they are. For a lost checkpoint.
        add_columns: Whether to add columns of the plan that versioned tables, plain tables and sinks lack; existing
            rows get nulls. Not within an unfinished batch. For one start with a changed plan.
        guards: Whether to check after each batch what it wrote, in one Spark job: ``"warn"`` logs broken invariants;
            ``"fail"`` ends the query before the next batch builds on them.
        kafka: Changelog sink -> Kafka topic to which its rows are also sent, at least once.
        on_batch: Called with a :class:`BatchReport` after each batch. A batch without input is reported only if
            something was due.

    Raises:
        ConfigurationError: an argument of the wrong kind, a topic without a source, a source without a topic, Kafka
            offsets as one sequence over several sources, a reserved or repeated table name, a source that is one of the
            application's own tables, or a name in ``kafka`` that is not a changelog sink.
        TopologyError: the Spark engine does not support one of the nodes yet.
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
        check_plan("topology", topology)
        check_kind("name", name, str, "a text")
        check_mapping("sources", sources, SparkSource, 'a source, such as SparkSource("parquet", {"path": ...})')
        sent_on = {} if kafka is None else kafka
        check_mapping("kafka", sent_on, KafkaSink, 'a KafkaSink, such as KafkaSink("localhost:9092", "topic")')
        check_optional("checkpoint", checkpoint, str, "a folder")
        check_function("on_batch", on_batch, "a function of a BatchReport")
        flags = {"keys_cross_partitions": keys_cross_partitions, "new_epoch": new_epoch, "add_columns": add_columns}
        for option, given in flags.items():
            check_flag(option, given)
        self._spark = spark
        place = TableRef.parse(root)
        retention_us = optional_span_us("suppressed_record_retention", suppressed_record_retention)
        self._make = partial(checked_operators, topology, retention_us, keys_cross_partitions, dict(sent_on))
        check_choice("order", order, Order)
        self._max_future_us = span_us("max_future_skew", max_future_skew)
        self._setup = Setup(
            name, topology, place, default_checkpoint(place) if checkpoint is None else checkpoint, dict(sources),
            order, metrics_level, guards, hidden_names(pii_columns), add_columns, on_batch,
        )  # fmt: skip
        self._ledger = Ledger(spark, self._setup.ledger, name)
        self._new_epoch = new_epoch
        self._epoch = 0
        self._drains: tuple[str, ...] = ()
        self._started: StartedQuery | None = None
        self._parts = Assembly(self._setup, self._make())
        check_topics({node.topic for node in sources_of(topology)}, self._setup.sources)
        check_shared_sequence(order, {topic: said.goes_by_offset for topic, said in sources.items()})
        check_table_names(table.short_name for table in self._parts.owned)
        check_own_sources(self._setup.sources, (self._setup.ledger, *self._parts.tables))

    @property
    def name(self) -> str:
        """The name of the application."""
        return self._setup.name

    @property
    def topology(self) -> Topology:
        """The plan."""
        return self._setup.topology

    def table(self, name: str) -> TableRef:
        """The path or name of a table of this application."""
        return self.root.child(name)

    def tables(self) -> list[TableRef]:
        """Every table of this application except the ledger: those of the operators, and the rejects."""
        return list(self._parts.tables)

    @property
    def root(self) -> TableRef:
        """The folder or catalog name below which all tables are."""
        return self._setup.root

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    @property
    def epoch(self) -> int:
        """The epoch of the newest start; 0 before the first."""
        return self._epoch

    def metrics(self) -> DataFrame:
        """The metrics of every batch, one row per metric: ``ts, epoch, batch_id, name, level, group, tags, value``.

        Raises:
            ConfigurationError: there is no ledger yet.
        """
        rows = self._ledger.rows().select("clock", "epoch", "batch_id", F.explode("metrics").alias("metric"))
        return rows.select(F.col("clock").alias("ts"), "epoch", "batch_id", "metric.*")

    def reports(self, after: tuple[int, int] = (0, -1), until: tuple[int, int] | None = None) -> list[BatchReport]:
        """Reports of batches from the ledger: after one batch, up to another, each given as ``(epoch, batch_id)``."""
        return told_after(self._ledger, self.topology, self._setup.action, after, until)

    def lateness(self, node: str) -> SuggestedGrace:
        """The grace that the lateness of a node's records suggests (with ``metrics_level="debug"``)."""
        return grace_of(self._ledger.rows(), node)

    def lateness_picture(self, node: str | None = None, share: float = 0.999) -> Picture:
        """How late the records of a node arrived, and the grace that this suggests (with ``metrics_level="debug"``).

        Args:
            node: Name of a node. Default: the records of all sources.
            share: Share of the records that the grace accepts: above 0, at most 1.

        Raises:
            ConfigurationError: there is no such node, nothing was measured, or the share is out of range.
        """
        return lateness_of(self._ledger.rows(), self.topology, node, share)

    def buffer_picture(self, node: str, batches: int = 1_000) -> Picture:
        """How many records and bytes a suppression held after each of the newest batches, and its bounds.

        Raises:
            ConfigurationError: the node is not a suppression with a buffer, or ``batches`` is less than 1.
        """
        operator = self._parts.operators.get(node)
        if not isinstance(operator, SuppressOperator):
            raise ConfigurationError(f'"{node}" holds no buffer; those that do are {sorted(self._buffers())}.')
        return buffer_of(self._ledger.rows(), operator.node, operator.rule, batches)

    def explain(self) -> str:
        """What a batch does, operator by operator: tables and Kafka topics, predicates, Spark jobs, commits."""
        return explain(self._parts.operators, self.root, self._setup.sources)

    def kafka_topics(self) -> dict[str, str]:
        """What sources read from Kafka and what sinks send to it, in words, by node name."""
        return kafka_topics(self._parts.operators, self._setup.sources)

    def start(self, trigger: str = "available_now") -> StreamingQuery:
        """Start the query.

        Args:
            trigger: ``"available_now"`` (process all available input, then stop) or an interval such as
                ``"10 seconds"``.

        Raises:
            ConfigurationError: the trigger is neither; ``pii_columns`` has a name that no column has (nothing of the
                plan was written); the plan lacks a node that rows wait for; or the application already runs in this
                session.
            TopologyError: the sources lack a field that the plan names, or a key of the plan has a type that cannot be
                a key.
            CheckpointMismatchError: checkpoint, ledger and tables do not belong together; the message says what to do.
            FencedError: a newer epoch has begun.
        """
        told = trigger_of(trigger)
        refuse_running(self._spark, self.name)
        if self._started is not None:  # The former query has used these operators; the new one needs its own.
            self._parts = Assembly(self._setup, self._make())
        found = self._agreed_state()
        topics = self.refuse_changes(found)
        united, rules = self._united(topics)
        begin_ledger(self._ledger, found)
        interpretation = self._interpretation(found)
        self._make_rejects(found)
        # New for each start, since Spark runs each query in a session of its own.
        started = self._started = StartedQuery(
            self._spark,
            self._setup,
            self._parts,
            self._ledger,
            found,
            with_alarms(self._spark, self.root, found.state, self._parts.operators, found.there()),
            topics=topics,
            rules=rules,
            interpretation=interpretation,
            drains=self._drains,
        )
        started.refuse_broken()
        # Only now, so that a topic which made the start fail can still be taken out of the plan.
        checkpoint = checkpoint_of(self._setup.checkpoint, found.state.epoch)
        add_sources(self._spark, checkpoint, len(topics) + 1)
        self._ledger.keep_topics(topics, found.topics)
        writer = united.writeStream.queryName(self.name).option("checkpointLocation", checkpoint)
        writer = writer.foreachBatch(giving_back(naming_gone_files(self.name, started.run_batch))).trigger(**told)
        with query_settings(self._spark):
            return writer.start()

    def _interpretation(self, found: RecoverySurvey) -> Interpretation:
        read = tables_read(self._parts.operators, self.root)
        beside = [table for table in self._parts.tables if table not in read]
        reads_more = any(source.may_read_tables for source in self._setup.sources.values())
        return Interpretation(read, found.measured(read, beside), beside, reads_more=reads_more)

    def _make_rejects(self, found: RecoverySurvey) -> None:
        """Make the rejects table if it is missing; from now on no existing table keeps statistics of personal data."""
        rejects, there, personal = self._parts.rejects, found.there(), self._setup.pii_columns
        rejects.create(self._spark, is_there=rejects.target in there)
        for target in there - {rejects.target} if personal else ():
            hide(self._spark, target, personal)

    def survey(self) -> RecoverySurvey:
        """The current state of the ledger, the checkpoint and the tables; nothing is changed."""
        return self._survey(self._ledger.last_if_any())

    def settled_survey(self) -> tuple[RecoverySurvey, list[Finding]]:
        """As :meth:`survey`, with its findings, except those that only a driver elsewhere causes by running batches."""
        return settled(self.survey, self._ledger.newest_row)

    def _survey(self, state: LedgerState) -> RecoverySurvey:
        rejects, operators = self._parts.rejects, self._parts.operators
        steps = [rejects.step, *(step for each in operators.values() for step in each.steps(self.root))]
        writers, checkpoint = writers_of(operators, self.root), self._setup.checkpoint
        return survey(self._spark, self._ledger, state, self._parts.tables, checkpoint, writers, steps)

    def refuse_changes(self, found: RecoverySurvey) -> tuple[str, ...]:
        """Refuse a plan that does not fit the tables, brings back a node with its table, or lacks a topic that it read.

        Returns:
            The topics in their order.

        Raises:
            ConfigurationError, CheckpointMismatchError: the plan is refused; says what to do.
        """
        self._refuse_unfit(found.state, found)
        refuse_returned(self._spark, self.root, found, self.topology, self._parts.operators)
        warn_of_unheard_results(self._spark, self.root, found.state, self._parts.operators)
        # The topics that the last start kept take precedence: it may have died before its first ledger row.
        return topics_in_order(self.name, found.topics or found.state.topics, self._setup.sources)

    def _refuse_unfit(self, state: LedgerState, found: RecoverySurvey) -> None:
        """Refuse a plan that does not fit the tables.

        Such a plan reads the application's own tables, asks a versioned table for another contract than it has, or
        lacks a node or a stream time that stored rows wait for.
        """
        refuse_own_sources(self._spark, self._setup.sources, found.locations)
        refuse_promises(self.root, self._parts.operators, found.tables)
        refuse_orphans(self._spark, self.root, state, self._parts.operators, found)
        whole = {n.name for n in sources_of(self.topology) if self._setup.sources[n.topic].scope_column is None}
        refuse_lost_scopes(self._spark, self.root, state, self._parts.operators, whole)

    def _united(self, topics: Iterable[str]) -> tuple[DataFrame, list[IntakeRule]]:
        """All sources as one DataFrame, and the intake rules of their records, after a check of their columns."""
        sources, order = self._setup.sources, self._setup.order
        with query_settings(self._spark):
            united = unite(self._spark, {topic: sources[topic] for topic in topics})
            rules = checked_rules(self.topology, sources, order, self._max_future_us, united.schema)
            check_personal(self._setup.pii_columns, self.topology, rules, united.schema)
            check_reasons(united, sources)
        return united, rules

    def _agreed_state(self) -> RecoverySurvey:
        """Survey ledger, checkpoint and tables, and raise unless they belong together; begin a new epoch if asked."""
        if self._new_epoch:
            before = self.survey()
            refuse_epoch(before)
            holding = holding_tables(self._parts.operators)
            former = told_by_tables(before, holding) if before.has_lost_ledger else before.state
            # Find what the start would refuse before shutting any other driver out.
            self._refuse_unfit(former, before)
            self._united(sorted(self._setup.sources))
            begin_ledger(self._ledger, before)
            state = begin_epoch(self._spark, self._ledger, former, before, self._setup.checkpoint, self.survey)
            self._ledger.keep_topics(tuple(sorted(self._setup.sources)), before.topics)
            self._new_epoch = False
            found = self._survey(state)
            told = found.findings()
        else:
            found, told = self.settled_survey()
            state = found.state
        for wrong in told:
            raise wrong.error()
        if state.epoch > 1 and state.batch_id < 0:
            shut_out_older(self._spark, state, found)
        self._epoch = state.epoch
        return found

    def drain(self, *suppressions: str) -> None:
        """Process the available input, then empty the buffers of these suppressions, oldest first per partition (R59).

        Raises:
            ConfigurationError: one of them is not a suppression with a buffer.
        """
        unknown = sorted(set(suppressions) - set(self._buffers()))
        if unknown:
            raise ConfigurationError(f"{unknown} hold no buffer; those that do are {sorted(self._buffers())}.")
        # The pending input may take several batches; the buffers are emptied once, after the last of them.
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
        """The state to pickle when Spark Connect ships a function to its server: all but the client's session."""
        return {name: held for name, held in self.__dict__.items() if name not in ("_spark", "_ledger")}

    def _buffers(self) -> tuple[str, ...]:
        return tuple(name for name, operator in self._parts.operators.items() if isinstance(operator, SuppressOperator))
