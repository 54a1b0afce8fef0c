"""Batches as the ledger records them, for callers that cannot be notified of each, such as Spark Connect clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streams.metrics import MetricValue
from streams.nodes import Topology, sources_of
from streams.options import Action
from streams.spark.batch_report import BatchReport, batch_report
from streams.spark.ledger import Ledger, is_later
from versioned import spark_functions as F

_TOLD: Final = ("batch_id", "seconds", "counts", "metrics")


def told_after(
    ledger: Ledger,
    topology: Topology,
    action: Callable[[str, str], Action],
    after: tuple[int, int],
    until: tuple[int, int] | None,
) -> list[BatchReport]:
    """The reports of batches after one, up to another, from the ledger; oldest first.

    Args:
        ledger: The ledger, which must exist.
        topology: The plan of these batches.
        action: The action for records that a node puts aside for a reason.
        after: Epoch and batch after which to begin.
        until: Epoch and batch of the last one; None = the newest.
    """
    is_asked = is_later(after)
    if until is not None:
        is_asked = is_asked & ~is_later(until)
    rows = ledger.batches().where(is_asked).orderBy("epoch", "batch_id")
    told = rows.select(*_TOLD, F.unix_micros("clock").alias("clock_us")).collect()
    return [report_of(row.asDict(recursive=True), topology, action) for row in told]


def report_of(row: Mapping[str, Any], topology: Topology, action: Callable[[str, str], Action]) -> BatchReport:
    """The report from one row of the ledger, the same as the batch's own; only topics with records are in ``input``.

    Args:
        row: The row's batch, seconds, counts and metrics, and its clock in microseconds.
        topology: The plan of the batch.
        action: The action for records that a node puts aside for a reason.
    """
    counts: Mapping[str, int] = row["counts"]
    came = {node.topic: counts.get(f"{node.name}.input", 0) for node in sources_of(topology)}
    arrived = {topic: n for topic, n in came.items() if n}
    rejected = sum(_rejected(node.name, counts, action) for node in topology)
    metrics = (MetricValue(m["name"], m["level"], m["group"], dict(m["tags"]), m["value"]) for m in row["metrics"])
    return batch_report(topology, row, arrived, rejected, metrics)


def _rejected(node: str, counts: Mapping[str, int], action: Callable[[str, str], Action]) -> int:
    """How many records of a node went into the rejects table; other records put aside were dropped."""
    prefix = f"{node}.put_aside."
    asides = {what.removeprefix(prefix): n for what, n in counts.items() if what.startswith(prefix)}
    return sum(n for reason, n in asides.items() if action(node, reason) == "reject")
