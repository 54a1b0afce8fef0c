"""Fewer tasks for unions of many parts, since each task reads the plans of all parts before its first row."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession

_AT_MOST: Final = "spark.sql.shuffle.partitions"


def in_few_tasks(frame: DataFrame, more: int = 0) -> DataFrame:
    """The same rows in at most as many partitions as a shuffle gives.

    A union has the partitions of all its parts. Of n small parts that is n tasks with n plans each, and a small batch
    of a plan with many nodes spends its time on reading them; the steps that follow have no more tasks than a shuffle
    gives anyway.

    Args:
        frame: The union.
        more: So many more partitions, where the first ones have next to nothing: neighbours are put together, so that
            the tick of an application would keep one of two tasks for itself, and all records be left to the other.
    """
    tasks = most_partitions(frame.sparkSession)
    return frame if tasks is None else frame.coalesce(tasks + more)


def most_partitions(session: SparkSession) -> int | None:
    """How many partitions a shuffle gives at most, if that is told."""
    return _tasks(session.conf.get(_AT_MOST))


def _tasks(told: str | None) -> int | None:
    """The setting as a number; Databricks also has "auto".

    >>> _tasks("200"), _tasks("auto")
    (200, None)
    """
    return int(told) if told is not None and told.isdigit() else None
