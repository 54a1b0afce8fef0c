"""Releases rows that a batch kept for reuse when the batch ends, not when Python collects its garbage.

Spark keeps such rows until nothing refers to them. A batch's objects refer to each other in cycles, which Python
collects rarely: with a million records per batch, three gigabytes of a driver's eight were rows of finished batches,
older ones went to disk, and garbage collection took a fifth of the time. A collection takes 0.05 s, so batches of
few records do without it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

#: The number of records from which on a batch is followed by a collection.
MANY_RECORDS: Final = 50_000


def giving_back(run: Callable[[DataFrame, int], int]) -> Callable[[DataFrame, int], None]:
    """A function that runs a batch by ``run``, which returns its number of records, and then collects its garbage."""

    def run_batch(frame: DataFrame, batch_id: int) -> None:
        if run(frame, batch_id) >= MANY_RECORDS:
            gc.collect()

    return run_batch
