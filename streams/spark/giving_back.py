"""Releases rows that a batch kept for reuse when the batch ends, not when Python collects its garbage.

Spark keeps such rows until nothing refers to them. What a batch makes refers to itself in circles, of which Python
finds out rarely: with a million records a batch three gigabytes of a driver of eight were rows of batches long over,
old ones went to disk, and the collector took a fifth of the time. The look takes 0.05 s, so batches of few records go
without.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

#: From so many records on a batch is worth the look.
MANY_RECORDS: Final = 50_000


def giving_back(run: Callable[[DataFrame, int], int]) -> Callable[[DataFrame, int], None]:
    """What runs a batch and says how many records it had, with a look for what the batch left behind."""

    def run_batch(frame: DataFrame, batch_id: int) -> None:
        if run(frame, batch_id) >= MANY_RECORDS:
            gc.collect()

    return run_batch
