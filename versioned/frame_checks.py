"""Checks arguments that are DataFrames or name columns of them, and refuses those that cannot be meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, NumericType, TimestampType, VariantType

from versioned.casting import AS_INSTANT, has_cast
from versioned.errors import SchemaError
from versioned.given import check_optional
from versioned.identifiers import named_twice


def check_frame(option: str, given: object) -> None:
    """Refuse what is not a Spark DataFrame, such as a pandas one.

    Args:
        option: The name of the argument.
        given: What it was given.

    Raises:
        SchemaError: names its class, and how to make a DataFrame.

    >>> check_frame("keys", {"id": [1]})
    Traceback (most recent call last):
    versioned.errors.SchemaError: keys takes a DataFrame of Spark; got dict. spark.createDataFrame makes one.
    """
    if not isinstance(given, DataFrame):
        kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
        raise SchemaError(f"{option} takes a DataFrame of Spark; got {kind}. spark.createDataFrame makes one.")


def check_column_names(**named: object) -> None:
    """Refuse arguments that are not the name of a column, such as the column itself; None is allowed.

    Raises:
        ConfigurationError: names the argument.
    """
    for option, given in named.items():
        check_optional(option, given, str, "the name of a column")


def refuse_lacking(frame: DataFrame, missing: Collection[str], what: str) -> None:
    """Refuse rows that lack columns, if any are ``missing``; ``what`` describes the rows.

    Raises:
        SchemaError: names the missing columns and the existing ones.
    """
    if missing:
        raise SchemaError(f"The {what} lack {missing}; they have {frame.columns}. Rename or add the columns.")


def check_once(frame: DataFrame, wanted: Iterable[str], what: str) -> None:
    """Refuse rows that have a wanted column twice, ignoring case; ``what`` describes the rows.

    Raises:
        SchemaError: names the columns.
    """
    read = {name.lower() for name in wanted}
    twice = [name for name in named_twice(frame.columns) if name.lower() in read]
    if twice:
        raise SchemaError(f"The {what} have {twice}, which are one column to Spark. Leave one, or rename it.")


def check_instants(records: DataFrame, timestamp: str) -> None:
    """Refuse a timestamp column that is or may hold a number, or that cannot be read as an instant.

    Raises:
        SchemaError: names the column and its type.
    """
    kind = records.schema[timestamp].dataType
    if isinstance(kind, (NumericType, BooleanType)):
        raise SchemaError(
            f'The timestamp "{timestamp}" is {kind.simpleString()}, which would be read as seconds. {AS_INSTANT}'
        )
    if isinstance(kind, VariantType):
        raise SchemaError(
            f'The timestamp "{timestamp}" is variant, whose numbers would be read as seconds. Extract it as a '
            "timestamp first, with variant_get."
        )
    if not has_cast(records, kind, TimestampType()):
        told = kind.simpleString()
        raise SchemaError(f'The timestamp "{timestamp}" is {told}, which tells no instant. Make it a timestamp first.')
