"""What a job would run and write, and what a start would refuse, without starting Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from jobs.run import application
from jobs.settings import JobSettings
from jobs.source_columns import check_sources, missing_places
from streams.nodes import Topology
from streams.spark import StreamingApplication
from streams.spark.explain import catalog_tables


@dataclass(frozen=True)
class DryRun:
    """What a job would do: its plan in words, the tables it writes, the Kafka topics it reads or sends to, the catalog
    tables it reads, and the files it would read that are missing."""

    application: str
    plan: str
    tables: tuple[str, ...]
    kafka: tuple[str, ...] = ()
    catalog: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        parts = {
            "Tables": self.tables,
            "Catalog": self.catalog,
            "Kafka": self.kafka,
            "Not there, so that a start would end": self.missing,
        }
        told = (["", f"{title}:", *(f"  {line}" for line in lines)] for title, lines in parts.items() if lines)
        return "\n".join([self.plan, *chain.from_iterable(told)])


def dry_run(settings: JobSettings, plan: Topology, work: Path) -> DryRun:
    """Find out what a job would do, without starting Spark.

    Raises:
        TopologyError, ConfigurationError: as :func:`unstarted` says.
    """
    app = unstarted(settings, plan, work)
    topics = tuple(f"{name}: {words}" for name, words in app.kafka_topics().items())
    read = catalog_tables(plan, {topic: source.table for topic, source in settings.sources.items()})
    catalog = tuple(f"{name}: {words}" for name, words in read.items())
    rejects = app.table("rejects")
    tables = [*(table for table in app.tables() if table != rejects), rejects, app.table("ledger")]
    missing = tuple(f"{name}: {place}" for name, place in missing_places(settings, work.resolve()).items())
    return DryRun(settings.application, plan.describe(), tuple(map(str, tables)), topics, catalog, missing)


def unstarted(settings: JobSettings, plan: Topology, work: Path) -> StreamingApplication:
    """The application that a run would start, after the checks that need no Spark.

    Raises:
        TopologyError: the Spark engine cannot run one of the nodes.
        ConfigurationError: a table name is reserved, used twice or invalid; ``kafka`` names something that is not a
            changelog sink; or the columns that a source declares do not fit the plan or its contract.
    """
    # An application does not use its session before it starts.
    found = application(cast(SparkSession, None), settings, plan, work.resolve())
    check_sources(settings, plan, work.resolve())
    return found
