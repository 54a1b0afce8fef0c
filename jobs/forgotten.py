"""Warns of tables in an in-memory ``spark_catalog``: they are forgotten with the process, though their files stay."""

from __future__ import annotations

import logging
from typing import Final

from pyspark.sql import SparkSession

from versioned.identifiers import TableRef
from versioned.reading import in_full

_LOG: Final = logging.getLogger(__name__)
_SPARKS_OWN: Final = "spark_catalog"
#: A session with both of these settings forgets its tables. Another class as ``spark_catalog`` keeps them itself.
_IN_MEMORY: Final = {
    "spark.sql.catalogImplementation": "in-memory",
    f"spark.sql.catalog.{_SPARKS_OWN}": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def warn_if_forgotten(spark: SparkSession, target: TableRef, folder: str) -> None:
    """Log a warning if a table is in a catalog that is lost when the process ends.

    Args:
        spark: The session.
        target: A new table, or one of the tables that an application creates.
        folder: How to name a folder in its place, for the message: ``./prices``.
    """
    if target.path is not None or in_full(spark, target).parts[0].lower() != _SPARKS_OWN:
        return
    try:
        # Without a default argument: Spark would return that one instead of its own default.
        is_in_memory = all(spark.conf.get(name) == value for name, value in _IN_MEMORY.items())
    except Exception:  # its class differs between classic and Connect sessions; some do not reveal these settings
        return
    if is_in_memory:
        _LOG.warning(
            "%s is in spark_catalog, which this session keeps in memory: when the process ends the table is forgotten, "
            "and only its files stay. For a folder write %s; or let Spark keep its catalog: "
            "spark.sql.catalogImplementation=hive, with a metastore.",
            target,
            folder,
        )
