"""A real Kafka broker for tests: one process, KRaft, on loopback, from the jars that ``make test-all`` fetched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from loopback import free_ports, wait_for

_PROJECT = Path(__file__).parents[3]
_JARS = Path(os.environ.get("VERSIONED_JARS", _PROJECT / ".jars"))
_CLUSTER = "4L6g3nShT-eMCtK--X86sw"
_SECONDS = 60
#: Scala and logging come from Spark's own jars, whose Scala is the broker's.
_OF_SPARK = ("scala-library", "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2")
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """A broker while the block runs; gives its address. A topic is made, with two partitions, when it is first written.

    Raises:
        AssertionError: it does not answer in time.
    """
    port, controller = free_ports(2)
    file = folder / "broker.properties"
    file.write_text(_PROPERTIES.format(port=port, controller=controller, logs=folder / "logs"), encoding="utf-8")
    java = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", _classpath()]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(file)], check=True, capture_output=True
    )
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen([*java, "kafka.Kafka", str(file)], stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(port, process, folder / "broker.log", _SECONDS)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def has_jars() -> bool:
    """Whether the jars of the broker and of Spark's connector were fetched; the network may have forbidden it."""
    return any((_JARS / "broker").glob("kafka_2.13-*.jar")) and any((_JARS / "kafka").glob("spark-sql-kafka-*.jar"))


def _classpath() -> str:
    jars = _JARS / "broker"
    spark = Path(pyspark.__file__).parent / "jars"
    of_spark = [str(jar) for name in _OF_SPARK for jar in sorted(spark.glob(f"{name}*.jar"))]
    return os.pathsep.join([*of_spark, str(jars / "*")])
