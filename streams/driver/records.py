"""Records as tests write them, converted to rows: scalars for single columns, mappings for several."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from streams.driver.keys import one_form
from streams.nodes import SourceNode
from streams.rows import Row
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US, instant_us
from versioned.errors import RecordError


def key_row(source: SourceNode, key: Any) -> Row | None:
    """A key as a row of the source's key fields, any of which may be null.

    Raises:
        RecordError: fields are missing, or a single value was given for several fields.
    """
    if key is None:
        return None
    named: Row = one_form(Row(_named(source, "key", source.key, key)))
    return named


def value_row(source: SourceNode, value: Any) -> Row | None:
    """A value as a row of the source's value fields; a single value becomes the field ``value`` if none are declared.

    Raises:
        RecordError: declared fields are missing, or a single value was given for several fields.
    """
    if value is None:
        return None
    if source.value is None:
        return Row(value) if isinstance(value, Mapping) else Row(value=value)
    return Row(_named(source, "value", source.value, value))


def timestamp_us(source: SourceNode, ts: Any) -> int | None:
    """A timestamp in microseconds; null stays null.

    Raises:
        RecordError: it is neither a datetime nor an integer of microseconds.
    """
    if isinstance(ts, datetime):
        return instant_us(ts)
    if ts is None or (isinstance(ts, int) and not isinstance(ts, bool)):
        return ts
    raise RecordError(
        f"{source.topic}: the timestamp {ts!r} is a {type(ts).__name__}. Give a datetime, or an int of microseconds."
    )


def has_time_beyond(value: Any) -> bool:
    """Whether a key or a value has a time outside the years 1 to 9999 in UTC, as a datetime in another zone may."""
    if isinstance(value, datetime):
        return not FIRST_INSTANT_US <= instant_us(value) <= LAST_INSTANT_US
    if isinstance(value, Mapping):
        return any(has_time_beyond(part) for entry in value.items() for part in entry)
    return isinstance(value, (list, tuple)) and any(map(has_time_beyond, value))


def _named(source: SourceNode, what: str, names: tuple[str, ...], given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        if len(names) != 1:
            raise RecordError(
                f"{source.topic}: the {what} has the fields {list(names)}; give a mapping, not {given!r}."
            )
        return {names[0]: given}
    missing = [name for name in names if name not in given]
    if missing:
        raise RecordError(f"{source.topic}: the {what} lacks {missing} of the fields {list(names)}.")
    return {name: given[name] for name in names}
