"""``versioned erase``: remove a data subject from every table of an application, with a receipt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli_shared import AsJson, Config, DryRunFlag, Sets, Work, echo_json, pairs_of, planned, quiet_session
from jobs.subjects_file import Given, Subject, subjects_in
from versioned.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streams.spark.erase import ErasedTable, ErasureReceipt

Key = Annotated[
    list[str] | None,
    typer.Option("--key", help="A column and its value: customer=17. If given several times, all must match."),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--keys", help="A CSV file with a header and one subject per line. Keeps values out of the shell's history."
    ),
]
Also = Annotated[
    list[str] | None,
    typer.Option("--also", help="Another name of a column in the plan: customer=buyer. May be given several times."),
]


def erase(
    config: Config,
    key: Key = None,
    keys: KeyFile = None,
    also: Also = None,
    work: Work = Path(),
    sets: Sets = None,
    dry_run: DryRunFlag = False,
    json: AsJson = False,
) -> None:
    """Remove a subject's rows from every table of an application that is not running, and print a receipt.

    The rows are gone at once; the first vacuum on or after the day that the receipt names removes their files. The
    sources are left unchanged.
    """
    settings, plan = planned(config, sets)
    names = _names(also)
    if (keys is None) == (key is None):
        raise ConfigurationError("Say whom: --key name=value, or --keys FILE.")
    if keys is not None and not keys.is_file():
        raise ConfigurationError(f"--keys {keys}: there is no such file.")
    said = pairs_of(key, "--key", ", or several subjects in a file: --keys FILE")
    given: Given = subjects_in(keys) if keys is not None else (list(said), [tuple(said.values())])
    from jobs.run import application
    from streams.spark.erase import erase as erased

    spark = quiet_session("erase")
    subjects = _frame(spark, *given)
    receipt = erased(application(spark, settings, plan, work.resolve()), subjects, also=names, dry_run=dry_run)
    echo_json(receipt.to_json()) if json else _tell(receipt)


def _names(also: list[str] | None) -> dict[str, list[str]]:
    """
    >>> _names(["item=product", "item=article"])
    {'item': ['product', 'article']}
    """
    found: dict[str, list[str]] = {}
    for text in also or ():
        for name, other in pairs_of([text], "--also").items():
            found.setdefault(name, []).append(other)
    return found


def _frame(spark: SparkSession, columns: list[str], subjects: list[Subject]) -> DataFrame:
    from pyspark.sql.types import StringType, StructField, StructType

    return spark.createDataFrame(subjects, StructType([StructField(name, StringType()) for name in columns]))


def _tell(receipt: ErasureReceipt) -> None:
    for table in receipt.tables:
        typer.echo(_line(table, receipt.dry_run))
    said = "would go" if receipt.dry_run else "are gone"
    typer.echo(f"{receipt.rows:,} rows of {receipt.application} {said}, by {', '.join(receipt.names)}.")
    if receipt.subjects_found < receipt.subjects:
        typer.echo(
            f"{receipt.subjects - receipt.subjects_found:,} of {receipt.subjects:,} subjects have no row in any of the "
            "tables: see that their values are written as the tables have them, and under all names (--also)."
        )
    if receipt.not_searched:
        typer.echo(_not_searched(receipt.not_searched))
    if receipt.files_gone is not None:
        them = "them" if receipt.rows else "rows that were removed before"
        typer.echo(
            f"From {receipt.files_gone} on a vacuum leaves no file with {them}: versioned maintain, vacuum: true."
        )
    if receipt.log_gone is not None:
        typer.echo(
            f"Until the first checkpoint from {receipt.log_gone} on logs may tell values of columns that were not "
            "always among pii_columns."
        )


def _not_searched(names: tuple[str, ...]) -> str:
    """
    >>> _not_searched(("sold", "prices_emitted"))
    'Not searched, as the plan does not write them: sold, prices_emitted. Delete what is yours and not needed.'
    >>> _not_searched(("*",))
    'The tables below the root cannot be listed: whatever the plan does not write was not searched.'
    """
    from streams.spark.tables_below import ANY

    if names == (ANY,):
        return "The tables below the root cannot be listed: whatever the plan does not write was not searched."
    return f"Not searched, as the plan does not write them: {', '.join(names)}. Delete what is yours and not needed."


def _line(table: ErasedTable, dry_run: bool) -> str:
    """
    >>> from streams.spark.erase import ErasedTable
    >>> _line(ErasedTable("prices", ("item",), 2, 7), False)
    'prices                   2 rows, version 7 (item)'
    >>> _line(ErasedTable("totals"), False)
    'totals                   not searched: it has no such columns'
    """
    if not table.fields:
        return f"{table.table:<24} not searched: it has no such columns"
    version = "" if table.version is None else f", version {table.version}"
    return f"{table.table:<24} {table.rows:,} rows{'' if dry_run else version} ({', '.join(table.fields)})"
