"""Final results of keys that come from several stream-time scopes: their buffers are fed together.

Of a key and a window there is one final result. Where its records come from one scope, as they do if a topic is
partitioned by key, each scope has its buffer to itself, and all are fed side by side. Where they come from several, the
row moves from buffer to buffer (``suppress.scoped_buffers``), so one task feeds them all.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from streams.spark.flow import KEY, PLACE, SCOPE, US
from streams.spark.suppress_fold import RECORD_US
from versioned import spark_functions as F

#: What all rows have in common that are fed together.
TOGETHER: Final = "_together"
_RECORD: Final = "_record_place"


def keys_meet(updates: DataFrame, held: DataFrame) -> bool:
    """Whether any key has rows of several scopes: one job.

    Args:
        updates: Changes of a windowed table.
        held: What waits of it already; both have ``_key`` and ``_scope``.
    """
    both = updates.select(KEY, SCOPE).unionByName(held.select(KEY, SCOPE))
    spans = both.groupBy(KEY).agg(F.min(SCOPE).alias("least"), F.max(SCOPE).alias("greatest"))
    return not spans.where(F.col("least") != F.col("greatest")).isEmpty()


def with_record_us(updates: DataFrame, records: DataFrame) -> DataFrame:
    """Changes of windows with ``_record_us``: a change itself tells the newest instant of its window.

    Args:
        updates: Changes, each placed behind its record.
        records: The records, any number of times: ``_scope``, ``_place``, ``_us``.
    """
    behind = records.select(SCOPE, F.col(PLACE).alias(_RECORD), F.col(US).alias(RECORD_US))
    placed = updates.withColumn(_RECORD, F.slice(PLACE, 1, F.size(PLACE) - 1))
    found = placed.join(behind.dropDuplicates([SCOPE, _RECORD]), [SCOPE, _RECORD], "left").drop(_RECORD)
    # What a suppression in between let go is behind no record.
    return found.withColumn(RECORD_US, F.coalesce(RECORD_US, US))
