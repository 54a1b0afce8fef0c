"""Creates a table, even after a crash interrupted an earlier attempt to create it.

Everything that a table is created with (constraints, columns without statistics) is part of a single statement.
Whatever a second statement would add would be missing for ever if a crash came in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from versioned import faults
from versioned.commit import Append, commit, is_conflict
from versioned.errors import CommitError, ConfigurationError, first_line
from versioned.identifiers import TableRef
from versioned.reading import read_table, sql_in
from versioned.schema import check_keys
from versioned.session_settings import with_sound_reads
from versioned.spec import VersionedTableSpec
from versioned.table_details import detail_of, is_missing
from versioned.table_log import history, own_details, remember

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: Errors of a table that exists, or that somebody else made between the check for it and the commit.
_OCCUPIED: Final = (
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
    "ProtocolChangedException",
    "MetadataChangedException",
    "DELTA_CREATE_TABLE_WITH_DIFFERENT_",
    "DELTA_CREATE_TABLE_SCHEME_MISMATCH",
)
#: Error if another maker's table is where the first commit of a log was to go.
_OTHER_COLUMNS: Final = "DELTA_METADATA_MISMATCH"
#: Each maker that finds a log without a commit may add one; at most this many are looked at.
_MOST_MAKERS: Final = 10
_OTHER_TYPES: Final = (
    "Use types that Delta keeps, such as STRING without a collation, or BIGINT microseconds for an interval."
)
_OTHER_NAMES: Final = "Name each field of a struct once, whatever its case, with letters, digits and _."
#: Errors for what Delta, or this Spark, does not keep, and what to do.
_NOT_KEPT: Final = {
    "DELTA_UNSUPPORTED_DATA_TYPES": _OTHER_TYPES,
    "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE": _OTHER_TYPES,
    "DELTA_GEOSPATIAL_NOT_SUPPORTED": _OTHER_TYPES,
    "UNSUPPORTED_TIME_TYPE": _OTHER_TYPES,
    "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES": _OTHER_NAMES,
    "DELTA_DUPLICATE_COLUMNS_FOUND": _OTHER_NAMES,
    "COLUMN_ALREADY_EXISTS": _OTHER_NAMES,
}


class _BegunError(Exception):
    """Another maker has given the log its first commit."""


def check_new(session: SparkSession, target: TableRef, columns: StructType, spec: VersionedTableSpec) -> None:
    """Refuse a versioned table that cannot be made.

    Raises:
        ConfigurationError: a key column is missing or of a type that is not allowed, or the table exists already.
    """
    check_keys(columns, spec)
    if not is_unmade(session, target):
        raise ConfigurationError(f"{target} exists already. Open it, or choose another name.")


def is_unmade(session: SparkSession, target: TableRef) -> bool:
    """Whether there is no table yet, or only the first commits that :func:`make_table` adds to an empty log."""
    if target.path is None:
        return is_missing(session, target)
    detail = detail_of(session, target)
    return detail is None or (detail["numFiles"] == 0 and _is_begun(session, target))


def _is_begun(session: SparkSession, target: TableRef) -> bool:
    commits = history(session, target, _MOST_MAKERS)
    are_own = all(row["operation"] == "WRITE" and own_details(row) is not None for row in commits)
    return are_own and read_table(session, target).dtypes == session.range(0).dtypes


def make_table(session: SparkSession, target: TableRef, create: str, *, or_take: bool = False) -> bool:
    """Run a CREATE TABLE for a table that is missing.

    Tests may make it fail at the points ``before:<table>`` and ``after:<table>``.

    A kill can leave a log without a commit. Delta does not create a table there, but appends to it; so the log gets a
    first commit, and then the table replaces it. A kill between the two leaves a table without rows, which counts as
    not made. If several makers find such a log, one of them makes the table.

    Args:
        session: The session.
        target: The table.
        create: The statement; it starts with ``CREATE TABLE``.
        or_take: Whether a table that somebody else made meanwhile will do: if two drivers start at once, the first
            write into the table decides which one goes on, and the other one gets an error that says why.

    Returns:
        Whether it was made here; False if somebody else's is taken.

    Raises:
        ConfigurationError: somebody else made it meanwhile, and that will not do; other files are at its path; Delta
            does not keep columns of such a type; or the session refuses a setting that this library needs.
    """
    with_sound_reads(session)  # First: otherwise a table would be left that this session cannot use.
    faults.point(f"before:{target.short_name}")
    try:
        _run_ddl(session, target, create)
    except Exception as error:  # the class differs between classic and Connect sessions
        refused = not_kept(target, error)
        if refused is not None:
            raise refused from error
        if not any(name in f"{type(error).__name__} {error}" for name in _OCCUPIED):
            raise
        if not _has_taken_place(session, target, create, error):
            if or_take:
                return False
            raise ConfigurationError(
                f"{target} was made by somebody else meanwhile. Open it, or choose another name."
            ) from error
    else:
        remember(target, 0)
    faults.point(f"after:{target.short_name}")
    return True


def _has_taken_place(session: SparkSession, target: TableRef, create: str, error: Exception) -> bool:
    """Whether the table could be made where a kill had cut off its making; otherwise somebody else has made it.

    Raises:
        ConfigurationError: other files are at its path.
    """
    if not is_unmade(session, target):
        return False
    if is_missing(session, target):
        if target.path is None:
            raise error
        if not _is_cut_off(session, target.path):
            raise ConfigurationError(
                f"{target} exists already, and holds files that are no Delta table. Choose another path, or move "
                "them away."
            ) from error
        _begin(session, target)
        # Check right before replacing it: another maker's table may have rows by now. What comes while it is being
        # replaced, Delta itself reports as a conflict.
        if not is_unmade(session, target):
            return False
    try:
        replace_table(session, target, create)
    except Exception as other:  # the class differs between classic and Connect sessions
        if not is_conflict(other) or is_unmade(session, target):
            raise
        return False
    return True


def _begin(session: SparkSession, target: TableRef) -> None:
    """Give a log its first commit, unless another maker does."""

    def first() -> Append:
        # If the session allows schema evolution, the other maker's table would get a column.
        if not is_missing(session, target):
            raise _BegunError
        return Append(session.range(0))

    try:
        commit(target, first)
    except _BegunError:
        return
    except Exception as error:  # the class differs between classic and Connect sessions
        if not (isinstance(error, CommitError) or _OTHER_COLUMNS in f"{type(error).__name__} {error}"):
            raise


def not_kept(target: TableRef, error: Exception) -> ConfigurationError | None:
    """The error to raise if Delta does not keep columns of such a type or name; None for any other failure."""
    told = f"{type(error).__name__} {error}"
    advice = next((advice for name, advice in _NOT_KEPT.items() if name in told), None)
    if advice is None:
        return None
    return ConfigurationError(f"{target} cannot be made with these columns: {first_line(error)} {advice}")


def replace_table(session: SparkSession, target: TableRef, create: str) -> None:
    """Replace an existing table by that of a statement that starts with ``CREATE TABLE``."""
    # Spark's catalog does not know tables by path, so "CREATE OR REPLACE" would only create.
    _run_ddl(session, target, create.replace("CREATE TABLE", "REPLACE TABLE", 1))


def _run_ddl(session: SparkSession, target: TableRef, statement: str) -> None:
    """Run a CREATE or REPLACE, in which the table first gets the name that this session needs."""
    session.sql(statement.replace(target.sql, sql_in(session, target), 1))


def _is_cut_off(session: SparkSession, path: str) -> bool:
    """Whether a path without a table has no files besides a log; files of somebody else must stay as they are."""
    files = session.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    return files.select("path").isEmpty()
