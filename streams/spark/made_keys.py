"""Keys that a plan derives from its sources' columns: types that cannot be keys are refused before the first batch.

Each part of a key is traced back to the column that it is read from, through steps that pass values on or rename
fields. Parts that are computed, or come from functions or joins, are only checked in the first batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql.types import DataType, StructField, StructType

from streams.expressions import Expr, operation
from streams.key_fields import key_fields
from streams.nodes import (
    AGGREGATES,
    SOURCES,
    ForeignKeyJoin,
    Node,
    SelectKey,
    StreamGlobalTableJoin,
    StreamMapValues,
    StreamStreamJoin,
    TableMapValues,
    WindowedAggregate,
    materialized_of,
)
from streams.spark.key_types import check_outer_keys, without_order
from streams.struct_checks import giver_of_values, path_of
from versioned.errors import ConfigurationError, TopologyError
from versioned.schema import may_be_key
from versioned.sql_types import has_order

#: The columns of keys and values that source nodes read, by node name.
Read = Mapping[str, StructType]
_RULE: Final = "key-types"


def check_made_keys(nodes: Iterable[Node], read: Read) -> None:
    """Refuse keys of types that cannot be keys, as far as the sources' columns show it.

    Args:
        nodes: The nodes of a plan.
        read: The columns that its sources read; a source that is missing here is not checked.

    Raises:
        TopologyError: a map or a variant would be in a key, a floating-point number in that of a table with versions,
            or an outer join of two streams could lack keys of its right side.
    """
    for node in nodes:
        maker = _maker(node)
        for kind in () if maker is None else _parts(maker, node.parents[0], read):
            if kind is not None and not has_order(kind):
                raise TopologyError(_RULE, node.name, without_order(maker, kind))
        _check_stored(node, read)
        if isinstance(node, StreamStreamJoin) and node.kind == "outer":
            _check_outer(node, read)


def _check_stored(node: Node, read: Read) -> None:
    stored = materialized_of(node)
    if stored is None or not stored.is_versioned:
        return
    for name, kind in zip(key_fields(node) or (), _key_kinds(node, read), strict=False):
        if kind is not None and not may_be_key(kind):
            raise TopologyError(
                _RULE, node.name,
                f'"{name}" of its key is {kind.simpleString()}, which has no exact equality, and the table keeps '
                "versions. Cast it to a string or a decimal, or store the table without versions.",
            )  # fmt: skip


def _check_outer(node: StreamStreamJoin, read: Read) -> None:
    left, right = (_key_type(side, read) for side in node.parents)
    if left is None or right is None:
        return
    try:
        check_outer_keys(node.name, left, right)
    except ConfigurationError as error:
        raise TopologyError(_RULE, node.name, str(error)) from None


def _key_type(node: Node, read: Read) -> StructType | None:
    """The type of a node's keys; None if a part of it is not known."""
    names, kinds = key_fields(node) or (), _key_kinds(node, read)
    fields = [StructField(name, kind) for name, kind in zip(names, kinds, strict=False) if kind is not None]
    return StructType(fields) if fields and len(fields) == len(names) else None


def _maker(node: Node) -> Expr | None:
    """The expression of the key under which a node passes its rows on, or by which it looks into another table."""
    if isinstance(node, SelectKey):
        return node.mapper
    if isinstance(node, AGGREGATES):
        return node.group_key
    if isinstance(node, ForeignKeyJoin):
        return node.foreign_key
    return node.key_mapper if isinstance(node, StreamGlobalTableJoin) else None


def _key_kinds(node: Node, read: Read) -> list[DataType | None]:
    """The types of the parts of a node's keys, in order; None for one that is not known."""
    if isinstance(node, SOURCES):
        return [_within(read.get(node.name), [name]) for name in node.key]
    maker = _maker(node) if isinstance(node, (SelectKey, *AGGREGATES)) else None
    kinds = _key_kinds(node.parents[0], read) if maker is None else _parts(maker, node.parents[0], read)
    return [*kinds, None, None] if isinstance(node, WindowedAggregate) else kinds


def _parts(key: Expr, of: Node, read: Read) -> list[DataType | None]:
    """The types of the parts of a key made from a node's rows; empty if the parts are not known."""
    op, args = operation(key)
    if op == "struct":
        return [_kind(part, of, read) for part in args[1:]]
    if op == "row":
        return [_kind(args[1], of, read)]
    return _key_kinds(of, read) if op == "ref" and args[0] == "key" else []


def _kind(expr: Expr, of: Node, read: Read) -> DataType | None:
    """The type of a field of a node's rows."""
    row, path = path_of(*operation(expr))
    if row == "value" and path:
        return _value_kind(of, path, read)
    if row != "key" or not path:
        return None
    parts = dict(zip(map(str.lower, key_fields(of) or ()), _key_kinds(of, read), strict=False))
    return _within(parts.get(path[0].lower()), path[1:])


def _value_kind(node: Node, path: list[str], read: Read) -> DataType | None:
    node = giver_of_values(node)
    if isinstance(node, SOURCES):
        return _within(read.get(node.name), path)
    if not isinstance(node, (StreamMapValues, TableMapValues)):
        return None
    op, args = operation(node.mapper)
    made = dict(zip(args[0], args[1:], strict=True)) if op == "struct" else dict([args]) if op == "row" else {}
    expr = next((part for name, part in made.items() if name.lower() == path[0].lower()), None)
    return None if expr is None else _within(_kind(expr, node.parents[0], read), path[1:])


def _within(kind: DataType | None, path: list[str]) -> DataType | None:
    """The type of a field in a struct, ignoring case; None if there is none."""
    for name in path:
        fields = kind.fields if isinstance(kind, StructType) else ()
        kind = next((field.dataType for field in fields if field.name.lower() == name.lower()), None)
    return kind
