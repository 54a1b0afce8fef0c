"""Fetches jars once, through Spark's own package resolution, into a folder of the project.

``python -m jobs.fetch_jars FOLDER [delta] [kafka] [broker]``. Afterwards sessions start from local jars, faster and
without a network. ``delta`` (the default) is what every session needs. ``kafka`` is Spark's Kafka source and sink,
which a session loads if it is there. ``broker`` is a Kafka broker, which only tests start, as a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from jobs.session import DELTA


@dataclass(frozen=True)
class Wanted:
    """A package, and what to keep of it: jars whose name contains one of ``needed``, in the subfolder ``folder``."""

    package: str
    needed: tuple[str, ...]
    folder: str = "."
    excluded: str | None = None


#: What Delta needs besides Spark's own jars.
_NEEDED: Final = ("delta-spark", "delta-storage", "delta-kernel", "unitycatalog")
_TOKENS: Final = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
#: What to resolve for each purpose. Spark's own jars include the rest of each package's dependencies.
WANTED: Final[dict[str, tuple[Wanted, ...]]] = {
    "delta": (Wanted(DELTA, _NEEDED),),
    "kafka": (
        # Mirrors lack version 4.2.0 of the token provider. It serves delegation tokens and is unchanged since 4.0.0.
        Wanted(
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            ("spark-sql-kafka", "kafka-clients", "commons-pool2"),
            "kafka",
            _TOKENS,
        ),
        Wanted(f"{_TOKENS}:4.0.0", ("spark-token-provider",), "kafka"),
    ),
    "broker": (Wanted("org.apache.kafka:kafka_2.13:4.3.1", ("",), "broker"),),
}


def fetch(folder: Path, wanted: Wanted) -> list[Path]:
    """Resolve one package and copy the needed jars to their folder. Once per process: Java resolves only at its start.

    Returns:
        The jars that are now in the folder.
    """
    goal = folder / wanted.folder
    goal.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as ivy:
        settings = {"spark.ui.enabled": "false", "spark.jars.packages": wanted.package, "spark.jars.ivy": ivy}
        if wanted.excluded is not None:
            settings["spark.jars.excludes"] = wanted.excluded
        builder = SparkSession.builder.master("local[1]").appName("fetch jars")
        for name, value in settings.items():
            builder = builder.config(name, value)
        builder.getOrCreate().stop()
        for jar in Path(ivy, "jars").glob("*.jar"):
            if any(part in jar.name for part in wanted.needed):
                shutil.copy(jar, goal / jar.name.split("_", 1)[-1])
    return sorted(goal.glob("*.jar"))


def main(arguments: list[str]) -> int:
    """Fetch the named jars; exit code 1 if a package could not be resolved."""
    said = _asked(arguments)
    folder: Path = said.folder
    spawn = multiprocessing.get_context("spawn")
    for name in said.names or ["delta"]:
        for wanted in WANTED[name]:
            process = spawn.Process(target=fetch, args=(folder, wanted))
            process.start()
            process.join()
            if process.exitcode:
                print(f"{wanted.package} could not be fetched.", file=sys.stderr)
                return 1
            print(f"{len(list((folder / wanted.folder).glob('*.jar')))} jars in {folder / wanted.folder}")
    return 0


def _asked(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where to put the jars")
    # Without ``choices``, with which some versions of argparse refuse an empty list.
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(WANTED)} (default: delta)")
    said = parser.parse_args(arguments)
    unknown = [name for name in said.names if name not in WANTED]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}. Allowed: {', '.join(WANTED)}.")
    return said


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
