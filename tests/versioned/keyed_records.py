"""Records for a table of texts by key."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def keyed_records(spark: SparkSession, *rows: tuple[str, str | None, int]) -> DataFrame:
    """Records of a key, a value and a second, which is their sequence ``s`` too; without a value they are ``dead``."""
    shaped = [(key, value, second, value is None) for key, value, second in rows]
    frame = spark.createDataFrame(shaped, "k STRING, v STRING, s LONG, dead BOOLEAN")
    return frame.withColumn("ts", F.timestamp_seconds("s"))
