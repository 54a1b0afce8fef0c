"""Suppressed keys that occur in several stream-time scopes: their buffers are processed together.

A key (or a key and a window) has one row in the buffers. If its records come from one scope, as with a topic that is
partitioned by key, the buffers of scopes are independent and fed in parallel. If they come from several, the row moves
from buffer to buffer (``suppress.scoped_buffers``), so a single task feeds all buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, Window

from streams.spark.flow import KEY, PLACE, SCOPE, US, lookup_times, stream_time_at
from streams.spark.suppress_fold import RECORD_US, STREAM_US
from versioned import spark_functions as F

#: The column to group by when all scopes are fed together; the same in all rows.
TOGETHER: Final = "_together"
_IS_AHEAD: Final = "_is_ahead"


def keys_meet(updates: DataFrame, held: DataFrame, before: Mapping[int, int], after: Mapping[int, int]) -> bool:
    """Whether any key has rows of several scopes, or a window has a record newer than its scope's stream time; one job.

    Args:
        updates: Changes of a table.
        held: The rows that wait already; both have ``_key``, ``_scope`` and ``_us``.
        before: Stream time per scope before the batch; empty where it does not matter.
        after: Stream time per scope after the batch, likewise.
    """
    both = _ahead_of(updates, after).unionByName(_ahead_of(held, before))
    spans = both.groupBy(KEY).agg(
        F.min(SCOPE).alias("least"), F.max(SCOPE).alias("greatest"), F.max(_IS_AHEAD).alias(_IS_AHEAD)
    )
    return not spans.where((F.col("least") != F.col("greatest")) | F.col(_IS_AHEAD)).isEmpty()


def _ahead_of(rows: DataFrame, times: Mapping[int, int]) -> DataFrame:
    is_ahead = F.coalesce(F.col(US) > lookup_times(times), F.lit(False))
    return rows.select(KEY, SCOPE, is_ahead.alias(_IS_AHEAD))


def with_times(updates: DataFrame, records: DataFrame, before: Mapping[int, int]) -> DataFrame:
    """Changes of windows with the ts of their record (``_record_us``) and stream time at it (``_stream_us``).

    The change itself only has the newest ts of its window.

    Args:
        updates: Changes; their places extend those of their records.
        records: The records, which may repeat: ``_scope``, ``_place``, ``_us``.
        before: Stream time per scope before the batch.
    """
    behind = records.select(SCOPE, PLACE, F.col(US).alias(RECORD_US))
    both = updates.withColumn(RECORD_US, F.lit(None).cast("long")).unionByName(behind, allowMissingColumns=True)
    so_far = Window.partitionBy(SCOPE).orderBy(PLACE).rowsBetween(Window.unboundedPreceding, 0)
    last, stream = F.last(RECORD_US, ignorenulls=True).over(so_far), stream_time_at(lookup_times(before), RECORD_US)
    # Changes before the first record, such as those of a tick, have no record: they use their own ts.
    timed = both.withColumns({STREAM_US: F.coalesce(stream, US), RECORD_US: F.coalesce(last, US)})
    return timed.where(F.col(KEY).isNotNull())
