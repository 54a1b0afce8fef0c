"""What a filter can use as its condition: an expression that may be true or false.

Anything else as a condition, such as a sum, a text or a null, would silently drop every record.
"""

from __future__ import annotations

from typing import Final

from streams.expressions import Expr, operation

#: Operations that give a number, a text or a row (or null), never true or false.
_NEVER: Final = frozenset({
    "add", "sub", "mul", "div", "mod", "concat", "upper", "lower", "length", "substring", "substring_before",
    "substring_after", "struct", "row", "merge",
})  # fmt: skip
#: Operations that give null if one side is null, whatever the other is.
_COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def condition_fault(expr: Expr) -> str | None:
    """Why an expression cannot be a condition; ``None`` if it can.

    >>> from streams.expressions import trace
    >>> condition_fault(trace(lambda value: value.delay > 15, "value"))
    >>> condition_fault(trace(lambda value: value.delay + 1, "value"))
    'value.delay + 1 is neither true nor false, and nothing would pass. Compare it with something: value.delay > 15.'
    """
    fault = expr if _is_null(expr) else _never_true(expr)
    if fault is None:
        return None
    instead = "Compare it with something: value.delay > 15."
    if operation(fault)[0] in _COMPARISONS:
        instead = "Ask for null with functions.is_null(value.field)."
    elif operation(fault)[0] == "python":
        instead = f'Compare what it gives, or declare returns="boolean" instead of "{operation(fault)[1][1]}".'
    return f"{fault!r} is neither true nor false, and nothing would pass. {instead}"


def _is_null(expr: Expr) -> bool:
    op, args = operation(expr)
    # filter_not puts a "not" before the condition it is given.
    return _is_null(args[0]) if op == "not" else op == "lit" and args[0] is None


def _never_true(expr: Expr) -> Expr | None:
    """The part of a condition that can never be true or false, if there is one; null may be one value among others."""
    op, args = operation(expr)
    if op == "lit":
        return None if args[0] is None or isinstance(args[0], bool) else expr
    if op in ("cast", "python"):
        return None if args[1].strip().lower() == "boolean" else expr
    if op in _NEVER or (op in _COMPARISONS and any(map(_is_null, args))):
        return expr
    answers = {"case": (*args[1:-1:2], *args[-1:]), "and": args, "or": args, "not": args, "coalesce": args}.get(op, ())
    return next((fault for answer in answers if (fault := _never_true(answer)) is not None), None)
