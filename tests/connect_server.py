"""A Spark Connect server for tests: a process of its own on loopback, with this interpreter's Spark and our jars."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from jobs.session import local_jars

PROJECT = Path(__file__).parents[1]
_SECONDS = 90


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """A server while the block runs; gives its URL.

    Raises:
        AssertionError: it does not answer in time.
    """
    port = _free_port()
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
        _wait_for(port, process, folder / "server.log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def environment() -> dict[str, str]:
    """For the server, whose Python workers run the batches, and for its clients: this interpreter and this project."""
    path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"The server does not answer: {log.read_text(encoding='utf-8')[-3000:]}")
