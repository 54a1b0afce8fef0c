"""Kafka in the settings of a job: a topic that is read, and topics that changelogs are sent to.

>>> said = {"servers": "localhost:9092", "topic": "prices", "key": "item STRING", "value": "price DOUBLE"}
>>> KafkaSourceSettings.model_validate(said).source().order_column
'offset'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from jobs.strict import Spelled, Strict
from streams.options import KeyFormat, TsUnit

if TYPE_CHECKING:
    from streams.spark import KafkaFormat, KafkaSink, SparkSource

_Servers = Annotated[
    str, Spelled(r"[^\s,:]+:[0-9]+(,[^\s,:]+:[0-9]+)*", "host:port, several separated by commas without spaces")
]
_Topic = Annotated[str, Spelled(r"[A-Za-z0-9._-]{1,249}", "1 to 249 letters, digits, dots, dashes and underscores")]


class _Kafka(Strict):
    servers: _Servers = Field(description="`host:port`, several separated by commas.")
    topic: _Topic = Field(description="The name of the topic in Kafka.")
    key_format: KeyFormat = Field(
        default="json", description="The key is a JSON object of its fields, or the plain text of its one field."
    )
    options: dict[str, str] = Field(
        default_factory=dict,
        description="More options of Spark's Kafka source or sink, such as `maxOffsetsPerTrigger`.",
    )


class KafkaSourceSettings(_Kafka):
    """One Kafka topic as a source: partitions are the stream-time scopes, offsets the sequence."""

    value: str = Field(description="DDL of the value's fields; the value is a JSON object.")
    key: str | None = Field(default=None, description="DDL of the key's fields; the key is not read if not given.")
    ts: str = Field(default="ts", description="Field of the event time; the record's Kafka timestamp if there is none.")
    ts_unit: TsUnit | None = Field(default=None, description="What a whole number in `ts` means.")
    deleted: str | None = Field(
        default=None, description="Column that is true for a record without value (a tombstone)."
    )

    def source(self) -> SparkSource:
        """The source that these settings describe."""
        from streams.spark import kafka_source

        return kafka_source(self.servers, self.topic, self.records(), self.options)

    def records(self) -> KafkaFormat:
        """How its records are read."""
        from streams.spark import KafkaFormat

        return KafkaFormat(self.value, self.key, self.key_format, self.ts, self.ts_unit, self.deleted)


class KafkaSinkSettings(_Kafka):
    """A topic that the rows of a changelog sink are sent to as well, at least once."""

    def sink(self) -> KafkaSink:
        """The sink that these settings describe."""
        from streams.spark import KafkaSink

        return KafkaSink(self.servers, self.topic, self.key_format, self.options)
