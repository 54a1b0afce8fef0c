"""Rows of versioned tables as lanes of a picture: one lane per key, its versions in order of time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from versioned.errors import InvariantError, RecordError, SchemaError
from versioned.time_axis import given_us, instant_text, is_null

_NONE_YET: Final = "open"


@dataclass(frozen=True)
class Columns:
    """The roles of the rows' columns; ``values`` None = all without another role that do not begin with ``_``."""

    keys: tuple[str, ...]
    values: tuple[str, ...] | None = None
    valid_from: str = "validFrom"
    valid_to: str = "validTo"
    deleted: str = "deleted"

    def values_of(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """The value columns of a row."""
        if self.values is not None:
            return self.values
        others = {*self.keys, self.valid_from, self.valid_to, self.deleted}
        return tuple(name for name in row if name not in others and not name.startswith("_"))


def shown(value: Any) -> str:
    """A value as text; an empty text is shown in quotes.

    >>> shown(1.5), shown(None), shown("")
    ('1.5', 'null', '""')
    """
    return "null" if value is None else str(value) or '""'


@dataclass(frozen=True)
class Span:
    """One version, or a stretch of time without one; ``to_us`` None = open, ``values`` None = no value.

    Args:
        from_us: Its start, inclusive.
        to_us: Its end, exclusive.
        values: Its values by name.
        deleted: Whether a stored tombstone says that there is no value.
    """

    from_us: int
    to_us: int | None
    values: Mapping[str, Any] | None = None
    deleted: bool = False

    @property
    def label(self) -> str:
        """The values on one line."""
        return " · ".join(map(shown, (self.values or {}).values()))

    @property
    def is_stored(self) -> bool:
        """Whether this is a stored row, not just the time between rows."""
        return self.deleted or self.values is not None

    @property
    def until(self) -> str:
        """The exact end as text."""
        return _NONE_YET if self.to_us is None else instant_text(self.to_us)


@dataclass(frozen=True)
class Lane:
    """A key and its spans in order of time: versions, and what lies between and after them."""

    key: str
    spans: tuple[Span, ...]
    names: tuple[str, ...] = field(default=())


def lanes_of(rows: Iterable[Any], columns: Columns) -> tuple[Lane, ...]:
    """One lane per key, in the order in which keys first appear in the rows.

    Args:
        rows: Mappings, or rows with ``asDict`` as Spark collects them.
        columns: The roles of the columns.

    Raises:
        SchemaError: a row lacks a column.
        RecordError: a start is null, or a bound is not an instant.
        InvariantError: versions of a key overlap, or one ends before it begins.

    Example:
        >>> row = {"item": "tea", "price": 10.0, "validFrom": 0, "validTo": 5}
        >>> [lane] = lanes_of([row], Columns(("item",)))
        >>> lane.key, [(span.from_us, span.to_us, span.label) for span in lane.spans]
        ('tea', [(0, 5, '10.0'), (5, None, '')])
    """
    by_key: dict[tuple[str, ...], list[Span]] = {}
    for row in rows:
        told = row.asDict() if hasattr(row, "asDict") else row
        _check(told, columns)
        by_key.setdefault(tuple(str(told[name]) for name in columns.keys), []).append(_span(told, columns))
    return tuple(Lane(" · ".join(map(shown, key)), _with_gaps(key, spans), key) for key, spans in by_key.items())


def _check(row: Mapping[str, Any], columns: Columns) -> None:
    wanted = (*columns.keys, columns.valid_from, columns.valid_to, *(columns.values or ()))
    missing = [name for name in wanted if name not in row]
    if missing:
        raise SchemaError(f"The rows lack {missing}; they have {list(row)}. Name the columns, or select them.")


def _span(row: Mapping[str, Any], columns: Columns) -> Span:
    from_us, to_us = (given_us(row[name], name) for name in (columns.valid_from, columns.valid_to))
    if from_us is None:
        raise RecordError(f"{columns.valid_from} is null in {dict(row)}. A version has a start; leave the row out.")
    dead = row.get(columns.deleted)
    # pandas has NaN for null, which counts as true.
    if not is_null(dead) and dead:
        return Span(from_us, to_us, deleted=True)
    return Span(from_us, to_us, {name: row[name] for name in columns.values_of(row)})


def _with_gaps(key: tuple[str, ...], versions: Sequence[Span]) -> tuple[Span, ...]:
    ordered = sorted(versions, key=lambda span: span.from_us)
    for span in ordered:
        if span.to_us is not None and span.to_us < span.from_us:
            raise InvariantError(f"A version of {key} from {instant_text(span.from_us)} ends before: {span.until}.")
    spans = ordered[:1]
    for before, after in pairwise(ordered):
        if before.to_us is None or before.to_us > after.from_us:
            raise InvariantError(
                f"Versions of {key} overlap: one lasts until {before.until}, the next begins "
                f"{instant_text(after.from_us)}. Name every key column; if you did, run verify()."
            )
        spans += [Span(before.to_us, after.from_us), after] if before.to_us < after.from_us else [after]
    last_us = spans[-1].to_us
    return (*spans, Span(last_us, None)) if last_us is not None else tuple(spans)
