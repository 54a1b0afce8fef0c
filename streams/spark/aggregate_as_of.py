"""The aggregate of a table at any past instant of valid time, exact even with late data."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame

from streams.nodes import VIEWS, Node, TableAggregate, TableFilter, materialized_of
from streams.spark.aggregate_types import USER_CODE, operand
from streams.spark.application import StreamingApplication
from streams.spark.columns import as_in_batches, holds, to_column, with_key
from streams.spark.flow import KEY, VALUE
from streams.spark.store import table_name
from versioned import spark_functions as F
from versioned.errors import TopologyError
from versioned.table import VersionedTable


def aggregate_as_of(application: StreamingApplication, aggregate: str, at: datetime) -> DataFrame:
    """The value of an aggregate of a versioned table at an instant, by what is known now.

    The running aggregate of the plan processes records in order of arrival, and ignores those that are out of order.
    This function reads the history of the table instead, so late records count where they belong.

    Args:
        application: The application whose tables hold the history.
        aggregate: Name of a table aggregate over a versioned table, which may be filtered or mapped before.
        at: The instant of valid time.

    Returns:
        The group's key columns and the result, one row per group that has members.

    Raises:
        TopologyError: the node is not an aggregate of a versioned table, or is user code.
    """
    node = application.topology.node(aggregate)
    if not isinstance(node, TableAggregate) or node.aggregation.kind in USER_CODE:
        raise TopologyError("as-of", aggregate, "only built-in aggregates of tables can be asked as of an instant.")
    with as_in_batches(application.spark):
        return _aggregated(node, _members(application, node.parents[0], at))


def _aggregated(node: TableAggregate, members: DataFrame) -> DataFrame:
    """The aggregate of each group, from members with ``_key`` and ``_value``."""
    if node.group_key is not None:
        members = with_key(members, "_group", node.group_key, F.col(VALUE))
    else:
        members = members.withColumn("_group", F.col(KEY))
    if node.group_value is not None:
        mapped = to_column(node.group_value, {"key": F.col(KEY), "value": F.col(VALUE)})
        members = members.withColumn(VALUE, mapped)
    kept = members.where(F.col("_group").isNotNull() & F.col(VALUE).isNotNull())
    functions = {"count": F.count, "sum": F.sum, "avg": _mean, "min": F.min, "max": F.max}
    grouped = kept.select(F.col("_group").alias(KEY), operand(node.aggregation, F.col(VALUE)).alias("_operand"))
    result = functions[node.aggregation.kind]("_operand").alias(node.aggregation.output)
    return grouped.groupBy(KEY).agg(result).select(f"{KEY}.*", node.aggregation.output)


def _mean(operand: str) -> Column:
    # Spark's mean of decimals is a rounded decimal; the running mean is a double.
    return F.avg(F.col(operand).cast("double"))


def _members(application: StreamingApplication, node: Node, at: datetime) -> DataFrame:
    """The rows of a table as of an instant, as ``_key`` and ``_value``."""
    if isinstance(node, VIEWS) and node.materialized is None:
        rows = _members(application, node.parents[0], at)
        bindings = {"key": F.col(KEY), "value": F.col(VALUE)}
        if isinstance(node, TableFilter):
            return rows.where(holds(to_column(node.predicate, bindings)))
        mapped = rows.withColumn(VALUE, to_column(node.mapper, bindings))
        # Downstream, a row that the mapper makes null is deleted.
        return mapped.where(F.col(VALUE).isNotNull())
    materialized = materialized_of(node)
    if materialized is None or not materialized.is_versioned:
        raise TopologyError("as-of", node.name, "the table keeps no versions; store it with Materialized.versioned.")
    table = VersionedTable.open(application.spark, application.table(table_name(node)))
    spec = table.spec
    rows = table.as_of(at)
    return rows.select(F.struct(*spec.keys).alias(KEY), F.struct(*spec.values).alias(VALUE))
