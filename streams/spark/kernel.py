"""Folds groups of records one by one, in Python over Arrow, for rules that are sequential by nature.

User-written reducers, merging sessions and bounded buffers cannot be computed set-wise. Here a Python function gets
each group's states and records as a stream, in order of place: a group never needs to fit in memory at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, is_remote
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from streams.rows import one_nan
from streams.spark.arrow_rows import rows_of, told_as
from streams.spark.flow import KEY, PLACE, SCOPE
from streams.user_functions import told_with
from versioned import spark_functions as F
from versioned.errors import ConfigurationError, RecordError
from versioned.sql_types import is_collated, kinds_in, nullable

#: The columns of a fold's output: its kind (``out``, ``state`` or ``count``), and the row or the number.
TOLD: Final = "_told"
OUT: Final = "_out"
EVENT: Final = "_event"
STATE: Final = "_state"
_ROWS: Final = {"out": OUT, "state": STATE}
WHAT: Final = "what"
COUNT: Final = "n"
_GROUP: Final = "_group"
_ROWS_AT_ONCE: Final = 4_096
_CHUNK_ROWS: Final = 100_000
#: The scopes and places that fit into one long together (microseconds until the year 2112); other scopes sort first,
#: later places last.
_ROUGH_SCOPES: Final = 2**11
_ROUGH_PLACES: Final = 2**52
#: The settings on which the Arrow types of a schema depend.
_OF_ARROW: Final = ("spark.sql.session.timeZone", "spark.sql.execution.arrow.useLargeVarTypes")
#: Arrow schemas by all that determines them, and how many are cached. Not by session: each batch has another object.
_ARROW: Final[dict[tuple[object, ...], pa.Schema]] = {}
_ARROW_KEPT: Final = 256

#: A fold's output: ("out", row), ("state", row), ("count", (what, n)), or ("sum", (what, n)), which its task adds up.
Told = tuple[str, Any]
PlainRow = dict[str, Any]


class Fold(Protocol):
    """A function of one group's states and, in order of place, its events; both are plain rows."""

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]: ...


@runtime_checkable
class ColumnFold(Protocol):
    """A fold on columns: takes one group's rows in chunks, in order, states first; its output has the given schema.

    Each chunk has the columns ``_event`` and ``_state``, one of which is null in each row.
    """

    def fold_chunks(
        self, group: PlainRow, chunks: Iterator[pa.Table], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]: ...


def fold_groups(
    events: DataFrame,
    states: DataFrame | None,
    by: list[str],
    fold: Fold | ColumnFold,
    out: DataType,
    state: DataType,
    *,
    node: str | None = None,
) -> DataFrame:
    """Run a fold over each group.

    Args:
        events: The columns ``by``, ``_scope`` and ``_place``, which order a group's rows, and the events' own.
        states: The columns ``by`` and the states' own; None if there are none.
        by: The columns that define a group.
        fold: Called once per group in a worker, so it must be picklable; row by row, or on columns.
        out: The type of its ``out`` rows.
        state: The type of its ``state`` rows.
        node: The node whose results they are, for errors.

    Returns:
        The fold's output: ``_told``, ``_out``, ``_state``, ``what``, ``n``.

    Raises:
        ConfigurationError: the key has a text with a collation, which Python would not compare as Spark does.
    """
    _refuse_collations(events, {KEY, *by})
    schema = _schema(out, state)
    arrow = _arrow_schema(events.sparkSession, schema)
    rows = _packed(events, by, EVENT, SCOPE, PLACE)
    if states is not None:
        rows = rows.unionByName(_packed(states, by, STATE), allowMissingColumns=True)
    else:
        rows = rows.withColumn(STATE, F.lit(None).cast("boolean"))
    together = rows.repartition(_GROUP)
    in_order = together.sortWithinPartitions(_rough_order(by), _GROUP, F.col(PLACE).asc_nulls_first(), SCOPE)
    runner = _column_runner(fold, arrow) if isinstance(fold, ColumnFold) else _runner(fold, arrow, node)
    return in_order.select(_GROUP, EVENT, STATE).mapInArrow(runner, schema)


def _rough_order(by: list[str]) -> Column:
    """A long to sort rows by before the group itself: Spark compares longs quickly, and structs only if they are equal.

    All rows of a group stay together. If groups are scopes, it includes the place, which begins with an instant or an
    offset.
    """
    if by != [SCOPE]:
        return F.xxhash64(_GROUP)
    # A state has no place, and sorts first.
    first = F.coalesce(F.element_at(PLACE, 1), F.lit(0))
    place = F.greatest(F.least(first, F.lit(_ROUGH_PLACES - 1)), F.lit(0))
    is_told = F.col(f"{_GROUP}.{SCOPE}").between(0, _ROUGH_SCOPES - 1)
    scope = F.col(f"{_GROUP}.{SCOPE}").cast("long")
    return F.when(is_told, scope * F.lit(_ROUGH_PLACES) + place).otherwise(F.lit(-1))


def _refuse_collations(events: DataFrame, names: Iterable[str]) -> None:
    collated = sorted(
        field.dataType.simpleString()
        for field in events.schema.fields
        if field.name in names and not _compares_by_bytes(field.dataType)
    )
    if collated:
        raise ConfigurationError(
            f"A key is {', '.join(collated)}: what takes records one by one tells texts apart by their bytes, and "
            "would split what its collation holds equal. Make it a plain STRING first, with lower() for example."
        )


def _compares_by_bytes(kind: DataType) -> bool:
    return not any(map(is_collated, kinds_in(kind)))


def told_rows(told: DataFrame, kind: str, column: str) -> DataFrame:
    """The rows of one kind in a fold's output."""
    return told.where(F.col(TOLD) == kind).select(f"{column}.*")


def told_counts(told: DataFrame) -> DataFrame:
    """The counts in a fold's output, summed by name."""
    return told.where(F.col(TOLD) == "count").groupBy(WHAT).agg(F.sum(COUNT).alias(COUNT))


def _packed(frame: DataFrame, by: list[str], column: str, *order: str) -> DataFrame:
    own = [name for name in frame.columns if name not in by]
    return frame.select(F.struct(*by).alias(_GROUP), F.struct(*own).alias(column), *order)


def _schema(out: DataType, state: DataType) -> StructType:
    return StructType(
        [
            StructField(TOLD, StringType()),
            # A fold need not fill every field.
            StructField(OUT, nullable(out)),
            StructField(STATE, nullable(state)),
            StructField(WHAT, StringType()),
            StructField(COUNT, LongType()),
        ]
    )


def _arrow_schema(session: SparkSession, schema: StructType) -> pa.Schema:
    asked = (schema.json(), is_remote(), *(session.conf.get(name, None) for name in _OF_ARROW))
    known = _ARROW.get(asked)
    if known is None:
        # The public way to get Arrow types. An empty local relation needs no job, but still a plan, so it is cached.
        known = session.createDataFrame([], schema).toArrow().schema
        if len(_ARROW) >= _ARROW_KEPT:
            _ARROW.clear()
        _ARROW[asked] = known
    return known


def _runner(
    fold: Fold, schema: pa.Schema, node: str | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in rows_of(batch, _GROUP, KEY))
        told_row, sums = _teller(schema), Counter[str]()
        ready: list[PlainRow] = []
        for group, members in groupby(rows, key=itemgetter(_GROUP)):
            for kind, told in _told_by(node, fold(group, *_states_and_events(members))):
                if kind == "sum":
                    sums[told[0]] += told[1]
                    continue
                ready.append(told_row(kind, told))
                if len(ready) >= _ROWS_AT_ONCE:
                    yield _arrow_batch(ready, schema, node)
                    ready = []
        ready += [told_row("count", counted) for counted in sums.items()]
        if ready:
            yield _arrow_batch(ready, schema, node)

    return run


def _told_by(node: str | None, told: Iterable[Told]) -> Iterator[Told]:
    """A fold's output; errors raised in it name the node."""
    with nullcontext() if node is None else told_with(node):
        yield from told


def _arrow_batch(rows: list[PlainRow], schema: pa.Schema, node: str | None) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_pylist(rows, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise RecordError(
            f"{node or 'A fold'}: a result does not fit its type ({error}). Cast what it is made of to double, or to a "
            "decimal with more digits before the point."
        ) from error


def _column_runner(
    fold: ColumnFold, schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = (piece for batch in batches for piece in _pieces(batch))
        for group, members in groupby(pieces, key=lambda piece: piece[0]):
            yield from fold.fold_chunks(group, _chunks(piece for _, piece in members), schema)

    return run


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[PlainRow, pa.RecordBatch]]:
    """A batch split where the group changes; a group's rows are adjacent."""
    groups, rows = batch.column(_GROUP), batch.select([EVENT, STATE])
    start = 0
    while start < len(rows):
        group, end = _group(groups, start), len(rows)
        if _group(groups, end - 1) != group:
            end = next(at for at in range(start, end) if _group(groups, at) != group)
        yield group, rows.slice(start, end - start)
        start = end


def _group(groups: pa.Array, at: int) -> PlainRow:
    group: PlainRow = one_nan(groups[at].as_py())
    return group


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches combined into larger chunks, because each chunk has a fixed cost."""
    ready: list[pa.RecordBatch] = []
    for batch in batches:
        ready.append(batch)
        if sum(map(len, ready)) >= _CHUNK_ROWS:
            yield pa.Table.from_batches(ready)
            ready = []
    if ready:
        yield pa.Table.from_batches(ready)


def _states_and_events(members: Iterator[PlainRow]) -> tuple[Iterator[PlainRow], Iterator[PlainRow]]:
    """A group's states and its events; all states must be consumed before the first event."""
    first_event: list[PlainRow] = []

    def states() -> Iterator[PlainRow]:
        for row in members:
            if row[EVENT] is not None:
                first_event.append(row)
                return
            yield row[STATE]

    # The chain reads the list only after the states are consumed.
    return states(), (row[EVENT] for row in chain(first_event, members))


def _teller(schema: pa.Schema) -> Callable[[str, Any], PlainRow]:
    """The function that makes a row of the output from what a fold yields."""
    rows = {
        kind: (column, told_as(schema.field(column).type)) for kind, column in _ROWS.items() if column in schema.names
    }

    def told_row(kind: str, told: Any) -> PlainRow:
        if kind == "count":
            return {TOLD: kind, WHAT: told[0], COUNT: told[1]}
        column, as_arrow = rows[kind]
        return {TOLD: kind, column: as_arrow(told)}

    return told_row
