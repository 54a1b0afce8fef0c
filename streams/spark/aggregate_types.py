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

#: Names of what is kept beside the result: the sum and the number of values, or each value with its number.
SUM, NUMBER, BAG = "_sum", "_number", "_bag"
USER_CODE: Final = ("reduce", "aggregate")
_OPERAND: Final = "operand"
#: Of a result that goes into a versioned store: the ts before which it is refused, and whether it leaves the aggregate
#: as it was, since it is refused or older than a tombstone.
HORIZON_US, ASIDE = "_horizon_us", "_is_aside"


def operand(aggregation: Aggregation, value: Column) -> Column:
    """What is aggregated of a row: the expression's value, or true for each row where there is none.

    Of a row that is not there it is null, and the user's functions hear nothing.
    """
    if aggregation.value is None:
        return F.when(value.isNotNull(), True) if aggregation.kind == "count" else value
    return to_column_if(value.isNotNull(), aggregation.value, {"key": F.col(KEY), "value": value})


def operands_first(aggregation: Aggregation, rows: DataFrame, *values: str) -> tuple[Aggregation, DataFrame]:
    """An aggregation, and rows of which Spark works out what is aggregated before Python folds them.

    Python would give the parts of an expression other types than Spark gives its result: a quotient of decimals all its
    digits, what is chosen between two types the type of what is chosen.

    Args:
        aggregation: Built in, or by user code, which takes whole rows.
        rows: Has ``_key`` and the columns of values.
        values: Names of these; null where there is nothing to aggregate.

    Returns:
        The aggregation of the one field that the values have now; both as they are where there is no expression.
    """
    if aggregation.kind in USER_CODE or aggregation.value is None:
        return aggregation, rows
    worked_out = {
        name: F.when(F.col(name).isNotNull(), F.struct(operand(aggregation, F.col(name)).alias(_OPERAND)))
        for name in values
    }
    return replace(aggregation, value=Expr("ref", "value")[_OPERAND]), rows.withColumns(worked_out)


def check_told(node: str, aggregation: Aggregation) -> None:
    """Refuse user code whose result has a type that nothing tells; before a batch is there.

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
        aggregation: What is computed.
        rows: Has ``_key`` and ``_value``: what is aggregated.

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
    """The type of what is aggregated by ``sum``, ``avg``, ``min`` or ``max``.

    Args:
        node: The operator, for errors.
        aggregation: What is computed.
        rows: Has ``_key`` and ``_value``: what is aggregated.

    Raises:
        TopologyError: its values have no order, where the least or greatest is looked for; or they are durations, which
            no table keeps.
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
    """The type of what user code returns, of the result's type; None of built-in aggregates, which return nothing."""
    if aggregation.kind not in USER_CODE:
        return None
    return kind[0].dataType if scalar else kind


def bag_type(kind: DataType) -> ArrayType:
    """Each value of a group with how often it is there: what ``min`` and ``max`` need when a value leaves."""
    return ArrayType(StructType([StructField("value", kind), StructField("n", LongType())]))


def _user_type(aggregation: Aggregation, rows: DataFrame) -> StructType:
    # A reduce gives what it is given.
    kind = rows.schema[VALUE].dataType if aggregation.schema is None else _parsed(rows, aggregation.schema)
    return kind if isinstance(kind, StructType) else StructType([StructField(aggregation.output, kind)])


def _parsed(rows: DataFrame, schema: str) -> DataType:
    """The type that a DDL text names: fields, or a single type."""
    if names_fields(schema):
        return StructType.fromDDL(schema)
    empty = rows.sparkSession.createDataFrame([], "x INT")
    return empty.select(F.lit(None).cast(schema).alias("x")).schema["x"].dataType
