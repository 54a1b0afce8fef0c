"""The Spark engine: runs a topology as one streaming query over plain Delta tables."""

from __future__ import annotations

from streams.spark.aggregate_as_of import aggregate_as_of
from streams.spark.application import StreamingApplication
from streams.spark.batch_report import BatchReport
from streams.spark.contract import InputContract
from streams.spark.kafka_sink import KafkaSink, without_replays
from streams.spark.kafka_source import KafkaFormat, kafka_source
from streams.spark.listener import MetricsListener
from streams.spark.sources import SparkSource

__all__ = [
    "BatchReport",
    "InputContract",
    "KafkaFormat",
    "KafkaSink",
    "MetricsListener",
    "SparkSource",
    "StreamingApplication",
    "aggregate_as_of",
    "kafka_source",
    "without_replays",
]
