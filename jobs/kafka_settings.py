"""Kafka in the settings of a job: a topic as a source, and topics to which changelogs are sent.

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
    servers: _Servers = Field(description="Bootstrap servers: `host:port`, several separated by commas.")
    topic: _Topic = Field(description="Name of the Kafka topic.")
    key_format: KeyFormat = Field(
        default="json",
        description="`json`: the key is a JSON object of its fields. `text`: it is the plain text of its only field.",
    )
    options: dict[str, str] = Field(
        default_factory=dict,
        description="Further options of Spark's Kafka source or sink, such as `maxOffsetsPerTrigger`.",
    )


class KafkaSourceSettings(_Kafka):
    """One Kafka topic as a source. Its partitions are the stream-time scopes; its offsets are the sequence."""

    value: str = Field(description="Fields of the value as DDL; the value is a JSON object.")
    key: str | None = Field(default=None, description="Fields of the key as DDL. The key is not read if omitted.")
    ts: str = Field(
        default="ts", description="Field with the event time; the record's Kafka timestamp if there is no such field."
    )
    ts_unit: TsUnit | None = Field(default=None, description="Unit of `ts`, if it is a whole number.")
    deleted: str | None = Field(
        default=None, description="Column that is true for a record without a value (a tombstone)."
    )

    def source(self) -> SparkSource:
        """The source that these settings describe."""
        from streams.spark import kafka_source

        return kafka_source(self.servers, self.topic, self.records(), self.options)

    def records(self) -> KafkaFormat:
        """The format in which the topic's records are read."""
        from streams.spark import KafkaFormat

        return KafkaFormat(self.value, self.key, self.key_format, self.ts, self.ts_unit, self.deleted)


class KafkaSinkSettings(_Kafka):
    """A Kafka topic to which the rows of a changelog sink are also sent, at least once."""

    def sink(self) -> KafkaSink:
        """The sink that these settings describe."""
        from streams.spark import KafkaSink

        return KafkaSink(self.servers, self.topic, self.key_format, self.options)
