"""What records must be like to be put into a versioned table: nothing of them is taken for something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from versioned import spark_functions as F
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US
from versioned.errors import SchemaError
from versioned.identifiers import quote
from versioned.spec import VersionedTableSpec

_INSTANTS: Final = (TimestampType, TimestampNTZType)
_NO_CAST: Final = "no value of the one type can be made one of the other. Give the column the table's type first."
_AS_INSTANT: Final = "Make it a timestamp first, with timestamp_millis, timestamp_micros or timestamp_seconds."


def check_there(records: DataFrame, wanted: Iterable[str]) -> None:
    """Refuse records that lack columns.

    Raises:
        SchemaError: telling which, and what there is.
    """
    missing = [name for name in wanted if name not in records.columns]
    if missing:
        raise SchemaError(f"The records lack {missing}; they have {records.columns}. Rename or add the columns.")


def check_types(records: DataFrame, types: Mapping[str, DataType], timestamp: str) -> None:
    """Refuse what no cast makes a value of the table's type, and what one would change.

    That is a number as an instant, of which it takes seconds, cut fractions, and the fields of a struct that go by
    other names, since it takes them by their places.

    Args:
        records: They have all columns of ``types``.
        types: Of the table's keys and values.
        timestamp: The records' column that tells from when on they hold.

    Raises:
        SchemaError: a column is of such a type.
    """
    check_instants(records, timestamp)
    given = {field.name: field.dataType for field in records.schema.fields}
    for name, kind in types.items():
        harm = _harm(given[name], kind) or (None if _has_cast(records, given[name], kind) else _NO_CAST)
        if harm is not None:
            raise SchemaError(
                f'The records have "{name}" as {given[name].simpleString()}, the table as {kind.simpleString()}: {harm}'
            )


def check_instants(records: DataFrame, timestamp: str) -> None:
    """Refuse numbers as the instants from which on records hold, and what cannot be read as an instant.

    Raises:
        SchemaError: telling the column and its type.
    """
    kind = records.schema[timestamp].dataType
    if isinstance(kind, (NumericType, BooleanType)):
        raise SchemaError(
            f'The timestamp "{timestamp}" is {kind.simpleString()}, which would be read as seconds. {_AS_INSTANT}'
        )
    if not _has_cast(records, kind, TimestampType()):
        told = kind.simpleString()
        raise SchemaError(f'The timestamp "{timestamp}" is {told}, which tells no instant. Make it a timestamp first.')


def check_roles(records: DataFrame, deleted: str | None, partition: str | None) -> None:
    """Refuse a column of deletions that is no boolean, and one of partitions that is no integer.

    Raises:
        SchemaError: telling the column and its type.
    """
    roles: list[tuple[str | None, type[DataType], str]] = [
        (deleted, BooleanType, f"are deletions. Make it a boolean, as with {deleted} = 1."),
        (partition, IntegralType, "belong to which partition. Make it an integer."),
    ]
    for name, wanted, told in roles:
        kind = NullType() if name is None else records.schema[name].dataType
        if not isinstance(kind, (wanted, NullType)):
            raise SchemaError(f'The column "{name}" is {kind.simpleString()}, but says which records {told}')


def casts(records: DataFrame, types: Mapping[str, DataType]) -> tuple[dict[str, Column], dict[str, Column]]:
    """The columns in the types of the table, and of those that are cast whether a value has none in that type.

    Whatever the session says of casts (ANSI or not), such a value neither becomes null in silence nor ends the put.
    Decimals are rounded as Spark does. Inside structs, arrays and maps it is as the session says.
    """
    given = {field.name: field.dataType for field in records.schema.fields}
    made, misfits = {}, {}
    for name, kind in types.items():
        value = F.col(quote(name))
        made[name] = _cast(value, given[name], kind)
        if not _is_as_the_session_says(given[name], kind):
            misfits[name] = value.isNotNull() & made[name].isNull()
    return made, misfits


def _cast(value: Column, given: DataType, kind: DataType) -> Column:
    return value.cast(kind) if _is_as_the_session_says(given, kind) else _in_bounds(value, kind)


def _is_as_the_session_says(given: DataType, kind: DataType) -> bool:
    return given == kind or isinstance(kind, (StructType, ArrayType, MapType))


def _in_bounds(value: Column, kind: DataType) -> Column:
    """The value in another type; null where that has none. Of what a FLOAT is too small for, Spark makes infinity."""
    told = value.try_cast(kind)
    if not isinstance(kind, FloatType):
        return told
    is_beyond = (F.abs(told) == float("inf")) & (F.abs(value.try_cast("double")) != float("inf"))
    return F.when(is_beyond, None).otherwise(told)


def cast_role(records: DataFrame, name: str, kind: DataType) -> tuple[Column, Column]:
    """A record's instant or partition in another type, and whether it has a value that is none of that type."""
    value = F.col(quote(name))
    if records.schema[name].dataType == kind:
        return value, F.lit(False)
    cast = value.try_cast(kind)
    return cast, value.isNotNull() & cast.isNull()


def reason(
    spec: VersionedTableSpec, us: Column, is_no_instant: Column, misfits: Iterable[Column], last_us: int | None = None
) -> Column:
    """Why a record is rejected; null if it is not.

    Args:
        spec: The table.
        us: The record's instant.
        is_no_instant: Whether what stands for it is none.
        misfits: Whether a value is none of its column's type, of each as :func:`casts` tells.
        last_us: The last instant that a record may have, if there is one.
    """
    told = F.when(is_no_instant, "BAD_TYPE").when(us.isNull(), "NULL_TS").when(~in_range(us), "TS_RANGE")
    if last_us is not None:
        told = told.when(us > F.lit(last_us), "FUTURE_TS")
    for name in spec.keys:
        told = told.when(F.col(quote(name)).isNull(), "NULL_KEY")
    for misfit in misfits:
        told = told.when(misfit, "BAD_TYPE")
    return told


def in_range(us: Column) -> Column:
    """Whether an instant lies in the years 1 to 9999."""
    return us.between(F.lit(FIRST_INSTANT_US), F.lit(LAST_INSTANT_US))


def rejects_refused(shaped: DataFrame) -> SchemaError:
    """The error for records of which some have a ``_reason``, where nobody would be told of these."""
    rejected = shaped.where(F.col("_reason").isNotNull())
    reasons = {row["_reason"]: row["n"] for row in rejected.groupBy("_reason").agg(F.count("*").alias("n")).collect()}
    return SchemaError(f"Some records tell no version: {reasons}. Nothing was deleted. Mend them, or leave them out.")


def rejected_rows(rejected: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Keys, ``ts`` (null if there is no such instant) and ``reason`` of records with ``_us`` and ``_reason``."""
    ts = F.when(in_range(F.col("_us")), F.timestamp_micros("_us"))
    why = F.col("_reason").alias(spec.beside_keys("reason"))
    return rejected.select(*map(quote, spec.keys), ts.alias(spec.beside_keys("ts")), why)


def _has_cast(records: DataFrame, given: DataType, kind: DataType) -> bool:
    """Whether Spark can make a value of the one type one of the other."""
    if given == kind:
        return True
    try:
        # Of a frame without rows or a plan of its own, so that Spark looks at nothing but the two types.
        none = records.sparkSession.range(0).select(F.lit(None).cast(given).alias("none"))
        none.select(_cast(F.col("none"), given, kind)).schema  # noqa: B018 - asking for it has the types looked at
    except Exception as error:  # the class differs between classic and Connect sessions
        if "DATATYPE_MISMATCH" not in str(error):
            raise
        return False
    return True


def _harm(given: DataType, kind: DataType) -> str | None:
    """What a cast would do to a value of the one type to be one of the other; None if nothing."""
    if _has_fractions(given) and isinstance(kind, IntegralType):
        return "fractions would be cut off. Round and cast it first."
    if isinstance(given, (NumericType, BooleanType)) and isinstance(kind, _INSTANTS):
        return f"it would be read as seconds. {_AS_INSTANT}"
    if isinstance(given, _INSTANTS) and isinstance(kind, NumericType):
        return "it would become seconds, without their fractions. Make it a number first, as with unix_millis."
    if isinstance(given, _INSTANTS) and isinstance(kind, DateType):
        return "the time of day would be cut off. Make it a date first, with to_date."
    if isinstance(given, NumericType) and isinstance(kind, BooleanType):
        return "each number but 0 would be true. Compare it first."
    if isinstance(given, StructType) and isinstance(kind, StructType):
        if [name.lower() for name in given.names] != [name.lower() for name in kind.names]:
            return "fields would be taken by their places. Make a struct with the table's fields, in its order."
        pairs = [(one.dataType, other.dataType) for one, other in zip(given.fields, kind.fields, strict=True)]
    elif isinstance(given, ArrayType) and isinstance(kind, ArrayType):
        pairs = [(given.elementType, kind.elementType)]
    elif isinstance(given, MapType) and isinstance(kind, MapType):
        pairs = [(given.keyType, kind.keyType), (given.valueType, kind.valueType)]
    else:
        return None
    return next((harm for pair in pairs if (harm := _harm(*pair)) is not None), None)


def _has_fractions(kind: DataType) -> bool:
    return isinstance(kind, (FloatType, DoubleType)) or (isinstance(kind, DecimalType) and kind.scale > 0)
