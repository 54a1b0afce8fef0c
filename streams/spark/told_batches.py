"""Batches as the ledger tells them: for who cannot be called after each, such as a client of Spark Connect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from streams.metrics import MetricValue
from streams.nodes import ChangelogSink, GlobalTableSource, StreamSource, TableSink, TableSource, Topology
from streams.spark.batch_report import BatchReport
from streams.spark.contract import Action
from streams.spark.ledger import Ledger
from versioned import spark_functions as F
from versioned.durations import instant

_SOURCES: Final = (StreamSource, TableSource, GlobalTableSource)
_TOLD: Final = ("batch_id", "seconds", "counts", "metrics")


def told_after(
    ledger: Ledger, topology: Topology, action: Callable[[str, str], Action], after: tuple[int, int]
) -> list[BatchReport]:
    """What the ledger has of batches after one, oldest first.

    Args:
        ledger: It is there.
        topology: The plan of these batches.
        action: What becomes of records that a node puts aside for a reason.
        after: An epoch and a batch of it.
    """
    epoch, batch_id = after
    is_newer = (F.col("epoch") > epoch) | ((F.col("epoch") == epoch) & (F.col("batch_id") > batch_id))
    # An epoch begins with a row of no batch.
    rows = ledger.rows().where(is_newer & (F.col("batch_id") >= 0)).orderBy("epoch", "batch_id")
    told = rows.select(*_TOLD, F.unix_micros("clock").alias("clock_us")).collect()
    return [report_of(row.asDict(recursive=True), topology, action) for row in told]


def report_of(row: Mapping[str, Any], topology: Topology, action: Callable[[str, str], Action]) -> BatchReport:
    """The report that one row of the ledger tells: as that of the batch itself, but for topics without a record.

    Args:
        row: Its batch, seconds, counts and metrics, and its clock in microseconds.
        topology: The plan of the batch.
        action: What becomes of records that a node puts aside for a reason.
    """
    counts: Mapping[str, int] = row["counts"]

    def of(node: str, what: str) -> int:
        return counts.get(f"{node}.{what}", 0)

    came = {node.topic: of(node.name, "input") for node in topology if isinstance(node, _SOURCES)}
    sinks = [node.name for node in topology if isinstance(node, (ChangelogSink, TableSink))]
    return BatchReport(
        row["batch_id"],
        instant(row["clock_us"]),
        {topic: n for topic, n in came.items() if n},
        {name: of(name, "emitted") for name in sinks if f"{name}.emitted" in counts},
        sum(of(node.name, "late") for node in topology),
        sum(_rejected(node.name, counts, action) for node in topology),
        row["seconds"],
        dict(counts),
        _metrics(row["metrics"]),
    )


def _rejected(node: str, counts: Mapping[str, int], action: Callable[[str, str], Action]) -> int:
    """How many records of a node are among the rejects; others of those put aside were dropped."""
    prefix = f"{node}.put_aside."
    asides = {what.removeprefix(prefix): n for what, n in counts.items() if what.startswith(prefix)}
    return sum(n for reason, n in asides.items() if action(node, reason) == "reject")


def _metrics(told: Sequence[Mapping[str, Any]]) -> tuple[MetricValue, ...]:
    return tuple(MetricValue(m["name"], m["level"], m["group"], dict(m["tags"]), m["value"]) for m in told)
