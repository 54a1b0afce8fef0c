"""Where a benchmark runs: the session, the folder, the sizes; and tables as they are before it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import data
from benchmarks.kafka import kafka_jars
from jobs.session import build_session
from versioned.commit import Append, commit
from versioned.spec import CURRENT, DELETED
from versioned.table import VersionedTable

_COLUMNS: Final = "key BIGINT, a DOUBLE, name STRING"
_RETENTION: Final = "3650 days"
#: As in the tests: otherwise Hadoop writes a checksum file next to each file on a local disk. No other storage has
#: these, and each listing of a log would include them.
_FILES: Final = {"spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs"}
#: Settings of Spark on which the figures depend; printed with them.
_TOLD: Final = (
    "spark.master", "spark.driver.memory", "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled",
    "spark.databricks.delta.snapshotPartitions",
)  # fmt: skip


@dataclass
class Setting:
    """One run of the benchmarks.

    Args:
        work: A folder that benchmarks may fill; they remove what they no longer need.
        scale: 1 = the sizes of the table of aims; smaller for trying out.
        runs: Counted rounds.
        quick: Whether to shrink what takes minutes at any scale.
        batches: Number of batches of P10; None = its default.
    """

    work: Path
    scale: float = 1.0
    runs: int = 3
    quick: bool = False
    batches: int | None = None
    settings: dict[str, str] = field(default_factory=dict)

    @cached_property
    def spark(self) -> SparkSession:
        """The session, as users get it, with more memory."""
        warehouse = {"spark.sql.warehouse.dir": str(self.work / "warehouse")}
        own = {"spark.driver.memory": "8g", **_FILES, **warehouse, **self.settings}
        session = build_session("benchmarks", own)
        session.sparkContext.setLogLevel("ERROR")
        # Spark's RocksDB state store asks for exactly this class of file system, so that one without checksums cannot
        # take its place: switch its checksums off.
        files = session._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
        files.getLocal(session.sparkContext._jsc.hadoopConfiguration()).setWriteChecksum(False)
        return session

    @cached_property
    def kafka(self) -> Path:
        """The folder of Kafka's jars."""
        return kafka_jars(self.work)

    def size(self, full: int, least: int = 100) -> int:
        """A number of rows at this scale."""
        return max(round(full * self.scale), least)

    def folder(self, name: str) -> Path:
        """A new, empty folder."""
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def told(self) -> dict[str, Any]:
        """Settings and versions of packages, to print with the figures."""
        from importlib.metadata import version

        conf = {name: self.spark.conf.get(name, None) for name in _TOLD}
        packages = ("pyspark", "delta-spark", "polars", "duckdb")
        return {"scale": self.scale, "runs": self.runs, **conf, **{name: version(name) for name in packages}}

    def versions(self, keys: int, versions: int) -> DataFrame:
        """``versions`` stored versions of each key (``key validFrom validTo a name``), made once."""
        return self.spark.read.parquet(str(self.version_files(keys, versions)))

    def version_files(self, keys: int, versions: int) -> Path:
        """The folder of the Parquet files that :meth:`versions` reads."""
        folder = self.work / f"versions-{keys}-{versions}"
        return folder if folder.exists() else data.write_versions(folder, keys, versions)

    def versioned_table(self, name: str, keys: int, versions: int, retention: str = _RETENTION) -> VersionedTable:
        """A versioned table with ``versions`` versions of each key, as upkeep leaves it: closed history in order.

        It is loaded in one commit, with the rows that putting the versions one by one would have produced.
        """
        path = self.folder(name)
        table = VersionedTable.create(
            self.spark, str(path), _COLUMNS, keys="key", history_retention=retention, valid_from="validFrom"
        )
        rows = self.versions(keys, versions).select("*", F.lit(False).alias(DELETED))
        stored = rows.select("*", F.col("validTo").isNull().alias(CURRENT)).select(table.rows().columns)
        newest = int(data.starts(np.arange(keys), versions - 1).max()) * 1_000
        commit(table.target, lambda: Append(stored), None, {"streamTimes": {"0": newest}})
        return table

    def records(self, records: data.Records, name: str) -> tuple[Path, DataFrame]:
        """Write records as Parquet; return the file, and a DataFrame that reads it."""
        path = records.write(self.work / "records" / f"{name}.parquet")
        return path, self.spark.read.parquet(str(path))

    def records_of_one_batch(self, size: int, name: str) -> tuple[int, Path]:
        """Write records for work whose result does not depend on them; return their number and file."""
        path, _ = self.records(data.batch(size, size, 1), name)
        return size, path

    def load(self) -> float:
        """The load average of the last minute."""
        return os.getloadavg()[0]

    def longs(self, records: data.Records, name: str) -> Path:
        """Write records in the form that Kafka's process reads."""
        return records.write_longs(self.work / "records" / f"{name}.longs")

    def loads(self, keys: int, versions: int) -> list[Path]:
        """Write the stored versions for Kafka, one file per version."""
        every = np.arange(keys)
        return [
            data.version(np.random.default_rng(v).permutation(every), v).write_longs(
                self.work / "records" / f"load-{keys}-{v}.longs"
            )
            for v in range(versions)
        ]


def contents(frame: DataFrame) -> tuple[int, int]:
    """The number of rows, and the sum of their hashes, whatever their order."""
    hashed = frame.select(F.xxhash64(*frame.columns).alias("h"))
    row = hashed.agg(F.count("*"), F.sum(F.col("h").bitwiseAND(F.lit(0xFFFFFFFF)))).collect()[0]
    return row[0], row[1] or 0
