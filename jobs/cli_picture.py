"""``versioned picture``: draw plans, versions of keys, lateness and buffers as SVG or as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli_shared import (
    MOST_ROWS,
    AsJson,
    Config,
    Sets,
    Work,
    commands,
    echo_json,
    pairs_of,
    planned,
    quiet_session,
    unstarted_app,
)
from jobs.place_setting import check_writable
from jobs.tables import instant_of, key_as_frame, opened
from versioned.errors import ConfigurationError

if TYPE_CHECKING:
    from versioned.drawing import Picture

picture = commands("Draw pictures, without further dependencies: .svg, or .html that also has the numbers as a table.")

Target = Annotated[str, typer.Argument(help='A path (with a "/") or a catalog name.')]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        help="A key column and its value: item=tea; for a key of several columns, give it several times. Default: the "
        "first keys of the table.",
    ),
]
Start = Annotated[str | None, typer.Option("--from", help="The first instant to draw.")]
End = Annotated[str | None, typer.Option("--until", help="The last instant to draw.")]
MostKeys = Annotated[int, typer.Option("--most-keys", min=1, max=1_000, help="Draw at most this many keys.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Output file: .svg or .html.")]


@picture.command()
def plan(config: Config, sets: Sets = None, out: Out = Path("plan.svg"), json: AsJson = False) -> None:
    """Draw the plan of an application: every node, what it does, and where its rows go."""
    checked = picture_file(out)
    _save(planned(config, sets)[1].picture(), checked, json)


@picture.command()
def timeline(
    target: Target,
    key: Keys = None,
    start: Start = None,
    end: End = None,
    most_keys: MostKeys = 20,
    out: Out = Path("timeline.html"),
    json: AsJson = False,
) -> None:
    """Draw the versions of keys over valid time: one lane per key, one bar per version."""
    first, last = (None if said is None else instant_of(said) for said in (start, end))
    checked, said = picture_file(out), pairs_of(key, "--key")
    asked = opened(quiet_session("picture timeline"), target)
    _save(asked.timeline(key_as_frame(asked, said), start=first, end=last, most_keys=most_keys), checked, json)


@picture.command()
def lateness(
    config: Config,
    work: Work = Path(),
    sets: Sets = None,
    node: Annotated[str | None, typer.Option("--node", help="The node. Default: all sources together.")] = None,
    share: Annotated[
        float, typer.Option("--share", help="Share of the records that the suggested grace accepts.")
    ] = 0.999,
    out: Out = Path("lateness.svg"),
    json: AsJson = False,
) -> None:
    """Draw how late records arrived, and suggest a grace. The batches must have run with metrics: {level: debug}."""
    checked = picture_file(out)
    app = unstarted_app("picture lateness", config, work, sets)
    _save(app.lateness_picture(node, share), checked, json)


@picture.command()
def buffer(
    config: Config,
    name: Annotated[str, typer.Argument(help="Name of the suppression.")],
    work: Work = Path(),
    sets: Sets = None,
    batches: Annotated[
        int, typer.Option("--batches", min=1, max=MOST_ROWS, help="Draw at most this many of the newest batches.")
    ] = 1_000,
    out: Out = Path("buffer.svg"),
    json: AsJson = False,
) -> None:
    """Draw how many records and bytes a suppression held after each batch, with its bounds."""
    checked = picture_file(out)
    app = unstarted_app("picture buffer", config, work, sets)
    _save(app.buffer_picture(name, batches), checked, json)


def picture_file(out: Path, option: str = "--out") -> Path:
    """Check the file that a picture is to be saved to, before Spark spends time on drawing it.

    Raises:
        ConfigurationError: it is neither .svg nor .html, its folder does not exist, or it cannot be written.
    """
    if out.suffix not in (".svg", ".html"):
        raise ConfigurationError(
            f'{option} {out}: a picture is saved as .svg or .html. Change the ending of "{out.name}".'
        )
    check_writable(option, out)
    if not out.resolve().parent.is_dir():
        raise ConfigurationError(f"{option} {out}: there is no folder {out.parent}. Make it first.")
    return out


def saved(drawn: Picture, out: Path, option: str = "--out") -> Path:
    """Write a picture.

    Raises:
        ConfigurationError: the file cannot be written after all.
    """
    try:
        return drawn.save(out)
    except OSError as error:
        raise ConfigurationError(f"{option} {out}: {error.strerror}. Name another one.") from None


def _save(drawn: Picture, out: Path, json: bool) -> None:
    file = saved(drawn, out)
    if json:
        rows = [dict(zip(drawn.columns, row, strict=True)) for row in drawn.rows]
        echo_json({"file": str(file), "title": drawn.title, "rows": rows})
    else:
        typer.echo(f"{drawn.title}: {file}")
