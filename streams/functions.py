"""Functions for expressions, in addition to Python's operators; same meaning on Spark and in the test driver.

>>> from streams.expressions import evaluate, trace
>>> from streams.rows import Row
>>> label = trace(lambda value: when(value.amount > 10, "large").otherwise("small"), "value")
>>> evaluate(label, {"value": Row(amount=3)})
'small'
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

from streams.ddl import check_ddl
from streams.expressions import Expr, as_expr, literal
from streams.untraced import Unfinished
from versioned.errors import ConfigurationError

_KINDS = ("string", "bigint", "double", "boolean")


class When(Unfinished):
    """A chain of conditions; end it with :meth:`otherwise`."""

    def __init__(self, *branches: Expr) -> None:
        self._branches = branches

    def __repr__(self) -> str:
        pairs = zip(self._branches[::2], self._branches[1::2], strict=True)
        return ".".join(f"when({condition!r}, {value!r})" for condition, value in pairs)

    def when(self, condition: Any, value: Any) -> When:
        """The chain with one more condition, tried if none before it is true."""
        return When(*self._branches, as_expr(condition), as_expr(value))

    def otherwise(self, value: Any) -> Expr:
        """The value if no condition is true."""
        return Expr("case", *self._branches, as_expr(value))


def when(condition: Any, value: Any) -> When:
    """The value if the condition is true; the start of a chain that ``.otherwise`` ends."""
    return When(as_expr(condition), as_expr(value))


def lit(value: Any) -> Expr:
    """A constant; an expression is returned unchanged."""
    return value if isinstance(value, Expr) else literal(value)


def struct(**fields: Any) -> Expr:
    """A row with named fields; a dict means the same."""
    return as_expr(fields)


def merge(left: Any, right: Any) -> Expr:
    """All fields of both rows, which must not share a field name; the default joiner."""
    return Expr("merge", as_expr(left), as_expr(right))


def is_in(value: Any, *options: Any) -> Expr:
    """Whether the value equals one of the options; Python's ``in`` cannot be traced.

    Raises:
        ConfigurationError: no options, or a list of them instead of separate arguments.
    """
    if len(options) == 1 and isinstance(options[0], (list, tuple, set, frozenset)):
        listed = ", ".join(map(repr, options[0]))
        raise ConfigurationError(f"is_in takes the options one after the other: is_in({value!r}, {listed}).")
    if not options:
        raise ConfigurationError("is_in needs at least one option.")
    tests: list[Expr] = [as_expr(value) == as_expr(option) for option in options]
    # Two by two: as one chain, a list of hundreds would be nested too deeply.
    while len(tests) > 1:
        tests = [reduce(or_, tests[place : place + 2]) for place in range(0, len(tests), 2)]
    return tests[0]


def is_null(value: Any) -> Expr:
    """Whether the value is null."""
    return Expr("is_null", as_expr(value))


def coalesce(*values: Any) -> Expr:
    """The first value that is not null.

    Raises:
        ConfigurationError: no values.
    """
    return Expr("coalesce", *_some("coalesce", values))


def concat(*texts: Any) -> Expr:
    """The concatenated texts; null if one is null. If all are binary, a binary.

    Raises:
        ConfigurationError: no texts.
    """
    return Expr("concat", *_some("concat", texts))


def upper(text: Any) -> Expr:
    """The text in upper case."""
    return Expr("upper", as_expr(text))


def lower(text: Any) -> Expr:
    """The text in lower case."""
    return Expr("lower", as_expr(text))


def length(text: Any) -> Expr:
    """Number of characters; of a binary, bytes."""
    return Expr("length", as_expr(text))


def substring(text: Any, start: int, length: int) -> Expr:
    """``length`` characters (of a binary: bytes) from position ``start``; the first position is 1.

    Raises:
        ConfigurationError: a start below 1, a negative length, or values that are not whole numbers.
    """
    if type(start) is not int or type(length) is not int or start < 1 or length < 0:
        raise ConfigurationError(f"substring starts at 1 or later with length 0 or more; got {start!r} and {length!r}.")
    return Expr("substring", as_expr(text), as_expr(start), as_expr(length))


def substring_before(text: Any, delimiter: str) -> Expr:
    """The text before the first delimiter; null if there is none."""
    return Expr("substring_before", as_expr(text), as_expr(delimiter))


def substring_after(text: Any, delimiter: str) -> Expr:
    """The text after the first delimiter; empty if there is none."""
    return Expr("substring_after", as_expr(text), as_expr(delimiter))


def starts_with(text: Any, prefix: Any) -> Expr:
    """Whether the text starts with the prefix."""
    return Expr("starts_with", as_expr(text), as_expr(prefix))


def cast(value: Any, kind: str) -> Expr:
    """The value as ``string``, ``bigint``, ``double`` or ``boolean``; null where that is not possible.

    Raises:
        ConfigurationError: the type is another one.
    """
    if kind not in _KINDS:
        raise ConfigurationError(f'cast knows {_KINDS}; got "{kind}".')
    return Expr("cast", as_expr(value), kind)


def least(*values: Any) -> Expr:
    """The smallest value that is not null; NaN counts as the largest."""
    return Expr("least", *_several("least", values))


def greatest(*values: Any) -> Expr:
    """The largest value that is not null; NaN counts as the largest."""
    return Expr("greatest", *_several("greatest", values))


def python_function(function: Callable[..., Any], returns: str) -> Callable[..., Expr]:
    """A plain Python function as an expression: called directly in the driver, as an Arrow UDF on Spark.

    Args:
        function: Called with plain values, once per row; must return the same result for the same arguments.
        returns: The type of its result, as DDL: ``"string"``, ``"double"``, ... On Spark, a result of another type ends
            the batch.

    Raises:
        ConfigurationError: this is not a type.

    >>> from streams.expressions import evaluate
    >>> shout = python_function(lambda text: text + "!", returns="string")
    >>> evaluate(shout("hey"), {})
    'hey!'
    """
    check_ddl("returns", returns)
    return lambda *args: Expr("python", function, returns, *map(as_expr, args))


def _several(name: str, values: tuple[Any, ...]) -> tuple[Expr, ...]:
    if len(values) < 2:
        raise ConfigurationError(f"{name} compares at least two values; got {len(values)}.")
    return tuple(map(as_expr, values))


def _some(name: str, values: tuple[Any, ...]) -> tuple[Expr, ...]:
    if not values:
        raise ConfigurationError(f"{name} needs at least one value; got none.")
    return tuple(map(as_expr, values))
