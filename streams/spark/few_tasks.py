"""Fewer tasks for what is put together from many parts: each task reads the plan of all parts before its first row."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

_AT_MOST: Final = "spark.sql.shuffle.partitions"


def in_few_tasks(frame: DataFrame) -> DataFrame:
    """The same rows in at most as many partitions as a shuffle gives.

    A union has the partitions of all its parts. Of n small parts that is n tasks with n plans each, and a small batch
    of a plan with many nodes spends its time on reading them; the steps that follow have no more tasks than a shuffle
    gives anyway.
    """
    told = frame.sparkSession.conf.get(_AT_MOST)
    assert told is not None  # Spark has a default for it.
    return frame.coalesce(int(told))
