"""Shared parts of the commands: options, output and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn
from typer.core import TyperGroup

from jobs.exit_codes import EXPECTED, exit_code, reason
from jobs.place_setting import work_folder
from versioned.errors import ConfigurationError, RecordError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.settings import JobSettings
    from streams.nodes import Topology
    from streams.spark import StreamingApplication

#: The most rows that Spark can be asked to show: it counts them in 32 bits.
MOST_ROWS: Final = 2**31 - 1
#: Spark's error conditions for files that cannot be read as declared.
_MISFITS: Final = ("FAILED_READ_FILE", "MALFORMED_RECORD")

Config = Annotated[Path, typer.Option("--config", "-c", help="YAML file with the settings.")]
Work = Annotated[
    Path,
    typer.Option("--work", "-w", callback=work_folder, help="Folder with the input and the tables, on this machine."),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="One setting by its path: trigger=10s. May be given several times; overrides file and environment.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]

NewEpoch = Annotated[
    bool,
    typer.Option(
        "--new-epoch",
        help="Shut out every older driver and read the sources from their starting offsets, with the tables as they "
        "are. For a lost checkpoint; use it for one start only.",
    ),
]
AddColumns = Annotated[
    bool,
    typer.Option(
        "--add-columns",
        help="Add the columns of the plan that versioned tables, plain tables and sinks lack; existing rows get "
        "nulls. Use it for one start only, with a changed plan.",
    ),
]


class Commands(TyperGroup):
    """Commands sorted by name. Expected errors end them with the project's exit codes."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EXPECTED as error:
            typer.echo(reason(error), err=True)
            raise typer.Exit(exit_code(error)) from None


def commands(told: str) -> typer.Typer:
    """A group of commands with this help text."""
    return typer.Typer(cls=Commands, help=told, no_args_is_help=True, pretty_exceptions_enable=False)


def sets_of(said: list[str] | None) -> dict[str, str]:
    """The values given with ``--set``, by the path of their setting.

    >>> sets_of(["trigger=10 seconds", "sources.s.options.startingOffsets=a=b"])
    {'trigger': '10 seconds', 'sources.s.options.startingOffsets': 'a=b'}
    """
    return pairs_of(said, "--set")


def pairs_of(said: list[str] | None, option: str, otherwise: str = "") -> dict[str, str]:
    """The names and values of an option that is written as ``name=value``.

    Raises:
        ConfigurationError: one of them has no ``=``; or a name is given twice, and then the message ends with
            ``otherwise``, which says what else one may do.
    """
    pairs: dict[str, str] = {}
    for name, equals, value in (text.partition("=") for text in said or []):
        if not equals or not name.strip():
            raise ConfigurationError(f"{option} {name}: write it as name=value.")
        if name.strip() in pairs:
            raise ConfigurationError(f"{option} {name.strip()}: it is given twice. Give one value{otherwise}.")
        pairs[name.strip()] = value
    return pairs


def planned(config: Path, sets: list[str] | None) -> tuple[JobSettings, Topology]:
    """The settings and the plan of a job; errors in them are raised at once, before Spark starts.

    Raises:
        ConfigurationError, TopologyError: as :func:`jobs.settings.load` and :func:`jobs.job_plan.plan_of` say.
    """
    from jobs.job_plan import plan_of
    from jobs.settings import load

    settings = load(config, None, sets_of(sets))
    return settings, plan_of(settings)


def unstarted_app(command: str, config: Path, work: Path, sets: list[str] | None) -> StreamingApplication:
    """The application of a job, for a command that reads or changes its tables; raises what :func:`planned` raises."""
    settings, plan = planned(config, sets)
    from jobs.run import application

    return application(quiet_session(command), settings, plan, work.resolve())


@contextmanager
def misfits_told(told: str) -> Iterator[None]:
    """Replace Spark's error for a file that it cannot read as declared, which may quote values of a record.

    Raises:
        RecordError: with the message ``told``, in place of that error.
    """
    try:
        yield
    except Exception as error:  # Spark's own errors, and those that Py4J raises where Spark wraps none
        if not any(said in str(error) for said in _MISFITS):
            raise
        raise RecordError(told) from None


def echo_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    typer.echo(json.dumps(value, default=str))


def progress() -> Progress:
    """A progress bar for long work, on a terminal only; results that go to a pipe are kept apart from it."""
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        *Progress.get_default_columns()[:2],
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        # Output that is printed meanwhile goes above the bar, but only if it goes to a terminal anyway.
        redirect_stdout=sys.stdout.isatty(),
    )


def quiet_session(name: str) -> SparkSession:
    """A session that logs errors only; the command prints everything else."""
    from jobs.session import build_session

    return build_session(name)
