"""Warns of tables in an in-memory ``spark_catalog``: they are forgotten with the process, though their files stay."""

from __future__ import annotations

import logging
from typing import Final

from pyspark.sql import SparkSession

from versioned.identifiers import TableRef
from versioned.reading import in_full

_LOG: Final = logging.getLogger(__name__)
_SPARKS_OWN: Final = "spark_catalog"
#: A session in which both say so forgets its tables. Another class for Spark's own catalog keeps them itself.
_IN_MEMORY: Final = {
    "spark.sql.catalogImplementation": "in-memory",
    f"spark.sql.catalog.{_SPARKS_OWN}": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def warn_if_forgotten(spark: SparkSession, target: TableRef, folder: str) -> None:
    """Log a warning if the session's catalog will not outlast the process: whoever makes tables there is not done.

    Args:
        spark: The session.
        target: A table that is made, or one of those that an application makes.
        folder: How the same is said of a folder: ``./prices``.
    """
    if target.path is not None or in_full(spark, target).parts[0].lower() != _SPARKS_OWN:
        return
    try:
        # Without a value to fall back on: Spark would give that one instead of its own default.
        is_in_memory = all(spark.conf.get(name) == value for name, value in _IN_MEMORY.items())
    except Exception:  # the class differs between classic and Connect sessions, and some tell no such setting
        return
    if is_in_memory:
        _LOG.warning(
            "%s is in spark_catalog, which this session keeps in memory: when the process ends the table is forgotten, "
            "and only its files stay. For a folder write %s; or let Spark keep its catalog: "
            "spark.sql.catalogImplementation=hive, with a metastore.",
            target,
            folder,
        )
