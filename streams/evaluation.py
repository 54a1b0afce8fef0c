"""What each operation of an expression means for plain Python values: SQL's rules, null included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streams.rows import Row


def _null_in_null_out(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        return None if any(arg is None for arg in args) else function(*args)

    return called


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _remainder(left: Any, right: Any) -> Any:
    """The remainder with the sign of the dividend, as in SQL; null for a zero divisor."""
    if right == 0:
        return None
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _case(*args: Any) -> Any:
    """Pairs of condition and value, then the value otherwise."""
    for condition, value in zip(args[:-1:2], args[1::2], strict=True):
        if condition:
            return value
    return args[-1]


def _merge(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> Row:
    return Row({**(left or {}), **(right or {})})


def _substring_before(text: str, delimiter: str) -> str | None:
    head, found, _ = text.partition(delimiter)
    return head if found else None


def _cast(value: Any, kind: str) -> Any:
    if value is None:
        return None
    try:
        return _CASTS[kind](value)
    except ValueError:
        return None


def _to_string(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_CASTS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": _to_string,
    "bigint": int,
    "double": float,
    "boolean": lambda value: value if isinstance(value, bool) else str(value).lower() in ("true", "t", "1", "yes", "y"),
}

OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "eq": _null_in_null_out(lambda left, right: left == right),
    "ne": _null_in_null_out(lambda left, right: left != right),
    "lt": _null_in_null_out(lambda left, right: left < right),
    "le": _null_in_null_out(lambda left, right: left <= right),
    "gt": _null_in_null_out(lambda left, right: left > right),
    "ge": _null_in_null_out(lambda left, right: left >= right),
    "and": _and,
    "or": _or,
    "not": _null_in_null_out(lambda value: not value),
    "add": _null_in_null_out(lambda left, right: left + right),
    "sub": _null_in_null_out(lambda left, right: left - right),
    "mul": _null_in_null_out(lambda left, right: left * right),
    "div": _null_in_null_out(lambda left, right: left / right if right else None),
    "mod": _null_in_null_out(_remainder),
    "is_null": lambda value: value is None,
    "coalesce": lambda *values: next((value for value in values if value is not None), None),
    "concat": _null_in_null_out(lambda *texts: "".join(texts)),
    "upper": _null_in_null_out(str.upper),
    "lower": _null_in_null_out(str.lower),
    "length": _null_in_null_out(len),
    "substring": _null_in_null_out(lambda text, start, length: text[start - 1 : start - 1 + length]),
    "substring_before": _null_in_null_out(_substring_before),
    "substring_after": _null_in_null_out(lambda text, delimiter: text.partition(delimiter)[2]),
    "starts_with": _null_in_null_out(str.startswith),
    "case": _case,
    "cast": _cast,
    "least": lambda *values: min((value for value in values if value is not None), default=None),
    "greatest": lambda *values: max((value for value in values if value is not None), default=None),
    "merge": _merge,
}
