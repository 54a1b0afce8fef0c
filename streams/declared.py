"""Checks that the results of user functions have the declared fields; a misspelt field would be lost silently.

Only names are checked here, for both engines; types are checked on Spark (``streams/spark/returned.py``).
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
    """The value itself: the fit of values that may be anything."""
    return value


def declared_fields(ddl: str) -> tuple[str, ...] | None:
    """The names of the fields that DDL declares, in order; ``None`` if it is one type, or only Spark understands it.

    >>> declared_fields("price double, label string"), declared_fields("decimal(10, 2)")
    (('price', 'label'), None)
    """
    known = fields_if_known(ddl) if names_fields(ddl) else None
    return None if known is None else tuple(name for name, _ in known.fields)


@lru_cache(maxsize=1_024)
def by_names(ddl: str | None) -> Fit:
    """A function that gives a returned value the declared fields, whatever their types.

    Args:
        ddl: The declared return type. With None, or what only Spark understands, values stay as they are.

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
    """A function that turns a mapping into a row of the given fields; a missing field becomes null.

    The function raises a RecordError for a value that is not a mapping, and for an unknown field.

    Args:
        parts: The fields by name, each with the function that fits its values.
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
    """The type of a value in words, without the value itself, since messages go into logs.

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
    # A value that is no list or mapping has another type, which is not checked here.
    if isinstance(kind, Map):
        return lambda value: _each(part, value) if isinstance(value, Mapping) else value
    return lambda value: [part(each) for each in value] if isinstance(value, (list, tuple)) else value


def _each(part: Fit, value: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: part(each) for name, each in value.items()}
