"""``BatchReport``: what is reported about a batch once it is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from streams.metrics import MetricValue
from streams.nodes import ChangelogSink, TableSink, Topology
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
    row: Mapping[str, Any],
    arrived: Mapping[str, int],
    rejected: int,
    metrics: Iterable[MetricValue],
) -> BatchReport:
    """The report of a batch, made from its row in the ledger.

    Args:
        topology: The plan, whose sinks' counts are reported as emitted.
        row: ``batch_id``, ``clock_us``, ``seconds``, and ``counts``: every count, as ``node.what``.
        arrived: The number of records of each topic.
        rejected: How many records went into the rejects table.
        metrics: The metrics after the batch.
    """
    counts: Mapping[str, int] = row["counts"]
    sinks = {f"{node.name}.emitted": node.name for node in topology if isinstance(node, (ChangelogSink, TableSink))}
    return BatchReport(
        row["batch_id"],
        instant(row["clock_us"]),
        dict(arrived),
        {name: counts[what] for what, name in sinks.items() if what in counts},
        sum(n for what, n in counts.items() if what.endswith(".late")),
        rejected,
        row["seconds"],
        dict(counts),
        tuple(metrics),
    )
