"""``versioned backfill`` and ``versioned rollback``: change the tables of an application outside its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pyspark.errors import AnalysisException

from jobs.cli_shared import (
    AsJson,
    Config,
    DryRunFlag,
    Sets,
    Work,
    commands,
    echo_json,
    misfits_told,
    unstarted_app,
)
from jobs.exit_codes import BAD_DATA
from jobs.place_setting import of_catalog, to_read
from jobs.tables import columns_of_ddl
from streams.rollback_rules import others_undone
from streams.spark.reader_options import text_options
from versioned.errors import ConfigurationError
from versioned.session_settings import with_sound_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

changes = commands("Change the tables of an application outside its batches.")

_FORMATS = ("parquet", "json", "csv", "orc", "delta")
#: Formats without types of their own.
_TEXTS = ("json", "csv")


@changes.command()
def rollback(
    config: Config,
    batch: Annotated[int, typer.Option("--batch", min=0, help="The last batch to keep, by its id in the ledger.")],
    work: Work = Path(),
    sets: Sets = None,
    dry_run: DryRunFlag = False,
    json: AsJson = False,
) -> None:
    """Restore all tables of an application to the state after a batch. The next run continues from there."""
    from streams.spark.rollback import rollback as rolled_back

    done = rolled_back(unstarted_app("rollback", config, work, sets), batch, dry_run=dry_run)
    echo_json(done.to_json()) if json else typer.echo(str(done))


@changes.command()
def backfill(
    config: Config,
    table: Annotated[str, typer.Option("--table", help="Name of the versioned table, below the root.")],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="The records: a folder below the work folder, an address, or a table such as `catalog:main.old`.",
        ),
    ],
    source_format: Annotated[
        str | None, typer.Option("--format", help=f"File format, one of {', '.join(_FORMATS)}. Default: parquet.")
    ] = None,
    schema: Annotated[str | None, typer.Option("--schema", help="Columns as DDL; required for json and csv.")] = None,
    timestamp: Annotated[str, typer.Option("--timestamp", help="Column with the event time.")] = "ts",
    header: Annotated[bool, typer.Option("--header", help="CSV files start with a line of column names.")] = False,
    deleted: Annotated[
        str | None, typer.Option("--deleted", help="Boolean column that is true for tombstones.")
    ] = None,
    sequence: Annotated[
        str | None, typer.Option("--sequence", help="Column that orders the records. Default: the event time.")
    ] = None,
    work: Work = Path(),
    sets: Sets = None,
    dry_run: DryRunFlag = False,
    json: AsJson = False,
) -> None:
    """Load old history into a table of an application, however late it is. Exit code 3 if records were rejected.

    If a value in a JSON or CSV file does not fit the columns, the command fails and changes nothing.
    """
    from streams.spark.backfill import backfill as filled

    read, kind = _records(work, source, source_format, schema, header)
    app = unstarted_app("backfill", config, work, sets)
    with misfits_told(_misfit(source, kind)), _missing_told(source):
        records = read(app.spark)
    try:
        done = filled(app, table, records, timestamp=timestamp, deleted=deleted, sequence=sequence, dry_run=dry_run)
    except Exception:
        # A damaged file of the table raises the same error: read the records alone to see whether they are at fault.
        with misfits_told(_misfit(source, kind)):
            records.write.format("noop").mode("overwrite").save()
        raise
    said: dict[str, Any] = {"table": table, "version": done.version, **done.counts}
    undone = others_undone(done.by_others, dry_run=dry_run)
    if json:
        echo_json({**said, "by_others": done.by_others})
    else:
        typer.echo("\n".join([*(f"{name:<24} {value}" for name, value in said.items()), *undone]))
    if done.counts["rejected"]:
        raise typer.Exit(BAD_DATA)


def _records(
    work: Path, source: str, source_format: str | None, schema: str | None, header: bool
) -> tuple[Callable[[SparkSession], DataFrame], str]:
    """A function that reads the records, and their format (``table`` for a table of a catalog).

    Raises:
        ConfigurationError: as :func:`_options` says; or options for files are given with a table of a catalog.
    """
    table = of_catalog(source, "a table, such as main.shop.old_prices")
    if table is None:
        kind = source_format or "parquet"
        options, path = _options(kind, schema, header), to_read(work.resolve(), source, kind)

        def read(spark: SparkSession) -> DataFrame:
            if kind in _TEXTS:
                with_sound_texts(spark)
            # Only Spark parses DDL, and it starts after the settings are checked.
            return spark.read.load(path, kind, None if schema is None else columns_of_ddl(schema), **options)

        return read, kind
    of_files = {"--format": source_format, "--schema": schema, "--header": header}
    given = ", ".join(option for option, value in of_files.items() if value)
    if given:
        raise ConfigurationError(f"--from {source}: a table of a catalog has columns of its own. Leave out {given}.")
    return lambda spark: spark.read.table(table.sql), "table"


@contextmanager
def _missing_told(source: str) -> Iterator[None]:
    """Replace Spark's error for a missing path or table by one in the terms of the command.

    Raises:
        ConfigurationError: in place of that error.
    """
    try:
        yield
    except AnalysisException as error:
        if not any(said in str(error) for said in ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND")):
            raise
        raise ConfigurationError(
            f"--from {source}: there is nothing. A folder lies below --work, or is absolute; a table of a catalog has "
            "its full name behind catalog:."
        ) from None


def _misfit(source: str, kind: str) -> str:
    """
    >>> _misfit("old", "parquet").partition(". ")[0]
    '--from old: a file of it is damaged, or has other types than the rest'
    """
    if kind in _TEXTS:
        return (
            f"--from {source}: a value does not fit the columns of --schema, or a header is not as --header says. "
            "Nothing was changed. Mend the files, or read such columns as STRING."
        )
    return (
        f"--from {source}: a file of it is damaged, or has other types than the rest. Nothing was changed. Mend or "
        "remove the file."
    )


def _options(kind: str, schema: str | None, header: bool) -> dict[str, Any]:
    """Spark's read options for a format. In a text format, a value that does not fit its column is an error.

    Raises:
        ConfigurationError: the format is unknown, a text format lacks its columns, or ``header`` is set for a format
            other than csv.

    >>> told = _options("csv", "item STRING, price DOUBLE", header=True)
    >>> told["mode"], told["dateFormat"], told["enforceSchema"]
    ('FAILFAST', 'yyyy-M-d', 'false')
    """
    if kind not in _FORMATS:
        raise ConfigurationError(f"--format {kind}: use one of {', '.join(_FORMATS)}.")
    if schema is None and kind in _TEXTS:
        raise ConfigurationError(f"--schema: {kind} has no types of its own. Give the columns as DDL.")
    if header and kind != "csv":
        raise ConfigurationError(f"--header: only csv has one, not {kind}.")
    of_csv = {"header": header} if kind == "csv" else {}
    return {"mode": "FAILFAST", **of_csv, **text_options(kind, has_header=header)} if kind in _TEXTS else {}
