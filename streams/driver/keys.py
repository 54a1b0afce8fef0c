"""Keys in the driver: rows of the key fields, followed by the window for windowed tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from streams.expressions import Expr, evaluate
from streams.fields import WINDOW_END, WINDOW_START
from streams.rows import Row, frozen, one_nan, with_parts
from streams.time_texts import as_instant
from suppress.window_rules import Window

#: A key as stores know it: its parts in order. Two sides of a join may name the same key differently.
Key = tuple[Any, ...]


def windowed_key(key: Row, window: Window) -> Row:
    """A windowed table's key: the key's fields, then the window in microseconds (Kafka: ``Windowed``).

    Example:
        >>> windowed_key(Row(user="u"), Window(0, 10))
        Row(user='u', windowStart=0, windowEnd=10)
    """
    return Row({**key, WINDOW_START: window.start_us, WINDOW_END: window.end_us})


def split_windowed_key(key: Row) -> tuple[Row, Window]:
    """A windowed table's key as the key without its window, and the window."""
    fields = dict(key)
    window = Window(fields.pop(WINDOW_START), fields.pop(WINDOW_END))
    return Row(fields), window


def as_key(value: Any) -> Row | None:
    """A key expression's result as a key: a row as it is, a single value as the field ``key``."""
    key: Row | None = one_form(value if value is None or isinstance(value, Row) else Row(key=value))
    return key


def one_form(value: Any) -> Any:
    """A key, or a part of one, in a normal form, so that keys are equal here where they are equal on Spark.

    All NaNs become one, an instant without a zone is in UTC, and a binary is bytes.

    >>> one_form(Row(at=datetime(2026, 1, 1)))
    Row(at=datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))
    >>> one_form(bytearray(b"tag"))
    b'tag'
    """
    if isinstance(value, datetime):
        return as_instant(value)
    if isinstance(value, bytearray):
        return bytes(value)
    return one_nan(value) if isinstance(value, float) else with_parts(value, one_form)


def whole_key(key: Row | None) -> Row | None:
    """The key, or null if any part of it is null, however deep in structs: nothing can be found by such a key.

    >>> whole_key(Row(carrier="AA", flight=None)) is None
    True
    """
    return None if _has_null(key) else key


def computed_key(expr: Expr, key: Row | None, value: Row | None) -> Row | None:
    """The key that an expression computes from a record; null if any part of it is null."""
    return whole_key(as_key(evaluate(expr, {"key": key, "value": value})))


def _has_null(part: Any) -> bool:
    return part is None or (isinstance(part, Mapping) and any(map(_has_null, part.values())))


def key_parts(key: Mapping[str, Any]) -> Key:
    """The parts of a key in order, in hashable form.

    >>> key_parts(Row(origin="JFK")) == key_parts(Row(airport="JFK"))
    True
    """
    return tuple(map(frozen, key.values()))
