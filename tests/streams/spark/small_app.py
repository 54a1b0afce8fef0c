"""A small application with every operator of the Spark engine so far, over out-of-order, late and bad input."""

from __future__ import annotations

import os
import random
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from streams.expressions import trace
from streams.nodes import (
    ChangelogSink,
    Materialized,
    StreamSource,
    StreamTableJoin,
    Suppress,
    TableSink,
    TableSource,
    Topology,
    WindowedAggregate,
)
from streams.spark import SparkSource, StreamingApplication
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows

HOUR_MS = 3_600_000
BATCHES = 3
#: Every table that a run writes, with the columns that tell a batch or a cut and are left out of comparisons.
TABLES = ("enriched", "hourly_final", "latest_hourly", "weather_now", "weather", "last_airport", "hourly", "rejects")
SCHEMAS = {
    "flights": "seq LONG, origin STRING, tail STRING, dest STRING, ts TIMESTAMP",
    "weather": "seq LONG, origin STRING, temp DOUBLE, ts TIMESTAMP",
}


def topology() -> Topology:
    """Flights joined to the weather, final counts per hour, and the last airport of each aircraft."""
    history = Materialized(history_retention=timedelta(hours=30), late_policy="side_table")
    flights = StreamSource("flights", topic="flights", key=("origin",), value=("tail",))
    weather = TableSource("weather", topic="weather", key=("origin",), materialized=history)
    last = TableSource("last_airport", topic="flights", key=("tail",), value=("dest",), materialized=history)
    joiner = trace(lambda left, right: {"tail": left.tail, "temp": right.temp}, "left", "right")
    joined = StreamTableJoin("with_weather", (flights, weather), kind="left", joiner=joiner)
    hourly = WindowedAggregate("hourly", (flights,), windows=TimeWindows.of("1 hour").grace("3 hours"))
    final = Suppress("final", (hourly,), suppressed=Suppressed.until_window_closes(BufferConfig.unbounded()))
    sinks = (
        ChangelogSink("enriched", (joined,)),
        ChangelogSink("hourly_final", (final,)),
        TableSink("latest_hourly", (hourly,)),
        TableSink("weather_now", (weather,)),
    )
    return Topology((flights, weather, last, joined, hourly, final, *sinks))


def write_input(
    spark: SparkSession, folder: Path, batches: int = BATCHES, seed: int = 1, ends: list[int] | None = None
) -> None:
    """Files of out-of-order flights and weather; the same rows for the same seed, however they are cut."""
    chance = random.Random(seed)
    flights, weather = [], []
    for number in range(300):
        ms = number * HOUR_MS // 10 - chance.choice((0, 0, HOUR_MS, 6 * HOUR_MS, 40 * HOUR_MS))
        origin, tail = chance.choice(("JFK", "EWR", None)), chance.choice(("N1", "N2", "N3", None))
        flights.append((number * 2, origin, tail, chance.choice("XYZ"), ms if chance.random() > 0.05 else None))
        if number % 5 == 0:
            late = chance.choice((0, 0, 2 * HOUR_MS, 35 * HOUR_MS))
            weather.append(
                (number * 2 + 1, chance.choice(("JFK", "EWR")), float(number), number * HOUR_MS // 10 - late)
            )
    ends = ends or [600 * (batch + 1) // batches for batch in range(batches)]
    for first, end in zip([0, *ends], ends, strict=False):
        _write(spark, folder / "flights", [row for row in flights if first <= row[0] < end], SCHEMAS["flights"])
        _write(spark, folder / "weather", [row for row in weather if first <= row[0] < end], SCHEMAS["weather"])


def application(spark: SparkSession, folder: Path, out: str = "out") -> StreamingApplication:
    """The application over the files of ``folder``."""
    sources = {
        name: SparkSource("parquet", {"path": str(folder / name), "maxFilesPerTrigger": "1"}, schema, sequence_by="seq")
        for name, schema in (("flights", SCHEMAS["flights"]), ("weather", SCHEMAS["weather"]))
    }
    return StreamingApplication(spark, "small", topology(), str(folder / out), sources, order="sequence")


def _write(spark: SparkSession, path: Path, rows: list[tuple[object, ...]], schema: str) -> None:
    frame = spark.createDataFrame(rows, schema.replace("TIMESTAMP", "LONG"))
    timed = frame.selectExpr(*(f"timestamp_millis({n}) AS {n}" if n == "ts" else n for n in frame.columns))
    path.mkdir(parents=True, exist_ok=True)
    number = len(list(path.glob("*.parquet")))
    timed.coalesce(1).write.mode("append").parquet(str(path))
    newest = max(path.glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    # One file per batch, in the order of its name and time.
    newest.rename(path / f"{number:05d}.parquet")
    os.utime(path / f"{number:05d}.parquet", (1_700_000_000 + number, 1_700_000_000 + number))
