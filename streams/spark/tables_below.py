"""The tables below an application's root, including those that its plan no longer writes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from versioned import spark_functions as F
from versioned.errors import first_line
from versioned.identifiers import TableRef
from versioned.table_details import detail_of
from versioned.table_log import history, own_details
from versioned.written import says_what_it_is, told_owner

_LOG: Final = logging.getLogger(__name__)
#: Each table's log has one of these: its first commit, or a checkpoint, before which Delta removes commits.
_OF_EACH_LOG: Final = "{00000000000000000000.json,*.checkpoint*}"
#: How many commits are read to find a table's owner.
_LOOKED_AT: Final = 1_000
#: Text in the metadata of every commit by this library.
_BY_US: Final = '"versioned"'
#: An operation that makes a table from another one's files and properties, with none of its commits.
_CLONE: Final = "CLONE"
#: Stands for any tables, if they cannot be listed.
ANY: Final = "*"


def names_below(spark: SparkSession, root: TableRef) -> list[str]:
    """The sorted names of the tables below a folder or URL, listed by Spark, or in a schema of a catalog.

    Raises:
        AnalysisException: there is no such schema. Other errors of the store, or of Spark if it lacks the store's
            classes, are raised as they are.
    """
    return _of_schema(spark, root) if root.path is None else _of_folder(spark, root.path.rstrip("/"))


def left_behind(spark: SparkSession, root: TableRef, application: str, known: Iterable[TableRef]) -> tuple[str, ...]:
    """The tables below a root that an application may have written, other than the known ones.

    They include tables whose owner no batch shows, if this library has written or made them or they are a CLONE:
    commits of upkeep may be all that is left in their log, and a CLONE has no commits of its original. They do not
    include tables of other applications, or tables without any trace of this library.

    Args:
        spark: The session.
        root: Where the application's tables lie.
        application: Its name.
        known: The tables to leave out.

    Returns:
        Their names, sorted; only :data:`ANY` if the tables cannot be listed, which is logged.
    """
    left_out = {_as_listed(target) for target in known}
    try:
        names = names_below(spark, root)
    except Exception as error:  # of any kind: an erasure must not depend on the right to list a bucket
        told = "The tables below %s cannot be listed, so look for others there yourself: %s"
        _LOG.warning(told, root, first_line(error))
        return (ANY,)
    there = {name: root.child(name) for name in names}
    others = {name: target for name, target in there.items() if _as_listed(target) not in left_out}
    return tuple(name for name, target in others.items() if _may_be_of(spark, target, application))


def _of_folder(spark: SparkSession, root: str) -> list[str]:
    TableRef.parse(f"{root}/")  # Raises if Spark would take the path for a pattern.
    logs = spark.read.format("binaryFile").option("pathGlobFilter", _OF_EACH_LOG)
    try:
        # This only lists files: none is opened, and no task runs.
        files = logs.load(f"{root}/*/_delta_log").inputFiles()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        return []
    # The names are URL-encoded.
    return sorted({unquote(file).rsplit("/", 3)[1] for file in files})


def _of_schema(spark: SparkSession, schema: TableRef) -> list[str]:
    found = spark.sql(f"SHOW TABLES IN {schema.sql}").where("NOT isTemporary").collect()
    views = set[str]()
    with suppress(AnalysisException):  # Some catalogs have no views, so none are among their tables.
        views = {row["viewName"] for row in spark.sql(f"SHOW VIEWS IN {schema.sql}").collect()}
    return sorted({row["tableName"] for row in found} - views)


def _as_listed(target: TableRef) -> str:
    # A catalog lists names in lower case, however they were written.
    return str(target) if target.path is not None else str(target).lower()


def _may_be_of(spark: SparkSession, target: TableRef, application: str) -> bool:
    try:
        detail = detail_of(spark, target)
        if detail is None or detail["format"] != "delta":
            return False
        is_telling = F.col("userMetadata").contains(_BY_US) | (F.col("operation") == _CLONE)
        told = history(spark, target, _LOOKED_AT, is_telling)
    except Exception as error:  # of any kind: a table that cannot be read may be the application's
        _LOG.warning("Whose table %s is cannot be told: %s", target, first_line(error))
        return True
    owner = told_owner(told)
    if owner not in (None, (None,)):
        return owner == (application,)
    tells = any(row["operation"] == _CLONE or own_details(row) is not None for row in told)
    return tells or says_what_it_is(detail["properties"])
