"""``versioned conf``: check settings, show the effective ones, and write their JSON schemas."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli_shared import AsJson, Config, Sets, commands, echo_json, sets_of
from jobs.config_schema import FOLDER, KINDS, checked, json_schema_of, kind_of, write
from jobs.exit_codes import WRONG_SETTINGS
from jobs.job_plan import plan_of
from jobs.layers import Layers, of_fields
from jobs.settings import JobSettings, read_file
from jobs.shown import annotated, origins, shown
from versioned.errors import ConfigurationError, TopologyError

conf = commands("Check and show settings.")


@conf.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Settings files, of any kind.")],
    sets: Sets = None,
    json: AsJson = False,
) -> None:
    """Check settings files, with plans and declared columns. Exit code 2 if one is wrong. A run checks the rest."""
    faults = {str(file): _fault(file, sets_of(sets)) for file in files}
    if json:
        echo_json([{"file": file, "ok": fault is None, "error": fault} for file, fault in faults.items()])
    else:
        for file, fault in faults.items():
            # An error about a file as a whole begins with its name already.
            said = "right" if fault is None else fault.removeprefix(f"{file}: ")
            typer.echo(f"{file}: {said}", err=fault is not None)
    if any(faults.values()):
        raise typer.Exit(WRONG_SETTINGS)


@conf.command()
def show(config: Config, sets: Sets = None, json: AsJson = False) -> None:
    """Print the effective settings, without secrets, and where each comes from: --set, environment, file or default."""
    said = _layers(config, sets_of(sets))
    settings = shown(checked(said.merged()))
    if json:
        echo_json({"settings": settings, "origins": origins(settings, said)})
    else:
        typer.echo(annotated(settings, said))


@conf.command()
def schema(
    kind: Annotated[
        str | None, typer.Argument(help=f"Print one: {', '.join(KINDS)}. Without it, all are written.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help=f"Folder to write to. Default, for all: {FOLDER}.")] = None,
    json: AsJson = False,
) -> None:
    """Print the JSON schema of one kind of settings, for editors; with --out, or for all kinds, write to a folder."""
    if kind is not None and kind not in KINDS:
        raise ConfigurationError(f'There are no settings of kind "{kind}". Allowed: {", ".join(KINDS)}')
    if kind is not None and out is None:
        echo_json(json_schema_of(kind))
        return
    files = [str(file) for file in write(out or FOLDER, list(KINDS) if kind is None else [kind])]
    echo_json({"files": files}) if json else typer.echo("\n".join(files))


def _layers(file: Path, sets: dict[str, str]) -> Layers:
    """The layers of a settings file of any kind. Variables for a job must not turn other settings into a job's."""
    said = read_file(file)
    kind = kind_of(Layers.of(said, {}, sets).merged())
    variables = os.environ if kind == "job" else of_fields(os.environ, KINDS[kind].model_fields)
    return Layers.of(said, variables, sets)


def _fault(file: Path, sets: dict[str, str]) -> str | None:
    try:
        settings = checked(_layers(file, sets).merged())
        if isinstance(settings, JobSettings):
            from jobs.dry_run import unstarted

            unstarted(settings, plan_of(settings), Path())
    except (ConfigurationError, TopologyError) as error:
        return str(error)
    return None
