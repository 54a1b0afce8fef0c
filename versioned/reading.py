"""Reads a stored table of any kind by path or name, and resolves short table names."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame

from versioned import spark_functions as F
from versioned.identifiers import TableRef

_CATALOG: Final = "spark.sql.catalog."
_SPARKS_OWN: Final = "spark_catalog"


def read_table(session: Any, target: TableRef, version: int | None = None) -> DataFrame:
    """All rows of a table, lazily: each use sees the newest state, or always the given version.

    This never reads what a user has cached of the table: Spark's cache does not notice what other processes write, and
    writing it back would undo that. Spark uses cached data for any plan with the same columns of the same table. An
    extra column, which is optimized away again, makes this one a different plan.
    """
    rows = read_or_cached(session, target, version)
    # A version never changes.
    return rows if version is not None else rows.where(F.col("_metadata.file_path").isNotNull())


def read_or_cached(session: Any, target: TableRef, version: int | None = None) -> DataFrame:
    """Like :func:`read_table`, for reads by users: what they have cached of the table is used."""
    reader = session.read.format("delta") if version is None else session.read.option("versionAsOf", version)
    frame: DataFrame = reader.format("delta").load(target.path) if target.path is not None else reader.table(target.sql)
    return frame


def in_full(session: Any, target: TableRef) -> TableRef:
    """The full name of the table that a name of one or two parts means in the session's current catalog and schema.

    A handle keeps the full name: it stays the same table whatever catalog and schema the session uses later, and no
    temporary view of that name takes its place.
    """
    if len(target.parts) == 2 and not _is_catalog(session, target.parts[0]):
        return TableRef(parts=(session.catalog.currentCatalog(), *target.parts))
    if len(target.parts) != 1:
        return target
    catalog, schema = session.catalog.currentCatalog(), session.catalog.currentDatabase()
    # A nested schema is given as one text, which cannot be split reliably.
    return target if "." in schema else TableRef(parts=(catalog, schema, *target.parts))


def sql_in(session: Any, target: TableRef) -> str:
    """How SQL text names a table in this session.

    A query, a MERGE and a CREATE look up even a path in the current catalog. One that the session's settings add may
    know no tables by path; then Spark's own catalog is named. A catalog that no setting adds is the service's own.
    """
    if target.path is None:
        return target.sql
    current = session.catalog.currentCatalog()
    is_added = current != _SPARKS_OWN and _is_set(session, current)
    return f"{_SPARKS_OWN}.{target.sql}" if is_added else target.sql


def _is_catalog(session: Any, name: str) -> bool:
    if name.lower() in (catalog.name.lower() for catalog in session.catalog.listCatalogs()):
        return True
    # Spark lists a catalog of the session's settings only once it was used.
    return _is_set(session, name)


def _is_set(session: Any, name: str) -> bool:
    """Whether the session's settings add a catalog of this name."""
    try:
        return session.conf.get(f"{_CATALOG}{name}", None) is not None
    except Exception:  # the class differs between classic and Connect sessions, and some tell no such setting
        return False
