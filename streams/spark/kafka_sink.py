"""Sends changelogs to Kafka: what a batch appended to the Delta table then goes to a topic.

The table is the outbox. A batch's rows are written to it exactly once. Only then are they read back from the table and
sent, so a batch that is run again after a crash sends the very same records with the very same ids. Nothing is lost or
altered, but a record may arrive twice: delivery is *at least once*. A consumer drops records that it has seen by the id
in their headers (:func:`without_replays`), or writes them where a second write does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window

from streams.options import KeyFormat
from streams.spark.flow import SCOPE
from streams.spark.reader_options import option_texts
from versioned import faults
from versioned import spark_functions as F
from versioned.choices import check_choice
from versioned.errors import ConfigurationError, DeliveryError, first_line
from versioned.given import check_kind
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table
from versioned.sql_types import JSON_INSTANTS

#: Headers that are a record's id: who sent it, in which batch, and its place among the changes of its key there.
SINK: Final = "versioned-sink"
BATCH: Final = "versioned-batch"
NTH: Final = "versioned-nth"
#: Header with the event time in microseconds since 1970: a tombstone has no value to hold it.
TS: Final = "versioned-ts"
#: The columns that a sink adds to each row, besides ``ts``.
OWN: Final = ("_batch_id", SCOPE, "_seq")
_DELETED: Final = "deleted"
_JSON: Final = {"ignoreNullFields": "false", **JSON_INSTANTS}


@dataclass(frozen=True)
class KafkaSink:
    """A Kafka topic to which a changelog is sent.

    The key is a JSON object of the key fields (null if all of them are null). The value is a JSON object of the value
    fields and ``ts``; it is null if the row is deleted, or if all fields of a stream's value are null. All changes of a
    key go to one partition, in order.

    Args:
        servers: ``host:port``, several separated by commas.
        topic: The topic.
        key_format: ``json``; or ``text``, for a key with a single field: its plain text.
        options: Further options of Spark's Kafka sink, such as ``kafka.security.protocol``.

    Raises:
        ConfigurationError: an argument of the wrong kind.

    >>> KafkaSink("localhost:9092", "priced").key_format
    'json'
    """

    servers: str
    topic: str
    key_format: KeyFormat = "json"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_kind("servers", self.servers, str, "host:port as text, several separated by commas")
        check_kind("topic", self.topic, str, "the name of a topic")
        object.__setattr__(self, "options", option_texts(self.options))
        check_choice("key_format", self.key_format, KeyFormat)

    @property
    def place(self) -> str:
        """The topic and where it is, in words."""
        return f"Kafka topic {self.topic} at {self.servers}"

    def check_keys(self, sink: str, keys: Sequence[str]) -> None:
        """Refuse a text as key where the key is more than one field: the others would be nowhere in the record.

        Raises:
            ConfigurationError: the format of the key is text, and the changelog's key has not one field.
        """
        if self.key_format == "text" and len(keys) != 1:
            raise ConfigurationError(
                f'kafka: the key of "{sink}" has the fields {list(keys)}, of which a text would tell the first only. '
                'Use key_format="json", or give the records a key of one field with select_key.'
            )

    def publish(
        self, session: SparkSession, target: TableRef, batch: int, sink: str, keys: Sequence[str], *, of_table: bool
    ) -> None:
        """Send the rows of a batch, which have landed in the changelog.

        Args:
            session: The batch's session.
            target: The changelog.
            batch: What its rows carry as ``_batch_id``.
            sink: ``application/sink``, for the ids.
            keys: The key fields.
            of_table: Whether they are changes of a table, whose column ``deleted`` is the library's.

        Raises:
            DeliveryError: Kafka did not take all of them.
        """
        node = sink.rsplit("/", 1)[-1]
        faults.point(f"before:{node}/kafka")
        landed = read_table(session, target).where(F.col("_batch_id") == F.lit(batch))
        told = {"kafka.bootstrap.servers": self.servers, "topic": self.topic, **self.options}
        try:
            self.records(landed, sink, keys, of_table=of_table).write.format("kafka").options(**told).save()
        except Exception as error:
            raise DeliveryError(
                f'Batch {batch} of "{sink}" is in {target}, but Kafka did not take all of it for the topic '
                f'"{self.topic}" at {self.servers}: {_sentence(error)} Nothing is lost: start again once Kafka '
                "answers, and the batch is sent again."
            ) from error
        faults.point(f"after:{node}/kafka")

    def records(self, rows: DataFrame, sink: str, keys: Sequence[str], *, of_table: bool) -> DataFrame:
        """Rows of a changelog as records of Kafka: ``key value headers``, the changes of a key in their order."""
        of_key = [F.col(quote(name)) for name in keys]
        own = (*keys, *OWN, *((_DELETED,) if of_table else ()))
        values = [quote(name) for name in rows.columns if name not in own]
        tie = F.xxhash64(F.to_json(F.struct("*")))
        ordered = Window.partitionBy(*of_key).orderBy("_seq", SCOPE, tie)
        value = F.to_json(F.struct(*values), _JSON)
        told = [F.col(name).isNotNull() for name in values if name != quote("ts")]
        if of_table:
            value = F.when(~F.col(_DELETED), value)
        elif told:
            # A stream has no such column: its null value is a row of nulls.
            value = F.when(reduce(Column.__or__, told), value)
        ids = {SINK: F.lit(sink), BATCH: F.col("_batch_id"), NTH: F.row_number().over(ordered), TS: F.unix_micros("ts")}
        headers = F.array(*(_header(name, told) for name, told in ids.items()))
        return rows.select(self._key(of_key, keys).alias("key"), value.alias("value"), headers.alias("headers"))

    def _key(self, of_key: Sequence[Column], names: Sequence[str]) -> Column:
        if self.key_format == "text":
            return of_key[0].cast("string")
        some = F.lit(False)
        for column in of_key:
            some = some | column.isNotNull()
        return F.when(some, F.to_json(F.struct(*map(quote, names)), _JSON))


def without_replays(records: DataFrame) -> DataFrame:
    """Records of a Kafka topic, read with ``includeHeaders``, without those that a replay sent again.

    Records without ids of this library are kept. Of records with the same id, the one with the smallest offset is kept.
    """
    ids = [_value_of(name) for name in (SINK, BATCH, NTH)]
    named = records.withColumn("_id", F.concat_ws("/", *ids, F.hex("key")))
    first = Window.partitionBy("topic", "partition", "_id").orderBy("offset")
    kept = named.withColumn("_nth", F.row_number().over(first))
    return kept.where((F.col("_nth") == 1) | ids[0].isNull()).drop("_id", "_nth")


def _header(name: str, told: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), told.cast("string").cast("binary").alias("value"))


def _value_of(header: str) -> Column:
    found = F.filter("headers", lambda each: each.getField("key") == header)
    return F.get(found, F.lit(0)).getField("value").cast("string")


def _sentence(error: Exception) -> str:
    return (first_line(error) or type(error).__name__).rstrip(".") + "."
