"""What a put by hand needs to know before it writes: its batch, and the current state of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from versioned import spark_functions as F
from versioned.identifiers import TableRef
from versioned.once import Once
from versioned.side_by_side import side_by_side
from versioned.spec import VersionedTableSpec
from versioned.stream_times import AsOf, as_of, commits_that_tell, stream_times_of
from versioned.table_details import properties_of
from versioned.written import check_owner, newest, owner_of, refuse_between_writes


@dataclass(frozen=True)
class BatchSurvey:
    """What :class:`~versioned.put.PutBatch` can use about a batch, and how many of its rows are rejected."""

    bounds: dict[int, tuple[int, int]]
    count: int
    rejected: int


@dataclass(frozen=True)
class PutSurvey:
    """What is known of a batch and of its table before the put.

    Args:
        batch: What one job found out about the records.
        records: The batch, shaped for the table's columns; ``_reason`` is null if a record can be put.
        owner: The application that owns the table.
        stream_times: The table's stream time per scope.
        judged: The table version at which they were read.
    """

    batch: BatchSurvey
    records: DataFrame
    owner: str | None
    stream_times: dict[int, int]
    judged: AsOf


def survey_put(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, shape: Callable[[], DataFrame], owner: str | None
) -> PutSurvey:
    """Survey a batch and its table at the same time.

    Args:
        spark: The session.
        target: The table.
        spec: Its spec.
        shape: Returns the batch's records in the shape that the table takes.
        owner: The application in whose name they are put.

    Raises:
        ConfigurationError: another application than ``owner`` writes to the table, or a batch has written only its late
            records so far.
    """
    # Read once: the result that is worked out later must be about the same records.
    shaped = Once(lambda: shape().localCheckpoint(eager=False))
    told = Once(lambda: _survey_records(shaped()))
    commits = Once(partial(commits_that_tell, spark, target))
    times = Once(lambda: stream_times_of(spark, target, spec, commits()))
    # The first to read a new version of a table waits until Delta has built its snapshot: better now, in parallel with
    # the survey, than in the write.
    put_together = partial(properties_of, spark, target)
    side_by_side([told, times, put_together], spark)
    found = owner_of(spark, target, commits())
    check_owner(target, found, owner)
    if found is not None:
        refuse_between_writes(target, newest(spark, target))
    return PutSurvey(told(), shaped(), found, times(), as_of(commits()))


def _survey_records(shaped: DataFrame) -> BatchSurvey:
    """Oldest and newest ``_us`` per scope of a batch, and its number of records: one job, for rows that are cached.

    Args:
        shaped: Records with ``_reason``, which is not null for rows to be rejected.
    """
    valid = F.col("_reason").isNull()
    rows = (
        shaped.groupBy("_scope")
        .agg(
            F.min(F.when(valid, F.col("_us"))).alias("oldest"),
            F.max(F.when(valid, F.col("_us"))).alias("newest"),
            F.count_if(valid).alias("valid"),
            F.count_if(~valid).alias("rejected"),
        )
        .collect()
    )
    bounds = {row["_scope"]: (row["oldest"], row["newest"]) for row in rows if row["valid"]}
    return BatchSurvey(bounds, sum(row["valid"] for row in rows), sum(row["rejected"] for row in rows))
