"""System time of a versioned table: what it knew at an instant, even after VACUUM (docs/decisions/0010).

A table created with ``system_history=True`` has a second table next to it, ``<name>_known``: one row per accepted put,
with ``systemFrom``, the instant from which it was known. Rows are only ever appended. Since a version ends where the
next one of its key begins, the puts known at an instant determine everything that the table said then; nothing that was
superseded has to be found, closed or moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql.types import BooleanType, DataType, LongType, StructType, TimestampType

from versioned import spark_functions as F
from versioned.durations import instant_us
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef, quote
from versioned.making import check_new, is_unmade, make_table, replace_table
from versioned.reading import read_table
from versioned.schema import create_statement, create_table, stored_columns
from versioned.spec import DELETED, KNOWN_BATCH, SYSTEM_FROM, VersionedTableSpec, known_target
from versioned.sql_types import nullable, sql_properties
from versioned.statistics import hide
from versioned.table_details import is_missing, properties_of

#: Table property: the table whose system history this is.
KNOWN_OF: Final = "versioned.knownOf"
_RANK: Final = "_rank"


def make_versioned(
    spark: SparkSession,
    target: TableRef,
    columns: StructType,
    spec: VersionedTableSpec,
    hidden: Collection[str],
    *,
    or_take: bool = False,
) -> bool:
    """Make an empty versioned table, and its system history if it keeps one.

    Args:
        spark: The session.
        target: The table, under its whole name.
        columns: Names and types of its key and value columns.
        spec: Its spec.
        hidden: Columns of which no statistics are kept; those that it does not have make no difference.
        or_take: Whether a table that somebody else made meanwhile will do, as for
            :func:`~versioned.making.make_table`.

    Returns:
        Whether it was made here; False if somebody else's is taken.

    Raises:
        ConfigurationError: a key column is missing or of a type that is not allowed, or a table exists already.
    """
    try:
        check_new(spark, target, columns, spec)
        if spec.system_history:
            create_known(spark, target, columns, spec, hidden, or_take=or_take)
    except ConfigurationError:
        # Somebody else has made both tables, and their system history may already have rows.
        if or_take and not is_unmade(spark, target):
            return False
        raise
    return make_table(spark, target, create_statement(target, columns, spec, hidden), or_take=or_take)


def create_known(
    spark: SparkSession,
    target: TableRef,
    columns: StructType,
    spec: VersionedTableSpec,
    hidden: Collection[str],
    *,
    or_take: bool = False,
) -> None:
    """Make the table of puts beside a versioned table that is about to be made.

    Args:
        spark: The session.
        target: The versioned table.
        columns: Names and types of its key and value columns.
        spec: Its spec.
        hidden: Columns of which no statistics are kept.
        or_take: As for :func:`make_versioned`.

    Raises:
        ConfigurationError: there is one already with rows, of a table that was deleted; or the table there is not a
            system history.
    """
    known = known_target(target)
    stored, said = _columns_of_puts(columns, spec), {KNOWN_OF: target.short_name}
    if is_unmade(spark, known):
        make_table(spark, known, create_table(known, stored, hidden, properties=said), or_take=or_take)
        return
    rows = read_table(spark, known)
    _check_free(known, target, is_ours=KNOWN_OF in properties_of(spark, known), is_empty=rows.isEmpty())
    if _shape(rows.schema) != _shape(stored):
        # It is empty: nothing was ever put into its table, or that was never made.
        replace_table(spark, known, create_table(known, stored, properties=said))
    if hidden:
        hide(spark, known, hidden)


def _check_free(known: TableRef, target: TableRef, *, is_ours: bool, is_empty: bool) -> None:
    if not is_ours:
        raise ConfigurationError(
            f"{known} is no system history, but {target} would keep its own there. Move it away, then create again; or "
            "choose another name."
        )
    if not is_empty:
        raise ConfigurationError(f"{known} holds the system history of another table. Move it away, then create again.")


def _columns_of_puts(columns: StructType, spec: VersionedTableSpec) -> StructType:
    """The columns of ``<name>_known``, from columns that include those of keys and values."""
    types = {field.name: field.dataType for field in columns.fields}
    own = {spec.valid_from: TimestampType(), SYSTEM_FROM: TimestampType(), DELETED: BooleanType()}
    never_null = {*spec.keys, *own}
    types |= own | {KNOWN_BATCH: LongType()}
    names = (*spec.keys, spec.valid_from, *spec.values, DELETED, SYSTEM_FROM, KNOWN_BATCH)
    return stored_columns(names, types, never_null)


def _shape(columns: StructType) -> list[tuple[str, DataType]]:
    return [(field.name, nullable(field.dataType)) for field in columns.fields]


def check_known(spark: SparkSession, target: TableRef, spec: VersionedTableSpec, columns: StructType) -> None:
    """Refuse a table whose system history is not beside it: a put would begin a new one, with a gap.

    Args:
        spark: The session.
        target: The versioned table.
        spec: Its spec.
        columns: Its columns.

    Raises:
        ConfigurationError: the system history is missing or does not fit; the message says how to mend that.
    """
    known = known_target(target)
    if not spec.system_history:
        return
    if not is_missing(spark, known):
        found, wanted = read_table(spark, known).schema, _columns_of_puts(columns, spec)
        # It gets new columns first, and keeps them when the table is restored to before that; then they stay null.
        if dict(_shape(found)).items() >= dict(_shape(wanted)).items():
            return
        raise ConfigurationError(
            f"{known} has the columns {found.simpleString()}, but the system history of {target} has "
            f"{wanted.simpleString()}. If somebody changed one of the two, change the other one alike, or restore it; "
            f"if it belongs to another table, move it away and let that of {target} follow."
        )
    follow = (
        f"move the folder <former path>_known to {known.path} (copy it, if the table was copied)"
        if known.path is not None
        else f"ALTER TABLE <former name>_known RENAME TO {_within_catalog(known).sql}"
    )
    none = sql_properties(replace(spec, system_history=False).to_properties())
    raise ConfigurationError(
        f"{target} keeps its system history in {known}, which is missing. If the table was renamed, moved or copied, "
        f"let its system history follow: {follow}. If that is gone for good, let the table keep none: "
        f"ALTER TABLE {target.sql} SET {none}"
    )


def known_rows(puts: DataFrame, spec: VersionedTableSpec, known_at: Column) -> DataFrame:
    """The versions that were known at an instant of system time, including those that the table has purged.

    Args:
        puts: The rows of the table ``<name>_known``.
        spec: The versioned table.
        known_at: The instant of system time, inclusive.

    Returns:
        Keys, validFrom, validTo, values, ``deleted``.
    """
    keys, start = [F.col(quote(name)) for name in spec.keys], F.col(quote(spec.valid_from))
    newest = Window.partitionBy(*keys, start).orderBy(F.desc(SYSTEM_FROM), F.desc_nulls_last(KNOWN_BATCH))
    following = F.lead(start).over(Window.partitionBy(*keys).orderBy(start))
    known = puts.where(F.col(SYSTEM_FROM) <= known_at).withColumn(_RANK, F.row_number().over(newest))
    ended = known.where(F.col(_RANK) == 1).withColumn(spec.valid_to, following)
    return ended.select(*map(quote, spec.shown), DELETED)


def next_system_us(spark: SparkSession, target: TableRef) -> int:
    """The earliest system time for a put outside a stream: now, but later than everything known already."""
    now = instant_us(datetime.now(timezone.utc))
    newest: Mapping[str, int | None] = (
        read_table(spark, known_target(target)).agg(F.unix_micros(F.max(SYSTEM_FROM)).alias("us")).collect()[0].asDict()
    )
    return now if newest["us"] is None else max(now, newest["us"] + 1)


def _within_catalog(table: TableRef) -> TableRef:
    """A table's name as RENAME takes it: in Spark's own catalog, without the catalog's name."""
    return TableRef(parts=table.parts[1:]) if table.parts[:1] == ("spark_catalog",) else table
