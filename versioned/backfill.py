"""Backfill: old history put into a live versioned table, with grace off.

A record of a backfill is never too late; it may be too new, since stream time belongs to the live input and must not
be moved by history: such records are rejected. So nothing that the stream decides by its stream time (late, closed,
expired) changes, and results that were sent out before are not corrected.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession

from versioned import spark_functions as F
from versioned.durations import LONGEST_US
from versioned.identifiers import TableRef, quote
from versioned.put import PutBatch
from versioned.put_frames import PUT_RESULT
from versioned.spec import VersionedTableSpec
from versioned.system_history import next_system_us

_LOG: Final = logging.getLogger(__name__)
#: Reason of a rejected record: it lies after the stream time of the table, or of its key where each has its own.
NOT_HISTORY: Final = "NOT_HISTORY"
_LATEST_US: Final = "_latest_us"


@dataclass(frozen=True)
class BackfillResult:
    """What became of a backfill.

    ``outcomes`` and ``rejected``: rows as of a put. ``counts``: ``accepted``; of these ``latest`` (current versions
    now), ``out_of_order``, ``spliced`` (into closed history) and ``expired`` (their validity ends before the horizon:
    no promised lookup finds them, and the next purge removes them); ``rejected`` and, per reason, ``rejected.NULL_KEY``
    and so on. ``accepted + rejected`` = number of input rows. ``version`` is the commit; None = nothing was written.
    """

    outcomes: DataFrame
    rejected: DataFrame
    counts: Mapping[str, int]
    version: int | None = None


def only_history(
    shaped: DataFrame, times: Mapping[int, int], current: DataFrame, spec: VersionedTableSpec
) -> DataFrame:
    """Records in the scope that is furthest ahead; those after its stream time get a reason.

    Where each key has a stream time of its own, those after the latest version of their key do too.

    Args:
        shaped: Records with ``_us``, ``_scope`` and ``_reason``.
        times: Stream time per scope; empty for a table without records, which takes all.
        current: The table's current rows.
        spec: Its contract.
    """
    if not times:
        return shaped
    scope = max(times, key=lambda one: (times[one], one))
    newest_us = F.lit(times[scope])
    if spec.time_scope == "key":
        latest = current.select(*map(quote, spec.keys), F.unix_micros(quote(spec.valid_from)).alias(_LATEST_US))
        shaped = shaped.join(latest, list(spec.keys), "left")
        newest_us = F.coalesce(_LATEST_US, newest_us)
    too_new = F.when(F.col("_us") > newest_us, NOT_HISTORY)
    told = shaped.withColumns({"_scope": F.lit(scope), "_reason": F.coalesce("_reason", too_new)})
    return told.drop(_LATEST_US)


def backfill_frame(
    spark: SparkSession,
    target: TableRef,
    spec: VersionedTableSpec,
    shaped: DataFrame,
    times: Mapping[int, int],
    judged: Mapping[str, object] | None = None,
    *,
    dry_run: bool = False,
) -> BackfillResult:
    """Judge, count and (unless ``dry_run``) write a backfill.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        shaped: Records as of :func:`only_history`.
        times: The table's stream times.
        judged: What its commit says of them: by which version they are told.
        dry_run: Only count.
    """
    held = shaped.persist()
    # Kept beyond any lateness: then nothing is refused.
    lenient = replace(spec, history_retention_us=LONGEST_US, grace_us=LONGEST_US)
    batch = PutBatch(target, lenient, held.where(F.col("_reason").isNull()).drop("_reason"), times)
    try:
        outcomes = batch.outcomes().localCheckpoint(eager=True)
        rejected = held.where(F.col("_reason").isNotNull()).localCheckpoint(eager=True)
        horizon_us = spec.horizon_us(times)
        horizon = None if horizon_us is None else F.lit(horizon_us // spec.time_resolution.value)
        counts = _counts(batch, outcomes, rejected, horizon)
        version = None
        if counts["accepted"] and not dry_run:
            known = (next_system_us(spark, target), None) if spec.system_history else None
            version = batch.write(lambda _name: None, {"backfill": counts, **(judged or {})}, known).version
        _LOG.info("Backfill of %s%s: %s", target, " (dry run)" if dry_run else "", counts)
        return BackfillResult(outcomes, rejected, counts, version)
    finally:
        batch.release()
        held.unpersist()


def _counts(batch: PutBatch, outcomes: DataFrame, rejected: DataFrame, horizon: Column | None) -> dict[str, int]:
    ended = ~F.col("_is_latest")
    expired = F.lit(False) if horizon is None else ended & (F.col(PUT_RESULT) <= horizon)
    told = outcomes.agg(F.count_if(~ended).alias("latest"), F.count_if(expired).alias("expired")).collect()[0]
    reasons = {f"rejected.{row[0]}": row[1] for row in rejected.groupBy("_reason").count().collect()}
    of_puts = batch.counts
    return {
        "accepted": of_puts.accepted,
        "latest": told["latest"],
        "out_of_order": of_puts.out_of_order,
        "spliced": of_puts.spliced,
        "expired": told["expired"],
        "rejected": sum(reasons.values()),
        **reasons,
    }
