"""The columns of a versioned table: what may be a key, the DDL, and the contract checked when a table is opened."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType, VariantType

from versioned.errors import ConfigurationError, SchemaError
from versioned.identifiers import TableRef, quote, text_literal
from versioned.spec import CURRENT, DELETED, VersionedTableSpec
from versioned.sql_types import sql_type


def check_keys(columns: StructType, spec: VersionedTableSpec) -> None:
    """Refuse keys that are missing or have no order or no exact equality.

    Raises:
        ConfigurationError: naming the column and its type.
    """
    types = dict(zip(columns.names, (field.dataType for field in columns.fields), strict=True))
    for name in spec.keys:
        if name not in types:
            raise ConfigurationError(f'Key column "{name}" is not in the schema; it has {columns.names}.')
        if not _orderable(types[name]):
            raise ConfigurationError(
                f'Key column "{name}" has type {types[name].simpleString()}, which has no order or no exact equality. '
                "Use a string, number, date, timestamp, boolean or binary, or a struct or array of these."
            )


def create_statement(ref: TableRef, columns: StructType, spec: VersionedTableSpec) -> str:
    """The DDL of the table; the spec travels in its properties."""
    types = {field.name: sql_type(field.dataType) for field in columns.fields}
    lines = [f"{quote(name)} {types[name]} NOT NULL" for name in spec.keys]
    lines += [f"{quote(spec.valid_from)} TIMESTAMP NOT NULL", f"{quote(spec.valid_to)} TIMESTAMP"]
    lines += [f"{quote(name)} {types[name]}" for name in spec.values]
    lines += [f"{quote(DELETED)} BOOLEAN NOT NULL", f"{quote(CURRENT)} BOOLEAN NOT NULL"]
    properties = _properties(spec.to_properties())
    return f"CREATE TABLE {ref.sql} ({', '.join(lines)}) USING DELTA PARTITIONED BY ({quote(CURRENT)}) {properties}"


def constraint_statement(ref: TableRef, spec: VersionedTableSpec) -> str:
    """The last line of defence: no version ends before it begins, and ``_current`` says what validTo says."""
    start, end = quote(spec.valid_from), quote(spec.valid_to)
    rule = f"({end} IS NULL OR {start} < {end}) AND {quote(CURRENT)} = ({end} IS NULL)"
    return f"ALTER TABLE {ref.sql} ADD CONSTRAINT versioned_interval CHECK ({rule})"


def check_schema(found: StructType, spec: VersionedTableSpec, ref: TableRef) -> None:
    """Compare a stored table's columns with what its spec promises.

    Raises:
        SchemaError: naming the columns that differ.
    """
    expected = [*spec.keys, spec.valid_from, spec.valid_to, *spec.values, DELETED, CURRENT]
    if found.names != expected:
        raise SchemaError(
            f"{ref} has columns {found.names}, but its spec promises {expected}. "
            "Somebody changed the table: restore it, or make a new one and backfill it."
        )
    for name, kind in ((spec.valid_from, "timestamp"), (spec.valid_to, "timestamp"), (DELETED, "boolean")):
        if found[name].dataType.simpleString() != kind:
            raise SchemaError(f'{ref}: column "{name}" is {found[name].dataType.simpleString()}, not {kind}.')


def _orderable(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_orderable(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _orderable(kind.elementType)
    return not isinstance(kind, (MapType, VariantType, FloatType, DoubleType))


def _properties(properties: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in properties.items())
    return f"TBLPROPERTIES ({pairs})"
