"""The suppression buffer of one stream-time scope on Arrow columns: what ``SuppressFold`` does row by row.

Used if ``suppress.column_buffer`` supports the rule, and Arrow sizes and orders the types in the same way, which
``on_columns`` decides. Rows stay in Arrow: keys become numbers, and rows that leave are taken by index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from streams.spark.flow import KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE
from streams.spark.kernel import COUNT, EVENT, OUT, STATE, TOLD, WHAT, PlainRow
from streams.spark.suppress_fold import (
    ARRIVED_US,
    BUFFER_US,
    FIRST_PLACE,
    FIRST_US,
    PRIOR,
    SIZE,
    SuppressFold,
    count_rows,
)
from suppress.buffer_rules import BufferRule
from suppress.column_buffer import Columns, Folded, Observed, fits_columns, fold_columns
from suppress.sizes import SizeOf
from versioned.spec import PRESENT
from versioned.sql_types import is_collated

_ORDERED: Final = (
    T.StringType, T.BinaryType, T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DateType,
    T.TimestampType, T.TimestampNTZType,
)  # fmt: skip
#: The types whose size ``_size`` knows.
_SIZED: Final = (*_ORDERED, T.FloatType, T.DoubleType, T.DecimalType, T.DayTimeIntervalType)
_INSTANT_BYTES: Final = 8
#: The most bytes in one batch of the output.
_BYTES_AT_ONCE: Final = 2**28
#: The fields of a waiting row; an update gets those that it would have if it entered the buffer now.
_HELD: Final = (KEY, VALUE, OLD, PRIOR, US, BUFFER_US, FIRST_US, ARRIVED_US)


def on_columns(updates: DataFrame, fold: SuppressFold) -> SuppressColumns | None:
    """A fold on columns that does the same as a row-by-row fold; None if there is none for this rule or these types."""
    key, value = updates.schema[KEY].dataType, updates.schema[VALUE].dataType
    if fold.windows is not None or not fits_columns(fold.rule, fold.size_of):
        return None
    if not isinstance(key, T.StructType) or not isinstance(value, T.StructType):
        return None
    is_plain = all(_is_plain(field.dataType, _ORDERED) for field in key.fields) and all(
        _is_plain(field.dataType, _SIZED) for field in value.fields
    )
    if not is_plain:
        return None
    return SuppressColumns(fold.rule, fold.size_of, fold.clock_us, fold.stream_times, fold.drains, fold.position)


def _is_plain(kind: T.DataType, kinds: tuple[type[T.DataType], ...]) -> bool:
    # The exact type: subclasses (CHAR, VARCHAR) and strings with other collations compare in their own ways.
    return type(kind) in kinds and not is_collated(kind)


@dataclass(frozen=True)
class SuppressColumns:
    """Feeds a batch to the buffer of one scope.

    Args:
        rule: The suppression's rule.
        size_of: What a bound in bytes counts.
        clock_us: The batch clock.
        stream_times: Stream time per scope before the batch.
        drains: Whether the buffer is emptied at the end.
        position: The node's place in the plan.
    """

    rule: BufferRule
    size_of: SizeOf
    clock_us: int
    stream_times: Mapping[int, int]
    drains: bool = False
    position: int = 0

    def fold_chunks(self, group: PlainRow, chunks: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Implements :class:`ColumnFold <streams.spark.kernel.ColumnFold>`."""
        scope: int = group[SCOPE]
        seen, stream_time_us, emitted = Observed(), self.stream_times.get(scope), 0
        held: pa.Table | None = None
        for chunk in chunks:
            states, events = self._split(chunk)
            held = states if held is None else pa.concat_tables([held, states])
            pool = pa.concat_tables([held, events.select(_HELD)])
            folded = fold_columns(self._columns(pool), len(held), self.rule, stream_time_us, seen)
            stream_time_us, emitted = folded.stream_time_us, emitted + len(folded.emissions.latest)
            places = events[PLACE].combine_chunks()
            yield from _told("out", self._emitted(pool, folded, len(held), places, scope), schema)
            held = self._rows_at(pool, folded.held)
        assert held is not None
        if self.drains and len(held):
            emitted += len(held)
            yield from _told("out", _drained(held, scope, self.position), schema)
            seen.samples += 1
            seen.records = seen.bytes = 0
            held = held.slice(0, 0)
        yield from _told("state", self._stored(held, scope), schema)
        rows = [{TOLD: "count", WHAT: what, COUNT: count} for what, count in count_rows(emitted, seen)]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def _split(self, chunk: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The waiting rows and the updates in a chunk, both with all fields of waiting rows."""
        is_event = pc.is_valid(chunk[EVENT])
        states = _with_long_offsets(_fields(chunk.filter(pc.invert(is_event)), STATE).select(_HELD))
        events = _fields(chunk.filter(is_event), EVENT)
        arrived = pa.repeat(pa.scalar(self.clock_us, pa.int64()), len(events))
        entering = {PRIOR: events[OLD], BUFFER_US: events[US], FIRST_US: events[US], ARRIVED_US: arrived}
        for name, column in entering.items():
            events = events.append_column(name, column)
        # Cast to the state's types, in which anything may be null.
        typed = events.select(_HELD).cast(states.schema).append_column(PLACE, events[PLACE])
        return states, typed

    def _columns(self, pool: pa.Table) -> Columns:
        return Columns(_key_numbers(pool[KEY]).tolist(), pool[BUFFER_US].to_pylist(), self._sizes(pool).tolist())

    def _sizes(self, rows: pa.Table) -> Any:
        size = _struct_size(rows[VALUE])
        return size + _struct_size(rows[KEY]) + _INSTANT_BYTES if self.size_of == "record" else size

    def _emitted(self, pool: pa.Table, folded: Folded, held: int, places: Any, scope: int) -> dict[str, Any]:
        out = folded.emissions
        after = np.asarray(out.after, dtype=np.int64) - held
        latest = pool.select([KEY, VALUE, US]).take(pa.array(out.latest, pa.int64()))
        prior = pool[PRIOR].take(pa.array(out.first, pa.int64()))
        return _leaving(latest, prior, scope, _places(places, after))

    def _rows_at(self, pool: pa.Table, held: list[tuple[int, int]]) -> pa.Table:
        """The waiting rows: the fields set on entering from the first update, the others from the latest."""
        first = pool.take(pa.array([first for first, _ in held], pa.int64()))
        latest = pool.take(pa.array([latest for _, latest in held], pa.int64()))
        entered = (PRIOR, BUFFER_US, FIRST_US, ARRIVED_US)
        return pa.table({name: (first if name in entered else latest)[name] for name in _HELD}, schema=pool.schema)

    def _stored(self, held: pa.Table, scope: int) -> dict[str, Any]:
        sizes = pa.array(self._sizes(held), pa.int64())
        return {**{name: held[name] for name in _HELD}, SIZE: sizes, SCOPE: _repeated(scope, len(held))}


def _drained(held: pa.Table, scope: int, position: int) -> dict[str, Any]:
    places = pa.array([[-FIRST_PLACE, position, scope, ordinal] for ordinal in range(len(held))], pa.list_(pa.int64()))
    return _leaving(held, held[PRIOR], scope, places)


def _leaving(latest: pa.Table, prior: Any, scope: int, places: Any) -> dict[str, Any]:
    """The emitted rows: their latest update, and the old value that downstream knows."""
    told = {name: latest[name] for name in (KEY, VALUE, US)}
    count = len(latest)
    return {**told, OLD: prior, LATEST: pa.repeat(True, count), SCOPE: _repeated(scope, count), PLACE: places}


def _repeated(scope: int, count: int) -> Any:
    return pa.repeat(pa.scalar(scope, pa.int32()), count)


def _told(kind: str, rows: dict[str, Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of one kind in the schema of a fold's output; no batches if there are no rows."""
    name = OUT if kind == "out" else STATE
    wanted = schema.field(name).type
    for columns in _pieces({field.name: _whole(rows[field.name]) for field in wanted}):
        yield _told_at_once(kind, name, columns, schema)


def _pieces(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Columns cut into pieces small enough for Spark's types, whose offsets have 32 bits."""
    count = len(columns[SCOPE])
    if count > 1 and sum(column.nbytes for column in columns.values()) > _BYTES_AT_ONCE:
        for start, end in ((0, count // 2), (count // 2, count)):
            yield from _pieces({name: column.slice(start, end - start) for name, column in columns.items()})
    elif count:
        yield columns


def _told_at_once(kind: str, name: str, columns: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    wanted, count = schema.field(name).type, len(columns[SCOPE])
    parts = [columns[field.name].cast(field.type) for field in wanted]
    told = {TOLD: pa.repeat(kind, count), name: pa.StructArray.from_arrays(parts, fields=list(wanted))}
    arrays = [told.get(field.name, pa.nulls(count, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema=schema
    )


def _fields(rows: pa.Table, name: str) -> pa.Table:
    """The fields of a column of structs, as columns."""
    column = rows[name]
    return pa.table({field.name: pc.struct_field(column, field.name) for field in column.type})


def _with_long_offsets(rows: pa.Table) -> pa.Table:
    """The rows with 64-bit offsets for texts and binaries, since all waiting rows may exceed two gigabytes."""
    return rows.cast(pa.schema([pa.field(field.name, _large(field.type)) for field in rows.schema]))


def _large(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _large(field.type)) for field in kind])
    return pa.large_string() if pa.types.is_string(kind) else pa.large_binary() if pa.types.is_binary(kind) else kind


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _key_numbers(keys: Any) -> Any:
    """Keys as numbers that compare as the keys do: nulls first, texts by their bytes, the first field first."""
    column = _whole(keys)
    numbers = np.zeros(len(column), dtype=np.int64)
    for field in column.type:
        ranks = _ranks(pc.struct_field(column, field.name))
        together = numbers * (int(ranks.max(initial=0)) + 1) + ranks
        # Make the numbers dense again, so that many fields do not overflow.
        _, numbers = np.unique(together, return_inverse=True)
    return numbers


def _ranks(values: Any) -> Any:
    known = pc.unique(values).drop_null()
    ranks = np.empty(len(known), dtype=np.int64)
    ranks[pc.sort_indices(known).to_numpy()] = np.arange(1, len(known) + 1)
    # Values that are not among the known ones are null, and come first.
    ranks = np.append(ranks, 0)
    return ranks[pc.fill_null(pc.index_in(values, value_set=known), len(known)).to_numpy(zero_copy_only=False)]


def _struct_size(rows: Any) -> Any:
    """The size in bytes of each struct, by the rules of ``suppress.sizes``; a null has 0."""
    column = _whole(rows)
    size = np.zeros(len(column), dtype=np.int64)
    for field in column.type:
        if field.name != PRESENT:
            size += _size(pc.struct_field(column, field.name))
    return size


def _size(values: Any) -> Any:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_binary(kind):
        return pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    width = 1 if pa.types.is_boolean(kind) else 4 if pa.types.is_date(kind) else 16 if pa.types.is_decimal(kind) else 8
    return pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int64) * width


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _places(places: Any, after: Any) -> Any:
    """The place of each emission: that of the update that released it, and its number among that update's emissions."""
    own = places.take(pa.array(after, pa.int64()))
    offsets, values = own.offsets.to_numpy(), own.values.to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.r_[True, after[1:] != after[:-1]]) if len(after) else np.empty(0, dtype=np.int64)
    ordinals = np.arange(len(after)) - np.repeat(starts, np.diff(np.r_[starts, len(after)]))
    values = np.insert(values[offsets[0] : offsets[-1]], offsets[1:] - offsets[0], ordinals)
    moved = offsets - offsets[0] + np.arange(len(offsets))
    return pa.ListArray.from_arrays(pa.array(moved, pa.int32()), pa.array(values, pa.int64()))
