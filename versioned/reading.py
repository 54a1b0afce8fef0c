"""Reading a stored table of any kind, by its path or its name."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from versioned.identifiers import TableRef


def read_table(session: Any, target: TableRef, version: int | None = None) -> DataFrame:
    """All rows of a table, lazily: each use sees the newest state, or always a certain version."""
    reader = session.read.format("delta") if version is None else session.read.option("versionAsOf", version)
    frame: DataFrame = reader.format("delta").load(target.path) if target.path is not None else reader.table(target.sql)
    return frame
