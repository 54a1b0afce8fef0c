"""Functions of the user that are called as they are: what they take, as far as Python tells, and who calls them."""

from __future__ import annotations

import inspect
from typing import Any, Final

from streams.expressions import Expr, calls_python
from streams.nodes import AGGREGATES, Aggregation, Node
from versioned.errors import TopologyError

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


def takes(function: Any, count: int) -> bool:
    """Whether a function can be called with so many values; true for those of Python's own that do not tell.

    >>> takes(lambda aggregate, value: aggregate, 2), takes(max, 2), takes(lambda value: value, 2), takes("max", 2)
    (True, True, False, False)
    """
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some of Python's own tell no signature
        return True
    return True


def check_functions(node: Node) -> None:
    """Refuse functions of an aggregate that cannot be called as it calls them.

    Raises:
        TopologyError: with the function, and what it is called with.
    """
    if not isinstance(node, AGGREGATES):
        return
    for option, names in _ARGUMENTS.get(node.aggregation.kind, {}).items():
        function = getattr(node.aggregation, option)
        if function is not None and not takes(function, len(names)):
            given = getattr(function, "__qualname__", repr(function))
            told = "takes other arguments" if callable(function) else "is no function"
            if option == "initializer" and not callable(function):
                told += f", such as lambda: {given}"
            form = f"({', '.join(names)})"
            raise TopologyError("functions", node.name, f"its {option} is called with {form}, and {given} {told}.")


def calls_user(node: Node) -> bool:
    """Whether a node calls functions of the user for its records."""
    aggregation = getattr(node, "aggregation", None)
    values = [*vars(node).values()]
    if isinstance(aggregation, Aggregation):
        if aggregation.kind in _ARGUMENTS:
            return True
        values.append(aggregation.value)
    return any(isinstance(value, Expr) and calls_python(value) for value in values)
