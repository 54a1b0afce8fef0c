"""The Spark session of jobs and tests: settings from ``conf/spark-defaults.conf``, Delta's jars from ``.jars``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

_PROJECT = Path(__file__).parents[1]


def read_properties(path: Path) -> dict[str, str]:
    """A Spark properties file as a dict."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return {name: value.strip() for name, value in pairs}


def local_jars(folder: Path | None = None) -> str:
    """Delta's jars in a folder, as a value of ``spark.jars``; the folder defaults to VERSIONED_JARS or ``.jars``."""
    where = folder or Path(os.environ.get("VERSIONED_JARS", _PROJECT / ".jars"))
    return ",".join(str(jar) for jar in sorted(where.glob("*.jar")))


def build_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A local session that runs the library; a session that is already there is used as it is.

    Args:
        name: Application name.
        settings: Settings beside those of ``conf/spark-defaults.conf``.
    """
    builder = SparkSession.builder.appName(name).master("local[2]")
    merged = {**read_properties(_PROJECT / "conf" / "spark-defaults.conf"), **(settings or {})}
    jars = local_jars()
    if jars:
        merged["spark.jars"] = jars
    for key, value in merged.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
