"""The peer of the versioned put: the usual MERGE for slowly changing dimensions of type 2.

Join the batch with the current rows it replaces, add its records for these once more under a null merge key, then close
and insert. It assumes that each batch is newer than the table: an out-of-order record makes a version that ends before
it begins.
"""

from __future__ import annotations

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F


def create(spark: SparkSession, path: Path, versions: DataFrame) -> None:
    """Create a table of stored versions (``key validFrom validTo a name``), with deletion vectors."""
    spark.sql(
        f"CREATE TABLE delta.`{path}` (key BIGINT, a DOUBLE, name STRING, validFrom TIMESTAMP, validTo TIMESTAMP, "
        "current BOOLEAN) USING DELTA TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    rows = versions.select("key", "a", "name", "validFrom", "validTo", F.col("validTo").isNull().alias("current"))
    rows.write.format("delta").mode("append").save(str(path))


def merge(spark: SparkSession, path: Path, batch: DataFrame) -> None:
    """Apply a batch (``key ts a name``, one record per key)."""
    table = DeltaTable.forPath(spark, str(path))
    current = table.toDF().where("current").select(F.col("key").alias("known"))
    replaced = batch.join(current, F.col("key") == F.col("known")).select(F.lit(None).cast("long").alias("merge"), "*")
    staged = replaced.drop("known").unionByName(batch.select(F.col("key").alias("merge"), "*"))
    inserted: dict[str, str | Column] = {
        "key": "s.key", "a": "s.a", "name": "s.name", "validFrom": "s.ts", "validTo": "null", "current": "true",
    }  # fmt: skip
    (
        table.alias("t")
        .merge(staged.alias("s"), "t.key = s.merge AND t.current")
        .whenMatchedUpdate(set={"current": "false", "validTo": "s.ts"})
        .whenNotMatchedInsert(values=inserted)
        .execute()
    )


def current(spark: SparkSession, path: Path) -> DataFrame:
    """The current rows: key, validFrom, a, name."""
    return spark.read.format("delta").load(str(path)).where("current").select("key", "validFrom", "a", "name")


def wrong_intervals(spark: SparkSession, path: Path) -> int:
    """How many versions do not end after they begin, or overlap the next one of their key."""
    rows = spark.read.format("delta").load(str(path))
    following = F.lead("validFrom").over(Window.partitionBy("key").orderBy("validFrom"))
    told = rows.withColumn("next", following)
    overlaps = F.col("next").isNotNull() & (F.col("validTo").isNull() | (F.col("validTo") > F.col("next")))
    return told.where((F.col("validTo") <= F.col("validFrom")) | overlaps).count()
