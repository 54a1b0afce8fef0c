"""A Spark Connect server for tests: a process of its own on loopback, with this interpreter's Spark and our jars."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from loopback import free_ports, wait_for

from jobs.session import local_jars

PROJECT = Path(__file__).parents[1]
_SECONDS = 90


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Run a server during the block, and yield its URL.

    Raises:
        AssertionError: it does not answer in time.
    """
    (port,) = free_ports(1)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--properties-file", str(PROJECT / "conf" / "spark-defaults.conf"), "--driver-memory", "1g"]
    command += ["--jars", local_jars(), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"], stdout=log, stderr=subprocess.STDOUT, env=environment(), cwd=folder
        )
    try:
        wait_for(port, process, folder / "server.log", _SECONDS)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def environment() -> dict[str, str]:
    """The environment of the server, whose Python workers run the batches, and of its clients."""
    path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
