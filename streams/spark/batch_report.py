"""What is told of a batch once it has landed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from streams.metrics import MetricValue
from streams.nodes import ChangelogSink, TableSink, Topology
from streams.spark.flow import NodeReport
from streams.spark.operator import Batch
from versioned.durations import instant


@dataclass(frozen=True)
class BatchReport:
    """What one micro-batch did. ``input`` counts records per topic, ``emitted`` rows per sink."""

    batch_id: int
    clock: datetime
    input: Mapping[str, int]
    emitted: Mapping[str, int]
    late: int
    rejected: int
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    metrics: tuple[MetricValue, ...] = ()

    @property
    def records(self) -> int:
        """All input records."""
        return sum(self.input.values())


def batch_report(
    topology: Topology,
    batch: Batch,
    reports: Mapping[str, NodeReport],
    arrived: Mapping[str, int],
    seconds: float,
    counts: Mapping[str, int],
    metrics: Sequence[MetricValue],
) -> BatchReport:
    """The report of a batch, out of those of its nodes.

    Args:
        topology: The plan; only its sinks are said to emit.
        batch: The batch.
        reports: What each node told.
        arrived: The number of records of each topic.
        seconds: How long the batch took.
        counts: Every count, as ``node.what``.
        metrics: The metrics after the batch.
    """
    sinks = [node.name for node in topology if isinstance(node, (ChangelogSink, TableSink))]
    return BatchReport(
        batch.batch_id,
        instant(batch.clock_us),
        dict(arrived),
        {name: reports[name].counts["emitted"] for name in sinks if "emitted" in reports[name].counts},
        sum(report.counts.get("late", 0) for report in reports.values()),
        sum(batch.rejected.values()),
        seconds,
        counts,
        tuple(metrics),
    )
