"""What a job would run and write, found out without starting Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobs.settings import JobSettings
from streams.nodes import Topology
from streams.spark.engine import operators_of
from versioned.identifiers import TableRef


@dataclass(frozen=True)
class DryRun:
    """The plan in words and the tables that it writes."""

    application: str
    plan: str
    tables: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([self.plan, "", "Tables:", *(f"  {table}" for table in self.tables)])


def dry_run(settings: JobSettings, plan: Topology, work: Path) -> DryRun:
    """The plan and the tables of a job.

    Raises:
        TopologyError: the Spark engine does not run one of the nodes.
    """
    root = TableRef.parse(str(work.resolve() / settings.root))
    owned = [table for operator in operators_of(plan).values() for table in operator.tables(root)]
    tables = [*owned, root.child("rejects"), root.child("ledger")]
    return DryRun(settings.application, plan.describe(), tuple(dict.fromkeys(map(str, tables))))
