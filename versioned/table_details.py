"""Whether a table exists, and its details and properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from versioned.errors import NotAVersionedTableError
from versioned.identifiers import TableRef
from versioned.sql_types import sql_properties

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_VIEW: Final = "EXPECT_TABLE_NOT_VIEW"
#: Errors that say that there is no table at a path.
_MISSING: Final = (
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "PATH_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
)


def is_missing(session: SparkSession, target: TableRef) -> bool:
    """Whether there is no Delta table yet at the path or name."""
    if target.path is None:
        return not session.catalog.tableExists(target.sql)
    return detail_of(session, target) is None


def detail_of(session: SparkSession, target: TableRef) -> Row | None:
    """The row of DESCRIBE DETAIL for a table; None if there is no table yet.

    Raises:
        NotAVersionedTableError: it is a view.
    """
    if target.path is None and not session.catalog.tableExists(target.sql):
        return None
    try:
        return detail_there(session, target)
    except Exception as error:  # the class differs between classic and Connect sessions
        if target.path is not None and any(reason in str(error) for reason in _MISSING):
            return None
        if _VIEW in str(error):
            raise NotAVersionedTableError(f"{target} is a view, which keeps no versions. Open its table.") from error
        raise


def detail_there(session: SparkSession, target: TableRef) -> Row:
    """Like :func:`detail_of`, for a table that exists."""
    # Collect the whole row: selecting from it would be a Spark job.
    return session.sql(f"DESCRIBE DETAIL {target.sql}").collect()[0]


def properties_of(session: SparkSession, target: TableRef) -> Mapping[str, str]:
    """The properties of a table that exists."""
    told: dict[str, str] = detail_there(session, target)["properties"]
    return told


def set_properties(session: SparkSession, target: TableRef, properties: Mapping[str, str]) -> None:
    """Set properties of a table that exists, in one commit; others stay as they are."""
    session.sql(f"ALTER TABLE {target.sql} SET {sql_properties(properties)}")
