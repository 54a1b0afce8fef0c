"""P8: the smallest batch: 1,000 records through the quickstart's application, against as many bare commits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from benchmarks.measure import Figure, Timing
from benchmarks.setting import Setting
from jobs.flights import topics, write_files
from jobs.job_plan import plan_of
from jobs.run import application
from jobs.settings import load
from streams.spark import BatchReport
from versioned.table_log import history

RECORDS, BATCHES = 1_000, 12
_CONFIG = Path(__file__).parents[1] / "conf" / "quickstart.yaml"
_OURS, _PEER = "quickstart batch", "as many appends of 1,000 rows"


def compare(setting: Setting) -> list[Figure]:
    """P8: batches of about 1,000 records; then a query whose foreachBatch appends 1,000 rows to each of several tables.

    There are as many tables as a batch of ours makes commits. The first quarter of the batches is not counted. Both are
    timed by Spark's own ``triggerExecution``.
    """
    batches = 6 if setting.quick else BATCHES
    work = setting.folder("P8-ours")
    rows = _input(work / "input", batches)
    ours = _Quickstart(setting, work)
    seconds = ours.run()
    commits = ours.commits()
    peer = _bare_commits(setting, round(sum(commits) / len(commits)), batches)
    counted = {_OURS: seconds[batches // 4 :], _PEER: peer[batches // 4 :]}
    timings = {name: [Timing(each, setting.load()) for each in times] for name, times in counted.items()}
    notes = {
        "records per batch": round(rows / batches),
        "commits per batch": _spread(commits[batches // 4 :]),
        "Spark jobs per batch": _spread(ours.jobs[batches // 4 :]),
        "p50 and p95 seconds": {name: [_quantile(all_, 0.5), _quantile(all_, 0.95)] for name, all_ in counted.items()},
    }
    what = f"about {rows / batches:,.0f} records, {round(sum(commits) / len(commits))} commits a batch"
    return [Figure("P8", what, _OURS, _PEER, timings, 1, 2.0, "slower", notes=notes)]


def _input(folder: Path, batches: int) -> int:
    """The quickstart's files, cut so that a batch has about 1,000 records."""
    arrivals = pd.concat([rows["arrival"] for rows in topics().values()])
    # The register of aircraft comes whole with the first batch, besides its 1,000 records.
    first = arrivals.sort_values().iloc[: RECORDS * batches + 3_000].max()
    return sum(write_files(folder, batches, until=f"{first:%Y-%m-%d}").values())


class _Quickstart:
    def __init__(self, setting: Setting, work: Path) -> None:
        settings = load(_CONFIG)
        self._setting = setting
        self._app = application(setting.spark, settings, plan_of(settings), work, self._told)
        self._group = ""
        self._seen = -1
        self.jobs: list[int] = []
        self.batches: list[int] = []

    def run(self) -> list[float]:
        """Run all batches; return the seconds of each."""
        query = self._app.start()
        self._group = str(query.runId)
        query.awaitTermination()
        return [
            progress.durationMs["triggerExecution"] / 1_000
            for progress in query.recentProgress
            if progress.batchId in self.batches
        ]

    def commits(self) -> list[int]:
        """Commits per batch to all tables of the application, its ledger too."""
        targets = [*self._app.tables(), self._app.table("ledger")]
        told: dict[int, int] = {}
        for target in targets:
            for row in history(self._setting.spark, target, 10_000):
                number = _batch_of(row["userMetadata"])
                if number is not None:
                    told[number] = told.get(number, 0) + 1
        return [told.get(number, 0) for number in self.batches]

    def _told(self, report: BatchReport) -> None:
        # All jobs of a query, those of its threads too, run in the job group of its run. Spark forgets the oldest.
        tracker = self._setting.spark.sparkContext.statusTracker()
        new = [job for job in tracker.getJobIdsForGroup(self._group) if job > self._seen]
        self.jobs.append(len(new))
        self.batches.append(report.batch_id)
        self._seen = max(new, default=self._seen)


def _batch_of(metadata: str | None) -> int | None:
    said = json.loads(metadata or "null")
    return said.get("versioned", {}).get("batch") if isinstance(said, dict) else None


def _bare_commits(setting: Setting, commits: int, batches: int) -> list[float]:
    folder = setting.folder("P8-peer")
    (folder / "in").mkdir()
    _, rows = setting.records_of_one_batch(RECORDS, "P8-rows")
    for number in range(batches):
        shutil.copy(rows, folder / "in" / f"{number}.parquet")

    def write(frame: DataFrame, _: int) -> None:
        frame.persist()
        for number in range(commits):
            frame.write.format("delta").mode("append").save(str(folder / f"table-{number}"))
        frame.unpersist()

    read = setting.spark.readStream.schema("key BIGINT, ts TIMESTAMP, a DOUBLE, name STRING, seq BIGINT")
    writer = read.option("maxFilesPerTrigger", 1).parquet(str(folder / "in")).writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return [p.durationMs["triggerExecution"] / 1_000 for p in query.recentProgress if p.numInputRows]


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 2)


def _spread(values: list[int]) -> dict[str, Any]:
    return {"least": min(values), "median": sorted(values)[len(values) // 2], "most": max(values)}
