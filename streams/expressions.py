"""Functions of a row that run on both engines: a user's function is traced once, into an expression.

A user function such as ``lambda value: value.amount > 10`` is called once with symbolic rows, when the plan is built.
It returns an expression tree. The Spark engine turns that into a Column (``streams.spark.columns``); the test driver
evaluates it here by SQL's rules for null: null in, null out, and three-valued logic.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from streams.constants import constant_fault
from streams.ddl import names_fields
from streams.evaluation import CHOICES, OPERATIONS, as_plain, constant
from streams.rows import Row, own, own_part
from streams.signatures import row_arguments
from streams.untraced import Unfinished, Untraced, refuse_identity
from versioned.errors import ArgumentError, ConfigurationError
from versioned.given import told

_SYMBOLS: Final = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|",
    "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%",
}  # fmt: skip
#: Writing out or evaluating deeper trees would exceed Python's recursion limit.
DEEPEST: Final = 128


class Expr(Untraced):
    """A symbolic value: fields by attribute or ``["name"]``; operators and ``streams.functions`` build trees."""

    __slots__ = ("_args", "_calls_python", "_depth", "_op")
    _op: str
    _args: tuple[Any, ...]
    _calls_python: bool
    _depth: int

    def __init__(self, op: str, *args: Any) -> None:
        object.__setattr__(self, "_op", op)
        object.__setattr__(self, "_args", args)
        calls = op == "python" or any(arg._calls_python for arg in args if isinstance(arg, Expr))
        object.__setattr__(self, "_calls_python", calls)
        depth = 1 + max((arg._depth for arg in args if isinstance(arg, Expr)), default=0)
        if depth > DEEPEST:
            raise ConfigurationError(
                f"An expression is nested too deeply: more than {DEEPEST} operations are within each other. Use is_in, "
                "concat, coalesce or one chain of when for a long list, or compute a part of it in a step before."
            )
        object.__setattr__(self, "_depth", depth)

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):
            raise AttributeError(f'a field whose name begins with _ is read in brackets, as in value["{name}"]')
        return Expr("field", self, name)

    def __getitem__(self, name: str) -> Expr:
        if not isinstance(name, str):
            raise ArgumentError(
                f'{self!r}[{name!r}]: brackets take a field, such as value["class"]. For an element of a list use '
                f'functions.python_function(lambda items: items[0] if items else None, returns="string")({self!r}), '
                "for a part of a text functions.substring."
            )
        return Expr("field", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("an expression cannot be changed")

    def __reduce__(self) -> tuple[type[Expr], tuple[Any, ...]]:
        return (Expr, (self._op, *self._args))

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        if other is None:
            raise ArgumentError(
                f"{self!r} == None is never true: null equals nothing. Use functions.is_null({self!r})."
            )
        return Expr("eq", self, as_expr(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        if other is None:
            raise ArgumentError(
                f"{self!r} != None is never true: null equals nothing. Use ~functions.is_null({self!r})."
            )
        return Expr("ne", self, as_expr(other))

    def __hash__(self) -> int:
        # A dictionary would look the expression itself up among its keys, and the answer would be a constant.
        raise TypeError(
            f"{self!r} is an expression, which no dictionary or set finds while the plan is built. Use "
            "functions.when(...) to choose by its value, functions.is_in(...) for one of several."
        )

    def __lt__(self, other: Any) -> Expr:
        return Expr("lt", self, as_expr(other))

    def __le__(self, other: Any) -> Expr:
        return Expr("le", self, as_expr(other))

    def __gt__(self, other: Any) -> Expr:
        return Expr("gt", self, as_expr(other))

    def __ge__(self, other: Any) -> Expr:
        return Expr("ge", self, as_expr(other))

    def __and__(self, other: Any) -> Expr:
        return Expr("and", self, as_expr(other))

    def __rand__(self, other: Any) -> Expr:
        return Expr("and", as_expr(other), self)

    def __or__(self, other: Any) -> Expr:
        return Expr("or", self, as_expr(other))

    def __ror__(self, other: Any) -> Expr:
        return Expr("or", as_expr(other), self)

    def __invert__(self) -> Expr:
        return Expr("not", self)

    def __add__(self, other: Any) -> Expr:
        return Expr("add", self, as_expr(other))

    def __radd__(self, other: Any) -> Expr:
        return Expr("add", as_expr(other), self)

    def __sub__(self, other: Any) -> Expr:
        return Expr("sub", self, as_expr(other))

    def __rsub__(self, other: Any) -> Expr:
        return Expr("sub", as_expr(other), self)

    def __mul__(self, other: Any) -> Expr:
        return Expr("mul", self, as_expr(other))

    def __rmul__(self, other: Any) -> Expr:
        return Expr("mul", as_expr(other), self)

    def __truediv__(self, other: Any) -> Expr:
        return Expr("div", self, as_expr(other))

    def __rtruediv__(self, other: Any) -> Expr:
        return Expr("div", as_expr(other), self)

    def __mod__(self, other: Any) -> Expr:
        return Expr("mod", self, as_expr(other))

    def __neg__(self) -> Expr:
        return Expr("sub", as_expr(0), self)

    def __repr__(self) -> str:
        return _text(self._op, self._args)


def _text(op: str, args: tuple[Any, ...]) -> str:
    if op in _SYMBOLS:
        return f" {_SYMBOLS[op]} ".join(_operand(arg) for arg in args)
    if op in ("ref", "lit"):
        return str(args[0]) if op == "ref" else repr(args[0])
    if op == "field":
        return f"{args[0]!r}.{args[1]}"
    if op in ("row", "struct"):
        names = (args[0],) if op == "row" else args[0]
        return "{" + ", ".join(f"{name}: {value!r}" for name, value in zip(names, args[1:], strict=True)) + "}"
    if op == "python":
        return f"{getattr(args[0], '__name__', 'function')}({', '.join(map(repr, args[2:]))})"
    return f"{op}({', '.join(map(repr, args))})"


def _operand(value: Expr) -> str:
    return f"({value!r})" if operation(value)[0] in _SYMBOLS else repr(value)


def as_expr(value: Any) -> Expr:
    """A value as an expression: a mapping becomes a struct, anything else that is not an expression a literal."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Mapping):
        return Expr("struct", tuple(value), *(as_expr(item) for item in value.values()))
    return literal(value)


def literal(value: Any) -> Expr:
    """A constant as an expression.

    Raises:
        ArgumentError: it is not a constant: a list of expressions, a ``when`` without ``otherwise``, a function.
        ConfigurationError: Spark has no such constant, or none so large.
    """
    if isinstance(value, Unfinished):
        raise ArgumentError(f"{value!r} has no value where no condition is true. End it with .otherwise(...).")
    if isinstance(value, (list, tuple, set, frozenset)) and any(map(_has_expr, value)):
        raise ArgumentError(
            "A list of expressions is no value while the plan is built. Give a dict, which makes a row of named "
            "fields, or make the list with functions.python_function."
        )
    if inspect.isroutine(value):
        raise ArgumentError(
            f"The function {value.__name__} is no value. Call it, or wrap it: functions.python_function."
        )
    fault = constant_fault(value)
    if fault is not None:
        raise ConfigurationError(f"{value!r:.80} is no constant of an expression: {fault}")
    return Expr("lit", value)


def _has_expr(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_expr, value.values()))
    return isinstance(value, (Expr, Unfinished)) or (
        isinstance(value, (list, tuple, set, frozenset)) and any(map(_has_expr, value))
    )


def row_expr(expr: Expr, field: str | None = None) -> Expr:
    """An expression that gives a row: a single value becomes its only field, null stays null.

    Args:
        expr: The expression that a user function stands for.
        field: Name of that field; by default the name of the field that the value was read from, or ``value``.

    >>> row_expr(trace(lambda value: value.carrier, "value"))
    {carrier: value.carrier}
    """
    if _is_row(expr):
        return expr
    op, args = operation(expr)
    return Expr("row", field or (args[1] if op == "field" else "value"), expr)


def _is_row(expr: Expr) -> bool:
    op, args = operation(expr)
    if op == "case":
        return any(map(_is_row, (*args[1:-1:2], args[-1])))
    if op == "python":
        return names_fields(args[1])
    if op in ("ref", "struct", "row", "merge"):
        return True
    # A null by itself is a tombstone of any row.
    return any(map(_is_row, args)) if op == "coalesce" else op == "lit" and args[0] is None


def trace(function: Callable[..., Any], *names: str) -> Expr:
    """The expression that a function of rows stands for.

    Args:
        function: Takes the last one or more of ``names``: a mapper may take ``(value)`` or ``(key, value)``.
            Arguments with a default keep it.
        names: The rows it may take, in order.

    Raises:
        ConfigurationError: it is not a function, or takes more arguments than there are rows.
        ArgumentError: it returns neither an expression nor a constant, compares with None, or looks into a list.
        TypeError: it uses an expression as only a value can be used, for example in an ``if``.

    >>> trace(lambda value: value.amount > 10, "key", "value")
    value.amount > 10
    """
    rows = ", ".join(names[-2:])
    if not callable(function):
        raise ConfigurationError(f"{told(function)} is no function. Give one of the row, such as lambda {rows}: ...")
    arguments = row_arguments(function, len(names))
    if arguments is None:
        told_of = getattr(function, "__name__", repr(function))
        raise ConfigurationError(
            f"{told_of} does not tell which arguments it takes. Write lambda {rows}: ..., and "
            "functions.python_function for what is Python alone."
        )
    count = len(arguments)
    if count > len(names):
        raise ConfigurationError(f"The function takes {count} arguments; it may take at most {len(names)}: {names}.")
    refuse_identity(function, arguments)
    return as_expr(function(*(Expr("ref", name) for name in names[len(names) - count :])))


def evaluate(expr: Expr, bindings: Mapping[str, Any]) -> Any:
    """The value of an expression for plain rows.

    Raises:
        RecordError: a field that the row does not have, values whose types do not go together, or a result that does
            not fit in 64 bits.

    >>> evaluate(trace(lambda value: value.amount > 10, "value"), {"value": Row(amount=11)})
    True
    """
    op, args = expr._op, expr._args
    if op == "lit":
        return constant(args[0])
    if op == "ref":
        return bindings[args[0]]
    if op in CHOICES:
        return CHOICES[op](*(_asked(expr, arg, bindings) for arg in args))
    if op == "struct":
        return Row(zip(args[0], (evaluate(arg, bindings) for arg in args[1:]), strict=True))  # type: ignore[arg-type]
    if op == "python":
        # The function may change what it gets, as on Spark, where its arguments were read from a column.
        given = ((own if is_whole(arg) else own_part)(evaluate(arg, bindings)) for arg in args[2:])
        return as_plain(args[0](*given))
    return OPERATIONS[op](*(evaluate(arg, bindings) if isinstance(arg, Expr) else arg for arg in args))


def _asked(choice: Expr, arg: Expr, bindings: Mapping[str, Any]) -> Callable[[], Any]:
    if not choice._calls_python:
        return partial(evaluate, arg, bindings)
    # Spark calls Python for every row before it chooses, so the functions must cope with the same values here.
    value = evaluate(arg, bindings)
    return lambda: value


def is_whole(expr: Expr) -> bool:
    """Whether an expression is a whole row, such as ``value``, rather than a part of one."""
    return expr._op == "ref"


def calls_python(expr: Expr) -> bool:
    """Whether an expression calls a plain Python function anywhere."""
    return expr._calls_python


def operation(expr: Expr) -> tuple[str, tuple[Any, ...]]:
    """The operation and arguments at the root of an expression, for engines that compile it."""
    return expr._op, expr._args
