"""What records must be like to be put into a versioned table: nothing of them is taken for something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, DataType, DecimalType, DoubleType, FloatType, IntegralType, NumericType

from versioned.errors import SchemaError


def check_there(records: DataFrame, wanted: Iterable[str]) -> None:
    """Refuse records that lack columns.

    Raises:
        SchemaError: telling which, and what there is.
    """
    missing = [name for name in wanted if name not in records.columns]
    if missing:
        raise SchemaError(f"The records lack {missing}; they have {records.columns}. Rename or add the columns.")


def check_types(records: DataFrame, types: Mapping[str, DataType], timestamp: str) -> None:
    """Refuse what a cast would change: a number as an instant, of which it takes seconds, and cut fractions.

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
        if _has_fractions(given[name]) and isinstance(kind, IntegralType):
            raise SchemaError(
                f'The records have "{name}" as {given[name].simpleString()}, the table as {kind.simpleString()}: '
                "fractions would be cut off. Round and cast it first."
            )


def _has_fractions(kind: DataType) -> bool:
    return isinstance(kind, (FloatType, DoubleType)) or (isinstance(kind, DecimalType) and kind.scale > 0)
