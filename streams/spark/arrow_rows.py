"""Converts rows between Arrow and the form that the rules and user code take.

As in the test driver, a map is a dictionary, not a list of pairs, and a struct within a key, a value or a part of an
aggregate is a row. A NaN in a key is always the same object, so that keys which are equal on Spark are equal in Python
too. Instants are in UTC. Types without any of these are not converted, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa

from streams.rows import Row, fields_of, frozen, one_nan

#: Converts a value that is not null, maybe in place.
_Change = Callable[[Any], Any]
#: How many levels of structs enclose the user's own: the columns of a batch, and their fields.
_OUTER: Final = 2


def rows_of(batch: pa.RecordBatch, *keys: str) -> Iterator[dict[str, Any]]:
    """The rows of a batch as dictionaries; ``keys`` are the names of columns, or fields in them, that are keys."""
    change = _of_fields(batch.schema, keys)
    rows = _in_utc(batch).to_pylist()
    return iter(rows) if change is None else map(change, rows)


def told_as(kind: pa.DataType) -> Callable[[Any], Any]:
    """The function that converts a row of the rules for Arrow: rows become dictionaries, at every depth."""
    return _told_as(kind) or _as_it_is


def _told_as(kind: pa.DataType) -> _Change | None:
    """The conversion of values of a type for Arrow; None if none is needed."""
    if pa.types.is_struct(kind):
        changes = [(field.name, _told_as(field.type)) for field in kind]
        needed = [(name, change) for name, change in changes if change is not None]
        return partial(_told_fields, needed) if needed else _told_flat
    if pa.types.is_map(kind):
        return partial(_told_pairs, _told_as(kind.key_type) or _as_it_is, _told_as(kind.item_type) or _as_it_is)
    inner = _told_as(kind.value_type) if pa.types.is_list(kind) else None
    return None if inner is None else lambda parts: [part if part is None else inner(part) for part in parts]


def _told_flat(row: Any) -> Any:
    fields = fields_of(row)
    # Arrow refuses a struct whose field names are unknown.
    return row if fields is None else fields


def _told_fields(needed: list[tuple[str, _Change]], row: Any) -> Any:
    fields = fields_of(row)
    if fields is None:
        return row
    changed = {name: change(fields[name]) for name, change in needed if fields.get(name) is not None}
    return {**fields, **changed}


def _told_pairs(name_as: _Change, part_as: _Change, pairs: Any) -> Any:
    given = pairs.items() if isinstance(pairs, Mapping) else pairs
    # Pairs, because a dictionary cannot have structs or arrays as keys.
    return [(name_as(name), part if part is None else part_as(part)) for name, part in given]


def _as_it_is(value: Any) -> Any:
    return value


def _of_fields(fields: Any, keys: tuple[str, ...], outer: int = _OUTER) -> _Change | None:
    changes = [(field.name, _of_named(field, keys, outer)) for field in fields]
    needed = [(name, change) for name, change in changes if change is not None]

    def change_fields(row: dict[str, Any]) -> dict[str, Any]:
        for name, change in needed:
            if row[name] is not None:
                row[name] = change(row[name])
        return row

    return change_fields if needed else None


def _of_named(field: pa.Field, keys: tuple[str, ...], outer: int) -> _Change | None:
    change = _of(field.type, keys, outer)
    if field.name not in keys or not _has_float(field.type):
        return change
    return one_nan if change is None else lambda value: one_nan(change(value))


def _of(kind: pa.DataType, keys: tuple[str, ...], outer: int = 0) -> _Change | None:
    """The conversion of values of a type that come from Arrow; None if none is needed."""
    if pa.types.is_struct(kind):
        change = _of_fields(kind, keys, max(outer - 1, 0))
        if outer > 0:
            return change
        return Row if change is None else lambda row: Row(change(row))
    if pa.types.is_map(kind):
        return _of_map(kind, _of(kind.item_type, keys))
    inner = _of(kind.value_type, keys) if pa.types.is_list(kind) else None
    return None if inner is None else lambda parts: [part if part is None else inner(part) for part in parts]


def _of_map(kind: pa.DataType, inner: _Change | None) -> _Change:
    change = inner or (lambda part: part)
    name_of = frozen if pa.types.is_nested(kind.key_type) or pa.types.is_floating(kind.key_type) else lambda name: name
    return lambda pairs: {name_of(name): part if part is None else change(part) for name, part in pairs}


def _has_float(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_float(field.type) for field in kind)
    return _has_float(kind.value_type) if pa.types.is_list(kind) else bool(pa.types.is_floating(kind))


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with instants in UTC: in another zone the calendar's first and last hours do not fit a datetime."""
    kinds = [_zoned(field.type) for field in batch.schema]
    if kinds == batch.schema.types:
        return batch
    return batch.cast(pa.schema([pa.field(field.name, kind) for field, kind in zip(batch.schema, kinds, strict=True)]))


def _zoned(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        # All fields nullable: those of a null struct are null.
        return pa.struct([pa.field(field.name, _zoned(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_zoned(kind.key_type), _zoned(kind.item_type))
    return pa.list_(_zoned(kind.value_type)) if pa.types.is_list(kind) else kind
