"""What records must be like to be put into a versioned table: nothing of them is taken for something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NumericType,
    StructType,
)

from versioned import spark_functions as F
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US
from versioned.errors import SchemaError
from versioned.identifiers import quote
from versioned.spec import VersionedTableSpec


def check_there(records: DataFrame, wanted: Iterable[str]) -> None:
    """Refuse records that lack columns.

    Raises:
        SchemaError: telling which, and what there is.
    """
    missing = [name for name in wanted if name not in records.columns]
    if missing:
        raise SchemaError(f"The records lack {missing}; they have {records.columns}. Rename or add the columns.")


def check_types(records: DataFrame, types: Mapping[str, DataType], timestamp: str) -> None:
    """Refuse what a cast would change: a number as an instant, of which it takes seconds, cut fractions, and the
    fields of a struct that go by other names, since it takes them by their places.

    Args:
        records: They have all columns of ``types``.
        types: Of the table's keys and values.
        timestamp: The records' column that tells from when on they hold.

    Raises:
        SchemaError: a column is of such a type.
    """
    given = {field.name: field.dataType for field in records.schema.fields}
    if isinstance(given[timestamp], (NumericType, BooleanType)):
        raise SchemaError(
            f'The timestamp "{timestamp}" is {given[timestamp].simpleString()}, which would be read as seconds. Make '
            "it a timestamp first, with timestamp_millis, timestamp_micros or timestamp_seconds."
        )
    for name, kind in types.items():
        harm = _harm(given[name], kind)
        if harm is not None:
            raise SchemaError(
                f'The records have "{name}" as {given[name].simpleString()}, the table as {kind.simpleString()}: {harm}'
            )


def casts(records: DataFrame, types: Mapping[str, DataType]) -> tuple[dict[str, Column], dict[str, Column]]:
    """The columns in the types of the table, and of those that are cast whether a value has none in that type.

    Whatever the session says of casts (ANSI or not), such a value neither becomes null in silence nor ends the put.
    Decimals are rounded as Spark does. Inside structs, arrays and maps it is as the session says.
    """
    given = {field.name: field.dataType for field in records.schema.fields}
    made, misfits = {}, {}
    for name, kind in types.items():
        value = F.col(quote(name))
        if given[name] == kind or isinstance(kind, (StructType, ArrayType, MapType)):
            made[name] = value.cast(kind)
        else:
            made[name] = _in_bounds(value, kind)
            misfits[name] = value.isNotNull() & made[name].isNull()
    return made, misfits


def _in_bounds(value: Column, kind: DataType) -> Column:
    """The value in another type; null where that has none. Of what a FLOAT is too small for, Spark makes infinity."""
    told = value.try_cast(kind)
    if not isinstance(kind, FloatType):
        return told
    is_beyond = (F.abs(told) == float("inf")) & (F.abs(value.try_cast("double")) != float("inf"))
    return F.when(is_beyond, None).otherwise(told)


def reason(spec: VersionedTableSpec, us: Column, misfits: Iterable[Column]) -> Column:
    """Why a record is rejected; null if it is not.

    Args:
        spec: The table.
        us: The record's instant.
        misfits: Whether a value is none of its column's type, of each as :func:`casts` tells.
    """
    told = F.when(us.isNull(), "NULL_TS").when(~in_range(us), "TS_RANGE")
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
    return rejected.select(*map(quote, spec.keys), ts.alias("ts"), F.col("_reason").alias("reason"))


def _harm(given: DataType, kind: DataType) -> str | None:
    """What a cast would do to a value of the one type to be one of the other; None if nothing."""
    if _has_fractions(given) and isinstance(kind, IntegralType):
        return "fractions would be cut off. Round and cast it first."
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
