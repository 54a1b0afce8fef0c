"""The sources of an application: any Spark streaming source, all united into one query.

All sources run in one streaming query, each packed into a struct column of its own name, so that one
``foreachBatch`` sees them together. A tick source and the batch clock are added: the clock is a column of the
streaming plan, so a replay of the batch sees the same instant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from streams.spark.contract import InputContract
from streams.spark.reader_options import (
    DELTA,
    TEXT_FILES,
    as_first_changes,
    check_source,
    is_whole_feed,
    option_texts,
    options_at_rest,
    reader_options,
    told_of_misfits,
    with_misfits,
)
from streams.spark.source_checks import SourceChecks
from streams.spark.typed_input import shortened
from versioned import spark_functions as F
from versioned.durations import Duration, optional_span_us
from versioned.errors import CheckpointMismatchError, ConfigurationError
from versioned.given import check_function, check_kind, check_optional, texts_of
from versioned.identifiers import TableRef, check_columns
from versioned.session_settings import with_sound_reads, with_sound_texts

SOURCE: Final = "_source"
CLOCK: Final = "_clock"
TICK: Final = "_tick"
#: Delta's error conditions for a path without a table: an empty folder, and none.
_NO_TABLE: Final = ("DELTA_SCHEMA_NOT_SET", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE")
#: Options of Spark's Kafka source that name its topics, in lower case; it has one of them.
_KAFKA_TOPICS: Final = ("subscribe", "subscribepattern", "assign")


@dataclass(frozen=True)
class SparkSource:
    """Where the records of a topic come from: a Spark streaming source, given by its format and options, or a catalog
    table.

    Args:
        format: ``parquet``, ``json``, ``delta``, ``kafka``, ``rate``, ... A catalog table has the format ``delta``.
        options: Options of that source (``path``, ``maxFilesPerTrigger``, ``subscribe``, ``skipChangeCommits``, ...).
        schema: DDL or StructType, for file sources. JSON, CSV and XML records that do not match it are rejected with
            their text (XML: without it), unless the options name a ``mode`` or a column of their own.
        transform: Turns the source's columns into the topic's columns (for Kafka: decode ``key`` and ``value``; keep
            ``partition`` and ``offset``; for text-based files keep ``_malformed``, the text that could not be decoded).
        partition_by: Integer column with the stream-time scope; None = one scope. Kafka: ``partition``.
        sequence_by: Column that orders the records of a scope for processing; None = by event time. Kafka: ``offset``.
            With several columns, each breaks the ties of the ones before it: ``("_batch_id", "_seq")`` orders the
            changelog of another application.
        contract: What rows must look like, and what happens to those that do not.
        checks: The user's own rules for the rows, and a function that is shown batches before they are accepted.
        table: The name of a Delta table in a catalog, such as ``main.sales.orders``, instead of a path.
        max_future_skew: Records further ahead of the machine's clock are rejected (``FUTURE_TS``); None = the setting
            of the application.
        decoder: Converts raw rows to columns, before ``transform``, and reads nothing else; used by ``kafka_source``.

    Raises:
        ConfigurationError: an argument of the wrong kind; a table together with a path, a schema or another format;
            Delta without a path or table; a misspelt option; or a skew that is not a duration, or is negative.

    >>> SparkSource("parquet", {"path": "in/flights"}, schema="id STRING, ts TIMESTAMP", sequence_by="id").format
    'parquet'
    >>> SparkSource(table="main.sales.orders", options={"skipChangeCommits": "true"}).format
    'delta'
    """

    format: str = DELTA
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | StructType | None = None
    transform: Callable[[DataFrame], DataFrame] | None = None
    partition_by: str | None = None
    sequence_by: str | Sequence[str] | None = None
    contract: InputContract = field(default_factory=InputContract)
    checks: SourceChecks | None = None
    table: str | None = None
    max_future_skew: Duration | None = None
    decoder: Callable[[DataFrame], DataFrame] | None = None

    def __post_init__(self) -> None:
        check_kind("format", self.format, str, 'the name of a format of Spark, such as "parquet"')
        object.__setattr__(self, "options", option_texts(self.options))
        check_optional("schema", self.schema, (str, StructType), 'DDL, such as "id STRING", or a StructType')
        for option in ("transform", "decoder"):
            check_function(option, getattr(self, option), "a function of a DataFrame that gives one")
        check_optional("partition_by", self.partition_by, str, "the name of a column")
        check_kind("contract", self.contract, InputContract, "an InputContract")
        check_optional("checks", self.checks, SourceChecks, "SourceChecks")
        check_source(self.format, self.options, self.table, has_schema=self.schema is not None)
        optional_span_us("max_future_skew", self.max_future_skew)
        if self.sequence_by is not None and not self._sequence:
            raise ConfigurationError("sequence_by names no column; leave it out for records that go by event time.")

    def max_future_us(self, others_us: int) -> int:
        """How far ahead of the machine's clock a record may be; ``others_us`` is what the application says.

        >>> SparkSource("rate", max_future_skew="90 days").max_future_us(7), SparkSource("rate").max_future_us(7)
        (7776000000000, 7)
        """
        own_us = optional_span_us("max_future_skew", self.max_future_skew)
        return others_us if own_us is None else own_us

    @property
    def may_read_tables(self) -> bool:
        """Whether functions of a user take part in a batch, which may read any tables.

        >>> SparkSource("rate").may_read_tables, SparkSource("rate", transform=lambda rows: rows).may_read_tables
        (False, True)
        """
        return self.transform is not None or (self.checks is not None and self.checks.look is not None)

    @property
    def scope_column(self) -> str | None:
        return self.partition_by or ("partition" if self._is_kafka else None)

    @property
    def order_column(self) -> str | None:
        """What numbers the records of a scope; None = nothing does."""
        return self._sequence[0] if self._sequence else "offset" if self._is_kafka else None

    @property
    def tie_columns(self) -> tuple[str, ...]:
        """What orders the records of one number.

        >>> SparkSource("rate", sequence_by=("_batch_id", "_seq")).tie_columns, SparkSource("rate").tie_columns
        (('_seq',), ())
        """
        return self._sequence[1:]

    @property
    def _sequence(self) -> tuple[str, ...]:
        return () if self.sequence_by is None else texts_of("sequence_by", self.sequence_by, "a column, or several")

    @property
    def goes_by_offset(self) -> bool:
        """Whether nothing but Kafka's offset orders its records."""
        return self._is_kafka and self.order_column == "offset"

    @property
    def kafka_topic(self) -> str | None:
        """The Kafka topics that it reads, and where, in words; None if it reads something else."""
        if not self._is_kafka:
            return None
        said = {name.lower(): value for name, value in self.options.items()}
        topics = next((said[name] for name in _KAFKA_TOPICS if name in said), "?")
        return f"Kafka topic {topics} at {said.get('kafka.bootstrap.servers', '?')}"

    @property
    def _is_kafka(self) -> bool:
        return self.format.lower() == "kafka"  # Spark finds a source by its name in any case

    def read(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame of this source."""
        return self._made(self._rows(spark, spark.readStream))

    def read_all(self, spark: SparkSession) -> DataFrame:
        """Everything that the source has now, as one batch: of a change feed the table as it is, each row inserted.

        Options that only streams have are left unread by Spark.
        """
        rows = replace(self, options=options_at_rest(self.format, self.options))._rows(spark, spark.read)
        return self._made(as_first_changes(rows) if is_whole_feed(self.format, self.options) else rows)

    def _made(self, frame: DataFrame) -> DataFrame:
        for made in filter(None, (self.decoder, self.transform)):
            frame = made(frame)
        return frame

    def _rows(self, spark: SparkSession, reader: DataFrameReader | DataStreamReader) -> DataFrame:
        with_sound_reads(spark)
        if self.decoder is not None or self.format.lower() in TEXT_FILES:
            with_sound_texts(spark)
        if self.table is not None:
            return reader.options(**self.options).table(TableRef.parse(self.table).sql)
        schema, told = with_misfits(spark, self.format, self.options, self.schema)
        reader = reader.format(self.format).options(**{**told, **reader_options(self.format, self.options)})
        return told_of_misfits((reader if schema is None else reader.schema(schema)).load(), self.format)


def unite(spark: SparkSession, sources: Mapping[str, SparkSource]) -> DataFrame:
    """One streaming DataFrame of the tick and all sources, in the order of the mapping, with the batch clock.

    Columns: ``_source`` (topic, or ``_tick``), ``_clock``, and one struct column per topic.

    Raises:
        ConfigurationError: the folder or table of a source does not exist.
    """
    united = _tick(spark)
    for topic, source in sources.items():
        bounded = shortened(_read(spark, topic, source), source.contract.max_bytes)
        united = united.unionByName(_pack(bounded, topic), allowMissingColumns=True)
    return united.withColumn(CLOCK, F.current_timestamp())


def _read(spark: SparkSession, topic: str, source: SparkSource) -> DataFrame:
    try:
        return source.read(spark)
    except AnalysisException as error:
        said, where = error.getCondition(), "Correct its path, which of a job lies below the work folder (--work), or "
        if said == "PATH_NOT_FOUND":
            path = (error.getMessageParameters() or {}).get("path")
            lacks, make = "which is not there", "make the folder; it may be empty."
        elif said in _NO_TABLE:
            path = next((value for name, value in source.options.items() if name.lower() == "path"), source.table)
            lacks, make = "where there is no Delta table", "let that be made which writes it."
        else:
            raise
        raise ConfigurationError(f'Source "{topic}" reads {path}, {lacks}. {where}{make}') from None


def check_topics(topics: Collection[str], sources: Collection[str]) -> None:
    """Refuse topics without a source, sources without a topic, and topics that cannot name a column.

    Raises:
        ConfigurationError: there are some; names them.

    >>> check_topics({"orders"}, {"order": ...})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: Topics without a source: ['orders']; sources without a topic: ['order']. ...
    """
    if set(topics) != set(sources):
        raise ConfigurationError(
            f"Topics without a source: {sorted(set(topics) - set(sources))}; sources without a topic: "
            f"{sorted(set(sources) - set(topics))}. Give each topic of the topology exactly one source."
        )
    check_columns(topics)


def check_shared_sequence(order: str, by_offset: Mapping[str, bool]) -> None:
    """Refuse to merge several sources by one sequence if some of them do not share it.

    Args:
        order: How several sources are merged.
        by_offset: Topic -> whether nothing but Kafka's offset orders its records.

    Raises:
        ConfigurationError: a source goes by Kafka's offsets; names the first one.

    >>> check_shared_sequence("sequence", {"orders": True})
    >>> check_shared_sequence("sequence", {"prices": False, "orders": True})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: order: sequence puts the records of all sources in the order of one ...
    """
    of_kafka = [topic for topic, is_so in by_offset.items() if is_so]
    if order == "sequence" and of_kafka and len(by_offset) > 1:
        raise ConfigurationError(
            f"order: sequence puts the records of all sources in the order of one numbering, and {of_kafka[0]} goes "
            "by the offsets of its topic, which number no other source. Write order: arrival"
        )


def topics_in_order(application: str, known: tuple[str, ...], sources: Collection[str]) -> tuple[str, ...]:
    """The topics in the checkpoint's order, new ones last.

    Args:
        application: The name of the application.
        known: The topics of its last start, in their order.
        sources: The topics that it has now.

    Raises:
        CheckpointMismatchError: a topic that it has read is missing.

    >>> topics_in_order("shop", ("prices", "orders"), ["orders", "clicks", "prices"])
    ('prices', 'orders', 'clicks')
    """
    gone = sorted(set(known) - set(sources))
    if gone:
        raise CheckpointMismatchError(
            f'"{application}" has read the topics {gone} before, and they are gone: Spark would go on with the '
            "offsets of other sources. Put them back (an empty folder will do), or start with --new-epoch."
        )
    return *known, *sorted(set(sources) - set(known))


def records_of(batch: DataFrame, topic: str) -> DataFrame:
    """One topic's records of a batch, with its own columns."""
    return batch.where(F.col(SOURCE) == topic).select(f"{topic}.*")


def _pack(frame: DataFrame, topic: str) -> DataFrame:
    return frame.select(F.lit(topic).alias(SOURCE), F.struct("*").alias(topic))


def _tick(spark: SparkSession) -> DataFrame:
    # Wakes the query when no other input comes. Its own timestamp is dropped, since it is not the batch clock.
    rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch="1", numPartitions="1").load()
    return rows.select(F.lit(TICK).alias(SOURCE))
