"""Checks the records to be put into a versioned table, so that none is taken for something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import BooleanType, DataType, IntegralType, NullType

from versioned import spark_functions as F
from versioned.casting import harm_of, has_cast, in_range
from versioned.errors import SchemaError
from versioned.frame_checks import check_column_names, check_frame, check_instants, check_once, refuse_lacking
from versioned.identifiers import quote
from versioned.spec import VersionedTableSpec
from versioned.sql_types import has_order

_NO_CAST: Final = "no value of the one type can be made one of the other. Give the column the table's type first."


def check_there(records: DataFrame, wanted: Iterable[str]) -> None:
    """Refuse records that lack columns or have one of them twice; and a stream, which must be put batch by batch.

    Raises:
        SchemaError: names the columns, or says that the records are a stream.
    """
    check_frame("records", records)
    if records.isStreaming:
        raise SchemaError("The records are a stream. Put each of its batches, in writeStream.foreachBatch.")
    names = list(wanted)
    refuse_lacking(records, [name for name in names if name not in records.columns], "records")
    check_once(records, names, "records")


def check_types(records: DataFrame, types: Mapping[str, DataType], timestamp: str) -> None:
    """Refuse types that cannot be cast to the table's types, and those whose values a cast would change.

    A cast would read a number as seconds where an instant is needed, cut off fractions, match the fields of a struct
    by position although their names differ, and do all of this row by row with a VARIANT.

    Args:
        records: They have all columns of ``types``.
        types: The types of the table's keys and values.
        timestamp: The records' timestamp column.

    Raises:
        SchemaError: a column is of such a type.
    """
    check_instants(records, timestamp)
    given = {field.name: field.dataType for field in records.schema.fields}
    for name, kind in types.items():
        harm = harm_of(given[name], kind) or (None if has_cast(records, given[name], kind) else _NO_CAST)
        if harm is not None:
            raise SchemaError(
                f'The records have "{name}" as {given[name].simpleString()}, the table as {kind.simpleString()}: {harm}'
            )


def check_roles(records: DataFrame, deleted: str | None, partition: str | None, sequence: str | None) -> None:
    """Refuse a deletion column that is not boolean, a partition that is not an integer, and a sequence without order.

    Raises:
        SchemaError: names the column and its type.
    """
    roles: list[tuple[str | None, type[DataType], str]] = [
        (deleted, BooleanType, f"are deletions. Make it a boolean, as with {deleted} = 1."),
        (partition, IntegralType, "belong to which partition. Make it an integer."),
    ]
    for name, wanted, told in roles:
        kind = NullType() if name is None else records.schema[name].dataType
        if not isinstance(kind, (wanted, NullType)):
            raise SchemaError(f'The column "{name}" is {kind.simpleString()}, but says which records {told}')
    if sequence is not None and not has_order(kind := records.schema[sequence].dataType):
        raise SchemaError(
            f'The column "{sequence}" is {kind.simpleString()}, which has no order, but says in which order records '
            "came. Make it a number or a timestamp."
        )


def check_deletions(
    keys: DataFrame, wanted: Iterable[str], timestamp: str, partition: str | None, sequence: str | None
) -> None:
    """Refuse keys that cannot be deleted as they are, naming columns as the user does.

    Args:
        keys: A frame with the columns of the table's keys, and those named here.
        wanted: The table's keys.
        timestamp: As for a put; so are the others.

    Raises:
        SchemaError: ``keys`` is not a DataFrame; a column is missing, is there twice, or is of an unsuitable type.
        ConfigurationError: an argument is not the name of a column.
    """
    check_frame("keys", keys)
    check_column_names(timestamp=timestamp, partition=partition, sequence=sequence)
    check_there(keys, (*wanted, timestamp, *filter(None, (partition, sequence))))
    check_instants(keys, timestamp)
    check_roles(keys, None, partition, sequence)


def reason(
    spec: VersionedTableSpec, us: Column, is_no_instant: Column, misfits: Iterable[Column], last_us: int | None = None
) -> Column:
    """Why a record is rejected; null if it is not.

    Args:
        spec: The table.
        us: The record's instant.
        is_no_instant: Whether the timestamp has a value that is not an instant.
        misfits: For each column cast by :func:`~versioned.casting.casts`, whether its value does not fit the type.
        last_us: The last instant that a record may have, if there is a limit.
    """
    told = F.when(is_no_instant, "BAD_TYPE").when(us.isNull(), "NULL_TS").when(~in_range(us), "TS_RANGE")
    if last_us is not None:
        told = told.when(us > F.lit(last_us), "FUTURE_TS")
    for name in spec.keys:
        told = told.when(F.col(quote(name)).isNull(), "NULL_KEY")
    for misfit in misfits:
        told = told.when(misfit, "BAD_TYPE")
    return told


def rejects_refused(shaped: DataFrame) -> SchemaError:
    """The error to raise if some records have a ``_reason`` and the caller would not learn of it."""
    rejected = shaped.where(F.col("_reason").isNotNull())
    reasons = {row["_reason"]: row["n"] for row in rejected.groupBy("_reason").agg(F.count("*").alias("n")).collect()}
    return SchemaError(f"Some records tell no version: {reasons}. Nothing was deleted. Mend them, or leave them out.")


def rejected_rows(rejected: DataFrame, spec: VersionedTableSpec) -> DataFrame:
    """Keys, ``ts`` (null if none or out of range) and ``reason`` of rejected records with ``_us`` and ``_reason``."""
    ts = F.when(in_range(F.col("_us")), F.timestamp_micros("_us"))
    why = F.col("_reason").alias(spec.beside_keys("reason"))
    return rejected.select(*map(quote, spec.keys), ts.alias(spec.beside_keys("ts")), why)
