"""User functions that are called directly, not traced: their parameters, as far as Python knows, and their callers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from streams.declared import Fit, as_it_is, by_names
from streams.expressions import Expr, calls_python, operation
from streams.nodes import AGGREGATES, Aggregation, Node, Topology
from streams.rows import own
from suppress.sizes import SizeFunction, SizeOf, sizer
from versioned.errors import RecordError, TopologyError, VersionedError

N = TypeVar("N", bound=Node)
UserFunction = Callable[..., Any]

#: What each function of an aggregate is called with.
_ARGUMENTS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "reduce": {"adder": ("aggregate", "value"), "subtractor": ("aggregate", "value")},
    "aggregate": {
        "initializer": (),
        "adder": ("key", "value", "aggregate"),
        "subtractor": ("key", "value", "aggregate"),
        "merger": ("key", "left", "right"),
    },
}

#: The functions that each kind requires. Only aggregates of tables also require a subtractor.
_NEEDED: Final[dict[str, tuple[str, ...]]] = {"reduce": ("adder",), "aggregate": ("initializer", "adder")}


def takes(function: Any, count: int) -> bool:
    """Whether a function can be called with ``count`` values; true for built-in functions without a signature.

    >>> takes(lambda aggregate, value: aggregate, 2), takes(max, 2), takes(lambda value: value, 2), takes("max", 2)
    (True, True, False, False)
    """
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # Some built-in functions have no signature.
        return True
    return True


def check_functions(node: Node) -> None:
    """Refuse functions of an aggregate that are missing, or that cannot be called as it calls them.

    Raises:
        TopologyError: with the function, and what it is called with.
    """
    if not isinstance(node, AGGREGATES):
        return
    for option, names in _ARGUMENTS.get(node.aggregation.kind, {}).items():
        function = getattr(node.aggregation, option)
        form = f"({', '.join(names)})"
        if function is None and option in _NEEDED[node.aggregation.kind]:
            raise TopologyError(
                "functions", node.name, f"{node.aggregation.kind} needs its {option}, called with {form}."
            )
        if function is not None and not takes(function, len(names)):
            given = getattr(function, "__qualname__", repr(function))
            told = "takes other arguments" if callable(function) else "is no function"
            if option == "initializer" and not callable(function):
                told += f", such as lambda: {given}"
            raise TopologyError("functions", node.name, f"its {option} is called with {form}, and {given} {told}.")


def calls_user(node: Node) -> bool:
    """Whether a node calls user functions for its records."""
    return any(_calling(node))


def failing_by_name(node: N, fit_of: Callable[[str], Fit]) -> N:
    """A copy of a node whose user functions name the node when they fail, since Spark calls them far from it.

    The message names no key of the record, since it goes into logs; it repeats what the function's own error says.

    Args:
        node: Any node.
        fit_of: Returns, for the DDL that a function is declared to return, what fits its results to that.
    """

    def told(function: UserFunction, returns: str | None) -> UserFunction:
        return _naming(node.name, function, None if returns is None else fit_of(returns))

    return _with_functions(node, told)


def giving_declared(topology: Topology) -> Topology:
    """A copy of a plan in which Python functions in expressions give the fields they declare; types are not checked.

    The results of aggregates are held to their schema where they are stored.
    """

    def held(function: UserFunction, returns: str | None) -> UserFunction:
        fit = by_names(returns)
        return function if fit is as_it_is else lambda *args: fit(function(*args))

    made: dict[str, Node] = {}
    for node in topology:
        parents = tuple(made[parent.name] for parent in node.parents)
        made[node.name] = replace(_with_functions(node, held), parents=parents)
    return Topology(tuple(made.values()))


@contextmanager
def told_with(name: str) -> Iterator[None]:
    """Put the name of the node, once, before the message of a RecordError that is raised in the block.

    >>> with told_with("totals"):
    ...     raise RecordError("no number")
    Traceback (most recent call last):
    versioned.errors.RecordError: totals: no number
    """
    try:
        yield
    except RecordError as error:
        if str(error).startswith(f"{name}: "):
            raise
        raise RecordError(f"{name}: {error}") from error


def size_function(size_of: SizeOf) -> SizeFunction:
    """The function that measures a row of a suppression's buffer; a user function gets its own copies of the parts."""
    measure = sizer(size_of)
    if not callable(size_of):
        return measure
    parts = ("key", "value", "old", "prior")
    return lambda row: measure(replace(row, **{name: own(getattr(row, name)) for name in parts}))


def _calling(node: Node) -> Iterator[tuple[str, Any]]:
    """The fields of a node that call user functions, with their values."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Aggregation):
            calls = value.kind in _ARGUMENTS or (value.value is not None and calls_python(value.value))
        else:
            calls = isinstance(value, Expr) and calls_python(value)
        if calls:
            yield field.name, value


def _with_functions(node: N, change: Callable[[UserFunction, str | None], UserFunction]) -> N:
    """The node with each user function changed; ``change`` also gets the return type declared in an expression."""
    changed = {name: _changed(value, change) for name, value in _calling(node)}
    return replace(node, **changed) if changed else node


def _changed(value: Any, change: Callable[[UserFunction, str | None], UserFunction]) -> Any:
    """A value of a node with its functions changed."""
    if isinstance(value, Aggregation):
        parts = {option: getattr(value, option) for option in ("value", *_ARGUMENTS.get(value.kind, {}))}
        return replace(value, **{option: _changed(part, change) for option, part in parts.items()})
    if not isinstance(value, Expr):
        return None if value is None else change(value, None)
    if not calls_python(value):
        return value
    op, args = operation(value)
    if op == "python":
        args = (change(args[0], args[1]), *args[1:])
    return Expr(op, *(_changed(arg, change) if isinstance(arg, Expr) else arg for arg in args))


def _naming(name: str, function: UserFunction, fit: Fit | None) -> UserFunction:
    def called(*args: Any) -> Any:
        try:
            with told_with(name):
                returned = function(*args)
                return returned if fit is None else fit(returned)
        except VersionedError:
            raise
        except Exception as error:
            raise RecordError(f"{name}: its function failed with {type(error).__name__} ({error}).") from error

    # The text of an expression shows which function it calls by its name.
    called.__name__ = str(getattr(function, "__name__", "function"))
    return called
