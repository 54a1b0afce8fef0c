"""The Spark session of jobs and tests: settings from ``conf/spark-defaults.conf``, Delta's jars from ``.jars``.

A program that spark-submit started keeps what spark-submit was told (``--master``, ``--properties-file``, ``--jars``);
only without spark-submit do the project's own settings apply.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from jobs.conf_folder import conf_folder
from versioned.errors import ConfigurationError
from versioned.session_settings import SOUND_READS

_PROJECT: Final = Path(__file__).parents[1]
#: Variables that are set where the session is not ours to configure: by spark-submit for the Python program that it
#: starts, by Databricks on every compute, and by users of Spark Connect.
_GIVEN: Final = ("PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE")
#: Settings that the library cannot do without, even if ``conf/`` lacks them.
ESSENTIAL: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    **SOUND_READS,
}
#: Fetched at the start of a session if no jars were fetched before.
DELTA: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
_JAVA: Final = "spark.driver.extraJavaOptions"
#: The jar whose name has the version of the Spark in a folder.
_CORE: Final = re.compile(r"spark-core_[^-]+-(.+)\.jar")
#: The part of a version that Delta's jars are made for.
_LINE: Final = re.compile(r"\d+\.\d+")


def read_properties(path: Path) -> dict[str, str]:
    """A Spark properties file as a dict."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return {name: value.strip() for name, value in pairs}


def local_jars(folder: Path | None = None) -> str:
    """The jars in a folder, as a value of ``spark.jars``; the folder defaults to VERSIONED_JARS or ``.jars``.

    Delta's jars are in the folder itself; those for Kafka, if they were fetched, in ``kafka`` below it.
    """
    where = folder or Path(os.environ.get("VERSIONED_JARS", _PROJECT / ".jars"))
    return ",".join(str(jar) for jar in [*sorted(where.glob("*.jar")), *sorted(where.glob("kafka/*.jar"))])


def check_spark_home(environment: Mapping[str, str], installed: str = pyspark.__version__) -> None:
    """Refuse a SPARK_HOME that holds another Spark than PySpark's own: PySpark silently obeys it.

    That Spark would be started with Delta's jars for PySpark's own. A folder of unknown version is accepted.

    Args:
        environment: The process's environment.
        installed: The version of PySpark.

    Raises:
        ConfigurationError: the versions differ in more than the last part.
    """
    home = environment.get("SPARK_HOME")
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar")) if home else []
    found = [named[1] for named in map(_CORE.fullmatch, (jar.name for jar in jars)) if named]
    if found and _line(installed) not in map(_line, found):
        raise ConfigurationError(
            f"SPARK_HOME ({home}) holds Spark {found[0]}, and the installed PySpark is {installed}: it would start "
            f"that Spark with Delta's jars for its own. Unset SPARK_HOME, or set it to {Path(pyspark.__file__).parent}."
        )


def _line(version: str) -> str:
    said = _LINE.match(version)
    return version if said is None else said[0]


def project_settings(environment: Mapping[str, str], project: Path = _PROJECT) -> dict[str, str]:
    """The project's settings for a session: two local cores, Delta, and ``conf/`` with its logging of errors only.

    They are empty where the session is set up already.

    Args:
        environment: The process's environment.
        project: The folder of the packages; ``conf/`` is next to them, or in ``jobs`` of an installed library.

    Raises:
        ConfigurationError: as :func:`check_spark_home` says.

    >>> project_settings({"PYSPARK_GATEWAY_PORT": "40001"})
    {}
    """
    if any(name in environment for name in _GIVEN):
        return {}
    check_spark_home(environment)
    defaults = conf_folder(project) / "spark-defaults.conf"
    settings = {"spark.master": "local[2]", **ESSENTIAL, **(read_properties(defaults) if defaults.is_file() else {})}
    jars, logging = local_jars(), conf_folder(project) / "log4j2.properties"
    if logging.is_file():
        options = (settings.get(_JAVA), f"-Dlog4j2.configurationFile={logging.as_uri()}")
        settings[_JAVA] = " ".join(filter(None, options))
    return settings | ({"spark.jars": jars} if jars else {"spark.jars.packages": DELTA})


def build_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session that can run the library; an existing one is used, and gets the settings that can change while it runs.

    Args:
        name: Application name.
        settings: Settings that win over all others. Spark's own log shows errors only, unless they say otherwise with
            ``spark.driver.extraJavaOptions``.

    Raises:
        ConfigurationError: the session is not set up already, and SPARK_HOME holds another Spark than PySpark's own.
    """
    # Python workers must find the packages that this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in {**project_settings(os.environ), **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
