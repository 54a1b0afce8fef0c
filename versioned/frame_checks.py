"""Arguments that are DataFrames, and those that name columns of them: refused where they cannot be meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, NumericType, TimestampType, VariantType

from versioned.casting import AS_INSTANT, has_cast
from versioned.errors import SchemaError
from versioned.given import check_optional
from versioned.identifiers import named_twice


def check_frame(option: str, given: object) -> None:
    """Refuse what is no DataFrame of Spark, such as one of pandas.

    Args:
        option: The name of the argument.
        given: What it was given.

    Raises:
        SchemaError: telling its class, and how to make a DataFrame of it.

    >>> check_frame("keys", {"id": [1]})
    Traceback (most recent call last):
    versioned.errors.SchemaError: keys takes a DataFrame of Spark; got dict. spark.createDataFrame makes one.
    """
    if not isinstance(given, DataFrame):
        kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
        raise SchemaError(f"{option} takes a DataFrame of Spark; got {kind}. spark.createDataFrame makes one.")


def check_column_names(**named: object) -> None:
    """Refuse what is no name of a column, such as the column itself, by the names of the arguments; none is allowed.

    Raises:
        ConfigurationError: telling which argument.
    """
    for option, given in named.items():
        check_optional(option, given, str, "the name of a column")


def refuse_lacking(frame: DataFrame, missing: Collection[str], what: str) -> None:
    """Refuse rows that lack columns, if they do; ``what`` they are in words.

    Raises:
        SchemaError: telling which, and what there is.
    """
    if missing:
        raise SchemaError(f"The {what} lack {missing}; they have {frame.columns}. Rename or add the columns.")


def check_once(frame: DataFrame, wanted: Iterable[str], what: str) -> None:
    """Refuse rows that have a column twice, but for case; ``what`` they are in words.

    Raises:
        SchemaError: telling which.
    """
    read = {name.lower() for name in wanted}
    twice = [name for name in named_twice(frame.columns) if name.lower() in read]
    if twice:
        raise SchemaError(f"The {what} have {twice}, which are one column to Spark. Leave one, or rename it.")


def check_instants(records: DataFrame, timestamp: str) -> None:
    """Refuse as the instants from which on records hold what is or may be a number, and what cannot be read as one.

    Raises:
        SchemaError: telling the column and its type.
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
