"""From raw rows of a topic to ordered records: validity, scope, place (``places.py``).

The source's contract (``contract.py``) says what rows are valid. The columns themselves are checked at the start
(``input_checks.py``), so only single rows can be invalid here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from streams import reasons
from streams.nodes import SourceNode, StreamSource
from streams.spark.few_tasks import in_few_tasks
from streams.spark.flow import KEY, SCOPE, US, VALUE, Bounds, has_null_key, lookup_times, null_inside
from streams.spark.operator import RAW
from streams.spark.places import PIECE, SEQUENCE, TIE, WITHIN, Order, Ordering, pieces_of, put_in_order
from streams.spark.reader_options import MALFORMED
from streams.spark.source_checks import rejection
from streams.spark.sources import SparkSource
from streams.spark.typed_input import cast_row_by_row, cut_row, event_time, has_no_text, has_time_beyond, row_size
from versioned import spark_functions as F
from versioned.casting import in_range, rounds
from versioned.hashing import row_hash
from versioned.identifiers import quote
from versioned.put_frames import present

#: Column: why a record is invalid; null = it is valid.
WHY_INVALID: Final = "_invalid"
#: Column: the sequence of a record whose source says that none comes twice; else null.
OFFSET: Final = "_offset"


@dataclass(frozen=True)
class IntakeRule:
    """How one source node reads its topic. ``types`` are the declared columns, if the contract has any."""

    node: SourceNode
    source: SparkSource
    position: int
    order: Order
    max_future_us: int
    types: StructType | None = None

    @property
    def places(self) -> Ordering:
        """How its records are ordered: what makes up their places."""
        kind = 1 if isinstance(self.node, StreamSource) else 0
        source = self.source
        return Ordering(
            self.order,
            kind,
            self.position,
            has_sequence=source.order_column is not None,
            has_ties=bool(source.tie_columns),
            has_scopes=source.scope_column is not None,
        )

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the node and its source name, other than keys and values."""
        node, source = self.node, self.source
        named = (node.timestamp, node.deleted, source.scope_column, source.order_column, *source.tie_columns)
        return tuple(name for name in named if name is not None)

    def values(self, columns: list[str]) -> tuple[str, ...]:
        """The value columns: those that the node names, else the declared ones, else all that there are."""
        aside = {name.lower() for name in (MALFORMED, *self.node.key, *self.reads)}
        offered = columns if self.types is None else self.types.names
        if self.node.value is not None:
            return self.node.value  # May be empty: then a record only says that its key is there or deleted.
        return tuple(name for name in offered if name.lower() not in aside)


def shape(raw: DataFrame, rule: IntakeRule, wall_us: int, offsets: Mapping[int, int], count: int) -> DataFrame:
    """Raw rows as records: ``_key _value _us _scope``, ``_invalid`` (a reason, null = valid), ``_raw _offset``.

    They also have the columns that their places are made of, see :func:`streams.spark.places.placed`.

    Args:
        raw: The topic's rows, with the columns that the node names.
        rule: The node, its source and the order.
        wall_us: The machine's clock. A record further ahead of it than the allowed skew is invalid, so that one bad
            clock cannot close every window. Not the batch clock, which stays ahead if the machine's clock ever was.
        offsets: Greatest sequence per scope before the batch, of a source in which none comes twice.
        count: How many rows there are.
    """
    node, source, contract = rule.node, rule.source, rule.source.contract
    raw = _as_named(raw, rule)
    columns = _Columns(raw.schema, rule)
    values = rule.values(raw.columns)
    us = event_time(columns.value(node.timestamp), columns.kind(node.timestamp), contract.ts_unit)
    size = row_size(raw.schema)
    large = F.lit(False) if contract.max_bytes is None or size is None else size > contract.max_bytes
    misfits = _misfits(columns, rule, values)
    broken = F.coalesce(_broken(columns, rule, values, us, large, misfits), rejection(raw, source.checks))
    records = raw.select(
        F.struct(*(F.when(~large, columns.value(name)).alias(name) for name in node.key)).alias(KEY),
        F.when(~large, _value(columns, values, node.deleted)).alias(VALUE),
        F.when(in_range(us), us).alias(US),
        _scope(columns, source.scope_column).alias(SCOPE),
        _as_long(columns, source.order_column).alias(SEQUENCE),
        *_within(columns, source.tie_columns),
        stable_hash(raw).alias(TIE),
        broken.alias(WHY_INVALID),
        # Inside the condition, so that only broken rows are made into text.
        F.when(broken.isNotNull(), cut_row(raw.schema, node.key, _in_words(misfits, large))).alias(RAW),
    )
    judged = records.withColumn(WHY_INVALID, _invalid(records, rule, wall_us))
    if contract.unique:
        judged = judged.withColumn(WHY_INVALID, _duplicate(offsets))
    offset = F.col(SEQUENCE) if contract.unique else F.lit(None).cast("long")
    is_near = F.col(US) <= F.lit(wall_us + rule.max_future_us)
    pieces = None if source.scope_column is not None else pieces_of(records.where(is_near), rule.places, count)
    return put_in_order(judged.withColumn(OFFSET, offset), rule.places, F.col(WHY_INVALID).isNull(), pieces)


def stable_hash(frame: DataFrame) -> Column:
    """A hash of the whole row, independent of engine settings: ties of order are always broken in the same way."""
    return row_hash((F.col(quote(field.name)), field.dataType) for field in frame.schema.fields)


class _Columns:
    """The columns of a raw row under their declared types."""

    def __init__(self, schema: StructType, rule: IntakeRule) -> None:
        self._schema = schema
        self._rule = rule
        self.names = schema.names

    def kind(self, name: str) -> DataType:
        """The type that a column is cast to."""
        return source_type(self._schema, self._rule, name)

    def value(self, name: str) -> Column:
        """A column cast to its type; null where a value does not fit."""
        field = source_field(self._schema, name)
        return cast_row_by_row(F.col(quote(field.name)), field.dataType, self.kind(name))

    def lost(self, name: str, kind: str) -> Column:
        """Whether a row's number does not fit into a narrower type."""
        return self.value(name).isNotNull() & self.value(name).try_cast(kind).isNull()

    def beyond(self, name: str) -> Column | None:
        """Whether a row has a time outside the calendar; None if the column has no times."""
        return has_time_beyond(self.value(name), self.kind(name))

    def no_text(self, name: str) -> Column | None:
        """Whether a row has bytes that are no valid text; None if the column has no texts."""
        return has_no_text(self.value(name), self.kind(name))

    def misfits(self, name: str) -> Column | None:
        """Whether a row's value does not fit its type, or a key would be rounded to another; None if all values fit."""
        field, kind = source_field(self._schema, name), self.kind(name)
        value, have = F.col(quote(field.name)), field.dataType
        if have.simpleString() == kind.simpleString():
            return None
        misfit = value.isNotNull() & self.value(name).isNull()
        cut = rounds(value, have, kind) if name in self._rule.node.key else None
        return misfit if cut is None else misfit | F.coalesce(cut, F.lit(False))


def source_type(schema: StructType, rule: IntakeRule, name: str) -> DataType:
    """The type that a column of the source is cast to: the declared one, or its own. Event times are never text."""
    have = source_field(schema, name).dataType
    declared = {} if rule.types is None else {field.name.lower(): field.dataType for field in rule.types.fields}
    want = declared.get(name.lower(), have)
    if name.lower() == rule.node.timestamp.lower():
        if isinstance(have, IntegralType) and isinstance(want, TimestampType):
            return have  # A number, in the contract's ts_unit.
        return TimestampType() if isinstance(want, StringType) else want
    return want


def source_field(schema: StructType, name: str) -> StructField:
    """The column of a name, ignoring case: a node and its source may spell it differently."""
    return next(field for field in schema.fields if field.name.lower() == name.lower())


def _as_named(raw: DataFrame, rule: IntakeRule) -> DataFrame:
    """The columns as the plan and the contract spell their names, ignoring case."""
    wanted = [*rule.node.key, *(rule.node.value or ()), *rule.reads]
    called = {name.lower(): name for name in [*(() if rule.types is None else rule.types.names), *wanted]}
    return raw.select(*(F.col(quote(name)).alias(called.get(name.lower(), name)) for name in raw.columns))


def _value(columns: _Columns, names: tuple[str, ...], deleted: str | None) -> Column:
    value = F.struct(*(columns.value(name).alias(name) for name in names)) if names else present()
    return value if deleted is None else F.when(~F.coalesce(columns.value(deleted), F.lit(False)), value)


def _scope(columns: _Columns, name: str | None) -> Column:
    return F.lit(0) if name is None else F.coalesce(columns.value(name).try_cast("int"), F.lit(0))


def _misfits(columns: _Columns, rule: IntakeRule, values: tuple[str, ...]) -> list[tuple[Column, str]]:
    """Conditions under which a raw row has a value that does not fit, each with the words for it."""
    used = dict.fromkeys((*rule.node.key, *values, *rule.reads))
    asked = [(misfit, name) for name in used for misfit in (columns.misfits(name), columns.no_text(name))]
    found = [(misfit, name, columns.kind(name).simpleString()) for misfit, name in asked]
    # A number that is too wide would become scope 0, or no sequence; of narrower types every value fits.
    wide = ((rule.source.scope_column, LongType, "int"), (rule.source.order_column, DecimalType, "bigint"))
    found += [
        (columns.lost(name, to), name, to) for name, kind, to in wide if name and isinstance(columns.kind(name), kind)
    ]
    return [(misfit, f"{name} is no {kind}") for misfit, name, kind in found if misfit is not None]


def _in_words(misfits: list[tuple[Column, str]], large: Column) -> Column | None:
    """Which columns of a row do not fit, in words; null where all do, or the row is too large to be looked at."""
    if not misfits:
        return None
    words = F.concat_ws(", ", *(F.when(misfit, F.lit(told)) for misfit, told in misfits))
    return F.when(~large, F.nullif(words, F.lit("")))


def _broken(
    columns: _Columns,
    rule: IntakeRule,
    values: tuple[str, ...],
    us: Column,
    large: Column,
    misfits: list[tuple[Column, str]],
) -> Column:
    """The reason why a raw row is invalid: too large, of a wrong type, or with a time outside the calendar."""
    unread = [F.col(MALFORMED).isNotNull()] if MALFORMED in columns.names else []
    bad_type = reduce(Column.__or__, [*(misfit for misfit, _ in misfits), *unread], F.lit(False))
    has_time = columns.value(rule.node.timestamp).isNotNull()
    reason = F.when(large, reasons.TOO_LARGE).when(bad_type, reasons.BAD_TYPE)
    times = [columns.beyond(name) for name in dict.fromkeys((*rule.node.key, *values))]
    beyond = [F.coalesce(time, F.lit(False)) for time in times if time is not None]
    is_outside = has_time & ~F.coalesce(in_range(us), F.lit(False))
    return reason.when(reduce(Column.__or__, beyond, is_outside), reasons.TS_RANGE)


def _invalid(records: DataFrame, rule: IntakeRule, wall_us: int) -> Column:
    too_far = F.col(US) > F.lit(wall_us + rule.max_future_us)
    reason = F.when(F.col(WHY_INVALID).isNotNull(), F.col(WHY_INVALID))
    reason = reason.when(F.col(US).isNull(), reasons.NULL_TS).when(too_far, reasons.FUTURE_TS)
    if isinstance(rule.node, StreamSource):
        return reason
    return reason.when(null_inside(F.col(KEY), records.schema[KEY].dataType), reasons.NULL_KEY)


def _duplicate(offsets: Mapping[int, int]) -> Column:
    """``_invalid`` with duplicates marked.

    A record that is ``BAD_TYPE`` may have a wrong partition or sequence: it is never a duplicate, and no other record
    is a duplicate of it.
    """
    is_read = F.coalesce(F.col(WHY_INVALID) != reasons.BAD_TYPE, F.lit(True))
    same = Window.partitionBy(SCOPE, SEQUENCE).orderBy(F.col(WHY_INVALID).isNotNull(), ~is_read, TIE)
    came_before = F.coalesce(F.col(SEQUENCE) <= lookup_times(offsets), F.lit(False))
    again = is_read & F.col(SEQUENCE).isNotNull() & (came_before | (F.row_number().over(same) > 1))
    return F.when(again, reasons.DUPLICATE).otherwise(F.col(WHY_INVALID))


def _as_long(columns: _Columns, name: str | None) -> Column:
    if name is None:
        return F.lit(None).cast("long")
    if isinstance(columns.kind(name), (TimestampType, TimestampNTZType, DateType)):
        return F.unix_micros(columns.value(name).cast("timestamp_ltz"))
    return columns.value(name).try_cast("long")


def _within(columns: _Columns, names: tuple[str, ...]) -> list[Column]:
    return [F.struct(*(columns.value(name) for name in names)).alias(WITHIN)] if names else []


def survey_of(shaped: Mapping[str, DataFrame]) -> dict[str, list[Row]]:
    """Per source node, rows by scope and piece: counts of records and valid ones, times and sequence of the latter."""
    found: dict[str, list[Row]] = {}
    if not shaped:
        return found  # A mere tick of the clock.
    parts = [
        frame.select(
            F.lit(name).alias("node"), SCOPE, PIECE, US, OFFSET, WHY_INVALID, has_null_key(frame).alias("no_key")
        )
        for name, frame in shaped.items()
    ]
    together = in_few_tasks(reduce(DataFrame.unionByName, parts))
    is_valid = F.col(WHY_INVALID).isNull()
    surveyed = together.groupBy("node", SCOPE, PIECE).agg(
        F.count("*").alias("rows"),
        F.count_if(is_valid).alias("n"),
        F.min(F.when(is_valid, F.col(US))).alias("oldest"),
        F.max(F.when(is_valid, F.col(US))).alias("newest"),
        F.max(F.when(is_valid, F.col(OFFSET))).alias("offset"),
        F.count_if(is_valid & F.col("no_key")).alias("no_key"),
    )
    for row in surveyed.collect():
        found.setdefault(row["node"], []).append(row)
    return found


def bounds_of(rows: list[Row]) -> dict[int, Bounds]:
    """The bounds of a source node's valid records, by scope."""
    known: dict[int, Bounds] = {}
    for row in rows:
        if row["n"]:
            own, scope = Bounds(row["oldest"], row["newest"], row["n"]), row[SCOPE]
            known[scope] = known[scope].and_those(own) if scope in known else own
    return known


def offsets_at(topic: str) -> str:
    """The name under which the greatest sequences of a topic are kept; nodes that read it may be renamed.

    >>> offsets_at("orders")
    'topic orders/_offset'
    """
    return f"topic {topic}/{OFFSET}"


def maxima_before(rows: list[Row], order: Order, maxima: Mapping[int, int]) -> Mapping[int, int] | None:
    """``Flow.maxima_before`` for a source node's valid records: its maxima before the batch, or None."""
    return maxima if order == "arrival" and not any(row["no_key"] for row in rows) else None


def offsets_of(rows: list[Row]) -> dict[int, int]:
    """The greatest sequence of the valid records per scope, of a source in which none comes twice."""
    greatest: dict[int, int] = {}
    for row in rows:
        if row["offset"] is not None:
            greatest[row[SCOPE]] = max(row["offset"], greatest.get(row[SCOPE], row["offset"]))
    return greatest
