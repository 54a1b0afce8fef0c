"""``versioned table``: create versioned tables and query them along valid time."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer
import yaml

from jobs.cli_picture import Target, timeline
from jobs.cli_shared import MOST_ROWS, AsJson, DryRunFlag, commands, echo_json, pairs_of, quiet_session
from jobs.forgotten import warn_if_forgotten
from jobs.tables import columns_of_ddl, described, instant_of, json_rows, key_as_frame, opened, place_of, promise
from versioned.adding import widened
from versioned.durations import Resolution
from versioned.identifiers import TableRef
from versioned.making import check_new
from versioned.schema import values_of
from versioned.spec import TimeScope, VersionedTableSpec
from versioned.table import VersionedTable

table = commands("Create and read versioned tables.")
# Where one looks for it, beside the other pictures.
table.command()(timeline)

Limit = Annotated[int, typer.Option("--limit", min=1, max=MOST_ROWS, help="Show at most this many rows.")]


@table.command()
def create(
    target: Target,
    schema: Annotated[str, typer.Option("--schema", help='Key and value columns as DDL: "item STRING, price DOUBLE".')],
    keys: Annotated[str, typer.Option("--keys", help="Key columns, separated by commas.")],
    history_retention: Annotated[
        str,
        typer.Option(
            "--history-retention", help='How far behind stream time versions can be looked up, such as "30 days".'
        ),
    ],
    grace: Annotated[
        str | None, typer.Option("--grace", help="How late a record may be. Default: the history retention.")
    ] = None,
    time_scope: Annotated[
        TimeScope,
        typer.Option("--time-scope", help="The scope whose largest timestamp is stream time."),
    ] = "partition",
    time_resolution: Annotated[
        Literal["microsecond", "millisecond"],
        typer.Option("--time-resolution", help="Resolution of the stored instants; Kafka's is milliseconds."),
    ] = "microsecond",
    system_history: Annotated[
        bool,
        typer.Option("--system-history", help="Also keep every accepted record with its system time, for --known-at."),
    ] = False,
    dry_run: DryRunFlag = False,
    json: AsJson = False,
) -> None:
    """Create an empty versioned table."""
    spark = quiet_session("table create")
    options: dict[str, Any] = {
        "keys": tuple(name.strip() for name in keys.split(",")),
        "history_retention": history_retention,
        "grace": grace,
        "time_scope": time_scope,
        "time_resolution": Resolution[time_resolution.upper()],
        "system_history": system_history,
    }
    columns = columns_of_ddl(schema)
    if dry_run:
        spec = VersionedTableSpec.of(values=values_of(columns.names, options["keys"]), **options)
        check_new(spark, TableRef.parse(place_of(target)), columns, spec)
        _tell({"table": target, **promise(spec), "created": False}, json)
        return
    made = VersionedTable.create(spark, place_of(target), columns, **options)
    warn_if_forgotten(spark, made.target, f"./{made.target.short_name}")
    _tell({"table": str(made.target), **promise(made.spec), "created": True}, json)


@table.command()
def describe(target: Target, json: AsJson = False) -> None:
    """Show the settings and state of a table: keys, retention, versions, stream times, horizon."""
    _tell(described(opened(quiet_session("table describe"), target)), json)


@table.command("add-columns")
def add_columns(
    target: Target,
    schema: Annotated[str, typer.Option("--schema", help='The new columns as DDL: "source STRING, quality INT".')],
    dry_run: DryRunFlag = False,
    json: AsJson = False,
) -> None:
    """Add value columns, null in existing rows, to a versioned table that no application owns."""
    spark = quiet_session("table add-columns")
    asked, columns = opened(spark, target), columns_of_ddl(schema)
    if dry_run:
        spec = widened(spark, asked.target, asked.spec, columns)
    else:
        asked.add_columns(columns)
        spec = asked.spec
    _tell({"table": str(asked.target), **promise(spec), "added": not dry_run}, json)


@table.command("as-of")
def as_of(
    target: Target,
    instant: Annotated[str, typer.Argument(help="In ISO form, such as 2013-01-02T12:00:00Z. UTC if it has no zone.")],
    known_at: Annotated[
        str | None, typer.Option("--known-at", help="As known at this instant; requires a table with system history.")
    ] = None,
    limit: Limit = 40,
    json: AsJson = False,
) -> None:
    """Show the version of each key that was valid at an instant."""
    at, known = instant_of(instant), None if known_at is None else instant_of(known_at)
    asked = opened(quiet_session("table as-of"), target)
    _show(asked.as_of(at, known_at=known).orderBy(*asked.spec.keys), limit, json)


@table.command()
def history(
    target: Target,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", help="A key column and its value: item=tea; for a key of several columns, give it several times."
        ),
    ] = None,
    start: Annotated[str | None, typer.Option("--from", help="Versions valid at or after this instant.")] = None,
    end: Annotated[str | None, typer.Option("--until", help="Versions valid at or before this instant.")] = None,
    limit: Limit = 40,
    json: AsJson = False,
) -> None:
    """Show the versions of a key, or of all keys, in order of time."""
    bounds = [None if said is None else instant_of(said) for said in (start, end)]
    said = pairs_of(key, "--key")
    asked = opened(quiet_session("table history"), target)
    _show(asked.history(key_as_frame(asked, said), *bounds), limit, json)


def _tell(said: dict[str, Any], json: bool) -> None:
    if json:
        echo_json(said)
    else:
        typer.echo(yaml.safe_dump(said, sort_keys=False, width=120).rstrip())


def _show(frame: Any, limit: int, json: bool) -> None:
    if not json:
        frame.show(limit, truncate=False)
        return
    for row in json_rows(frame, limit):
        echo_json(row)
