"""Does a stream stay as it began? ``python -m benchmarks.soak [--batches 200] [--minutes 8]``.

An application whose state stays the same size (the same keys, one hour of history, a join, a changelog) runs batch
after batch in one query, with upkeep in a thread beside it (verify, purge, compaction, vacuum). It prints, as JSON:
batch times of the first and the last 50 batches after warm-up, the memory of the driver (Python and the JVM below it)
then, what is live on the heap after a collection, files and rows of each table, and what upkeep did. Give it a machine
of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.maintain_settings import MaintainSettings
from jobs.maintenance import Upkeep, beside
from jobs.session import build_session
from streams.expressions import trace
from streams.nodes import ChangelogSink, Materialized, StreamSource, StreamTableJoin, TableSource, Topology
from streams.spark import BatchReport, SparkSource, StreamingApplication

KEYS = 500
RECORDS = 500
PART = 50
_SCHEMAS = {"orders": "seq LONG, item INT, ts TIMESTAMP", "prices": "seq LONG, item INT, price DOUBLE, ts TIMESTAMP"}
_START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def topology() -> Topology:
    """A plan that joins orders to the price valid at their time; prices keep an hour of versions."""
    history = Materialized(history_retention=timedelta(hours=1))
    prices = TableSource("prices", topic="prices", key=("item",), value=("price",), materialized=history)
    orders = StreamSource("orders", topic="orders", key=("item",), value=("seq",))
    joiner = trace(lambda left, right: {"order": left.seq, "price": right.price}, "left", "right")
    joined = StreamTableJoin("priced", (orders, prices), kind="left", joiner=joiner)
    return Topology((prices, orders, joined, ChangelogSink("priced_orders", (joined,))))


def write_input(folder: Path, batches: int) -> None:
    """Write a file per topic and batch, each of five minutes of event time; every tenth record is half an hour late."""
    for number in range(batches):
        for topic in _SCHEMAS:
            (folder / topic).mkdir(parents=True, exist_ok=True)
            lines = [json.dumps(_record(number, place, topic)) for place in range(RECORDS)]
            file = folder / topic / f"{number:05}.json"
            file.write_text("\n".join(lines), encoding="utf-8")
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def _record(number: int, place: int, topic: str) -> dict[str, Any]:
    late = 1_800 if place % 10 == 0 else 0
    at = _START + timedelta(seconds=300 * number + 300 * place / RECORDS - late)
    said = {"seq": (number * RECORDS + place) * 2 + (topic == "orders"), "item": place * 7 % KEYS, "ts": at.isoformat()}
    return said | ({"price": number + place / RECORDS} if topic == "prices" else {})


class Memory:
    """Resident memory of this process and of the JVM below it, and what is live on the JVM's heap, in MiB."""

    def __init__(self) -> None:
        below = subprocess.run(["pgrep", "-P", str(os.getpid()), "java"], capture_output=True, text=True, check=False)
        self.java = int(below.stdout.split()[0])

    def resident(self) -> dict[str, float]:
        """Resident memory now, per process."""
        return {"python": _resident(os.getpid()), "java": _resident(self.java)}

    def live(self) -> float | None:
        """What is live on the heap after a collection; None if jcmd or jstat is missing or fails."""
        try:
            subprocess.run(["jcmd", str(self.java), "GC.run"], capture_output=True, check=True)
            told = subprocess.run(["jstat", "-gc", str(self.java)], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return None
        names, values = (line.split() for line in told.splitlines()[:2])
        used = dict(zip(names, values, strict=True))
        return round(sum(float(used[name].replace("-", "0")) for name in ("S0U", "S1U", "EU", "OU")) / 1024, 1)


def _resident(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return round(kib / 1024, 1)


class Watch:
    """Measures after each batch, and sets ``done`` after the last one."""

    def __init__(self, batches: int, memory: Memory) -> None:
        self.ends: list[float] = []
        self.resident: list[dict[str, float]] = []
        self.live: dict[int, float | None] = {}
        self.done = threading.Event()
        self._batches, self._memory = batches, memory

    def __call__(self, report: BatchReport) -> None:
        self.ends.append(time.monotonic())
        self.resident.append(self._memory.resident())
        if len(self.ends) in (PART, self._batches):
            self.live[len(self.ends)] = self._memory.live()
        if len(self.ends) >= self._batches:
            self.done.set()

    def told(self) -> dict[str, Any]:
        """Figures of the first and the last batches; the very first one is warm-up."""
        spent = [after - before for before, after in zip(self.ends, self.ends[1:], strict=False)]
        first, last = spent[:PART], spent[-PART:]
        return {
            "batches": len(self.ends),
            "first_seconds": _quantiles(first),
            "last_seconds": _quantiles(last),
            "all_seconds": _quantiles(spent),
            "resident_mib": {"batch 50": self.resident[min(PART, len(self.resident)) - 1], "end": self.resident[-1]},
            "live_heap_mib": self.live,
        }


def _quantiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {"p50": round(cuts[9], 2), "p95": round(cuts[18], 2), "max": round(max(seconds), 2)}


def soak(spark: SparkSession, work: Path, batches: int, seconds: float) -> dict[str, Any]:
    """Run the batches with upkeep beside them, or as many as the time allows."""
    write_input(work / "in", batches)
    sources = {
        topic: SparkSource(
            "json", {"path": str(work / "in" / topic), "maxFilesPerTrigger": "1"}, kind, sequence_by="seq"
        )
        for topic, kind in _SCHEMAS.items()
    }
    watch, kept = Watch(batches, Memory()), list[Upkeep]()
    app = StreamingApplication(spark, "soak", topology(), str(work / "out"), sources, order="sequence", on_batch=watch)
    settings = MaintainSettings(root="out", vacuum=True, every=timedelta(seconds=20))
    ends = time.monotonic() + seconds
    with beside(spark, settings, work, kept.append):
        query = app.start("100 milliseconds")
        while not watch.done.wait(0.5) and query.isActive and time.monotonic() < ends:
            pass
        failed = query.exception()
        query.stop()
    told = watch.told() | {"failed": None if failed is None else str(failed)[:500]}
    return told | {"upkeep": _upkeep_told(kept), "tables": _tables(spark, app)}


def _upkeep_told(kept: list[Upkeep]) -> dict[str, Any]:
    did = Counter(what for one in kept for what in one.done)
    wrong = [str(one) for one in kept if one.failed or one.broken]
    return {"passes": sum(one.table == "prices" for one in kept), **did, "failed": wrong}


def _tables(spark: SparkSession, app: StreamingApplication) -> dict[str, Any]:
    told = {}
    for target in (*app.tables(), app.table("ledger")):
        detail = spark.sql(f"DESCRIBE DETAIL {target.sql}").collect()[0]
        rows = spark.read.format("delta").load(str(target)).count()
        told[target.short_name] = {"files": detail["numFiles"], "rows": rows}
    return told


def main() -> int:
    """Print the figures; exit code 1 if a batch or upkeep failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=8.0)
    args = parser.parse_args()
    settings = {"spark.driver.memory": "1g", "spark.sql.ui.retainedExecutions": "20", "spark.ui.retainedJobs": "50"}
    with tempfile.TemporaryDirectory() as folder:
        spark = build_session("soak", settings | {"spark.sql.warehouse.dir": f"{folder}/warehouse"})
        spark.sparkContext.setLogLevel("ERROR")
        told = soak(spark, Path(folder), args.batches, args.minutes * 60)
        spark.stop()
    print(json.dumps(told, indent=1))
    return 0 if told["failed"] is None and not told["upkeep"]["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
