"""Checks fields within structs that a plan names, once the types of the sources' columns are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from streams.expressions import Expr, operation
from streams.field_checks import check_read, functions_of, no_field, operations_of
from streams.nodes import (
    JOINS,
    SOURCES,
    Node,
    SelectKey,
    StreamFilter,
    TableAggregate,
    TableFilter,
    ToStream,
    ToTable,
)
from versioned.errors import TopologyError

#: The fields of a struct, each with its own fields if it is a struct too, otherwise with None.
Shape = Mapping[str, "Shape | None"]
#: Nodes that leave values as they are.
_SAME_VALUE: Final = (StreamFilter, TableFilter, SelectKey, ToStream, ToTable)


def check_known(nodes: Sequence[Node], shapes: Mapping[str, Shape]) -> None:
    """Refuse every field that a plan names and that its sources do not have, once their columns are known.

    Args:
        nodes: A plan, in its order.
        shapes: The values of sources, by the node's name.

    Raises:
        TopologyError: as :func:`~streams.field_checks.check_read` and :func:`check_within`.
    """
    check_read(nodes, {name: tuple(shape) for name, shape in shapes.items()})
    check_within(nodes, shapes)


def check_within(nodes: Iterable[Node], shapes: Mapping[str, Shape]) -> None:
    """Refuse a field that a struct in a source's value does not have; case is ignored, as on Spark.

    Fields of values that a step has computed are not checked.

    Args:
        nodes: A plan.
        shapes: The values of sources, by the node's name.

    Raises:
        TopologyError: with the field, what was probably meant, and the fields that there are.
    """
    for node in nodes:
        sides = _sides(node)
        for expr, _ in functions_of(node):
            if isinstance(node, TableAggregate) and node.group_value is not None and expr is node.aggregation.value:
                continue  # It reads what group_value has made, not the source's value.
            for row, path in _paths(expr):
                shape = shapes.get(sides.get(row) or "")
                if shape is not None:
                    _check_path(node, row, path, shape)


def _sides(node: Node) -> dict[str, str | None]:
    """The source of the value that each row of a node's functions is, by the row's name; None if it is not known."""
    if not node.parents:
        return {}
    first = _source_of(node.parents[0])
    if isinstance(node, JOINS):
        return {"left": first, "value": first, "right": _source_of(node.parents[1])}
    return {"value": first}


def _source_of(node: Node) -> str | None:
    giver = giver_of_values(node)
    return giver.name if isinstance(giver, SOURCES) else None


def giver_of_values(node: Node) -> Node:
    """The node that made a node's values: the node itself, unless it passes values on as they are."""
    while isinstance(node, _SAME_VALUE):
        node = node.parents[0]
    return node


def _paths(expr: Expr | None) -> Iterator[tuple[str, list[str]]]:
    """Each field that an expression reads, by the row and the names that lead to it."""
    for op, args in operations_of(expr):
        row, names = path_of(op, args)
        if row is not None and names:
            yield row, names


def path_of(op: str, args: tuple[Any, ...]) -> tuple[str | None, list[str]]:
    """The row that an operation reads a field of, and the names that lead to it; None if it reads no field of a row.

    >>> path_of(*operation(Expr("field", Expr("field", Expr("ref", "value"), "st"), "a")))
    ('value', ['st', 'a'])
    """
    names: list[str] = []
    while op == "field" and isinstance(args[0], Expr):
        names.insert(0, args[1])
        op, args = operation(args[0])
    return (args[0] if op == "ref" else None), names


def _check_path(node: Node, row: str, path: list[str], shape: Shape) -> None:
    within: Shape | None = shape
    for depth, name in enumerate(path):
        if within is None:
            return
        found = next((field for field in within if field.lower() == name.lower()), None)
        if found is None:
            if depth == 0:
                return  # The check of the row's own fields reports it.
            where = ".".join([row, *path[:depth]])
            raise TopologyError("fields", node.name, no_field(where, name, {where: tuple(within)}))
        within = within[found]
