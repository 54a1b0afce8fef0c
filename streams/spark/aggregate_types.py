"""The types of an aggregate on Spark: of its result, and of the state kept next to the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import (
    AnsiIntervalType,
    ArrayType,
    DataType,
    DoubleType,
    LongType,
    StructField,
    StructType,
)

from streams.arithmetic import no_durations
from streams.ddl import names_fields
from streams.expressions import Expr
from streams.nodes import Aggregation
from streams.spark.columns import to_column_if
from streams.spark.flow import KEY, VALUE
from versioned import spark_functions as F
from versioned.errors import TopologyError
from versioned.sql_types import has_order

#: Columns stored beside the result: the sum and the number of values, or the bag (each value with its number).
SUM, NUMBER, BAG = "_sum", "_number", "_bag"
USER_CODE: Final = ("reduce", "aggregate")
_OPERAND: Final = "operand"
#: Columns of a result for a versioned store: the ts before which it is refused, and whether the aggregate stays as it
#: was, because the result is refused or older than a tombstone.
HORIZON_US, ASIDE = "_horizon_us", "_is_aside"


def operand(aggregation: Aggregation, value: Column) -> Column:
    """The operand that a row contributes: the expression's value; without an expression, true (``count``) or the value.

    It is null where there is no row, and the user's functions are not called then.
    """
    if aggregation.value is None:
        return F.when(value.isNotNull(), True) if aggregation.kind == "count" else value
    return to_column_if(value.isNotNull(), aggregation.value, {"key": F.col(KEY), "value": value})


def operands_first(aggregation: Aggregation, rows: DataFrame, *values: str) -> tuple[Aggregation, DataFrame]:
    """An aggregation and its rows, with the operand already computed by Spark before Python folds the rows.

    Python would compute other types than Spark: a quotient of decimals keeps all its digits, and a choice between two
    types has the type of the chosen value.

    Args:
        aggregation: A built-in one, or user code, which takes whole rows.
        rows: A frame with ``_key`` and the value columns.
        values: Names of the value columns, which are null where there is nothing to aggregate.

    Returns:
        The aggregation over the single field that the values have now, and the rows; both unchanged if there is no
        expression.
    """
    if aggregation.kind in USER_CODE or aggregation.value is None:
        return aggregation, rows
    worked_out = {
        name: F.when(F.col(name).isNotNull(), F.struct(operand(aggregation, F.col(name)).alias(_OPERAND)))
        for name in values
    }
    return replace(aggregation, value=Expr("ref", "value")[_OPERAND]), rows.withColumns(worked_out)


def check_told(node: str, aggregation: Aggregation) -> None:
    """Refuse user code whose result type is unknown, before the first batch.

    Raises:
        TopologyError: an ``aggregate`` without the schema of its result.
    """
    if aggregation.kind == "aggregate" and aggregation.schema is None:
        raise TopologyError(
            "schema", node, 'on Spark a user-written aggregate needs its schema, such as schema="total double".'
        )


def result_type(node: str, aggregation: Aggregation, rows: DataFrame) -> StructType:
    """The type of an aggregate's result.

    Args:
        node: The operator, for errors.
        aggregation: The aggregation.
        rows: The aggregated rows, with ``_key`` and ``_value``.

    Raises:
        TopologyError: as :func:`checked_operand`.
    """
    if aggregation.kind in USER_CODE:
        return _user_type(aggregation, rows)
    if aggregation.kind == "count":
        return StructType([StructField(aggregation.output, LongType())])
    kind = checked_operand(node, aggregation, rows)
    if aggregation.kind == "avg":
        kind = DoubleType()
    elif aggregation.kind == "sum":
        kind = rows.agg(F.sum(operand(aggregation, F.col(VALUE))).alias("result")).schema["result"].dataType
    return StructType([StructField(aggregation.output, kind)])


def checked_operand(node: str, aggregation: Aggregation, rows: DataFrame) -> DataType:
    """The type of the operand of ``sum``, ``avg``, ``min`` or ``max``.

    Args:
        node: The operator, for errors.
        aggregation: The aggregation.
        rows: The aggregated rows, with ``_key`` and ``_value``.

    Raises:
        TopologyError: ``min`` or ``max`` of values without an order; or the values are durations, which no table
            stores.
    """
    kind = rows.select(operand(aggregation, F.col(VALUE)).alias("operand")).schema["operand"].dataType
    if aggregation.kind in ("min", "max") and not has_order(kind):
        raise TopologyError(
            "order", node,
            f"{aggregation.kind} is given {kind.simpleString()}, and maps, variants and intervals have no order. Take "
            'a field or one of the values, such as value.tags["size"].',
        )  # fmt: skip
    if isinstance(kind, AnsiIntervalType):
        raise TopologyError("durations", node, no_durations(aggregation.kind))
    return kind


def is_scalar(aggregation: Aggregation, rows: DataFrame) -> bool:
    """Whether user code aggregates to a single value rather than to a row."""
    schema = aggregation.schema
    return schema is not None and not isinstance(_parsed(rows, schema), StructType)


def returned_type(aggregation: Aggregation, kind: StructType, scalar: bool) -> DataType | None:
    """The type of what user code returns, given the result's type; None for built-in aggregates."""
    if aggregation.kind not in USER_CODE:
        return None
    return kind[0].dataType if scalar else kind


def bag_type(kind: DataType) -> ArrayType:
    """The type of a bag: each value of a group and how often it occurs, for ``min`` and ``max`` when a value leaves."""
    return ArrayType(StructType([StructField("value", kind), StructField("n", LongType())]))


def _user_type(aggregation: Aggregation, rows: DataFrame) -> StructType:
    # A reduce returns the type of its values.
    kind = rows.schema[VALUE].dataType if aggregation.schema is None else _parsed(rows, aggregation.schema)
    return kind if isinstance(kind, StructType) else StructType([StructField(aggregation.output, kind)])


def _parsed(rows: DataFrame, schema: str) -> DataType:
    """The type of a DDL text: a struct of fields, or a single type."""
    if names_fields(schema):
        return StructType.fromDDL(schema)
    empty = rows.sparkSession.createDataFrame([], "x INT")
    return empty.select(F.lit(None).cast(schema).alias("x")).schema["x"].dataType
