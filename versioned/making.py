"""Making a table, also where a kill cut off the making of the same table before.

All that a table is made with (constraints, columns without statistics) is in its one statement: whatever had to be
added by a second one would be missing for ever where a kill came in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from versioned import faults
from versioned.commit import Append, commit, is_conflict
from versioned.errors import CommitError, ConfigurationError, first_line
from versioned.identifiers import TableRef
from versioned.reading import read_table
from versioned.schema import check_keys
from versioned.session_settings import with_sound_reads
from versioned.spec import VersionedTableSpec
from versioned.table_details import detail_of, is_missing
from versioned.table_log import history, own_details, remember

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: The table is there, or somebody else made it between the look for it and the commit.
_OCCUPIED: Final = (
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
    "ProtocolChangedException",
    "MetadataChangedException",
    "DELTA_CREATE_TABLE_WITH_DIFFERENT_",
    "DELTA_CREATE_TABLE_SCHEME_MISMATCH",
)
#: Another maker's table is where the first commit of a log was to go.
_OTHER_COLUMNS: Final = "DELTA_METADATA_MISMATCH"
#: Of each maker that comes upon a log without a commit there may be one in it.
_MOST_MAKERS: Final = 10
_OTHER_TYPES: Final = (
    "Use types that Delta keeps, such as STRING without a collation, or BIGINT microseconds for an interval."
)
_OTHER_NAMES: Final = "Name each field of a struct once, whatever its case, with letters, digits and _."
#: What Delta, or this Spark, does not keep, and what to do.
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
    """Refuse what cannot be made as a versioned table.

    Raises:
        ConfigurationError: a key column is missing or of a type that is not allowed, or the table exists already.
    """
    check_keys(columns, spec)
    if not is_unmade(session, target):
        raise ConfigurationError(f"{target} exists already. Open it, or choose another name.")


def is_unmade(session: SparkSession, target: TableRef) -> bool:
    """Whether there is no table yet, or only the first commits that :func:`make_table` gives a log without one."""
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

    Tests may make it fail before and after, at the points ``before:<table>`` and ``after:<table>``.

    A kill can leave a log without a commit. Delta makes no table over one, but appends to it; so the log gets a first
    commit, and the table takes its place. A kill between the two leaves a table without rows, which is none yet. Of
    several makers that come upon such a log one makes the table.

    Args:
        session: The session.
        target: The table.
        create: The statement; it starts with ``CREATE TABLE``.
        or_take: Whether a table that somebody else made meanwhile will do: of two drivers that start at once, the
            first write into the table decides which one goes on, and the other is told why not.

    Returns:
        Whether it was made here; False for one that is taken.

    Raises:
        ConfigurationError: somebody else made it meanwhile, and that will not do; or other files are at its path; or
            Delta keeps no columns of such a type; or the session refuses a setting that this library cannot do without.
    """
    with_sound_reads(session)  # Else a table would be left that nobody can use from here.
    faults.point(f"before:{target.short_name}")
    try:
        session.sql(create)
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
    """Whether the table could be made where a kill had cut off the making of it; else somebody else has made it.

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
        # Right before it is replaced: another maker's table may have rows by now. Delta itself tells of what comes
        # while it is replaced.
        if not is_unmade(session, target):
            return False
    try:
        replace_table(session, create)
    except Exception as other:  # the class differs between classic and Connect sessions
        if not is_conflict(other) or is_unmade(session, target):
            raise
        return False
    return True


def _begin(session: SparkSession, target: TableRef) -> None:
    """Give a log its first commit, unless another maker does."""

    def first() -> Append:
        # Where a session lets columns be added, the table of the other maker would get one.
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
    """What to do where Delta keeps no columns of such a type or name; None if a statement failed for another reason."""
    told = f"{type(error).__name__} {error}"
    advice = next((advice for name, advice in _NOT_KEPT.items() if name in told), None)
    if advice is None:
        return None
    return ConfigurationError(f"{target} cannot be made with these columns: {first_line(error)} {advice}")


def replace_table(session: SparkSession, create: str) -> None:
    """Run a CREATE TABLE, which starts with these words, in place of a table that is there."""
    # Of a path Spark's catalog knows nothing, and "CREATE OR REPLACE" would only create.
    session.sql(create.replace("CREATE TABLE", "REPLACE TABLE", 1))


def _is_cut_off(session: SparkSession, path: str) -> bool:
    """Whether a path without a table has a log, and no other file; what is somebody else's stays as it is."""
    files = session.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    return files.select("path").isEmpty()
