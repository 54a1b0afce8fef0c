"""Whether an existing table can hold what a changed plan produces; checked at the start, before any write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from pyspark.sql import Column
from pyspark.sql.types import DataType, StructField, StructType

from versioned import spark_functions as F
from versioned.errors import ConfigurationError
from versioned.identifiers import named_twice
from versioned.spec import DELETED, SPEC_PROPERTY
from versioned.sql_types import holds, nullable_columns

#: Table property: the kind of an aggregate.
_AGGREGATE: Final = "versioned.aggregate"
#: Table property: what an aggregate of a table takes of a row (:func:`streams.plan_facts.taken_of_rows`).
_TAKEN: Final = "versioned.aggregate.taken"
#: Table property: the kind of a sink.
SINK_KIND: Final = "versioned.sink"
#: Table property: the key columns of a table of latest rows.
_KEYS: Final = "versioned.keys"
#: What a sink keeps: every change, or the latest row of each key.
SinkKind = Literal["changelog", "latest"]
#: The column after the key in a table without versions.
_BEHIND_KEY: Final = "ts"
#: How the tables of a plan get columns.
GETS_COLUMNS: Final = (
    "A start with --add-columns (add_columns=True) gives versioned tables, tables of latest rows and sinks what they "
    "lack, null in their rows so far; not aggregates, windows and rows that wait, nor within an unfinished batch."
)
_ANOTHER_NAME: Final = "the node (its store, where that is named) another name, under which it begins empty"


def check_beside(node: str, table: str, names: Iterable[str]) -> None:
    """Refuse a key field with the name of one of the state table's own columns.

    Args:
        node: The node that owns the table.
        table: The name of the table.
        names: The names of its columns, with those of the key.

    Raises:
        ConfigurationError: there is one; names it.
    """
    twice = sorted({name.lower() for name in named_twice(names)})
    if twice:
        raise ConfigurationError(
            f'The table "{table}" of "{node}" would have {twice} twice: as fields of the key, and as columns of its '
            "own beside them. Rename these fields of the key, in the source's transform or with select_key."
        )


def check_rows(node: str, table: str, there: StructType, made: StructType, *, by_name: bool = False) -> None:
    """Refuse rows that a state table could not give back unchanged, since columns or types differ.

    Args:
        node: The node that owns the table.
        table: The name of the table.
        there: Its columns.
        made: The columns of the rows that the plan makes now.
        by_name: Whether fields of structs are found by name, so that their order does not matter.

    Raises:
        ConfigurationError: columns or fields differ; says which, and how.
    """
    before, after = nullable_columns(there), nullable_columns(made)
    if by_name:
        before, after = ({name: _in_order(kind) for name, kind in columns.items()} for columns in (before, after))
    _refuse(node, table, list(_changes(before, after)))


def check_known_columns(node: str, table: str, there: Iterable[str], made: Iterable[str]) -> None:
    """Refuse rows with columns that a table lacks. Rows may lack columns of the table, which are then null.

    Args:
        node: The node that owns the table.
        table: The name of the table.
        there: The names of its columns.
        made: The names of the columns of the rows that the plan makes now.

    Raises:
        ConfigurationError: the table lacks columns; names them.
    """
    before, after = ({name.lower() for name in names} for names in (there, made))
    _refuse(node, table, sorted(after - before))


def check_types(node: str, table: str, there: StructType, made: StructType, *, or_wider: bool = False) -> None:
    """Refuse rows with a column of another type than in the table: values would be cut or not fit.

    Args:
        node: The node that owns the table.
        table: The name of the table.
        there: Its columns.
        made: The columns of the rows that the plan makes now. Columns that only one side has are not checked here, but
            by :func:`check_known_columns`.
        or_wider: Whether the table's type may be wider, if it holds every value of the rows' type unchanged.

    Raises:
        ConfigurationError: types differ; names the columns, with both types.
    """
    before, after = nullable_columns(there), nullable_columns(made)
    both = {name: (before.get(name, kind), kind) for name, kind in after.items()}
    differing = [name for name, (old, new) in both.items() if old != new and not (or_wider and holds(old, new))]
    told = [f"{name}: {before[name].simpleString()}, now {after[name].simpleString()}" for name in differing]
    _refuse(node, table, told)


def nulls_of(there: StructType, made: Iterable[str]) -> list[Column]:
    """The columns of a table that the plan's rows lack, as nulls: without them, updated rows would keep old values.

    Args:
        there: The table's columns.
        made: The names of the rows' columns.
    """
    names = {name.lower() for name in made}
    return [
        F.lit(None).cast(field.dataType).alias(field.name) for field in there.fields if field.name.lower() not in names
    ]


def aggregate_properties(kind: str, taken: str | None = None) -> dict[str, str]:
    """The table properties that describe an aggregate, set when its table is made.

    Args:
        kind: The kind of aggregate.
        taken: For an aggregate of a table, a digest of what it takes of a row.

    >>> aggregate_properties("sum")
    {'versioned.aggregate': 'sum'}
    """
    return {_AGGREGATE: kind} | ({} if taken is None else {_TAKEN: taken})


def check_aggregate(node: str, table: str, told: Mapping[str, str], kind: str, taken: str | None = None) -> None:
    """Refuse to continue from another aggregate's results, whose columns may be the same but not their content.

    An aggregate of a table takes away what it once added of a former row, so it must take the same of it as before.

    Args:
        node: The node that owns the table.
        table: The name of the table.
        told: Its properties. A table of a release that did not record the kind is assumed to be of this kind.
        kind: The kind of aggregate in the plan now: ``sum``, ``max of a table`` ...
        taken: For an aggregate of a table, a digest of what the plan takes of a row now. It is not compared if the
            table has none.

    Raises:
        ConfigurationError: the kind is another, or the table's aggregate took something else of rows.
    """
    before = told.get(_AGGREGATE, kind)
    if before not in (kind, kind.partition(" of ")[0]):
        raise ConfigurationError(
            f'The plan of "{node}" was changed: the table "{table}" holds results of {before}, and {kind} cannot go on '
            f"from them. Give the plan the former aggregate, or {_ANOTHER_NAME}."
        )
    if taken is not None and told.get(_TAKEN, taken) != taken:
        raise ConfigurationError(
            f'The plan of "{node}" was changed: the table "{table}" holds results of other expressions. It aggregates '
            "a table, so what it has added of a row it must take away as the row changes: by the same expression and "
            f"group, behind the same filters and map_values. Give the plan the former ones, or {_ANOTHER_NAME} and "
            "takes the changes from then on; or begin with another root, where all rows are added anew."
        )


def check_plain(
    node: str,
    table: str,
    told: Mapping[str, str],
    there: Sequence[str],
    keys: Iterable[str],
    *,
    keeps_tombstones: bool = False,
) -> None:
    """Refuse to continue from a table of latest rows that has other keys, versions, or unexpected tombstones.

    Args:
        node: The node that owns the table.
        table: The name of the table.
        told: Its properties.
        there: The names of its columns. If its properties do not name the key, that is all before ``ts``.
        keys: The fields of the plan's key, in any order.
        keeps_tombstones: Whether the plan keeps deleted keys as rows.

    Raises:
        ConfigurationError: the table does not fit; says what it has.
    """
    if SPEC_PROPERTY in told:
        raise ConfigurationError(
            f'The plan of "{node}" was changed: the table "{table}" has versions, of which the plan keeps none now. '
            f"Let the store be versioned again, or give {_ANOTHER_NAME}."
        )
    if _KEYS in told or _BEHIND_KEY in there:
        former = json.loads(told[_KEYS]) if _KEYS in told else list(there[: there.index(_BEHIND_KEY)])
        _check_key(node, table, former, keys, f"the key {former}")
    # A value never has a column of this name.
    if DELETED in there and not keeps_tombstones:
        raise ConfigurationError(
            f'The plan of "{node}" was changed: the table "{table}" keeps deleted keys as rows (its column '
            f'"{DELETED}"), as foreign-key joins of two versioned tables do. The plan would take them for keys that '
            f"are there. Give it the former tables, or {_ANOTHER_NAME}."
        )


def without_versions(node: str, table: str) -> ConfigurationError:
    """The error for a plan that asks for versions of a table that has none.

    Args:
        node: The node that owns the table.
        table: The name of the table.
    """
    return ConfigurationError(
        f'The plan of "{node}" was changed: the table "{table}" has no versions, which the plan asks for now. Let the '
        f"store keep none again, or give {_ANOTHER_NAME}."
    )


def key_properties(keys: Iterable[str]) -> dict[str, str]:
    """The table property that names the key columns of a table of latest rows, set when it is made.

    >>> key_properties(["city", "day"])
    {'versioned.keys': '["city", "day"]'}
    """
    return {_KEYS: json.dumps(list(keys))}


def sink_properties(kind: SinkKind, keys: Iterable[str]) -> dict[str, str]:
    """The table properties that describe a sink, set when its table is made.

    Args:
        kind: The kind of sink.
        keys: The fields of the key; not used for a changelog, which is only appended to.

    >>> sink_properties("latest", ["city", "day"])
    {'versioned.sink': 'latest', 'versioned.keys': '["city", "day"]'}
    >>> sink_properties("changelog", ["city"])
    {'versioned.sink': 'changelog'}
    """
    return {SINK_KIND: kind} | (key_properties(keys) if kind == "latest" else {})


def check_sink(
    node: str, table: str, told: Mapping[str, str], kind: SinkKind, there: Sequence[str], keys: Sequence[str]
) -> None:
    """Refuse a sink that would write into the table of another kind, or overwrite rows that have another key.

    Args:
        node: The sink.
        table: The name of its table.
        told: The table's properties. If they do not name the key, only its first columns are compared; if they do not
            name its kind, it is assumed to be of this kind.
        kind: The kind of the sink now.
        there: The names of the table's columns.
        keys: The fields of the plan's key, in any order.

    Raises:
        ConfigurationError: the table does not fit; says what it has.
    """
    before = told.get(SINK_KIND, kind)
    if before != kind:
        held = {"changelog": "every change, as to_changelog writes it", "latest": "the latest rows of to_latest"}
        raise ConfigurationError(
            f'The plan of "{node}" was changed: the table "{table}" holds {held[before]}, and is not to become one of '
            f"{held[kind]}. Give the sink another name, or the plan the former one."
        )
    if kind == "latest" and _KEYS in told:
        former = json.loads(told[_KEYS])
        _check_key(node, table, former, keys, f"the key {former}")
    elif kind == "latest":
        first = list(there[: len(keys)])
        _check_key(node, table, first, keys, f"a key that begins with {first}")


def _check_key(node: str, table: str, former: Iterable[str], keys: Iterable[str], told: str) -> None:
    """Refuse another key: several former keys would fall together into one, or one would be split."""
    now = list(keys)
    if {name.lower() for name in former} != {name.lower() for name in now}:
        raise ConfigurationError(
            f'The plan of "{node}" was changed: the table "{table}" has {told}, but the plan now gives {now}. Give the '
            f"plan the former key, or {_ANOTHER_NAME}."
        )


def _changes(before: Mapping[str, DataType], after: Mapping[str, DataType], within: str = "") -> Iterator[str]:
    """The differences, field by field, in words."""
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
            f'The plan of "{node}" was changed, or somebody changed a table: the table "{table}" holds other columns '
            f"than it makes now: {differing}. Give the plan the former fields and types, or {_ANOTHER_NAME}. "
            f"{GETS_COLUMNS} Where no batch has ended yet, nothing is lost if the root is deleted instead. "
            "If somebody changed the table, RESTORE it to its version before that (DESCRIBE HISTORY tells it). "
            "If somebody widened a column of a table that it is made from, ALTER TABLE the column here too."
        )
