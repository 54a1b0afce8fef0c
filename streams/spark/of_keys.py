"""Stored rows of the keys that a batch asks for.

A join moves and sorts all rows of a table, however few keys are asked for. Where a batch has few records, their keys go
to every task instead: the table is read where it lies, and only what is asked for goes on.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from streams.spark.flow import KEY
from versioned import spark_functions as F

#: The keys of more records take longer to send than most tables take to move.
MOST_SENT: Final = 100_000


def of_keys(stored: DataFrame, asked: DataFrame, *, few: bool) -> DataFrame:
    """The stored rows whose key is asked for.

    Args:
        stored: Has ``_key``, of the type that it has in ``asked``.
        asked: Has ``_key``, any number of times.
        few: Whether the records asking are few (:meth:`Batch.has_few <streams.spark.operator.Batch.has_few>`).
    """
    keys = asked.select(F.col(KEY))
    return stored.join(F.broadcast(keys) if few else keys.distinct(), KEY, "left_semi")
