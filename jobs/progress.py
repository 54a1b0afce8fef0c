"""What a running job prints: one line per batch, and a readable summary at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from streams.spark import BatchReport, StreamingApplication
from versioned import spark_functions as F
from versioned.reading import read_table
from versioned.table_details import is_missing

HEADER = f"{'batch':>5}  {'records':>8}  {'late':>6}  {'rejected':>8}  {'emitted':>8}  {'seconds':>7}"


@dataclass
class Progress:
    """What a run has done so far: numbers only, since a run may go on for years."""

    batches: int = 0
    records: Counter[str] = field(default_factory=Counter)

    def add(self, report: BatchReport) -> None:
        """Count a batch."""
        self.batches += 1
        self.records.update(report.input)


def batch_line(report: BatchReport) -> str:
    """One batch in the columns of ``HEADER``; ``late`` counts records that came too late for a node."""
    emitted = sum(report.emitted.values())
    return (
        f"{report.batch_id:>5}  {report.records:>8,}  {report.late:>6,}  {report.rejected:>8,}  {emitted:>8,}  "
        f"{report.seconds:>7.1f}"
    )


def summary(app: StreamingApplication, done: Progress, frames: dict[str, DataFrame]) -> str:
    """A run in a few lines: what came in; and, over all runs, what was rejected and why, and the rows of each table."""
    lines = [
        f"{done.batches} micro-batches in this run: "
        + (", ".join(f"{n:,} {topic}" for topic, n in done.records.items()) or "no new input")
    ]
    reasons = _reasons(frames["rejects"]) if "rejects" in frames else []
    lines += [f"  put aside so far: {row['n']:>8,}  {row['node']}: {row['reason']}" for row in reasons]
    made = {name: frame for name, frame in frames.items() if name != "rejects"}
    lines += [f"  table {name:<22} {frame.count():>9,} rows" for name, frame in made.items()]
    said = "all of them are plain Delta tables in {}" if made else "no batch has made a table in {} yet"
    lines.append(f"  {said.format(app.root)}")
    return "\n".join(lines)


def application_frames(app: StreamingApplication) -> dict[str, DataFrame]:
    """The tables of an application by name, with the rejects, but without those that no batch has created yet."""
    there = [table for table in app.tables() if not is_missing(app.spark, table)]
    return {table.short_name: read_table(app.spark, table) for table in there}


def _reasons(rejects: DataFrame) -> list[dict[str, object]]:
    counted = rejects.groupBy("node", "reason").agg(F.count("*").alias("n")).orderBy("node", "reason")
    return [row.asDict() for row in counted.collect()]
