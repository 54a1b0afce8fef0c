"""Reading a stored table of any kind, by its path or its name; and which table a short name means."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame

from versioned import spark_functions as F
from versioned.identifiers import TableRef

_CATALOG: Final = "spark.sql.catalog."


def read_table(session: Any, target: TableRef, version: int | None = None) -> DataFrame:
    """All rows of a table, lazily: each use sees the newest state, or always a certain version.

    Never what a user keeps of the table in Spark's cache: that hears nothing of what another process writes, which
    would be undone by writing it back. Spark takes what it has cached for any plan with the same columns of the same
    table. A column of its own, of which nothing is asked once the plan is optimized, makes this one another plan.
    """
    rows = read_or_cached(session, target, version)
    # A version stays as it is.
    return rows if version is not None else rows.where(F.col("_metadata.file_path").isNotNull())


def read_or_cached(session: Any, target: TableRef, version: int | None = None) -> DataFrame:
    """As :func:`read_table`, for users to read: what they have cached of it is taken from there."""
    reader = session.read.format("delta") if version is None else session.read.option("versionAsOf", version)
    frame: DataFrame = reader.format("delta").load(target.path) if target.path is not None else reader.table(target.sql)
    return frame


def in_full(session: Any, target: TableRef) -> TableRef:
    """The table that a name of one part, or of a schema and a table, means now, under its whole name.

    A handle keeps it: whatever catalog and schema the session uses later, it is the same table, and no temporary view
    of that name stands in its place.
    """
    if len(target.parts) == 2 and not _is_catalog(session, target.parts[0]):
        return TableRef(parts=(session.catalog.currentCatalog(), *target.parts))
    if len(target.parts) != 1:
        return target
    catalog, schema = session.catalog.currentCatalog(), session.catalog.currentDatabase()
    # A schema within others is told as one text, of which nobody can say where it parts.
    return target if "." in schema else TableRef(parts=(catalog, schema, *target.parts))


def _is_catalog(session: Any, name: str) -> bool:
    if name.lower() in (catalog.name.lower() for catalog in session.catalog.listCatalogs()):
        return True
    # Spark lists a catalog of the session's settings only once it was used.
    try:
        return session.conf.get(f"{_CATALOG}{name}", None) is not None
    except Exception:  # the class differs between classic and Connect sessions, and some tell no such setting
        return False
