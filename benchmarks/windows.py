"""P6: final hourly counts, against Spark's own streaming aggregation with a watermark."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
from pyspark.sql import functions as F

from benchmarks import data
from benchmarks.measure import Contestant, Figure, alternate
from benchmarks.setting import Setting, contents
from streams.spark import SparkSource, StreamingApplication
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows

RECORDS, KEYS, FILES, LATE = 5_000_000, 100_000, 5, 0.05
_OURS, _SPARK = "final results", "Spark's watermark"
_SCHEMA = "key BIGINT, ts TIMESTAMP, a DOUBLE, name STRING, seq BIGINT"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def compare(setting: Setting) -> list[Figure]:
    """P6. Both read the same files, one per batch, and append final counts to a Delta table; the state starts empty."""
    keys, size = setting.size(KEYS), setting.size(RECORDS)
    files = write_files(setting.folder("P6-input"), keys, size)
    few = write_files(setting.folder("P6-warm-up"), keys, max(size // 20, 100))
    folders = {_OURS: setting.folder("P6-ours"), _SPARK: setting.folder("P6-spark")}

    def source(number: int) -> Path:
        return few if number == 0 else files

    def ours(number: int) -> None:
        run_ours(setting, source(number), _emptied(folders[_OURS]))

    def spark(number: int) -> None:
        run_spark(setting, source(number), _emptied(folders[_SPARK]))

    timings = alternate([Contestant(_OURS, ours), Contestant(_SPARK, spark)], setting.runs)
    read = setting.spark.read.format("delta")
    told = read.load(str(folders[_OURS] / "tables" / "hourly"))
    mine = contents(told.select("key", "windowStart", "count"))
    theirs = contents(read.load(str(folders[_SPARK] / "out")).select("key", "windowStart", "count"))
    what = f"{size:,} records in {FILES} batches, {keys:,} keys, {LATE:.0%} late"
    notes = {"same final counts": mine == theirs, "windows": mine[0]}
    return [Figure("P6", what, _OURS, _SPARK, timings, size, 1.0, notes=notes)]


def write_files(folder: Path, keys: int, size: int) -> Path:
    """Write files of two hours each, some records five to seven hours late, and a last one that closes all windows.

    The late records are so late that both engines drop the same ones: ours judges each record at its place, Spark by
    the watermark that the batch before used. The first two batches have no such watermark, and no late records. The
    last file has one record.
    """
    chance = np.random.default_rng(6)
    each, span = size // FILES, 2 * data.HOUR_MS
    for number in range(FILES):
        ts = data.BASE_MS + number * span + np.sort(chance.integers(0, span, each))
        if number > 1:
            late = chance.random(each) < LATE * FILES / (FILES - 2)
            ts = np.where(late, data.BASE_MS + number * span - chance.integers(5, 8, each) * data.HOUR_MS, ts)
        data.Records(chance.integers(0, keys, each), ts, np.arange(each)).write(folder / f"{number}.parquet")
    last = np.array([data.BASE_MS + 10 * data.DAY_MS])
    data.Records(np.array([0]), last, np.array([0])).write(folder / f"{FILES}.parquet")
    _in_order(folder)
    return folder


def run_ours(setting: Setting, files: Path, folder: Path) -> None:
    """Run an application of one aggregate and one suppression."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key="key", value=["a"]).group_by_key()
    counted = grouped.windowed_by(TimeWindows.of("1 hour").grace("1 hour")).count(name="counts")
    final = counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="final")
    final.to_changelog("hourly")
    options = {"path": str(files), "maxFilesPerTrigger": "1"}
    source = SparkSource("parquet", options, schema=_SCHEMA, sequence_by="seq")
    StreamingApplication(setting.spark, "windows", builder.build(), str(folder / "tables"), {"in": source}).run()


def run_spark(setting: Setting, files: Path, folder: Path) -> None:
    """Run the same with Spark alone: append mode, state in RocksDB."""
    spark = setting.spark
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
    read = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(files))
    hourly = read.withWatermark("ts", "1 hour").groupBy("key", F.window("ts", "1 hour")).count()
    told = hourly.select("key", F.col("window.start").alias("windowStart"), "count")
    writer = told.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
    try:
        writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "out")).awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


def _in_order(folder: Path) -> None:
    """Set modification times in the order of the files, in which Spark's file source then reads them."""
    for number in range(FILES + 1):
        os.utime(folder / f"{number}.parquet", (1_700_000_000 + number,) * 2)


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
