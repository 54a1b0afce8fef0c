"""The columns of a versioned table: allowed key types, the DDL, and the contract checked when a table is opened."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pyspark.errors import ParseException
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    CharType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    NullType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from versioned.append_only import REPLACES_ROWS
from versioned.errors import ConfigurationError, SchemaError, first_line
from versioned.identifiers import TableRef, quote
from versioned.spec import CURRENT, DELETED, VersionedTableSpec
from versioned.sql_types import has_order, kinds_in, sql_columns, sql_properties
from versioned.statistics import statistics_from_start

#: The CHECK constraint by which each version ends after it begins, and the table property that Delta keeps it under.
INTERVAL: Final = "versioned_interval"
_CONSTRAINT: Final = f"delta.constraints.{INTERVAL}"
#: The type of local times, as DDL says it in every session.
_LOCAL_TIME: Final = re.compile(r"\btimestamp_ntz\b|\btimestamp\s+without\s+time\s+zone\b", re.IGNORECASE)
_AS_IN: Final = 'Write it as in "item STRING, price DOUBLE".'


def from_ddl(ddl: str) -> DataType:
    """What DDL says: columns with their types, or one type. ``TIMESTAMP`` is an instant in every session.

    Needs a running session.

    Raises:
        ParseException: Spark does not understand it.
    """
    read = DataType.fromDDL(ddl)
    if not any(isinstance(kind, TimestampNTZType) for kind in kinds_in(read)):
        return read
    # Spark parses by the settings of the session that is active in the JVM, which Python neither knows nor can set. So
    # a second look, at the text with another type for TIMESTAMP_NTZ, tells which local times were TIMESTAMP.
    return _with_instants(read, DataType.fromDDL(_LOCAL_TIME.sub("BOOLEAN", ddl)))


def _with_instants(kind: DataType, unsaid: DataType) -> DataType:
    """A type with instants for those local times that are local times in the other type too, of the same shape."""
    if isinstance(kind, StructType) and isinstance(unsaid, StructType):
        types = [_with_instants(*pair) for pair in zip(_types(kind), _types(unsaid), strict=True)]
        fields = zip(kind.fields, types, strict=True)
        return StructType([StructField(field.name, one, field.nullable, field.metadata) for field, one in fields])
    if isinstance(kind, ArrayType) and isinstance(unsaid, ArrayType):
        return ArrayType(_with_instants(kind.elementType, unsaid.elementType), kind.containsNull)
    if isinstance(kind, MapType) and isinstance(unsaid, MapType):
        key, value = _with_instants(kind.keyType, unsaid.keyType), _with_instants(kind.valueType, unsaid.valueType)
        return MapType(key, value, kind.valueContainsNull)
    return TimestampType() if isinstance(kind, TimestampNTZType) and kind == unsaid else kind


def _types(struct: StructType) -> list[DataType]:
    return [field.dataType for field in struct.fields]


def columns_of(schema: str | StructType) -> StructType:
    """The columns of a schema.

    Args:
        schema: DDL, or the columns themselves.

    Raises:
        ConfigurationError: it names no columns, or types that Spark does not know, or texts of a bounded length, which
            Delta stores as unbounded text.
    """
    try:
        columns = from_ddl(schema) if isinstance(schema, str) else schema
    except ParseException as error:
        raise ConfigurationError(
            f'The schema "{schema}" names no columns with types: {first_line(error)} {_AS_IN}'
        ) from error
    if not isinstance(columns, StructType):
        raise ConfigurationError(f'The schema "{schema}" names no columns. {_AS_IN}')
    _check_texts(columns)
    return columns


def _check_texts(columns: StructType) -> None:
    """Refuse CHAR and VARCHAR anywhere in a column: nothing here enforces their length.

    Raises:
        ConfigurationError: names the column and its type.
    """
    for field in columns.fields:
        if _has_bounded_text(field.dataType):
            raise ConfigurationError(
                f'Column "{field.name}" is {field.dataType.simpleString()}, but texts have no bounded length here. Use '
                "STRING."
            )


def check_keys(columns: StructType, spec: VersionedTableSpec) -> None:
    """Refuse keys that are missing, have no order or no exact equality, or could only be null.

    Raises:
        ConfigurationError: names the column and its type.
    """
    types = dict(zip(columns.names, (field.dataType for field in columns.fields), strict=True))
    for name in spec.keys:
        if name not in types:
            raise ConfigurationError(f'Key column "{name}" is not in the schema; it has {columns.names}.')
        if not may_be_key(types[name]):
            raise ConfigurationError(
                f'Key column "{name}" has type {types[name].simpleString()}, which has no order or no exact equality, '
                "or only nulls. Use a string, whole number, decimal, date, timestamp, boolean or binary, or a struct "
                "or array of these."
            )


def create_statement(ref: TableRef, columns: StructType, spec: VersionedTableSpec, hidden: Collection[str]) -> str:
    """The DDL of a versioned table; its properties carry the spec and the constraint on validity intervals.

    Args:
        ref: The table.
        columns: Names and types of its key and value columns.
        spec: Its spec.
        hidden: Columns of which no statistics are kept.
    """
    types = {field.name: field.dataType for field in columns.fields}
    types |= {spec.valid_from: TimestampType(), spec.valid_to: TimestampType()}
    types |= {DELETED: BooleanType(), CURRENT: BooleanType()}
    never_null = {*spec.keys, spec.valid_from, DELETED, CURRENT}
    names = (*spec.shown, DELETED, CURRENT)
    stored = stored_columns(names, types, never_null)
    said = {**spec.to_properties(), **_constraint(spec), **REPLACES_ROWS}
    # No statistics of values: they take a tenth of a put, and files with random keys are not skipped by them.
    indexed = (*spec.keys, spec.valid_from, spec.valid_to)
    return create_table(ref, stored, hidden, partitioned_by=(CURRENT,), properties=said, indexed=indexed)


def create_plain(
    ref: TableRef,
    columns: StructType,
    hidden: Collection[str] = (),
    *,
    partitioned_by: Collection[str] = (),
    properties: Mapping[str, str] = MappingProxyType({}),
    indexed: Collection[str] | None = None,
) -> str:
    """Like :func:`create_table`, for the columns of a frame: all of them are nullable, whatever the frame says.

    >>> create_plain(TableRef.parse("sales.seen"), StructType().add("at", TimestampType(), nullable=False))
    'CREATE TABLE `sales`.`seen` (`at` timestamp_ltz) USING DELTA'
    """
    stored = StructType([StructField(field.name, field.dataType) for field in columns.fields])
    return create_table(ref, stored, hidden, partitioned_by=partitioned_by, properties=properties, indexed=indexed)


def create_table(
    ref: TableRef,
    columns: StructType,
    hidden: Collection[str] = (),
    *,
    partitioned_by: Collection[str] = (),
    properties: Mapping[str, str],
    indexed: Collection[str] | None = None,
) -> str:
    """The DDL of a table, one statement that also sets which columns have statistics.

    Args:
        ref: The table.
        columns: Names, types, and whether they may be null.
        hidden: Columns of which no statistics are kept.
        partitioned_by: Columns that partition the table.
        properties: Further table properties.
        indexed: The columns that have statistics; None = the first ones, as Delta does.

    >>> at = StructType().add("at", TimestampType(), nullable=False)
    >>> create_table(TableRef.parse("sales.seen"), at, properties={})
    'CREATE TABLE `sales`.`seen` (`at` timestamp_ltz NOT NULL) USING DELTA'
    """
    said = {**properties, **statistics_from_start(columns, hidden, partitioned_by, indexed)}
    split = f" PARTITIONED BY ({', '.join(map(quote, partitioned_by))})" if partitioned_by else ""
    told = f" {sql_properties(said)}" if said else ""
    return f"CREATE TABLE {ref.sql} ({sql_columns(columns)}) USING DELTA{split}{told}"


def stored_columns(names: Iterable[str], types: Mapping[str, DataType], never_null: Collection[str]) -> StructType:
    """The columns of a table that is about to be made, in the order of ``names``.

    >>> stored_columns(["id", "at"], {"at": TimestampType(), "id": BooleanType()}, {"id"}).simpleString()
    'struct<id:boolean,at:timestamp>'
    """
    return StructType([StructField(name, types[name], name not in never_null) for name in names])


def check_schema(found: StructType, spec: VersionedTableSpec, ref: TableRef) -> None:
    """Refuse a stored table whose columns are not the ones of its spec.

    Raises:
        SchemaError: names the columns that differ.
    """
    expected = [*spec.shown, DELETED, CURRENT]
    if found.names != expected:
        more = [name for name in found.names if name not in expected]
        added = f" If add_columns gave it {more} since it was opened, open it again." if more else ""
        raise SchemaError(
            f"{ref} has columns {found.names}, but its spec promises {expected}. "
            "Somebody changed the table: RESTORE it to its version before that (DESCRIBE HISTORY tells it), or make a "
            f"new one and backfill it.{added}"
        )
    for name, kind in ((spec.valid_from, "timestamp"), (spec.valid_to, "timestamp"), (DELETED, "boolean")):
        if found[name].dataType.simpleString() != kind:
            raise SchemaError(f'{ref}: column "{name}" is {found[name].dataType.simpleString()}, not {kind}.')


def _constraint(spec: VersionedTableSpec) -> dict[str, str]:
    """The last defence: a constraint that each version ends after it begins, and ``_current`` agrees with validTo."""
    start, end = quote(spec.valid_from), quote(spec.valid_to)
    return {_CONSTRAINT: f"({end} IS NULL OR {start} < {end}) AND {quote(CURRENT)} = ({end} IS NULL)"}


def _has_bounded_text(kind: DataType) -> bool:
    """Whether CHAR or VARCHAR is in a type."""
    return any(isinstance(inner, (CharType, VarcharType)) for inner in kinds_in(kind))


def may_be_key(kind: DataType) -> bool:
    """Whether a key column of a versioned table may have a type.

    >>> may_be_key(BooleanType()), may_be_key(DoubleType())
    (True, False)
    """
    # VOID has only null, which is not a key.
    return has_order(kind) and not any(isinstance(inner, (NullType, FloatType, DoubleType)) for inner in kinds_in(kind))


def values_of(names: Sequence[str], keys: Sequence[str]) -> list[str]:
    """The columns that are not keys; a key that occurs twice is among them, to be refused later like any other name.

    Raises:
        ConfigurationError: a key occurs in another letter case only.

    >>> values_of(["id", "v"], ["id"]), values_of(["id", "id", "v"], ["id"])
    (['v'], ['id', 'v'])
    >>> values_of(["Id", "v"], ["id"])
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: keys has "id", which the schema calls "Id". Write both alike.
    """
    others = list(names)
    for key in keys:
        if key in others:
            others.remove(key)
            continue
        alike = next((name for name in names if name.lower() == key.lower()), None)
        if alike is not None and key not in names:
            raise ConfigurationError(f'keys has "{key}", which the schema calls "{alike}". Write both alike.')
    return others
