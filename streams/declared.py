"""Checks that the results of user functions have the declared fields; a misspelt field would be lost silently.

Types are checked by Spark (``streams/spark/returned.py``); names are the same for both engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from streams.ddl import names_fields
from streams.rows import Row
from versioned.ddl_kinds import Array, Kind, Map, Struct, fields_if_known
from versioned.errors import RecordError

Fit = Callable[[Any], Any]


def as_it_is(value: Any) -> Any:
    """What is kept of a value that need not fit anything."""
    return value


def declared_fields(ddl: str) -> tuple[str, ...] | None:
    """The names of the fields that DDL declares, in order; none if it is one type, or only Spark can tell.

    >>> declared_fields("price double, label string"), declared_fields("decimal(10, 2)")
    (('price', 'label'), None)
    """
    known = fields_if_known(ddl) if names_fields(ddl) else None
    return None if known is None else tuple(name for name, _ in known.fields)


@lru_cache(maxsize=1_024)
def by_names(ddl: str | None) -> Fit:
    """What makes of a value that a function returned one of the declared fields, whatever their types.

    Args:
        ddl: What the function was said to return; of None, and of what only Spark understands, everything stays.

    >>> by_names("price double, label string")({"price": 1.0})
    Row(price=1.0, label=None)
    >>> by_names("price double")({"prize": 1.0})
    Traceback (most recent call last):
    versioned.errors.RecordError: its function gave the fields ['prize'], and declared are ['price']. Correct their \
names, or declare them.
    """
    if ddl is None:
        return as_it_is
    is_row = names_fields(ddl)
    known = fields_if_known(ddl if is_row else f"value {ddl}")
    if known is None:
        return as_it_is
    return _fit_of(known if is_row else known.fields[0][1])


def row_fit(parts: Mapping[str, Fit]) -> Fit:
    """What makes a row of a mapping by the names of its fields, each with what fits its values; a missing one is null.

    Raises:
        RecordError: by what it gives: a value that is no mapping, or a field of another name.
    """

    def fit(value: Any) -> Row:
        if not isinstance(value, Mapping):
            raise RecordError(
                f"its function gave {with_article(value)}, and declared are the fields {list(parts)}. Give a mapping "
                "of them, or declare the type of a single value."
            )
        unknown = [name for name in value if name not in parts]
        if unknown:
            raise RecordError(
                f"its function gave the fields {unknown}, and declared are {list(parts)}. Correct their names, or "
                "declare them."
            )
        return Row({name: part(value.get(name)) for name, part in parts.items()})

    return fit


def with_article(value: Any) -> str:
    """What kind of value it is, in words without the value itself: they go into logs.

    >>> with_article(1), with_article("a")
    ('an int', 'a str')
    """
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _fit_of(kind: Kind) -> Fit:
    fit = _fit_of_values(kind)
    return fit if fit is as_it_is else lambda value: None if value is None else fit(value)


def _fit_of_values(kind: Kind) -> Fit:
    if isinstance(kind, Struct):
        return row_fit({name: _fit_of(part) for name, part in kind.fields})
    part = _fit_of(kind.part) if isinstance(kind, (Array, Map)) else as_it_is
    if part is as_it_is:
        return as_it_is
    # What is no list or mapping is of another type.
    if isinstance(kind, Map):
        return lambda value: _each(part, value) if isinstance(value, Mapping) else value
    return lambda value: [part(each) for each in value] if isinstance(value, (list, tuple)) else value


def _each(part: Fit, value: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: part(each) for name, each in value.items()}
