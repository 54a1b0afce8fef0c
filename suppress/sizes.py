"""The size of a buffered row, as ``max_bytes`` counts it.

The size is logical, so that both engines agree and a plan's limits mean the same everywhere: a bool is 1 byte, a
number 8 (whatever its SQL width), a decimal 16, an instant or duration 8, a date 4, text its UTF-8 length, binary
its length, null 0; a struct, array or map is the sum of its values. Neither field names nor the keys of a map count:
the test driver knows no types, and to it both are keys of a mapping. A value without columns is 0 bytes: the marker
column that stands for it on Spark does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, Protocol

from versioned.errors import ConfigurationError, RecordError
from versioned.spec import PRESENT

_INSTANT_BYTES: Final = 8


class Sized(Protocol):
    """The parts of a buffered row that a size function may use."""

    @property
    def key(self) -> Any: ...

    @property
    def value(self) -> Any:
        """The value that would be emitted; null = tombstone."""

    @property
    def old(self) -> Any:
        """The value that the latest update replaced."""

    @property
    def prior(self) -> Any:
        """The value that downstream knows: the one that was replaced when the key entered the buffer."""

    @property
    def ts_us(self) -> int: ...


SizeFunction = Callable[..., int]
SizeOf = Literal["record", "value"] | SizeFunction


def logical_size(value: Any) -> int:
    """The size of one value in bytes, by the rules of this module.

    Raises:
        RecordError: the value is of a type that no column holds.

    Example:
        >>> logical_size({"name": "Zoë", "age": 41})
        12
    """
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    if isinstance(value, Decimal):
        return 16
    if isinstance(value, (int, float, datetime, timedelta)):
        return _INSTANT_BYTES
    return 4 if isinstance(value, date) else _nested_size(value)


def record_size(row: Sized) -> int:
    """The size of the key and value columns plus the timestamp (``size_of="record"``, the default)."""
    return logical_size(row.key) + logical_size(row.value) + _INSTANT_BYTES


def value_size(row: Sized) -> int:
    """The size of the value columns alone (``size_of="value"``, the unit of KIP-328's eviction tables)."""
    return logical_size(row.value)


def sizer(size_of: SizeOf) -> SizeFunction:
    """The function that measures a row, for a ``size_of`` setting.

    Args:
        size_of: ``"record"``, ``"value"``, or a function of the row (:class:`Sized`) that returns bytes.

    Raises:
        ConfigurationError: ``size_of`` is none of these.

    Example:
        >>> sizer("value").__name__
        'value_size'
    """
    if size_of == "record":
        return record_size
    if size_of == "value":
        return value_size
    if callable(size_of):
        return size_of
    raise ConfigurationError(f'size_of is {size_of!r}. Use "record", "value", or a function of the buffered row.')


def _nested_size(value: Any) -> int:
    if isinstance(value, Mapping):
        # A field's name is part of the schema, not of the row.
        return sum(logical_size(part) for name, part in value.items() if name != PRESENT)
    if isinstance(value, Iterable):
        return sum(logical_size(part[1] if _is_entry(part) else part) for part in value)
    raise RecordError(f"A {type(value).__name__} has no size. Give a function of your own as size_of.")


def _is_entry(part: Any) -> bool:
    """Whether a part is an entry of a map: Arrow gives maps, and nothing else, as lists of pairs."""
    return type(part) is tuple and len(part) == 2
