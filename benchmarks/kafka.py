"""Kafka Streams as a peer: a Java process that is told what to do line by line, and its jars."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_HERE: Final = Path(__file__).parent
_SOURCE: Final = _HERE / "java" / "KafkaPeer.java"
PACKAGE: Final = "org.apache.kafka:kafka-streams-test-utils:4.3.1"
#: The environment variable with the folder of the jars; without it they are fetched on first use.
JARS: Final = "KAFKA_JARS"


@dataclass(frozen=True)
class Answer:
    """The answer to a command: seconds by the peer's own clock, the count of results, and sums of times and numbers."""

    seconds: float
    count: int
    sum_ms: int
    sum_n: int

    @property
    def told(self) -> tuple[int, int, int]:
        """The part that must be equal to ours."""
        return self.count, self.sum_ms, self.sum_n


class KafkaPeer:
    """Kafka Streams in a Java process of its own.

    Args:
        jars: Folder of kafka-streams, its test utilities and what they need.
        state: Folder for RocksDB.
        arguments: ``store``, ``join``, or ``suppress`` with its bound and wait in milliseconds.
        heap: The most heap memory of the Java process.
    """

    def __init__(self, jars: Path, state: Path, *arguments: str, heap: str = "3g") -> None:
        state.mkdir(parents=True, exist_ok=True)
        command = ["java", f"-Xmx{heap}", "-cp", f"{jars}/*", str(_SOURCE), arguments[0], str(state), *arguments[1:]]
        self._state = state
        self._process: Any = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._awaited = 0

    def say(self, command: str, file: Path) -> None:
        """Send a command; :meth:`answer` reads the answer later."""
        self._process.stdin.write(f"{command} {file}\n")
        self._process.stdin.flush()
        self._awaited += 1

    def answer(self) -> Answer:
        """Wait for the answer to the last command, and skip those to earlier ones.

        Raises:
            RuntimeError: the process has died.
        """
        line = ""
        for _ in range(self._awaited):
            line = self._process.stdout.readline()
        self._awaited = 0
        if not line:
            raise RuntimeError(f"Kafka's process ended with code {self._process.wait()}; is {JARS} complete?")
        seconds, *numbers = line.split()
        return Answer(float(seconds), *map(int, numbers))

    def ask(self, command: str, file: Path) -> Answer:
        """Send a command and wait for its answer."""
        self.say(command, file)
        return self.answer()

    def close(self) -> None:
        """End the process and delete its state."""
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        shutil.rmtree(self._state, ignore_errors=True)


def kafka_jars(work: Path) -> Path:
    """The folder of Kafka's jars: ``KAFKA_JARS``, or below ``work``, fetched from Maven Central if need be."""
    if JARS in os.environ:
        return Path(os.environ[JARS])
    folder = work / "kafka-jars"
    if not list(folder.glob("*.jar")):
        _fetch(folder, work / "ivy")
    return folder


def _fetch(folder: Path, ivy: Path) -> None:
    # In a process of its own: a session resolves packages when its JVM starts, and ours is running already.
    script = (
        "from pyspark.sql import SparkSession;"
        "SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        f".config('spark.jars.packages', {PACKAGE!r}).config('spark.jars.ivy', {str(ivy)!r}).getOrCreate().stop()"
    )
    subprocess.run([os.environ.get("PYSPARK_PYTHON", "python3"), "-c", script], check=True)
    folder.mkdir(parents=True, exist_ok=True)
    for jar in (ivy / "jars").glob("*.jar"):
        shutil.copy(jar, folder / jar.name)
