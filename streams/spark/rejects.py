"""The rejects table of an application: every record that was put aside, with its reason."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streams.spark.operator import Batch
from versioned.commit import Append, commit, is_missing
from versioned.identifiers import TableRef

_SCHEMA: Final = (
    "node STRING, reason STRING, ts TIMESTAMP, scope INT, place ARRAY<BIGINT>, record STRING, _batch_id LONG"
)


class Rejects:
    """Appends what the operators of a batch rejected, in one commit."""

    def __init__(self, target: TableRef) -> None:
        self.target = target

    def create(self, session: SparkSession) -> None:
        """Make the table if it is not there."""
        if is_missing(session, self.target):
            empty = session.createDataFrame([], _SCHEMA)
            commit(self.target, lambda: Append(empty))

    def write(self, batch: Batch) -> None:
        """Write the batch's rejects, if any; only the nodes that have some are looked at."""
        rejecting = {node for node, _ in batch.rejected}
        frames = [frame for node, frame in batch.rejects if node in rejecting]
        if not frames:
            return
        rows = reduce(DataFrame.unionByName, frames).withColumn("_batch_id", F.lit(batch.number).cast("long"))
        batch.commit(self.target, lambda: Append(rows), "rejects", "main")
