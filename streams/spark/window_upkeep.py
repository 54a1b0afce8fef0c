"""Maintenance of window stores: deletes windows beyond their retention (R20, R21), and results of such windows.

A store without a retention keeps every final window: a table of a lakehouse only deletes rows if asked to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from streams.fields import WINDOW_END
from streams.spark.flow import SCOPE, lookup_times
from versioned import spark_functions as F
from versioned.commit import Merge, commit, same_keys
from versioned.durations import capped_us
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef, quote, text_literal
from versioned.reading import read_table
from versioned.table_details import detail_of, properties_of, set_properties
from versioned.table_log import Landed, told_so_far
from versioned.upkeep import optimize_where

KIND: Final = "versioned.kind"
WINDOW_STORE: Final = "window_store"
#: The emitted rows of a suppression of windows, for joins.
WINDOW_RESULTS: Final = "window_results"
NODE: Final = "versioned.node"
_RETENTION: Final = "versioned.windowRetentionUs"
_WINDOWS: Final = "versioned.windows"
_TIME_SCOPE: Final = "versioned.timeScope"
_CLOSE_WAIT: Final = "versioned.closeWaitUs"
#: Column of a window store: whether the window may still change.
OPEN = "_open"


def window_store_properties(
    node: str,
    retention_us: int | None,
    windows: str | None = None,
    time_scope: str | None = None,
    close_wait_us: int | None = None,
) -> dict[str, str]:
    """The table properties that describe a window store, set when it is made.

    Args:
        node: The operator.
        retention_us: How long windows are kept, if the plan says so.
        windows: Its windows, with their grace, as text.
        time_scope: Whether each partition has its own stream time, or the store has one.
        close_wait_us: How long after their end the windows close.
    """
    said = {_RETENTION: retention_us, _WINDOWS: windows, _TIME_SCOPE: time_scope, _CLOSE_WAIT: close_wait_us}
    return {KIND: WINDOW_STORE, NODE: node} | {name: str(told) for name, told in said.items() if told is not None}


def window_results_properties(node: str, retention_us: int | None) -> dict[str, str]:
    """The table properties that describe a suppression's table of results.

    Args:
        node: The suppression.
        retention_us: How long the windows of the results are kept, if the plan says so.
    """
    return {**window_store_properties(node, retention_us), KIND: WINDOW_RESULTS}


def check_windows(
    spark: SparkSession,
    target: TableRef,
    told: Mapping[str, str],
    windows: str,
    retention_us: int | None,
    time_scope: str = "partition",
    close_wait_us: int | None = None,
) -> None:
    """Refuse a changed plan whose windows differ from an existing store's; a new retention is set on the store.

    Args:
        spark: The session.
        target: The store.
        told: Its properties.
        windows: The windows of the plan, with their grace, as text.
        retention_us: How long the plan keeps windows, if it says so.
        time_scope: Whether, in the plan, each partition has its own stream time, or the store has one.
        close_wait_us: How long after their end the plan closes windows.

    Raises:
        ConfigurationError: the store has other windows, another grace, resolution, or other stream times.
    """
    if told.get(_TIME_SCOPE, time_scope) != time_scope:
        raise ConfigurationError(
            f'{target} has one stream time per {told[_TIME_SCOPE]}, but the plan now says time_scope="{time_scope}": '
            "windows that are open would never become final. Give the plan the former scope, or the store another name."
        )
    if told.get(_WINDOWS, windows) != windows:
        raise ConfigurationError(
            f"{target} holds {told[_WINDOWS]}, but the plan now has {windows}: windows that are final would be opened "
            "again, or never become final. Give the plan the former windows and grace, or the store another name."
        )
    # With another time resolution, the same windows close at another instant.
    if told.get(_CLOSE_WAIT, str(close_wait_us)) != str(close_wait_us):
        raise ConfigurationError(
            f"{target} closes its windows {told[_CLOSE_WAIT]} microseconds after their end, but with the plan's "
            f"time_resolution it is {close_wait_us}: windows that are final would be told again. Give the plan the "
            "former resolution, or the store another name."
        )
    keep_retention(spark, target, told, retention_us)


def keep_retention(spark: SparkSession, target: TableRef, told: Mapping[str, str], retention_us: int | None) -> None:
    """Set or unset the window retention of an existing table, as the plan says now.

    Args:
        spark: The session.
        target: A window store, or a suppression's table of results.
        told: Its properties.
        retention_us: How long the plan keeps windows, if it says so.
    """
    if retention_us is None and _RETENTION in told:
        spark.sql(f"ALTER TABLE {target.sql} UNSET TBLPROPERTIES ({text_literal(_RETENTION)})")
    elif retention_us is not None and told.get(_RETENTION) != str(retention_us):
        set_properties(spark, target, {_RETENTION: str(retention_us)})


def purge_windows(spark: SparkSession, target: TableRef) -> Landed | None:
    """Delete closed windows that ended before stream time minus their retention; in one commit, if there are any.

    Results of a suppression do not have the partition of their window, so they go by the slowest partition's stream
    time.

    It may run while the stream runs: batches replace open windows only, and if one writes results, the purge is
    retried.

    Args:
        spark: The session.
        target: A table; unless it is a window store or results of windows with a retention, nothing is done.
    """
    properties = properties_of(spark, target)
    if properties.get(KIND) not in (WINDOW_STORE, WINDOW_RESULTS) or _RETENTION not in properties:
        return None
    told, is_results = told_so_far(spark, target), properties[KIND] == WINDOW_RESULTS
    times = stream_times_told(told, properties[NODE])
    if not times:
        return None
    each = (WINDOW_END,) if is_results else (SCOPE, WINDOW_END)
    is_closed = F.lit(True) if is_results else ~F.col(OPEN)
    gone = same_keys(each) if is_results else f"NOT t.{quote(OPEN)} AND {same_keys(each)}"

    def expired(times: Mapping[int, int]) -> DataFrame:
        slowest = F.lit(min(times.values(), default=None)).cast("long")
        reached = slowest if is_results else lookup_times(times)
        ended = F.unix_micros(WINDOW_END) < reached - F.lit(capped_us(int(properties[_RETENTION])))
        return read_table(spark, target).where(is_closed & ended).select(*each).distinct()

    def merge() -> Merge:
        # Read again for every attempt: a partition that came since may be the slowest, and keeps its results.
        now = stream_times_told(told_so_far(spark, target), properties[NODE])
        return Merge(expired(now), gone, lambda merge: merge.whenMatchedDelete())

    if expired(times).isEmpty():
        return None
    return commit(target, merge, None, told)


def optimize_windows(spark: SparkSession, target: TableRef, least_files: int) -> bool:
    """Compact the files of closed windows; each batch that closes windows adds some.

    It may run while the stream runs: batches replace open windows only.

    Args:
        spark: The session.
        target: A table; unless it is a window store, nothing is done.
        least_files: With fewer files than this, nothing is done.

    Returns:
        Whether it was compacted.
    """
    detail = detail_of(spark, target)
    if detail is None or detail["properties"].get(KIND) != WINDOW_STORE or detail["numFiles"] < least_files:
        return False
    optimize_where(spark, target, told_so_far(spark, target), f"{quote(OPEN)} = false")
    return True


def stream_times_told(details: Mapping[str, Any], node: str) -> dict[int, int]:
    """A node's stream time per scope after a batch, from the details of a commit of the batch.

    >>> stream_times_told({"report": {"hourly": {"times": {"0": 7}}}}, "hourly")
    {0: 7}
    """
    told = details.get("report", {}).get(node, {}).get("times", {})
    return {int(scope): us for scope, us in told.items()}
