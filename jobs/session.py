"""The Spark session of jobs and tests: settings from ``conf/spark-defaults.conf``, Delta's jars from ``.jars``.

A program that spark-submit started keeps what spark-submit was told (``--master``, ``--properties-file``, ``--jars``);
only without spark-submit do the project's own settings apply.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

_PROJECT: Final = Path(__file__).parents[1]
#: Set by spark-submit for the Python program that it starts.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"


def read_properties(path: Path) -> dict[str, str]:
    """A Spark properties file as a dict."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return {name: value.strip() for name, value in pairs}


def local_jars(folder: Path | None = None) -> str:
    """Delta's jars in a folder, as a value of ``spark.jars``; the folder defaults to VERSIONED_JARS or ``.jars``."""
    where = folder or Path(os.environ.get("VERSIONED_JARS", _PROJECT / ".jars"))
    return ",".join(str(jar) for jar in sorted(where.glob("*.jar")))


def project_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What a session is given besides its name: nothing below spark-submit, else two local cores and ``conf/``.

    >>> project_settings({"PYSPARK_GATEWAY_PORT": "40001"})
    {}
    """
    if _SUBMITTED in environment:
        return {}
    settings = {"spark.master": "local[2]", **read_properties(_PROJECT / "conf" / "spark-defaults.conf")}
    jars = local_jars()
    return settings | ({"spark.jars": jars} if jars else {})


def build_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session that runs the library; a session that is already there is used as it is.

    Args:
        name: Application name.
        settings: Settings that win over all others.
    """
    # Python workers must find the packages that this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in {**project_settings(os.environ), **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
