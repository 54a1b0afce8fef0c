"""``versioned suppress``: inspect what suppressions hold, drain them, or flush what is due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli_shared import (
    MOST_ROWS,
    AsJson,
    Config,
    DryRunFlag,
    Sets,
    Work,
    commands,
    echo_json,
    planned,
    progress,
    quiet_session,
)
from versioned.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.buffers import BufferState
    from jobs.settings import JobSettings
    from streams.nodes import Topology
    from streams.spark import BatchReport, StreamingApplication

suppress = commands("Inspect, drain and flush suppressions.")

Inspected = Annotated[list[str] | None, typer.Argument(help="Names of suppressions. Default: all.")]
Drained = Annotated[list[str], typer.Argument(help="Names of suppressions.")]


@suppress.command()
def inspect(
    config: Config,
    names: Inspected = None,
    work: Work = Path(),
    sets: Sets = None,
    rows: Annotated[
        int, typer.Option("--rows", min=0, max=MOST_ROWS, help="Show this many of the rows that leave first.")
    ] = 0,
    json: AsJson = False,
) -> None:
    """Show what suppressions hold: records, bytes, bounds, and when the next row leaves."""
    settings, plan = _checked(config, sets, names)
    spark = quiet_session("suppress inspect")
    _tell(spark, _held(spark, settings, plan, work, names), rows, json)


@suppress.command()
def drain(
    config: Config,
    names: Drained,
    work: Work = Path(),
    sets: Sets = None,
    dry_run: DryRunFlag = False,
    json: AsJson = False,
) -> None:
    """Process the available input, then emit all that these suppressions hold: before you remove them from the plan.

    Windows that are not final yet leave too. If the suppression stays, those that get more records are emitted again.
    """
    settings, plan = _checked(config, sets, names)
    spark = quiet_session("suppress drain")
    before = _held(spark, settings, plan, work, names)
    without = [buffer.name for buffer in before if not buffer.has_buffer]
    if without:
        raise ConfigurationError(f"{', '.join(without)}: holds no buffer to drain; a window leaves when it is final.")
    if not dry_run:
        _run(spark, settings, plan, work, lambda app: app.drain(*names), json)
    _tell(spark, before if dry_run else _held(spark, settings, plan, work, names), 0, json)


@suppress.command()
def flush(
    config: Config, work: Work = Path(), sets: Sets = None, dry_run: DryRunFlag = False, json: AsJson = False
) -> None:
    """Advance the wall clock once: process the available input and emit what is due, whatever the trigger."""
    settings, plan = _checked(config, sets, None)
    spark = quiet_session("suppress flush")
    if not dry_run:
        _run(spark, settings, plan, work, lambda app: app.run(), json)
    _tell(spark, _held(spark, settings, plan, work, None), 0, json)


def _checked(config: Path, sets: list[str] | None, names: list[str] | None) -> tuple[JobSettings, Topology]:
    """The settings and the plan; errors in them, or in the names, are raised before Spark starts."""
    from jobs.buffers import check_names, suppressions

    settings, plan = planned(config, sets)
    if not suppressions(plan):
        raise ConfigurationError(f'The plan of "{settings.application}" has no suppression.')
    check_names(plan, tuple(names or ()))
    return settings, plan


def _held(
    spark: SparkSession, settings: JobSettings, plan: Topology, work: Path, names: list[str] | None
) -> list[BufferState]:
    from jobs.buffers import buffers

    return buffers(spark, settings, plan, work, tuple(names or ()))


def _run(
    spark: SparkSession,
    settings: JobSettings,
    plan: Topology,
    work: Path,
    ask: Callable[[StreamingApplication], None],
    json: bool,
) -> None:
    from jobs.following import followed
    from jobs.progress import HEADER, batch_line
    from jobs.run import application

    with progress() as shown:
        bar = shown.add_task("batches", total=None)

        def show(report: BatchReport) -> None:
            shown.advance(bar)
            echo_json(asdict(report)) if json else typer.echo(batch_line(report))

        if not json:
            typer.echo(HEADER)
        app = application(spark, settings, plan, work.resolve(), show)
        with followed(app, settings, work.resolve(), show):
            ask(app)


def _tell(spark: SparkSession, told: list[BufferState], rows: int, json: bool) -> None:
    from jobs.buffers import held
    from jobs.tables import json_rows

    if json:
        for buffer in told:
            shown = json_rows(held(spark, buffer, rows), rows) if rows and buffer.records else []
            echo_json({**buffer.to_json(), **({"rows": shown} if rows else {})})
        return
    for buffer in told:
        typer.echo(str(buffer))
        if rows and buffer.records:
            held(spark, buffer, rows).show(rows, truncate=False)
