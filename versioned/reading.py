"""Reading a stored table of any kind, by its path or its name; and which table a short name means."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from versioned.identifiers import TableRef


def read_table(session: Any, target: TableRef, version: int | None = None) -> DataFrame:
    """All rows of a table, lazily: each use sees the newest state, or always a certain version."""
    reader = session.read.format("delta") if version is None else session.read.option("versionAsOf", version)
    frame: DataFrame = reader.format("delta").load(target.path) if target.path is not None else reader.table(target.sql)
    return frame


def in_full(session: Any, target: TableRef) -> TableRef:
    """The table that a name of one part means now, under its whole name.

    A handle keeps it: whatever catalog and schema the session uses later, it is the same table, and no temporary view
    of that name stands in its place.
    """
    if len(target.parts) != 1:
        return target
    catalog, schema = session.catalog.currentCatalog(), session.catalog.currentDatabase()
    # A schema within others is told as one text, of which nobody can say where it parts.
    return target if "." in schema else TableRef(parts=(catalog, schema, *target.parts))
