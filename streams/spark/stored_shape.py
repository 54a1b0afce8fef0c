"""Whether a table that is there can take what a changed plan makes: told at the start, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pyspark.sql.types import DataType, StructField, StructType

from versioned.errors import ConfigurationError
from versioned.identifiers import named_twice
from versioned.sql_types import nullable_columns

#: What an aggregate computes: a property of its table.
_AGGREGATE: Final = "versioned.aggregate"


def check_beside(node: str, table: str, names: Iterable[str]) -> None:
    """Refuse a key with a field that is called as a column that a state table has beside the key.

    Args:
        node: Whose table it is.
        table: Its name.
        names: Its columns.

    Raises:
        ConfigurationError: telling which.
    """
    twice = sorted({name.lower() for name in named_twice(names)})
    if twice:
        raise ConfigurationError(
            f'The table "{table}" of "{node}" would have {twice} twice: as fields of the key, and as columns of its '
            "own beside them. Rename these fields of the key, in the source's transform or with select_key."
        )


def check_rows(node: str, table: str, there: StructType, made: StructType, *, by_name: bool = False) -> None:
    """Refuse rows that a state table could not give back as they were: other columns, or of other types.

    Args:
        node: Whose table it is.
        table: Its name.
        there: Its columns.
        made: Those of the rows that the plan makes now.
        by_name: Whether fields of structs are found by name, so that their order is no matter.

    Raises:
        ConfigurationError: telling which columns differ, or which fields of them, and in what.
    """
    before, after = nullable_columns(there), nullable_columns(made)
    if by_name:
        before, after = ({name: _in_order(kind) for name, kind in columns.items()} for columns in (before, after))
    _refuse(node, table, list(_changes(before, after)))


def check_names(node: str, table: str, there: Iterable[str], made: Iterable[str], *, may_lack: bool) -> None:
    """Refuse rows with columns that a table lacks, or without some that it has.

    Args:
        node: Whose table it is.
        table: Its name.
        there: The names of its columns.
        made: Those of the rows that the plan makes now.
        may_lack: Whether rows may come without a column, which is null in them then.

    Raises:
        ConfigurationError: telling which columns differ.
    """
    before, after = ({name.lower() for name in names} for names in (there, made))
    _refuse(node, table, sorted(after - before if may_lack else after ^ before))


def check_types(node: str, table: str, there: StructType, made: StructType) -> None:
    """Refuse rows of which a column has another type than the table's of that name: values would be cut or not fit.

    Args:
        node: Whose table it is.
        table: Its name.
        there: Its columns.
        made: Those of the rows that the plan makes now; :func:`check_names` is for those that only one side has.

    Raises:
        ConfigurationError: telling which columns, and both types of each.
    """
    before, after = nullable_columns(there), nullable_columns(made)
    differing = [name for name, kind in after.items() if before.get(name, kind) != kind]
    told = [f"{name}: {before[name].simpleString()}, now {after[name].simpleString()}" for name in differing]
    _refuse(node, table, told)


def aggregate_properties(kind: str) -> dict[str, str]:
    """What the table of an aggregate says of it, as table properties of its creation.

    >>> aggregate_properties("sum")
    {'versioned.aggregate': 'sum'}
    """
    return {_AGGREGATE: kind}


def check_aggregate(node: str, table: str, told: Mapping[str, str], kind: str) -> None:
    """Refuse to go on from what another aggregate left: its columns may be the same, what is in them is not.

    Args:
        node: Whose table it is.
        table: Its name.
        told: Its properties. A table that was made before they told its aggregate is taken for one of this kind.
        kind: What the plan computes now: ``sum``, ``max`` ...

    Raises:
        ConfigurationError: naming both aggregates.
    """
    before = told.get(_AGGREGATE, kind)
    if before != kind:
        raise ConfigurationError(
            f'The plan of "{node}" was changed: the table "{table}" holds results of {before}, and {kind} cannot go on '
            "from them. Give the plan the former aggregate, or the node (its store, where that is named) another name, "
            "under which it begins empty."
        )


def _changes(before: Mapping[str, DataType], after: Mapping[str, DataType], within: str = "") -> Iterator[str]:
    """What differs, field by field."""
    for name in {**before, **after}:
        told, old, new = f"{within}{name}", before.get(name), after.get(name)
        if old is None or new is None:
            yield f"{told} is {'new' if old is None else 'gone'}"
        elif old != new and isinstance(old, StructType) and isinstance(new, StructType):
            inner = list(_changes(_fields(old), _fields(new), f"{told}."))
            yield from inner or [f"the fields of {told} are in another order"]
        elif old != new:
            yield f"{told}: {old.simpleString()}, now {new.simpleString()}"


def _fields(kind: StructType) -> dict[str, DataType]:
    return {field.name: field.dataType for field in kind.fields}


def _in_order(kind: DataType) -> DataType:
    if not isinstance(kind, StructType):
        return kind
    return StructType(
        [StructField(field.name, _in_order(field.dataType)) for field in sorted(kind.fields, key=lambda f: f.name)]
    )


def _refuse(node: str, table: str, differing: list[str]) -> None:
    if differing:
        raise ConfigurationError(
            f'The plan of "{node}" was changed: the table "{table}" holds other columns than it makes now: '
            f"{differing}. Give the plan the former fields and types, or the node (its store, where that is named) "
            "another name, under which it begins empty; a sink's table can be given a column by ALTER TABLE."
        )
