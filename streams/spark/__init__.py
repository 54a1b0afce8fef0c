"""The Spark engine: runs a topology as one streaming query over plain Delta tables."""

from __future__ import annotations

from streams.spark.aggregate_as_of import aggregate_as_of
from streams.spark.application import BatchReport, StreamingApplication
from streams.spark.listener import MetricsListener
from streams.spark.sources import SparkSource

__all__ = ["BatchReport", "MetricsListener", "SparkSource", "StreamingApplication", "aggregate_as_of"]
