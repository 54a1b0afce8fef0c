"""Rows, keys and conditions of declared steps, as functions that the DSL takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobs.plan_expressions import ROW, SIDES, Known, parse_expression, written
from jobs.strict import PlacedError, at
from streams.fields import value_fields
from streams.key_fields import key_fields
from streams.nodes import Node

#: A function without arguments, which returns what was parsed from the settings.
Constant = Callable[[], Any]


def row_of(path: str, said: Any, node: Node) -> Constant:
    """A row, a key or a value made of the records of one step.

    Args:
        path: The setting's path below its step.
        said: A mapping of fields to expressions, a tuple of fields of the value, or one expression.
        node: The node that is read; its fields are known as far as the plan shows them.

    Raises:
        ConfigurationError: an expression is wrong, or names a field that does not exist.
    """
    return _function(path, said, ROW, {"key": key_fields(node), "value": value_fields(node)}, field=True)


def condition_of(path: str, said: Any, node: Node) -> Constant:
    """A condition over the records of one step. A name alone is not a field: ``where: delayed`` is likely a slip."""
    return _function(path, said, ROW, {"key": key_fields(node), "value": value_fields(node)}, field=False)


def operand_of(path: str, said: Any) -> Constant:
    """As :func:`row_of`, for rows whose fields the plan does not show."""
    return _function(path, said, ROW, {}, field=True)


def joined_row_of(path: str, said: Any, left: Node, right: Node) -> Constant | None:
    """A row made of both sides of a join; None = all fields of both."""
    if said is None:
        return None
    known = {"key": key_fields(left), "left": value_fields(left), "right": value_fields(right)}
    return _function(path, said, SIDES, known, field=False)


def _function(path: str, said: Any, names: tuple[str, ...], known: Known, *, field: bool) -> Constant:
    if isinstance(said, tuple):
        _check_list(path, said, known)
        said = {name: f"value[{name!r}]" for name in said}
    if not isinstance(said, dict):
        with at(path):
            expr = parse_expression(said, names, known, field=field)
        return lambda: expr
    fields = {}
    for name, text in said.items():
        with at(f"{path}.{name}"):
            fields[name] = parse_expression(text, names, known)
    return lambda: fields


def _check_list(path: str, names: tuple[str, ...], known: Known) -> None:
    """Refuse a field of the key in a list, which names fields of the value."""
    fields = known.get("value")
    for name in names:
        if fields is not None and name not in fields and name in (known.get("key") or ()):
            told = "is of the key, and a list has fields of the value. Write a mapping"
            raise PlacedError(f"{path}.{name}", f"{told}: {{{name}: {written('key', name)}}}")
