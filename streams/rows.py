"""``Row``: a key or value in the test driver, with named fields as in a struct; ``Inner``: a struct or map in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NoReturn
from uuid import UUID

#: The only NaN in keys: in Python it equals no other NaN, while on Spark all of them are equal.
NAN: Final = float("nan")
#: Types whose values are immutable.
_CONSTANTS: Final = frozenset(
    {type(None), bool, int, float, Decimal, str, bytes, date, datetime, time, timedelta, UUID}
)
#: Methods that change a dictionary, which a Row does not have.
_CHANGING: Final = frozenset(("clear", "pop", "popitem", "setdefault", "update"))


def _no_change(name: str) -> str:
    return f'a Row cannot be changed; make a new one with {{**row, "{name}": ...}}'


class Row(Mapping[str, Any]):
    """An immutable, hashable record with named fields, read by attribute or by name.

    It equals any mapping with the same fields and values. A field with the name of a mapping method (``values``,
    ``items``, ``keys``, ``get``) can be read by name only.

    >>> row = Row(origin="JFK", flights=2)
    >>> row.origin, row["flights"], row == {"flights": 2, "origin": "JFK"}
    ('JFK', 2, True)
    """

    __slots__ = ("_fields", "_hash")
    _fields: dict[str, Any]
    #: Computed on first use and kept, since a key is looked up many times.
    _hash: int | None

    def __init__(self, *fields: Mapping[str, Any], **named: Any) -> None:
        object.__setattr__(self, "_fields", dict(*fields, **named))
        object.__setattr__(self, "_hash", None)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            instead = _no_change("field") if name in _CHANGING else f'no field "{name}"; there are {list(self._fields)}'
            raise AttributeError(instead) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(_no_change(name))

    def __setitem__(self, name: str, value: Any) -> NoReturn:
        raise TypeError(_no_change(name))

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        if type(other) is Row:
            return self._fields == other._fields
        # Other mappings that are equal to a row, such as dictionaries, have no hash that could differ.
        return isinstance(other, Mapping) and self._fields == dict(other)

    def __hash__(self) -> int:
        if self._hash is not None:
            return self._hash
        # Rows are equal whatever the order of their fields, so the order must not count here either.
        if _are_constants(self._fields.values()):
            object.__setattr__(self, "_hash", hash(frozenset(self._fields.items())))
            return hash(self)
        # The values in such a row may change, and its hash with them.
        return hash(frozenset((name, frozen(part)) for name, part in self._fields.items()))

    def __reduce__(self) -> tuple[type[Row], tuple[dict[str, Any]]]:
        return (Row, (self._fields,))

    def __repr__(self) -> str:
        return "Row(" + ", ".join(f"{name}={value!r}" for name, value in self._fields.items()) + ")"


class Inner(dict[Any, Any]):
    """A struct or a map within a row, as user functions get it: a dictionary whose fields are also attributes.

    A dictionary that a test gives or a function returns may be either one, so both are passed on in the same form. A
    field named like a method of dictionaries (``values``, ``update``, ``copy``) is read by name only.

    >>> inner = Inner(x=1)
    >>> inner.x, inner["x"], inner == {"x": 1}, inner == Row(x=1)
    (1, 1, True, True)
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f'no field "{name}"; there are {list(self)}') from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f'a field is changed by its name: ["{name}"] = ...')

    def __eq__(self, other: object) -> bool:
        return dict.__eq__(self, other._fields if isinstance(other, Row) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def fields_of(row: Any) -> dict[Any, Any] | None:
    """The fields of a row or of another mapping, only to be read; None if it is neither.

    >>> fields_of(Row(x=1)), fields_of(1)
    ({'x': 1}, None)
    """
    if type(row) is Row:
        return row._fields
    if isinstance(row, dict):
        return row
    return dict(row) if isinstance(row, Mapping) else None


def frozen(value: Any) -> Any:
    """A value in hashable form: arrays as tuples, structs as rows, binaries as bytes, all NaNs as the same one.

    >>> frozen([1, {"a": [2]}])
    (1, Row(a=(2,)))
    """
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    if isinstance(value, Mapping):
        return Row({name: frozen(part) for name, part in value.items()})
    return bytes(value) if isinstance(value, bytearray) else one_nan(value)


def thawed(value: Any) -> Any:
    """A frozen value with its arrays as lists again.

    >>> thawed(frozen([1, {"a": [2]}]))
    [1, Row(a=[2])]
    """
    if isinstance(value, tuple):
        return list(map(thawed, value))
    return Row({name: thawed(part) for name, part in value.items()}) if isinstance(value, Row) else value


def one_nan(value: Any) -> Any:
    """A key, or a part of one, in which all NaNs are the same one, so that keys are equal as on Spark.

    >>> Row(share=one_nan(float("nan"))) == Row(share=one_nan(float("nan")))
    True
    """
    if isinstance(value, float):
        return NAN if value != value else value
    return with_parts(value, one_nan)


def with_parts(value: Any, change: Callable[[Any], Any]) -> Any:
    """A struct, map or array with each of its parts changed; any other value as it is.

    >>> with_parts(Row(n=1, of=[2]), lambda part: part if isinstance(part, list) else -part)
    Row(n=-1, of=[2])
    """
    if isinstance(value, Mapping):
        parts = {name: change(part) for name, part in value.items()}
        return Row(parts) if isinstance(value, Row) else parts
    return type(value)(map(change, value)) if type(value) in (list, tuple) else value


def own(value: Any) -> Any:
    """A copy of a value that a user function may change in place while others still hold the original.

    A row stays a row, whose parts are as :func:`own_part` returns them. Immutable values are returned as they are. A
    list that occurs twice becomes two lists, as in a stored row.

    >>> row = Row(seen=[1], place=Row(x=1))
    >>> given = own(row)
    >>> given.seen.append(2)
    >>> row, given
    (Row(seen=[1], place=Row(x=1)), Row(seen=[1, 2], place={'x': 1}))
    """
    if type(value) is Row:
        fields = value._fields
        if _are_constants(fields.values()):
            return value
        return Row({name: own_part(part) for name, part in fields.items()})
    return own_part(value)


def own_part(value: Any) -> Any:
    """As :func:`own`, for a part of a row: structs and maps become :class:`Inner`, however deep."""
    kind = type(value)
    if kind in _CONSTANTS:
        return value
    if kind is Row or isinstance(value, dict):
        return Inner({name: own_part(part) for name, part in value.items()})
    if kind is tuple:
        return value if _are_constants(value) else tuple(map(own_part, value))
    if kind is list:
        return list(value) if _are_constants(value) else list(map(own_part, value))
    return value.copy() if kind in (set, bytearray) else deepcopy(value)


def _are_constants(parts: Iterable[Any]) -> bool:
    # No Python step for each part, since most rows and lists consist of plain values.
    return _CONSTANTS.issuperset(map(type, parts))
