"""P7: a suppression with a bounded buffer that emits early, against Kafka Streams through its test driver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyspark.sql import functions as F

from benchmarks import data
from benchmarks.kafka import KafkaPeer
from benchmarks.measure import Contestant, Figure, alternate
from benchmarks.setting import Setting
from streams.nodes import Materialized
from streams.spark import SparkSource, StreamingApplication
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed

RECORDS, KEYS, BOUND, WAIT_MS = 1_000_000, 50_000, 10_000, 3_600_000
_OURS, _KAFKA = "suppress", "Kafka's test driver"
_SCHEMA = "key BIGINT, ts TIMESTAMP, a DOUBLE, name STRING, seq BIGINT"


def compare(setting: Setting) -> list[Figure]:
    """P7, with a batch of updates per run, in order of time; both keep what their buffers hold from run to run."""
    keys, size = setting.size(KEYS), setting.size(RECORDS)
    bound = setting.size(BOUND)
    batches = [_updates(keys, size, number) for number in range(setting.runs + 1)]
    files = [setting.longs(batch, f"P7-{number}") for number, batch in enumerate(batches)]
    # Written before the clock of their runs starts, as Kafka's files are.
    inputs = [setting.records(batch, f"P7-{number}")[0] for number, batch in enumerate(batches)]
    root = setting.folder("P7-ours")
    (root / "in").mkdir()
    app = _application(setting, str(root), bound)
    peer = KafkaPeer(setting.kafka, setting.folder("P7-kafka"), "suppress", str(bound), str(WAIT_MS))
    told: list[tuple[int, int]] = []

    def ours(number: int) -> None:
        (root / "in" / f"{number}.parquet").hardlink_to(inputs[number])
        app.run()

    def kafka(number: int) -> float:
        answer = peer.ask("run", files[number])
        told.append((answer.count, answer.sum_n))
        return answer.seconds

    try:
        timings = alternate([Contestant(_OURS, ours), Contestant(_KAFKA, kafka)], setting.runs)
    finally:
        peer.close()
    what = f"{size:,} records, {keys:,} keys, at most {bound:,} held"
    notes = {"same emissions": _emitted(setting, str(root)) == told, "emitted": [count for count, _ in told]}
    return [Figure("P7", what, _OURS, _KAFKA, timings, size, 1.0, notes=notes)]


def _updates(keys: int, size: int, number: int) -> data.Records:
    chance = np.random.default_rng(7 + number)
    ts = data.BASE_MS + number * data.DAY_MS + np.sort(chance.integers(0, data.DAY_MS, size))
    return data.Records(chance.integers(0, keys, size), ts, np.arange(size) % 1_000_000)


def _application(setting: Setting, root: str, bound: int) -> StreamingApplication:
    builder = StreamsBuilder()
    table = builder.table("in", Materialized.key_value("store"), key="key", value=["a"])
    limit = Suppressed.until_time_limit(f"{WAIT_MS} milliseconds", BufferConfig.max_records(bound))
    table.suppress(limit, name="held").to_changelog("out")
    source = SparkSource("parquet", {"path": f"{root}/in"}, schema=_SCHEMA, sequence_by="seq")
    return StreamingApplication(setting.spark, "suppression", builder.build(), f"{root}/tables", {"in": source})


def _emitted(setting: Setting, root: str) -> Sequence[tuple[int, int]]:
    rows = setting.spark.read.format("delta").load(f"{root}/tables/out").groupBy("_batch_id")
    told = rows.agg(F.count("*").alias("n"), F.sum(F.round(F.col("a") * 4).cast("long")).alias("a"))
    return [(row["n"], row["a"]) for row in told.orderBy("_batch_id").collect()]
