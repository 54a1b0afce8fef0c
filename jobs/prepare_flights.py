"""``python -m jobs.prepare_flights FOLDER [--batches N] [--until DAY]``: the quickstart's input files."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import Final

from jobs.flights import write_files
from versioned.errors import ConfigurationError

COMPLETE = "_complete"
#: One for each month of the year that the data cover.
_BATCHES: Final = 12


def prepare(folder: Path, batches: int | None = None, *, until: str | None = None) -> str:
    """Write the files, unless a complete set is there already.

    Returns:
        What was done, in a sentence.

    Raises:
        ConfigurationError: nothing arrives before that day; nothing was written.
    """
    if (folder / COMPLETE).exists():
        ignored = batches is not None or until is not None
        return f"The input is already in {folder}.{' --batches and --until are for a new folder.' if ignored else ''}"
    batches = _BATCHES if batches is None else batches
    rows = write_files(folder, batches, until=until)
    (folder / COMPLETE).touch()
    counts = f"{rows['flights']:,} flights, {rows['weather']:,} weather records and {rows['planes']:,} aircraft"
    return f"{counts}, in {batches} files each, in {folder}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a new folder of input."""
    parser.add_argument(
        "--batches",
        type=_number,
        help=f"micro-batches to cut the data into, for a new folder (default {_BATCHES})",
    )
    parser.add_argument(
        "--until",
        type=_day,
        metavar="DAY",
        help="leave out what arrives on this day or later, for a new folder: for example 2013-02-01",
    )


def _number(said: str) -> int:
    if not said.isdecimal() or int(said) < 1:
        raise argparse.ArgumentTypeError(f'give a whole number, 1 or more; got "{said}"')
    return int(said)


def _day(said: str) -> str:
    try:
        return date.fromisoformat(said).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f'give a day such as 2013-02-01; got "{said}"') from None


def main() -> None:
    """Prepare the input, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    add_options(parser)
    args = parser.parse_args()
    try:
        print(prepare(args.folder, args.batches, until=args.until))
    except ConfigurationError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
