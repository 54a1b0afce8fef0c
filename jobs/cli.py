"""``versioned``: the command line of the library. ``versioned --help`` lists the commands.

Exit codes: 0 if all went well, 1 if something failed, 2 for wrong usage or configuration, 3 for problems in the data.
The program runs on its own, or as ``spark-submit jobs/cli.py ...`` with the settings given to spark-submit.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobs.cli_backfill import changes
from jobs.cli_conf import conf
from jobs.cli_erase import erase
from jobs.cli_picture import picture, picture_file, saved
from jobs.cli_shared import (
    AddColumns,
    AsJson,
    Config,
    DryRunFlag,
    NewEpoch,
    Sets,
    Work,
    commands,
    echo_json,
    planned,
    progress,
    quiet_session,
    sets_of,
)
from jobs.cli_suppress import suppress
from jobs.cli_tables import table
from jobs.cli_validate import validate
from jobs.exit_codes import BAD_DATA
from jobs.job_plan import plan_as_json
from jobs.settings import load_of
from streams.nodes import Topology
from versioned.installed import version_of

if TYPE_CHECKING:
    from jobs.settings import JobSettings
    from streams.spark import BatchReport

app = commands("Versioned tables and suppression for Spark on Delta Lake.")
app.add_typer(conf, name="conf")
app.add_typer(table, name="table")
app.add_typer(changes)
app.command()(validate)
app.command()(erase)
app.add_typer(suppress, name="suppress")
app.add_typer(picture, name="picture")


def _tell_versions(wanted: bool) -> None:
    if wanted:
        typer.echo(", ".join(f"{name} {version_of(name)}" for name in ("delta-versioned", "pyspark", "delta-spark")))
        raise typer.Exit


@app.callback()
def versioned(
    versions: Annotated[
        bool, typer.Option("--version", callback=_tell_versions, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    """Versioned tables and suppression for Spark on Delta Lake."""


@app.command()
def run(
    config: Config,
    work: Work = Path(),
    sets: Sets = None,
    new_epoch: NewEpoch = False,
    add_columns: AddColumns = False,
    dry_run: DryRunFlag = False,
    json: AsJson = False,
) -> None:
    """Run an application from its settings. With --json, print one line per batch and one about the tables."""
    settings, plan = planned(config, sets)
    if dry_run:
        from jobs.dry_run import dry_run as tried

        found = tried(settings, plan, work)
        echo_json(found.to_json()) if json else typer.echo(str(found))
        return
    _run(settings, plan, work, json, new_epoch=new_epoch, add_columns=add_columns)


@app.command()
def describe(
    config: Config,
    sets: Sets = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Also draw the plan into this file.")] = None,
    json: AsJson = False,
) -> None:
    """Print the plan of an application: every node with its options, windows and buffers."""
    plan = planned(config, sets)[1]
    if svg is not None:
        saved(plan.picture(), picture_file(svg, "--svg"), "--svg")
    echo_json(plan_as_json(plan)) if json else typer.echo(plan.describe())


@app.command()
def maintain(
    config: Config, work: Work = Path(), sets: Sets = None, dry_run: DryRunFlag = False, json: AsJson = False
) -> None:
    """Check, purge, compact and vacuum the tables of an application. Exit code 3 if rows break an invariant."""
    from jobs.maintain_settings import MaintainSettings
    from jobs.maintenance import Upkeep
    from jobs.maintenance import maintain as looked_after
    from jobs.named_tables import name_of, tables_of

    settings = load_of(MaintainSettings, config, sets_of(sets))
    is_once = dry_run or settings.every is None
    # Repeated upkeep looks for the tables in each pass: the stream may not have created them yet.
    targets = tables_of(settings, work, lambda: quiet_session("maintain")) if is_once else []
    if dry_run:
        for target in targets:
            echo_json({"table": name_of(target)}) if json else typer.echo(target)
        return
    with progress() as shown:
        bar = shown.add_task("tables", total=len(targets) if is_once else None)

        def tell(kept: Upkeep) -> None:
            shown.advance(bar)
            echo_json(kept.to_json()) if json else typer.echo(str(kept))

        kept = looked_after(quiet_session("maintain"), settings, work, tell, None, targets)
    if any(table.broken for table in kept):
        raise typer.Exit(BAD_DATA)


@app.command()
def doctor(config: Config, work: Work = Path(), sets: Sets = None, json: AsJson = False) -> None:
    """Check the ledger, checkpoint and tables of an application, and say what to do. Exit code 3 on any problem."""
    settings, _ = planned(config, sets)
    from jobs.diagnosis import diagnosed

    found = diagnosed(quiet_session("doctor"), settings, work)
    echo_json(found.to_json()) if json else typer.echo(str(found))
    if not found.is_healthy:
        raise typer.Exit(BAD_DATA)


def _run(settings: JobSettings, plan: Topology, work: Path, json: bool, **once: bool) -> None:
    from jobs.following import run_followed
    from jobs.progress import HEADER, Progress, application_frames, batch_line
    from jobs.run import application, print_summary

    done = Progress()
    with progress() as shown:
        bar = shown.add_task("starting Spark", total=None)

        def show(report: BatchReport) -> None:
            done.add(report)
            echo_json(asdict(report)) if json else typer.echo(batch_line(report))
            shown.update(bar, description=f"{done.batches} batches, {done.records.total():,} records")

        app = application(quiet_session(settings.application), settings, plan, work.resolve(), show, **once)
        if not json:
            typer.echo(HEADER)
        run_followed(app, settings, work.resolve(), show)
    if not json:
        print_summary(app, settings, work, done)
        return
    rows: dict[str, Any] = {name: frame.count() for name, frame in application_frames(app).items()}
    echo_json({"application": settings.application, "root": str(app.root), "tables": rows})


def main() -> None:
    """Run the command ``versioned``. It returns on success: a wheel task may treat any exit as a failure."""
    try:
        app()
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    main()
