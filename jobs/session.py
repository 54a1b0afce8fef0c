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

from jobs.conf_folder import conf_folder
from versioned.session_settings import SOUND_READS

_PROJECT: Final = Path(__file__).parents[1]
#: Set where the session is not ours to configure: by spark-submit for the Python program that it starts, by Databricks
#: on every compute, and by users of Spark Connect.
_GIVEN: Final = ("PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE")
#: What the library cannot do without, whatever ``conf/`` says or lacks.
ESSENTIAL: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    **SOUND_READS,
}
#: Fetched at the start of a session where no jars were fetched before.
DELTA: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
_JAVA: Final = "spark.driver.extraJavaOptions"


def read_properties(path: Path) -> dict[str, str]:
    """A Spark properties file as a dict."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return {name: value.strip() for name, value in pairs}


def local_jars(folder: Path | None = None) -> str:
    """The jars in a folder, as a value of ``spark.jars``; the folder defaults to VERSIONED_JARS or ``.jars``.

    Delta's lie in the folder itself; those for Kafka in ``kafka`` below it, if they were fetched.
    """
    where = folder or Path(os.environ.get("VERSIONED_JARS", _PROJECT / ".jars"))
    return ",".join(str(jar) for jar in [*sorted(where.glob("*.jar")), *sorted(where.glob("kafka/*.jar"))])


def project_settings(environment: Mapping[str, str], project: Path = _PROJECT) -> dict[str, str]:
    """What a session is given besides its name: two local cores, Delta, ``conf/`` with its logging, which shows errors
    only; nothing where it is set up already.

    Args:
        environment: The process's environment.
        project: Where the packages are; ``conf/`` lies beside them, or in ``jobs`` of an installed library.

    >>> project_settings({"PYSPARK_GATEWAY_PORT": "40001"})
    {}
    """
    if any(name in environment for name in _GIVEN):
        return {}
    defaults = conf_folder(project) / "spark-defaults.conf"
    settings = {"spark.master": "local[2]", **ESSENTIAL, **(read_properties(defaults) if defaults.is_file() else {})}
    jars, logging = local_jars(), conf_folder(project) / "log4j2.properties"
    if logging.is_file():
        options = (settings.get(_JAVA), f"-Dlog4j2.configurationFile={logging.as_uri()}")
        settings[_JAVA] = " ".join(filter(None, options))
    return settings | ({"spark.jars": jars} if jars else {"spark.jars.packages": DELTA})


def build_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session that runs the library; a session that is already there is used as it is.

    Args:
        name: Application name.
        settings: Settings that win over all others. Spark's own log shows errors only, unless they say otherwise by
            ``spark.driver.extraJavaOptions``.
    """
    # Python workers must find the packages that this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in {**project_settings(os.environ), **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
