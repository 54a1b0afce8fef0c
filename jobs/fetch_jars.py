"""Fetch Delta's jars once, through Spark's own package resolution, into a folder of the project.

``python -m jobs.fetch_jars FOLDER``. Afterwards sessions start from local jars, faster and without a network.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

_PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
#: What Delta needs beside Spark's own jars; the rest of its dependencies ship with Spark.
_NEEDED: Final = ("delta-spark", "delta-storage", "delta-kernel", "unitycatalog")


def fetch(folder: Path) -> list[Path]:
    """Resolve the package and copy the needed jars into ``folder``.

    Returns:
        The jars that are there now.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as ivy:
        builder = SparkSession.builder.master("local[1]").appName("fetch jars").config("spark.ui.enabled", "false")
        session = builder.config("spark.jars.packages", _PACKAGE).config("spark.jars.ivy", ivy).getOrCreate()
        session.stop()
        for jar in Path(ivy, "jars").glob("*.jar"):
            if any(part in jar.name for part in _NEEDED):
                shutil.copy(jar, folder / jar.name.split("_", 1)[-1])
    return sorted(folder.glob("*.jar"))


if __name__ == "__main__":
    found = fetch(Path(sys.argv[1]))
    print(f"{len(found)} jars in {sys.argv[1]}")
