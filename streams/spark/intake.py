"""From raw rows of a topic to ordered records: validity, scope, place.

A record's place among all records of its scope is an array of longs that sorts the way DESIGN section 3 says:

* ``order="arrival"``: (running maximum of ts in its source and scope, tables before streams, declared position,
  row number in the source and scope); the running maxima are carried across batches.
* ``order="sequence"``: (the given sequence, tables before streams, declared position, stable hash).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, MapType, StringType, StructType, TimestampType

from streams.nodes import GlobalTableSource, StreamSource, TableSource
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, lookup_times
from streams.spark.ledger import Times
from streams.spark.sources import SparkSource
from versioned.errors import SchemaError

Order = Literal["arrival", "sequence"]
SourceNode = StreamSource | TableSource | GlobalTableSource
INVALID = "_invalid"


@dataclass(frozen=True)
class IntakeRule:
    """How one source node reads its topic."""

    node: SourceNode
    source: SparkSource
    position: int
    order: Order
    max_future_us: int


def shape(raw: DataFrame, rule: IntakeRule, clock_us: int, maxima: Mapping[int, int]) -> DataFrame:
    """Raw rows as records: ``_key _value _us _scope _place`` and ``_invalid`` (a reason, null = valid).

    Args:
        raw: The topic's rows, with the columns that the node names.
        rule: The node, its source and the order.
        clock_us: The batch clock: a record further ahead than the allowed skew is invalid, so that one bad clock
            cannot close every window.
        maxima: Running maximum of ts per scope before the batch.

    Raises:
        SchemaError: a column that the node names is not there.
    """
    node, source = rule.node, rule.source
    _check_columns(raw, rule)
    scope = F.coalesce(F.col(source.scope_column).cast("int"), F.lit(0)) if source.scope_column else F.lit(0)
    records = raw.select(
        F.struct(*node.key).alias(KEY),
        _value(raw, rule).alias(VALUE),
        F.unix_micros(F.col(node.timestamp).cast("timestamp")).alias(US),
        scope.alias(SCOPE),
        _as_long(raw, source.order_column).alias("_sequence"),
        stable_hash(raw).alias("_tie"),
    )
    judged = records.withColumn(INVALID, _invalid(records, rule, clock_us))
    return _placed(judged, rule, maxima).drop("_sequence", "_tie")


def stable_hash(frame: DataFrame) -> Column:
    """A hash of the whole row that no engine setting changes; ties of order are broken by it, never by chance."""
    if any(isinstance(field.dataType, MapType) for field in frame.schema.fields):
        return F.xxhash64(F.to_json(F.struct("*")))
    return F.xxhash64(*frame.columns)


def _placed(records: DataFrame, rule: IntakeRule, maxima: Mapping[int, int]) -> DataFrame:
    kind = 1 if isinstance(rule.node, StreamSource) else 0
    if rule.order == "sequence":
        place = F.array(F.col("_sequence"), F.lit(kind), F.lit(rule.position), F.col("_tie"))
        return records.withColumn(PLACE, place.cast("array<bigint>"))
    ordered = Window.partitionBy(SCOPE).orderBy(F.coalesce("_sequence", US), "_tie")
    valid_us = F.when(F.col(INVALID).isNull(), F.col(US))
    running = F.max(valid_us).over(ordered.rowsBetween(Window.unboundedPreceding, 0))
    carried = lookup_times(maxima)
    reached = F.coalesce(F.greatest(running, carried), F.lit(-(2**62)))
    place = F.array(reached, F.lit(kind), F.lit(rule.position), F.row_number().over(ordered))
    return records.withColumn(PLACE, place.cast("array<bigint>"))


def _value(raw: DataFrame, rule: IntakeRule) -> Column:
    node, source = rule.node, rule.source
    deleted = node.deleted
    aside = {*node.key, node.timestamp, source.scope_column, source.order_column, deleted}
    names = node.value or tuple(name for name in raw.columns if name not in aside)
    value = F.struct(*names) if names else F.struct(F.lit(True).alias("_present"))
    return value if deleted is None else F.when(~F.coalesce(F.col(deleted), F.lit(False)), value)


def _invalid(records: DataFrame, rule: IntakeRule, clock_us: int) -> Column:
    too_far = F.col(US) > F.lit(clock_us + rule.max_future_us)
    reason = F.when(F.col(US).isNull(), "NULL_TS").when(too_far, "FUTURE_TS")
    if isinstance(rule.node, StreamSource):
        return reason
    for name in rule.node.key:
        reason = reason.when(F.col(KEY).getField(name).isNull(), "NULL_KEY")
    return reason


def _as_long(raw: DataFrame, name: str | None) -> Column:
    if name is None:
        return F.lit(None).cast("long")
    kind = raw.schema[name].dataType
    if isinstance(kind, (TimestampType, DateType)):
        return F.unix_micros(F.col(name).cast("timestamp"))
    if isinstance(kind, (StringType, StructType)):
        raise SchemaError(f'sequence_by "{name}" is {kind.simpleString()}; give a whole number, a date or a timestamp.')
    return F.col(name).cast("long")


def _check_columns(raw: DataFrame, rule: IntakeRule) -> None:
    node, source = rule.node, rule.source
    wanted = [*node.key, node.timestamp, *(node.value or ()), *filter(None, (source.scope_column, source.order_column))]
    missing = [name for name in wanted if name not in raw.columns]
    if missing:
        raise SchemaError(
            f'Topic "{node.topic}" lacks the columns {missing} of node "{node.name}"; it has {raw.columns}.'
        )
    if rule.order == "sequence" and source.order_column is None:
        raise SchemaError(f'order="sequence" needs sequence_by on every source; "{node.topic}" has none.')


def newest(times: Mapping[int, int], more: Mapping[int, int]) -> Times:
    """Per scope the larger of two instants."""
    return {scope: max(times.get(scope, us), more.get(scope, us)) for scope, us in {**times, **more}.items()}
