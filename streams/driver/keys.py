"""Keys in the driver: rows of the key fields, for windowed tables with the window behind them."""

from __future__ import annotations

from typing import Any, Final

from streams.rows import Row
from suppress.window_rules import Window

#: A key as stores know it: its parts in order. Two sides of a join may name the same key differently.
Key = tuple[Any, ...]

WINDOW_START: Final = "windowStart"
WINDOW_END: Final = "windowEnd"


def windowed_key(key: Row, window: Window) -> Row:
    """A windowed table's key: the key's fields, then the window in microseconds (Kafka: ``Windowed``).

    Example:
        >>> windowed_key(Row(user="u"), Window(0, 10))
        Row(user='u', windowStart=0, windowEnd=10)
    """
    return Row({**key, WINDOW_START: window.start_us, WINDOW_END: window.end_us})


def split_windowed_key(key: Row) -> tuple[Row, Window]:
    """The key without its window, and the window."""
    fields = dict(key)
    window = Window(fields.pop(WINDOW_START), fields.pop(WINDOW_END))
    return Row(fields), window


def as_key(value: Any) -> Row | None:
    """A key expression's result as a key: a row as it is, a single value as the field ``key``.

    A row with a null field is no key, as in the sources' records and on Spark.
    """
    if isinstance(value, Row):
        return None if any(part is None for part in value.values()) else value
    return None if value is None else Row(key=value)


def key_parts(key: Row) -> Key:
    """The parts of a key, in order.

    >>> key_parts(Row(origin="JFK")) == key_parts(Row(airport="JFK"))
    True
    """
    return tuple(key.values())
