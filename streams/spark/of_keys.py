"""Reads the stored rows of the keys that a batch asks for.

A join moves and sorts all rows of a table, however few keys are requested. If a batch has few records, their keys are
broadcast instead: the table is read in place, and only the requested rows are passed on.
"""

from __future__ import annotations

from typing import Final, Literal

from pyspark.sql import DataFrame

from streams.spark.flow import KEY
from versioned import spark_functions as F

#: The keys of more records take longer to send than most tables take to move. (A put sends up to five times as many: it
#: saves the shuffle of all current rows twice.)
MOST_SENT: Final = 100_000
#: How many records ask: up to :data:`MOST_SENT`, more, or so many as nobody knows.
Amount = Literal["few", "unknown", "many"]


def of_keys(stored: DataFrame, asked: DataFrame, *, few: bool) -> DataFrame:
    """The stored rows whose key is asked for.

    Args:
        stored: Has ``_key``, of the type that it has in ``asked``.
        asked: Has ``_key``, any number of times.
        few: Whether the records asking are few (:meth:`Batch.has_few <streams.spark.operator.Batch.has_few>`).
    """
    return stored.join(_keys(asked, few), KEY, "left_semi")


def without_keys(stored: DataFrame, asked: DataFrame, *, few: bool) -> DataFrame:
    """The other stored rows; as :func:`of_keys`."""
    return stored.join(_keys(asked, few), KEY, "left_anti")


def _keys(asked: DataFrame, few: bool) -> DataFrame:
    keys = asked.select(F.col(KEY))
    return F.broadcast(keys) if few else keys.distinct()
