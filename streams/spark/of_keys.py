"""Reads the stored rows of the keys that a batch asks for.

A join shuffles and sorts all rows of a table, however few keys are asked for. If a batch has few records, their keys
are broadcast instead: the table is not shuffled, and only rows of these keys go on.
"""

from __future__ import annotations

from typing import Final, Literal

from pyspark.sql import DataFrame

from streams.spark.flow import KEY
from versioned import spark_functions as F

#: Above this, broadcasting the keys takes longer than shuffling most tables. (A put broadcasts up to five times as
#: many, because it saves two shuffles of all current rows.)
MOST_SENT: Final = 100_000
#: How many records ask: ``few`` (up to :data:`MOST_SENT`), ``many``, or ``unknown``.
Amount = Literal["few", "unknown", "many"]


def of_keys(stored: DataFrame, asked: DataFrame, *, few: bool) -> DataFrame:
    """The stored rows whose key is asked for.

    Args:
        stored: Has ``_key``, of the same type as in ``asked``.
        asked: Has ``_key``; keys may repeat.
        few: Whether few records ask (:meth:`Batch.has_few <streams.spark.operator.Batch.has_few>`).
    """
    return stored.join(_keys(asked, few), KEY, "left_semi")


def without_keys(stored: DataFrame, asked: DataFrame, *, few: bool) -> DataFrame:
    """The stored rows whose key is not asked for; arguments as :func:`of_keys`."""
    return stored.join(_keys(asked, few), KEY, "left_anti")


def _keys(asked: DataFrame, few: bool) -> DataFrame:
    keys = asked.select(F.col(KEY))
    return F.broadcast(keys) if few else keys.distinct()
