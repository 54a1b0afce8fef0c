"""Runs several tasks on one Spark at the same time: small batches wait for commits, not for a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final, TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

#: More would only share two cores.
AT_ONCE: Final = 3
#: Settings of a session that runs thousands of queries on hundreds of tables. Without them, Spark keeps a thousand
#: query plans, Delta keeps each table for an hour with plans and sessions behind it, and each broadcast, sort and
#: aggregation takes a page of 64 MB for its few rows: gigabytes that the garbage collector scans again and again.
FORGETFUL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.driver.memory": "6g",
        "spark.buffer.pageSize": "1m",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.databricks.delta.log.cacheSize": "40",
        "spark.databricks.delta.log.cacheRetentionMinutes": "3",
    }
)
T = TypeVar("T")


def in_sessions(spark: SparkSession, tasks: Sequence[Callable[[SparkSession], T]]) -> list[T]:
    """Run tasks side by side, each in a session of its own, so that settings and query names do not clash.

    Args:
        spark: The session from which theirs are made.
        tasks: What to run, best with those first that take long.

    Returns:
        What the tasks returned, in their order.

    Raises:
        Exception: what the first failing task raised, once those that run have ended; no other is begun.
    """
    run = inheritable_thread_target(spark)(lambda task: task(spark.newSession()))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(run, tasks))
