"""``spark-submit jobs/run.py --config conf/quickstart.yaml --work FOLDER``: run one application from its settings."""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.progress import HEADER, batch_line, summary, tables_of
from jobs.session import build_session
from jobs.settings import JobSettings, SourceSettings, load
from streams.nodes import Topology
from streams.spark import BatchReport, SparkSource, StreamingApplication
from versioned.errors import ConfigurationError, VersionedError


def application(
    spark: SparkSession,
    settings: JobSettings,
    plan: Topology,
    work: Path,
    on_batch: Callable[[BatchReport], None] | None = None,
) -> StreamingApplication:
    """The application that the settings describe; paths are below the work folder."""
    sources = {topic: _source(source, work) for topic, source in settings.sources.items()}
    return StreamingApplication(
        spark,
        settings.application,
        plan,
        str(work / settings.root),
        sources,
        order=settings.order,
        max_future_skew=settings.max_future_skew,
        on_batch=on_batch,
    )


def run(config: Path, work: Path) -> None:
    """Run the application, with a line per batch, a summary and, if the plan's module draws one, a picture."""
    settings = load(config)
    plan = plan_of(settings)  # before Spark starts: what is wrong is told at once
    started = time.monotonic()
    spark = build_session(settings.application)
    reports: list[BatchReport] = []

    def show(report: BatchReport) -> None:
        reports.append(report)
        print(batch_line(report), flush=True)

    app = application(spark, settings, plan, work.resolve(), show)
    print(HEADER, flush=True)
    app.run(settings.trigger)
    print(summary(app, reports, tables_of(app)))
    draw = getattr(importlib.import_module(settings.plan.split(":")[0]), "draw", None)
    if draw is not None:
        print(f"  picture: {draw(app, work)}")
    print(f"  {time.monotonic() - started:.0f} seconds")


def plan_of(settings: JobSettings) -> Topology:
    """The plan that the settings name, built with their ``plan_settings``.

    Raises:
        ConfigurationError: there is no such function, or it does not take these settings.
    """
    module, function = settings.plan.split(":")
    try:
        build = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"plan: {settings.plan} is not there: {error}") from error
    try:
        inspect.signature(build).bind(**settings.plan_settings)
    except TypeError as error:
        allowed = ", ".join(inspect.signature(build).parameters)
        raise ConfigurationError(f"plan_settings: {error}. {settings.plan} takes: {allowed}") from error
    plan: Topology = build(**settings.plan_settings)
    return plan


def _source(settings: SourceSettings, work: Path) -> SparkSource:
    options = dict(settings.options)
    if settings.path is not None:
        options["path"] = str(work / settings.path)
    return SparkSource(
        settings.format,
        options,
        settings.schema_ddl,
        partition_by=settings.partition_by,
        sequence_by=settings.sequence_by,
    )


def main() -> int:
    """Exit codes: 0 done, 1 failed, 2 wrong settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path(), help="folder of the input and the tables (default: here)")
    args = parser.parse_args()
    try:
        run(args.config, args.work)
    except ConfigurationError as error:
        print(f"Wrong settings: {error}", file=sys.stderr)
        return 2
    except VersionedError as error:
        print(f"Failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
