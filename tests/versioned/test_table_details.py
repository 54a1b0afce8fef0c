"""Whether a table is there."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from versioned.commit import Append, commit
from versioned.identifiers import TableRef
from versioned.table_details import is_missing


def test_a_table_is_missing_until_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    target = TableRef.parse(str(tmp_path / "later"))
    assert is_missing(spark, target)
    commit(target, lambda: Append(spark.range(1)))
    assert not is_missing(spark, target)
