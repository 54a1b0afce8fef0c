"""``Row``: a key or value in the test driver, with named fields, like a struct on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

#: The one NaN of keys: no other one is equal to it, which Spark holds all of them to be.
NAN: Final = float("nan")


class Row(Mapping[str, Any]):
    """An immutable, hashable record with named fields, read by attribute or by name.

    A field named like a method of mappings (``values``, ``items``, ``keys``, ``get``) is read by name only.

    >>> row = Row(origin="JFK", flights=2)
    >>> row.origin, row["flights"]
    ('JFK', 2)
    """

    __slots__ = ("_fields",)
    _fields: dict[str, Any]

    def __init__(self, *fields: Mapping[str, Any], **named: Any) -> None:
        object.__setattr__(self, "_fields", dict(*fields, **named))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(f'no field "{name}"; there are {list(self._fields)}') from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Row cannot be changed; make a new one")

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self._fields == other._fields

    def __hash__(self) -> int:
        # Rows are equal whatever the order of their fields, so the order must not count here either.
        try:
            return hash(frozenset(self._fields.items()))
        except TypeError:
            return hash(frozenset((name, frozen(part)) for name, part in self._fields.items()))

    def __reduce__(self) -> tuple[type[Row], tuple[dict[str, Any]]]:
        return (Row, (self._fields,))

    def __repr__(self) -> str:
        return "Row(" + ", ".join(f"{name}={value!r}" for name, value in self._fields.items()) + ")"


def frozen(value: Any) -> Any:
    """A value that can be hashed: arrays as tuples and structs as rows, however deep; each NaN is the same one.

    >>> frozen([1, {"a": [2]}])
    (1, Row(a=(2,)))
    """
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    if isinstance(value, Mapping):
        return Row({name: frozen(part) for name, part in value.items()})
    return one_nan(value)


def one_nan(value: Any) -> Any:
    """A key, or a part of one, in which each NaN is the same one, so that keys are equal as on Spark.

    >>> Row(share=one_nan(float("nan"))) == Row(share=one_nan(float("nan")))
    True
    """
    if isinstance(value, float):
        return NAN if value != value else value
    if isinstance(value, Mapping):
        parts = {name: one_nan(part) for name, part in value.items()}
        return Row(parts) if isinstance(value, Row) else parts
    return type(value)(map(one_nan, value)) if type(value) in (list, tuple) else value
