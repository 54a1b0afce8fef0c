"""Adds columns to an existing table; they are null in all existing rows.

The columns of a versioned table are added in one commit. Before it, the table's properties announce them
(``versioned.adding``), so that a crash at any point does not leave a table that looks as if someone else had changed
it. After it, they are part of the spec. The system history gets the columns first, where they do no harm.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from versioned import faults
from versioned.commit import with_retry
from versioned.errors import SchemaError
from versioned.identifiers import TableRef, quote
from versioned.making import not_kept
from versioned.reading import read_table
from versioned.spec import ADDING, VersionedTableSpec, announced, is_widened, known_target
from versioned.sql_types import nullable, nullable_columns, sql_columns
from versioned.statistics import hide
from versioned.table_details import properties_of, set_properties
from versioned.written import check_owner, owner_of

_WAY_OF_COLUMNS: Final = (
    "whose next batch would refuse it with other columns. Give its plan the columns, and start it with --add-columns."
)


def lacking(there: StructType, columns: StructType) -> StructType:
    """The columns that a table lacks, ignoring case; all of them, and all that is in them, are nullable.

    >>> from pyspark.sql.types import LongType
    >>> had = StructType().add("Id", LongType())
    >>> lacking(had, StructType().add("id", LongType()).add("n", LongType(), nullable=False)).simpleString()
    'struct<n:bigint>'
    """
    names = nullable_columns(there)
    fields = [StructField(f.name, nullable(f.dataType)) for f in columns.fields if f.name.lower() not in names]
    return StructType(fields)


def add_columns(
    session: SparkSession, target: TableRef, columns: StructType, after: str | None = None, hidden: Collection[str] = ()
) -> None:
    """Give a table the columns that it lacks, in one commit, and keep those with personal data out of its statistics.

    Tests may make it fail at the points ``before:<table>/columns`` and ``after:<table>/columns``.

    Args:
        session: The session.
        target: The table.
        columns: Their names and types; those that it has are left as they are.
        after: The column after which they are added; None = after the last one.
        hidden: Columns of which no statistics are kept.

    Raises:
        ConfigurationError: Delta does not keep columns of such a type or name.
        SchemaError: a column exists already, with another type.
        CommitError: others changed the table during each of six tries.
    """

    def add() -> None:
        there = read_table(session, target).schema
        _check_same(target, there, columns)
        missing = lacking(there, columns)
        if missing.fields:
            session.sql(_statement(target, missing, after))

    if hidden:
        hide(session, target, hidden)  # First, so that the log never holds a value of them.
    faults.point(f"before:{target.short_name}/columns")
    try:
        with_retry(target, add)
    except Exception as error:  # the class differs between classic and Connect sessions
        refused = not_kept(target, error)
        if refused is None:
            raise
        raise refused from error
    faults.point(f"after:{target.short_name}/columns")


def add_values(
    session: SparkSession,
    target: TableRef,
    spec: VersionedTableSpec,
    columns: StructType,
    owner: str | None,
    hidden: Collection[str],
) -> VersionedTableSpec:
    """Add value columns to a versioned table, and to its system history if it keeps one.

    Args:
        session: The session.
        target: The table.
        spec: Its current spec.
        columns: Names and types; value columns that the table already has, with the same type, are ignored.
        owner: The application that owns it, if one does.
        hidden: Columns of which no statistics are kept.

    Returns:
        Its new spec.

    Raises:
        ConfigurationError: another application owns the table; a name is not allowed, or belongs to a column that is
            not a value; or as for :func:`add_columns`.
        SchemaError: a column exists already, with another type.
    """
    wider = widened(session, target, spec, columns, owner)
    new = wider.values[len(spec.values) :]
    if spec.system_history:
        add_columns(session, known_target(target), columns, (spec.valid_from, *spec.values)[-1], hidden)
    promise = partial(_promise, session, target, new)
    if new:
        with_retry(target, partial(_announce, session, target, new))
        add_columns(session, target, columns, spec.shown[-1], hidden)
        with_retry(target, promise)
    # Once more: somebody else may have written back an older spec in between.
    return with_retry(target, promise)


def _announce(session: SparkSession, target: TableRef, new: Sequence[str]) -> None:
    """Announce the values that are about to be added, keeping those that others have announced."""
    others = announced(properties_of(session, target))
    set_properties(session, target, {ADDING: json.dumps([*others, *(name for name in new if name not in others)])})


def _promise(session: SparkSession, target: TableRef, new: Sequence[str]) -> VersionedTableSpec:
    """Write the values that have been added, also by others, into the stored spec, and return that."""
    properties, there = properties_of(session, target), read_table(session, target).columns
    stored = VersionedTableSpec.from_properties(properties, str(target), there)
    promised = replace(stored, values=tuple(name for name in there if name in {*stored.values, *new}))
    if is_widened(properties) or promised != stored:
        awaited = [name for name in announced(properties) if name not in there]
        set_properties(session, target, {**promised.to_properties(), ADDING: json.dumps(awaited)})
    return promised


def widened(
    session: SparkSession,
    target: TableRef,
    spec: VersionedTableSpec,
    columns: StructType,
    owner: str | None = None,
) -> VersionedTableSpec:
    """The spec that a versioned table would have with further value columns; nothing is changed.

    Args:
        session: The session.
        target: The table.
        spec: Its current spec.
        columns: As for :func:`add_values`.
        owner: As for :func:`add_values`.

    Raises:
        ConfigurationError, SchemaError: as for :func:`add_values`, except for what Delta does not keep.
    """
    check_owner(target, owner_of(session, target), owner, _WAY_OF_COLUMNS)
    _check_same(target, read_table(session, target).schema, columns)
    # The spec checks the names.
    return replace(spec, values=(*spec.values, *(name for name in columns.names if name not in spec.values)))


def _check_same(target: TableRef, there: StructType, columns: StructType) -> None:
    had = nullable_columns(there)
    for name, kind in nullable_columns(columns).items():
        if had.get(name, kind) != kind:
            raise SchemaError(
                f'{target} has the column "{name}" already, as {had[name].simpleString()}, not {kind.simpleString()}. '
                "A column keeps its type: choose another name."
            )


def _statement(target: TableRef, columns: StructType, after: str | None) -> str:
    told = []
    for field in columns.fields:
        place = "" if after is None else f" AFTER {quote(after)}"
        told.append(f"{sql_columns(StructType([field]))}{place}")
        after = after and field.name
    return f"ALTER TABLE {target.sql} ADD COLUMNS ({', '.join(told)})"
