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
#: Of each table's log one of these is there: its first commit, or the checkpoint before which Delta removes commits.
_OF_EACH_LOG: Final = "{00000000000000000000.json,*.checkpoint*}"
#: So many commits tell whose a table is.
_LOOKED_AT: Final = 1_000
#: What each commit of this library tells.
_BY_US: Final = '"versioned"'
#: Makes a table of another one's files and properties, with none of its commits.
_CLONE: Final = "CLONE"
#: Whatever else there is, where the tables cannot be listed.
ANY: Final = "*"


def names_below(spark: SparkSession, root: TableRef) -> list[str]:
    """The names of the tables below a folder or address, which Spark lists, or in a schema of a catalog, in order.

    Raises:
        AnalysisException: there is no such schema. Whatever the store, or Spark without its classes, says else.
    """
    return _of_schema(spark, root) if root.path is None else _of_folder(spark, root.path.rstrip("/"))


def left_behind(spark: SparkSession, root: TableRef, application: str, known: Iterable[TableRef]) -> tuple[str, ...]:
    """The tables below a root that an application may have written, but for some that are known.

    So are those of which no batch tells whose they are, if this library has written or made them, or they are a CLONE:
    upkeep may be all that is left of their log, and a CLONE has none of its original's. Tables of other applications
    are not, nor are those of nobody.

    Args:
        spark: The session.
        root: Where the application's tables lie.
        application: Its name.
        known: The tables that are left out.

    Returns:
        Their names, in order; :data:`ANY` alone if they cannot be listed, which is logged.
    """
    left_out = {_as_listed(target) for target in known}
    try:
        names = names_below(spark, root)
    except Exception as error:  # of whatever kind: an erasure must not wait for rights to list a bucket
        told = "The tables below %s cannot be listed, so look for others there yourself: %s"
        _LOG.warning(told, root, first_line(error))
        return (ANY,)
    there = {name: root.child(name) for name in names}
    others = {name: target for name, target in there.items() if _as_listed(target) not in left_out}
    return tuple(name for name, target in others.items() if _may_be_of(spark, target, application))


def _of_folder(spark: SparkSession, root: str) -> list[str]:
    TableRef.parse(f"{root}/")  # What Spark would take for a pattern is refused.
    logs = spark.read.format("binaryFile").option("pathGlobFilter", _OF_EACH_LOG)
    try:
        # It only lists: no file is opened, and no task runs for one.
        files = logs.load(f"{root}/*/_delta_log").inputFiles()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        return []
    # They come as in a URL: what is no letter of one is told by its number.
    return sorted({unquote(file).rsplit("/", 3)[1] for file in files})


def _of_schema(spark: SparkSession, schema: TableRef) -> list[str]:
    found = spark.sql(f"SHOW TABLES IN {schema.sql}").where("NOT isTemporary").collect()
    views = set[str]()
    with suppress(AnalysisException):  # Some catalogs know no views, and then have none among their tables.
        views = {row["viewName"] for row in spark.sql(f"SHOW VIEWS IN {schema.sql}").collect()}
    return sorted({row["tableName"] for row in found} - views)


def _as_listed(target: TableRef) -> str:
    # A catalog lists names in small letters, whatever they were made in.
    return str(target) if target.path is not None else str(target).lower()


def _may_be_of(spark: SparkSession, target: TableRef, application: str) -> bool:
    try:
        detail = detail_of(spark, target)
        if detail is None or detail["format"] != "delta":
            return False
        is_telling = F.col("userMetadata").contains(_BY_US) | (F.col("operation") == _CLONE)
        told = history(spark, target, _LOOKED_AT, is_telling)
    except Exception as error:  # of whatever kind: what cannot be looked at is not known to be somebody else's
        _LOG.warning("Whose table %s is cannot be told: %s", target, first_line(error))
        return True
    owner = told_owner(told)
    if owner not in (None, (None,)):
        return owner == (application,)
    tells = any(row["operation"] == _CLONE or own_details(row) is not None for row in told)
    return tells or says_what_it_is(detail["properties"])
