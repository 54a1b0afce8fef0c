"""The plan under construction, shared by the objects of the DSL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from streams.expressions import Expr, as_expr, operation, row_expr, trace
from streams.fields import Fields, value_fields
from streams.functions import merge, python_function
from streams.nodes import Joined, Materialized, Node
from streams.plan_checks import check_node, check_parents, tell_of
from streams.signatures import row_arguments
from suppress.windows import JoinWindows
from versioned.errors import ConfigurationError, TopologyError
from versioned.given import check_kind, told
from versioned.identifiers import named_twice

_N = TypeVar("_N", bound=Node)

#: A user's function of a row: ``(value)`` or ``(key, value)``.
Function = Callable[..., Any]
#: Such a function, or the name of a field.
FieldOrFunction = str | Function
#: A function of both rows of a join: ``(left, right)`` or ``(key, left, right)``.
Joiner = Callable[..., Any]

#: One name, or several in order.
Names = str | tuple[str, ...] | list[str]
#: A function of a row that gives a key, or the names of the fields that it is made of.
KeyOrFunction = Names | Function

#: What messages call the DSL's objects, by class.
_CALLED: Final = {"KStream": "stream", "KTable": "table", "GlobalKTable": "global table"}
#: Values that are often given in place of a joiner, with the option that takes them.
_NO_JOINERS: Final = {Joined: "joined=", JoinWindows: "windows=", Materialized: "materialized="}


class Graph:
    """The nodes so far, in an order in which each comes after its parents."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: set[Node] = set()
        self._counts: Counter[str] = Counter()

    def name(self, kind: str, *given: str | None) -> str:
        """The first name given, otherwise a new one: the kind and a number.

        Numbers count within a kind, so that adding or removing a node does not rename nodes of other kinds (R58).
        """
        for name in given:
            if name is not None:
                return name
        self._counts[kind] += 1
        return f"{kind}-{self._counts[kind]}"

    def add(self, node: _N) -> _N:
        """Check a node, log its warnings, append it to the plan, and return it.

        Raises:
            TopologyError: it can never work.
        """
        check_parents(node, self._known)
        check_node(node)
        tell_of(node)
        self.nodes.append(node)
        self._known.add(node)
        return node


def store_name(materialized: Materialized | None) -> str | None:
    """The name given to a store, which also names its node if nothing else does.

    Raises:
        ConfigurationError: it is not a ``Materialized``.
    """
    if materialized is None:
        return None
    wanted = 'what Materialized gives, such as Materialized.versioned("7 days") or Materialized.key_value()'
    check_kind("materialized", materialized, Materialized, wanted)
    return materialized.name


def called(other: Any) -> str:
    """What messages call an object of the DSL, or whatever was given in its place."""
    kind = _CALLED.get(type(other).__name__)
    return told(other) if kind is None else f"{other.node.name}, a {kind}"


def key_columns(given: Names) -> tuple[str, ...]:
    """The columns or fields of a key, as :func:`columns`, of which there must be at least one."""
    names = columns("key", given)
    if not names:
        raise ConfigurationError(f'key takes at least one name, such as key="id"; got {told(given)}.')
    return names


def columns(option: str, given: Names) -> tuple[str, ...]:
    """The names of columns or fields that an option was given, one or several.

    Raises:
        ConfigurationError: they are not texts, or two of them are one column to Spark.
    """
    wanted = f'one name or several, such as {option}="id" or {option}=("id", "day")'
    check_kind(option, given, (str, tuple, list), wanted)
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        check_kind(option, name, str, wanted)
    twice = named_twice(names)
    if twice:
        raise ConfigurationError(f"{option} has {twice}, which are one column to Spark. Name each once.")
    return names


def value_function(function: FieldOrFunction) -> Expr:
    """A function of ``(value)`` or ``(key, value)``, or a field's name, as an expression."""
    return as_expr(Expr("ref", "value")[function]) if isinstance(function, str) else trace(function, "key", "value")


def row_function(function: FieldOrFunction, field: str | None = None) -> Expr:
    """As :func:`value_function`, but giving a row: a single value becomes its only field."""
    return row_expr(value_function(function), field)


def key_function(function: KeyOrFunction) -> Expr:
    """A new key as an expression: from a function, or from the names of the value fields that it consists of."""
    if isinstance(function, (tuple, list)):
        return as_expr({name: Expr("ref", "value")[name] for name in key_columns(function)})
    expr = value_function(function)
    # A computed key has no field whose name it could take.
    return row_expr(expr, None if operation(expr)[0] == "field" else "key")


def predicate_function(function: Function) -> Expr:
    """A predicate of ``(value)`` or ``(key, value)``, as an expression."""
    return trace(function, "key", "value")


def plain_function(function: Function, returns: str) -> Expr:
    """A plain Python function of ``(key, value)``, or of ``(value)`` alone, as an expression that gives a row.

    Raises:
        ConfigurationError: it takes neither.
    """
    rows = Expr("ref", "key"), Expr("ref", "value")
    arguments = row_arguments(function, len(rows)) if callable(function) else ()
    # Built-in functions without a signature get both rows.
    count = len(rows) if arguments is None else len(arguments)
    if not 1 <= count <= len(rows):
        raise ConfigurationError(
            f"{function!r} takes neither (key, value) nor (value) alone. Give it one of these forms."
        )
    return row_expr(python_function(function, returns)(*rows[-count:]))


def joined_value(joiner: Joiner | None, name: str, left: Node, right: Node) -> Expr:
    """The expression that a joiner stands for; without a joiner, all fields of both sides.

    Raises:
        TopologyError: it is not a joiner.
    """
    if joiner is not None:
        option = next((option for kind, option in _NO_JOINERS.items() if isinstance(joiner, kind)), None)
        if option is not None:
            raise TopologyError("joiner", name, f"{told(joiner)} is no joiner. Give it with {option}.")
    sides = {"left": value_fields(left), "right": value_fields(right)}
    expr = trace(merge if joiner is None else joiner, "key", *sides)
    return _padded(expr, sides) if operation(expr)[0] == "merge" else row_expr(expr)


def _padded(merged: Expr, sides: Mapping[str, Fields]) -> Expr:
    """A merge of two rows with the fields written out, if all are known: a missing side then gives nulls for its own.

    The test driver has no types from which it could learn the names of a missing row's fields.
    """
    parts = [_written_out(part, sides) for part in operation(merged)[1]]
    known = [operation(part) for part in parts]
    names = [name for op, args in known if op == "struct" for name in args[0]]
    # Rows that share a name stay a merge, which the check of the node refuses.
    if any(op != "struct" for op, _ in known) or named_twice(names):
        return merge(*parts)
    return Expr("struct", tuple(names), *(field for _, args in known for field in args[1:]))


def _written_out(row: Expr, sides: Mapping[str, Fields]) -> Expr:
    op, args = operation(row)
    fields = sides.get(args[0]) if op == "ref" else None
    return row if fields is None else as_expr({field: row[field] for field in fields})
