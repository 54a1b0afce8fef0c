"""Keys in the driver: rows of the key fields, for windowed tables with the window behind them."""

from __future__ import annotations

from typing import Any, Final

from streams.rows import Row
from suppress.window_rules import Window

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
    """A key expression's result as a key: a row as it is, a single value as the field ``key``."""
    if value is None or isinstance(value, Row):
        return value
    return Row(key=value)
