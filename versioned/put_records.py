"""Brings a user's records into the shape that a put takes; invalid ones are marked by ``_reason``."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import IntegerType, StructType, TimestampType

from versioned import put_frames
from versioned import spark_functions as F
from versioned.casting import cast_role, casts, in_range
from versioned.frame_checks import check_column_names
from versioned.hashing import row_hash
from versioned.identifiers import quote
from versioned.put_checks import check_roles, check_there, check_types, reason
from versioned.spec import VersionedTableSpec


def shape_records(
    records: DataFrame,
    columns: StructType,
    spec: VersionedTableSpec,
    timestamp: str,
    *,
    deleted: str | None = None,
    partition: str | None = None,
    sequence: str | None = None,
    last_us: int | None = None,
) -> DataFrame:
    """Records in the shape *records* of ``put_frames``, with ``_reason``.

    Args:
        records: Key columns, value columns and those named here.
        columns: The columns of the table.
        spec: The table.
        timestamp: The column with the instant from which a record's value is valid.
        deleted: The column that is true for deletions.
        partition: The column with the stream-time scope.
        sequence: The column that orders the records of a partition.
        last_us: The last instant that a record may have, if there is a limit.

    Raises:
        SchemaError: a column is missing, is there twice, or has another type.
        ConfigurationError: an argument is not the name of a column.
    """
    check_column_names(timestamp=timestamp, deleted=deleted, partition=partition, sequence=sequence)
    read = (*spec.keys, *spec.values, timestamp, *filter(None, (deleted, partition, sequence)))
    check_there(records, read)
    # Other columns may have the names of those added here, even twice.
    records = records.select(*map(quote, dict.fromkeys(read)))
    types = {name: columns[name].dataType for name in (*spec.keys, *spec.values)}
    check_types(records, types, timestamp)
    check_roles(records, deleted, partition, sequence)
    dead = F.coalesce(F.col(quote(deleted)), F.lit(False)) if deleted else F.lit(False)
    cast, lost = casts(records, types, spec.keys)
    # The values of a deletion are not used.
    misfits = [misfit if name in spec.keys else misfit & ~dead for name, misfit in lost.items()]
    instant, is_none = cast_role(records, timestamp, TimestampType())
    us = _floored(F.unix_micros(instant), spec)
    scope, is_no_scope = _scope(records, partition if spec.time_scope == "partition" else None)
    own = {
        "_us": us,
        "_scope": scope,
        # Order by the exact time: floored to milliseconds, many records may have the same one.
        "_order": F.col(quote(sequence)) if sequence else F.unix_micros(instant),
        "_dead": dead,
        "_reason": reason(spec, us, is_none, [*misfits, is_no_scope], last_us),
    }
    shaped = records.withColumns(own).withColumns(cast)
    tie = row_hash(((F.col(quote(name)), types[name]) for name in cast), "_us", "_dead")
    return shaped.select(
        *spec.keys,
        "_us",
        F.when(~F.col("_dead"), put_frames.value_struct(spec.values)).alias("_value"),
        "_scope",
        F.struct(F.col("_order").alias("sequence"), tie.alias("tie")).alias("_place"),
        "_reason",
    )


def _floored(us: Column, spec: VersionedTableSpec) -> Column:
    """An instant floored to the table's resolution; unchanged if it is out of range."""
    # Flooring the smallest 64-bit numbers overflows: Spark would fail the put instead of rejecting the record.
    return F.when(in_range(us), put_frames.floor_to_resolution(us, spec)).otherwise(us)


def _scope(records: DataFrame, partition: str | None) -> tuple[Column, Column]:
    """The stream-time scope of a record, and whether its partition has a value that is not a scope."""
    if partition is None:
        return F.lit(0), F.lit(False)
    scope, is_none = cast_role(records, partition, IntegerType())
    return F.coalesce(scope, F.lit(0)), is_none
