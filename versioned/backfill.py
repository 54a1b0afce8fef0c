"""Backfill: puts old history into a live versioned table, with grace off.

A record of a backfill is never too late. It may be too new: stream time belongs to the live input, and history must not
move it, so such records are rejected. Therefore nothing that the stream decides by its stream time (late, closed,
expired) changes, and results that were already emitted are not corrected.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window

from versioned import spark_functions as F
from versioned.durations import LONGEST_US
from versioned.identifiers import TableRef, quote
from versioned.put import PutBatch
from versioned.put_checks import rejected_rows
from versioned.put_frames import PUT_RESULT
from versioned.put_result import outcome_rows
from versioned.reading import read_table
from versioned.spec import CURRENT, VersionedTableSpec
from versioned.system_history import next_system_us

_LOG: Final = logging.getLogger(__name__)
#: Reason of a rejected record: it lies after the stream time of the table, or of its key if stream time is per key.
NOT_HISTORY: Final = "NOT_HISTORY"
_LATEST_US: Final = "_latest_us"
_HORIZON_US: Final = "_horizon_us"


@dataclass(frozen=True)
class BackfillResult:
    """What became of a backfill.

    ``outcomes`` and ``rejected`` are rows as for a put. ``counts`` has ``accepted``; among these ``latest`` (current
    versions after the whole backfill), ``out_of_order``, ``spliced`` (into closed history) and ``expired`` (after the
    backfill their validity ends by the horizon, or they are latest deletions from before it: no promised lookup finds
    them, and the next purge removes them); and ``rejected``, also per reason as ``rejected.NULL_KEY`` and so on.
    ``accepted + rejected`` = number of input rows. ``version`` is the commit; None = nothing was written.
    ``by_others``: the tables of the application in which changes made by somebody else, including puts by hand, were
    undone together with a batch that had landed in part (set by ``streams.spark.backfill`` only; after its ``dry_run``,
    the tables in which they would be).
    """

    outcomes: DataFrame
    rejected: DataFrame
    counts: Mapping[str, int]
    version: int | None = None
    by_others: tuple[str, ...] = ()


def only_history(
    shaped: DataFrame, times: Mapping[int, int], current: DataFrame, spec: VersionedTableSpec
) -> DataFrame:
    """Move records into the scope that is furthest ahead, and give those after its stream time a reason.

    If stream time is per key, records after the latest version of their key get a reason too.

    Args:
        shaped: Records with ``_us``, ``_scope`` and ``_reason``.
        times: Stream time per scope; empty for a table without records, which accepts all.
        current: The table's current rows.
        spec: Its contract.
    """
    if not times:
        return shaped
    scope = max(times, key=lambda one: (times[one], one))
    newest_us = F.lit(times[scope])
    if spec.time_scope == "key":
        shaped = _with_latest(shaped, current, spec)
        newest_us = F.coalesce(_LATEST_US, newest_us)
    too_new = F.when(F.col("_us") > newest_us, NOT_HISTORY)
    told = shaped.withColumns({"_scope": F.lit(scope), "_reason": F.coalesce("_reason", too_new)})
    return told.drop(_LATEST_US)


def _with_latest(frame: DataFrame, current: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Add the start of the latest version of each row's key; null if the key has none."""
    latest = F.unix_micros(quote(spec.valid_from)).alias(_LATEST_US)
    return frame.join(current.select(*map(quote, spec.keys), latest), list(spec.keys), "left")


def backfill_frame(
    spark: SparkSession,
    target: TableRef,
    spec: VersionedTableSpec,
    shaped: DataFrame,
    times: Mapping[int, int],
    judged: Mapping[str, object],
    *,
    dry_run: bool,
) -> BackfillResult:
    """Judge, count and (unless ``dry_run``) write a backfill.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        shaped: Records from :func:`only_history`.
        times: The table's stream times.
        judged: What the commit says of them: the table version at which they were read.
        dry_run: Only count.
    """
    held = shaped.persist()
    # With the longest retention and grace no record is refused.
    lenient = replace(spec, history_retention_us=LONGEST_US, grace_us=LONGEST_US)
    batch = PutBatch(target, lenient, held.where(F.col("_reason").isNull()).drop("_reason"), times)
    try:
        outcomes = batch.outcomes().localCheckpoint(eager=True)
        rejected = held.where(F.col("_reason").isNotNull()).localCheckpoint(eager=True)
        timed = _horizons(spark, target, spec, outcomes, batch.stream_times)
        counts = _counts(batch, timed, rejected, spec)
        version = None
        if counts["accepted"] and not dry_run:
            known = (next_system_us(spark, target), None) if spec.system_history else None
            version = batch.write(lambda _name: None, {"backfill": counts, **judged}, known).version
        _LOG.info("Backfill of %s%s: %s", target, " (dry run)" if dry_run else "", counts)
        return BackfillResult(outcome_rows(outcomes, spec), rejected_rows(rejected, spec), counts, version)
    finally:
        batch.release()
        held.unpersist()


def _horizons(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, outcomes: DataFrame, times: Mapping[int, int]
) -> DataFrame:
    """Add to outcomes ``_horizon_us``, the horizon of lookups once the backfill is in the table.

    Args:
        spark: The session.
        target: The table, without the backfill.
        spec: Its contract.
        outcomes: Accepted records.
        times: Stream time per scope after the backfill.
    """
    horizon_us = F.lit(spec.horizon_us(times)).cast("long")
    if spec.time_scope == "key":
        # No record lies after the latest version of its key, if it has one: those were rejected.
        newest = F.max("_us").over(Window.partitionBy(*map(quote, spec.keys)))
        outcomes = _with_latest(outcomes, read_table(spark, target).where(CURRENT), spec)
        horizon_us = F.coalesce(_LATEST_US, newest) - F.lit(spec.history_retention_us)
    return outcomes.withColumn(_HORIZON_US, horizon_us).drop(_LATEST_US)


def _lasting(outcomes: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Whether each accepted record is a latest version after the whole backfill, and whether a purge removes it.

    The outcome of a put does not show this: it describes the record at its own place, before later records of its key.

    Args:
        outcomes: With ``_horizon_us``.
        spec: The table's contract.

    Returns:
        ``latest`` and ``expired``; neither is true of a record that is replaced by another one at the same instant.
    """
    of_key = Window.partitionBy(*map(quote, spec.keys)).orderBy("_us", "_place", "_scope")
    before_stored = F.when(~F.col("_is_latest"), F.col(PUT_RESULT) * spec.time_resolution.value)
    next_us = F.lead("_us").over(of_key)
    told = outcomes.withColumn("_end_us", F.least(next_us, before_stored))
    stays, horizon_us = ~F.col("_end_us").eqNullSafe(F.col("_us")), F.col(_HORIZON_US)
    is_latest, is_dead = F.col("_end_us").isNull(), F.col("_value").isNull()
    expired = F.when(is_latest, is_dead & (F.col("_us") < horizon_us)).otherwise(F.col("_end_us") <= horizon_us)
    return told.select(is_latest.alias("latest"), F.coalesce(stays & expired, F.lit(False)).alias("expired"))


def _counts(batch: PutBatch, outcomes: DataFrame, rejected: DataFrame, spec: VersionedTableSpec) -> dict[str, int]:
    told = _lasting(outcomes, spec).agg(F.count_if("latest").alias("latest"), F.count_if("expired").alias("expired"))
    lasts = told.collect()[0]
    reasons = {f"rejected.{row[0]}": row[1] for row in rejected.groupBy("_reason").count().collect()}
    of_puts = batch.counts
    return {
        "accepted": of_puts.accepted,
        "latest": lasts["latest"],
        "out_of_order": of_puts.out_of_order,
        "spliced": of_puts.spliced,
        "expired": lasts["expired"],
        "rejected": sum(reasons.values()),
        **reasons,
    }
