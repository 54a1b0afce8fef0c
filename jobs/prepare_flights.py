"""``python -m jobs.prepare_flights FOLDER [--batches N] [--until DAY]``: the quickstart's input files."""

from __future__ import annotations

import argparse
from pathlib import Path

from jobs.flights import write_files

DONE = "_complete"


def prepare(folder: Path, batches: int, *, until: str | None = None) -> str:
    """Write the files, unless a complete set is there already.

    Returns:
        What was done, in a sentence.
    """
    if (folder / DONE).exists():
        return f"The input is in {folder} already."
    rows = write_files(folder, batches, until=until)
    (folder / DONE).touch()
    counts = f"{rows['flights']:,} flights, {rows['weather']:,} weather records and {rows['planes']:,} aircraft"
    return f"{counts}, in {batches} files each, in {folder}"


def main() -> None:
    """Prepare from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batches", type=int, default=20, help="micro-batches to cut the data into (default 20)")
    parser.add_argument("--until", help="leave out what arrives on this day or later, for example 2013-02-01")
    args = parser.parse_args()
    print(prepare(args.folder, args.batches, until=args.until))


if __name__ == "__main__":
    main()
