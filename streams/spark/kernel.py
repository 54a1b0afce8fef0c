"""Folds groups of records one by one, in Python over Arrow, for rules that are sequential by nature.

User-written reducers, merging sessions and bounded buffers cannot be computed set-wise. Here one Python function
receives each group's state and records in order of place, as a stream: a group never needs to fit in memory at once.
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

#: The columns of what a fold tells: what it is (``out``, ``state`` or ``count``), and the row or the number.
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
#: As many scopes and places as fit into a long together (microseconds until the year 2112); other scopes go first,
#: later places last.
_ROUGH_SCOPES: Final = 2**11
_ROUGH_PLACES: Final = 2**52
#: The settings by which Arrow's types of a schema may differ.
_OF_ARROW: Final = ("spark.sql.session.timeZone", "spark.sql.execution.arrow.useLargeVarTypes")
#: Schemas in Arrow, by all that tells them; how many are kept. No session is, of which each batch has another object.
_ARROW: Final[dict[tuple[object, ...], pa.Schema]] = {}
_ARROW_KEPT: Final = 256

#: What a fold tells: ("out", row), ("state", row), ("count", (what, n)), or ("sum", (what, n)), which its task adds up.
Told = tuple[str, Any]
PlainRow = dict[str, Any]


class Fold(Protocol):
    """Takes one group's states and, in order of place, its events; both are plain rows."""

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]: ...


@runtime_checkable
class ColumnFold(Protocol):
    """A fold on columns: takes one group's rows in chunks, in order, states first, and tells in the schema given.

    Each chunk has the columns ``_event`` and ``_state``, of which one is null in each row.
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
        events: The columns ``by``, ``_scope`` and ``_place``, which order the group's rows, and the event's own.
        states: The columns ``by`` and the state's own; None if there are none.
        by: Names of the columns that make a group.
        fold: Called once per group in a worker, so it must be picklable; row by row, or on columns.
        out: The type of the rows that it tells as ``out``.
        state: The type of the rows that it tells as ``state``.
        node: Whose results they are; told where one does not fit its type.

    Returns:
        ``_told``, ``_out``, ``_state``, ``what``, ``n``.

    Raises:
        ConfigurationError: the key has a text of a collation, which Python would not compare as Spark does.
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
    """A long that goes before the group in the order of rows: Spark compares long by long, and structs only if equal.

    It never parts the rows of a group. Of scopes it tells the place as well, which begins with an instant or an offset.
    """
    if by != [SCOPE]:
        return F.xxhash64(_GROUP)
    # A row that waits has no place, and goes first.
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
    """The rows of one kind that a fold told."""
    return told.where(F.col(TOLD) == kind).select(f"{column}.*")


def told_counts(told: DataFrame) -> DataFrame:
    """The counts that a fold told, summed."""
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
        # The public way to Arrow types; an empty local relation needs no job, but a plan.
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
    """What a fold tells; its errors tell the node's name."""
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
    """A batch cut where the group changes: a group's rows lie together."""
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
    """Several batches at a time: what is done once per chunk is worth it."""
    ready: list[pa.RecordBatch] = []
    for batch in batches:
        ready.append(batch)
        if sum(map(len, ready)) >= _CHUNK_ROWS:
            yield pa.Table.from_batches(ready)
            ready = []
    if ready:
        yield pa.Table.from_batches(ready)


def _states_and_events(members: Iterator[PlainRow]) -> tuple[Iterator[PlainRow], Iterator[PlainRow]]:
    """Split a group's rows, states first; a fold must take all states before the first event."""
    first_event: list[PlainRow] = []

    def states() -> Iterator[PlainRow]:
        for row in members:
            if row[EVENT] is not None:
                first_event.append(row)
                return
            yield row[STATE]

    # The chain looks into the list only when it is read, after the states.
    return states(), (row[EVENT] for row in chain(first_event, members))


def _teller(schema: pa.Schema) -> Callable[[str, Any], PlainRow]:
    """What makes a row of what a fold tells."""
    rows = {
        kind: (column, told_as(schema.field(column).type)) for kind, column in _ROWS.items() if column in schema.names
    }

    def told_row(kind: str, told: Any) -> PlainRow:
        if kind == "count":
            return {TOLD: kind, WHAT: told[0], COUNT: told[1]}
        column, as_arrow = rows[kind]
        return {TOLD: kind, column: as_arrow(told)}

    return told_row
