"""``versioned backfill`` and ``versioned rollback``: changing the tables of an application from outside its batches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobs.cli_shared import AsJson, Config, DryRunFlag, Sets, Work, commands, echo_json, quiet_session, sets_of
from jobs.exit_codes import BAD_DATA
from jobs.job_plan import plan_of
from jobs.settings import JobSettings, load
from jobs.tables import schema_of
from versioned.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streams.spark import StreamingApplication

changes = commands("Change the tables of an application from outside its batches.")

_FORMATS = ("parquet", "json", "csv", "orc", "delta")


@changes.command()
def rollback(
    config: Config,
    batch: Annotated[int, typer.Option("--batch", min=0, help="The last batch that stays, as the ledger counts.")],
    work: Work = Path(),
    sets: Sets = None,
    dry_run: DryRunFlag = False,
    json: AsJson = False,
) -> None:
    """Take all tables of an application back to the state after a batch; the next run goes on from there."""
    from streams.spark.rollback import rollback as rolled_back

    done = rolled_back(_application("rollback", config, work, sets), batch, dry_run=dry_run)
    echo_json(done.to_json()) if json else typer.echo(str(done))


@changes.command()
def backfill(
    config: Config,
    table: Annotated[str, typer.Option("--table", help="The versioned table, by its name below the root.")],
    source: Annotated[str, typer.Option("--from", help="Folder of the records, below the work folder.")],
    source_format: Annotated[str, typer.Option("--format", help=f"One of {', '.join(_FORMATS)}.")] = "parquet",
    schema: Annotated[str | None, typer.Option("--schema", help="Columns as DDL; needed for json and csv.")] = None,
    timestamp: Annotated[str, typer.Option("--timestamp", help="Column with the event time.")] = "ts",
    deleted: Annotated[str | None, typer.Option("--deleted", help="Column that is true for tombstones.")] = None,
    sequence: Annotated[str | None, typer.Option("--sequence", help="Column that orders the records.")] = None,
    work: Work = Path(),
    sets: Sets = None,
    dry_run: DryRunFlag = False,
    json: AsJson = False,
) -> None:
    """Put old history into a table of an application, however late it is; code 3 if records were rejected."""
    from streams.spark.backfill import backfill as filled

    app = _application("backfill", config, work, sets)
    records = _records(app.spark, work, source, source_format, schema)
    done = filled(app, table, records, timestamp=timestamp, deleted=deleted, sequence=sequence, dry_run=dry_run)
    said: dict[str, Any] = {"table": table, "version": done.version, **done.counts}
    if json:
        echo_json(said)
    else:
        typer.echo("\n".join(f"{name:<24} {value}" for name, value in said.items()))
    if done.counts["rejected"]:
        raise typer.Exit(BAD_DATA)


def _application(command: str, config: Path, work: Path, sets: list[str] | None) -> StreamingApplication:
    settings: JobSettings = load(config, None, sets_of(sets))
    plan = plan_of(settings)  # before Spark starts: what is wrong is told at once
    from jobs.run import application

    return application(quiet_session(command), settings, plan, work.resolve())


def _records(spark: SparkSession, work: Path, source: str, kind: str, schema: str | None) -> DataFrame:
    if kind not in _FORMATS:
        raise ConfigurationError(f"--format {kind}: use one of {', '.join(_FORMATS)}.")
    if schema is None and kind in ("json", "csv"):
        raise ConfigurationError(f"--schema: {kind} has no types of its own. Give the columns as DDL.")
    reader = spark.read.format(kind)
    return (reader if schema is None else reader.schema(schema_of(spark, schema))).load(str(work.resolve() / source))
