"""Sources of an application: any Spark streaming source, united into one query.

All sources run in one streaming query, each packed into a struct column of its own name, so that one
``foreachBatch`` sees them together. A tick source and the batch clock ride along: the clock is a column of the
streaming plan, so a replay of the batch sees the same instant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from streams.spark.contract import InputContract
from streams.spark.source_checks import SourceChecks
from streams.spark.typed_input import shortened
from versioned import spark_functions as F
from versioned.errors import CheckpointMismatchError

SOURCE: Final = "_source"
CLOCK: Final = "_clock"
TICK: Final = "_tick"
#: Column of a source: the text of a record that could not be decoded; null = it could. Such a record is put aside as
#: ``BAD_TYPE``, whatever its other columns hold. Files of text have it by themselves, others by their transform.
MALFORMED: Final = "_malformed"
#: Of what they cannot decode, Spark's readers of text make nulls, unless there is a column for its text.
_TEXT_FILES: Final = frozenset({"csv", "json", "xml"})
#: Instead of the text of a record of XML, for which Spark gives that of its whole file, other records included.
_IN_XML: Final = "<a record of XML that does not fit>"
#: Options of these readers, in lower case, by which users say themselves what becomes of it.
_OWN_WAYS: Final = frozenset({"mode", "columnnameofcorruptrecord"})
_CORRUPT: Final = "spark.sql.columnNameOfCorruptRecord"
#: Spark's reader of JSON makes nulls of a line with a longer text than this allows. How large a record may be is for
#: its source's contract to say, with a reason and a count.
WHOLE_TEXTS: Final = {"maxStringLen": str(2**31 - 1)}
#: Options of Spark's Kafka source that say what is read, in lower case; one of them is there.
_KAFKA_TOPICS: Final = ("subscribe", "subscribepattern", "assign")


@dataclass(frozen=True)
class SparkSource:
    """Where a topic's records come from: a Spark streaming source, passed through by format and options.

    Args:
        format: ``parquet``, ``json``, ``delta``, ``kafka``, ``rate``, ...
        options: Options of that source (``path``, ``maxFilesPerTrigger``, ``subscribe``, ...).
        schema: DDL or StructType, for file sources. Records of JSON, CSV and XML that cannot be read by it are put
            aside with their text (of XML without it), unless the options name a ``mode`` or a column of their own.
        transform: Turns the source's columns into the topic's columns (for Kafka: decode ``key`` and ``value``; keep
            ``partition`` and ``offset``; for files of text keep ``_malformed``, the text of what could not be decoded).
        partition_by: Integer column that tells the stream-time scope; None = one scope. Kafka: ``partition``.
        sequence_by: Column that orders the records of a scope; None = by event time. Kafka: ``offset``.
        contract: What its rows are like, and what becomes of those that are not.
        checks: Rules of the user's own about its rows, and who is shown them before they are taken.

    >>> SparkSource("parquet", {"path": "in/flights"}, schema="id STRING, ts TIMESTAMP", sequence_by="id").format
    'parquet'
    """

    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | StructType | None = None
    transform: Callable[[DataFrame], DataFrame] | None = None
    partition_by: str | None = None
    sequence_by: str | None = None
    contract: InputContract = field(default_factory=InputContract)
    checks: SourceChecks | None = None

    @property
    def scope_column(self) -> str | None:
        return self.partition_by or ("partition" if self._is_kafka else None)

    @property
    def order_column(self) -> str | None:
        return self.sequence_by or ("offset" if self._is_kafka else None)

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
        schema, told = self._decoding(spark)
        reader = spark.readStream.format(self.format).options(**{**told, **self.options})
        if schema is not None:
            reader = reader.schema(schema)
        frame = reader.load()
        if self.format.lower() == "xml" and MALFORMED in frame.columns:
            frame = frame.withColumn(MALFORMED, F.when(F.col(MALFORMED).isNotNull(), F.lit(_IN_XML)))
        return frame if self.transform is None else self.transform(frame)

    def _decoding(self, spark: SparkSession) -> tuple[str | StructType | None, dict[str, str]]:
        """Columns and options of the reader: of files of text with what keeps the text of misfits."""
        told = dict(WHOLE_TEXTS) if self.format.lower() == "json" else {}
        if self.schema is None or self.format.lower() not in _TEXT_FILES or self._has_own_way:
            return self.schema, told
        columns = cast(StructType, StructType.fromDDL(self.schema)) if isinstance(self.schema, str) else self.schema
        if spark.conf.get(_CORRUPT) in columns.names:
            return columns, told  # The user's own column for it.
        told["columnNameOfCorruptRecord"] = MALFORMED
        fields = [field for field in columns.fields if field.name != MALFORMED]
        return StructType([*fields, StructField(MALFORMED, StringType())]), told

    @property
    def _has_own_way(self) -> bool:
        return not _OWN_WAYS.isdisjoint(name.lower() for name in self.options)


def unite(spark: SparkSession, sources: Mapping[str, SparkSource]) -> DataFrame:
    """One streaming DataFrame of the tick and all sources, in the order of the mapping, with the batch clock.

    Columns: ``_source`` (topic, or ``_tick``), ``_clock``, and one struct column per topic.
    """
    united = _tick(spark)
    for topic, source in sources.items():
        bounded = shortened(source.read(spark), source.contract.max_bytes)
        united = united.unionByName(_pack(bounded, topic), allowMissingColumns=True)
    return united.withColumn(CLOCK, F.current_timestamp())


def topics_in_order(application: str, known: tuple[str, ...], sources: Collection[str]) -> tuple[str, ...]:
    """The topics as the checkpoint knows them, new ones last.

    Args:
        application: Its name.
        known: The topics of its last start, in their order.
        sources: Those that it has now.

    Raises:
        CheckpointMismatchError: one that it has read is gone.

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
    # Wakes the query when no other input comes; its own timestamp is no clock and is dropped.
    rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch="1", numPartitions="1").load()
    return rows.select(F.lit(TICK).alias(SOURCE))
