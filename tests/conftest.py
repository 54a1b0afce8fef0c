"""One Spark session for the whole run, with the settings that users get from ``conf/``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from jobs.session import build_session
from streams.spark.interpreted import NO_CODE, PLANNED_ONCE
from streams.testing.sessions import FORGETFUL

# No deadline: how long an example takes depends on the machine, which others may be using.
settings.register_profile("here", deadline=None)
settings.load_profile("here")

# Spark's Python workers need the packages of this interpreter, not of the first python3 on the path.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# Helper modules are next to the tests; Spark's workers must find the functions in them as well.
for _folder in ("streams/spark", "jobs"):
    sys.path.append(str(Path(__file__).parent / _folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), sys.path[-1])))

#: Hadoop starts a process for each permission that it sets on a local file; VFORK does not copy the page table for it.
_CHEAP_PROCESSES = {"spark.driver.defaultJavaOptions": "-XX:+UseParallelGC -Djdk.lang.Process.launchMechanism=VFORK"}
#: No checksum file next to each file: half as many files, and a fifth of the processes.
_PLAIN_FILES = {
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


@pytest.hookimpl(tryfirst=True)  # Before pytest selects by marks.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need Spark: ``make test`` runs the others in parallel with them."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session, with its warehouse in pytest's temporary folder."""
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    own = {"spark.sql.warehouse.dir": warehouse}
    # Compiling thousands of plans for a few rows each, or replanning each between its stages, takes longer than running
    # them; the spark-submit tests do both.
    ours = {**NO_CODE, **PLANNED_ONCE, **_CHEAP_PROCESSES, **_PLAIN_FILES, **FORGETFUL}
    session = build_session("tests", {**own, **ours})
    session.sparkContext.setLogLevel("ERROR")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    yield session
    session.stop()
