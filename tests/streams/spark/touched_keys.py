"""Applications whose versioned tables have deletion vectors and whose batches write the rows of their own keys only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from versioned import touched
from versioned.session_settings import session_settings

#: However large a batch is, and whatever came before it.
_ALWAYS: Final = {"ROWS_PER_NAMED": 0, "ROWS_PER_MERGED": 0, "ROWS_PER_PUT": 1, "MOST_TOUCHED": 1_000_000}
_DEFAULT: Final = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
#: How keys are found, with what tells of it in the log of a table.
WAYS: Final = {"named": "xxhash64", "merged": '"operation":"MERGE"'}


def deletion_vectors(spark: SparkSession) -> AbstractContextManager[None]:
    """Tables that are made meanwhile have them."""
    return session_settings(spark, {_DEFAULT: "true"})


@contextmanager
def rows_by_key(spark: SparkSession, way: str = "named") -> Iterator[None]:
    """Every batch of a versioned table but its first writes the rows of its own keys only."""
    with pytest.MonkeyPatch.context() as patch, deletion_vectors(spark):
        for name, value in {**_ALWAYS, **({"MOST_NAMED": 0} if way == "merged" else {})}.items():
            patch.setattr(touched, name, value)
        yield


def was_taken(way: str, table: Path) -> bool:
    """Whether some put into a versioned table went that way."""
    logs = [log.read_text() for log in (table / "_delta_log").glob("*.json")]
    return any(WAYS[way] in log and "currentRows" in log for log in logs)
