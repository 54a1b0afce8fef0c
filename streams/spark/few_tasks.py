"""Fewer tasks for unions of many parts, since each task reads the plans of all parts before its first row."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

_AT_MOST: Final = "spark.sql.shuffle.partitions"


def in_few_tasks(frame: DataFrame, more: int = 0) -> DataFrame:
    """The same rows in at most as many partitions as a shuffle gives.

    A union has the partitions of all its parts: n small parts give n tasks, each of which reads n plans, and in a plan
    with many nodes a small batch spends its time on that. The steps that follow have no more tasks than a shuffle gives
    anyway.

    Args:
        frame: The union.
        more: How many partitions to add, where the first ones are nearly empty. Neighbours are merged, so without this
            an application's tick would take one of two tasks, and leave all records to the other.
    """
    tasks = most_partitions(frame.sparkSession)
    return frame if tasks is None else frame.coalesce(tasks + more)


def most_partitions(session: SparkSession) -> int | None:
    """The most partitions that a shuffle gives; None if the session sets no number."""
    return _tasks(session.conf.get(_AT_MOST))


def _tasks(told: str | None) -> int | None:
    """The setting as a number; None for ``auto``, which Databricks also has.

    >>> _tasks("200"), _tasks("auto")
    (200, None)
    """
    return int(told) if told is not None and told.isdigit() else None
