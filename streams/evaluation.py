"""The operations of expressions on plain Python values: SQL's rules (Spark in ANSI mode), including nulls.

Integers have 64 bits: a result that does not fit is an error, as on Spark. Division of integers gives a double, and
division by zero null. NaN equals itself and is the largest number. Values of different types are compared in a common
type (``streams.operands``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cmp_to_key, partial
from typing import Any, Final

from streams.arithmetic import arithmetic, divided
from streams.casts import CASTS, to_boolean, to_string
from streams.operands import compare, kind_of, same
from streams.rows import Row
from streams.shared_names import both_have, shared_names
from streams.time_texts import as_instant
from versioned.errors import RecordError


def field_of(row: Mapping[str, Any] | None, name: str) -> Any:
    """A field of a row; null if the row is null.

    Raises:
        RecordError: the row has no such field.
    """
    if row is None:
        return None
    try:
        return row[name]
    except KeyError:
        raise RecordError(
            f'There is no field "{name}"; the row has {list(row)}. Where a join found no row, its fields are null only '
            "if the plan tells them: list the `value` of its source."
        ) from None


def as_plain(value: Any) -> Any:
    """What a user function returned, as the driver holds it: a mapping becomes a row."""
    return Row(value) if isinstance(value, Mapping) and not isinstance(value, Row) else value


def constant(value: Any) -> Any:
    """A constant as rows hold it: an instant without a zone is in UTC."""
    return as_instant(value) if isinstance(value, datetime) else value


def _null_in_null_out(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        return None if any(arg is None for arg in args) else function(*args)

    return called


def _compared(test: Callable[[int], bool]) -> Callable[..., Any]:
    return _null_in_null_out(lambda left, right: test(compare(left, right)))


def _of_texts(function: Callable[..., Any]) -> Callable[..., Any]:
    return _null_in_null_out(lambda *args: function(*map(to_string, args)))


def _truth(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    truth = to_boolean(value) if isinstance(value, str) else None
    if truth is None:
        raise RecordError(f"{value!r} is neither true nor false; compare it with something.")
    return truth


def _and(left: Callable[[], Any], right: Callable[[], Any]) -> bool | None:
    one = _truth(left())
    other = False if one is False else _truth(right())
    return False if other is False else (None if one is None or other is None else True)


def _or(left: Callable[[], Any], right: Callable[[], Any]) -> bool | None:
    one = _truth(left())
    other = True if one is True else _truth(right())
    return True if other is True else (None if one is None or other is None else False)


def _case(*args: Callable[[], Any]) -> Any:
    """The value of the first condition that is true; ``args`` are pairs of condition and value, then the default."""
    for condition, value in zip(args[:-1:2], args[1::2], strict=True):
        if _condition(condition()):
            return value()
    return args[-1]()


def _condition(value: Any) -> bool | None:
    if isinstance(value, str):
        raise RecordError(f"{value!r} is a text and no condition; compare it with something.")
    return _truth(value)


def _coalesce(*values: Callable[[], Any]) -> Any:
    return next((found for value in values if (found := value()) is not None), None)


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def called(*values: Any) -> Any:
        present = [value for value in values if value is not None]
        kinds = set(map(kind_of, present))
        if "text" in kinds and len(kinds) > 1:
            raise RecordError(f"{present}: least and greatest take texts, or none; cast the others to string.")
        return choose(present, key=cmp_to_key(compare), default=None)

    return called


def _merge(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> Row:
    shared = shared_names(left or (), right or ())
    if shared:
        raise RecordError(both_have("the left", "the right row", shared))
    return Row({**(left or {}), **(right or {})})


def _are_binary(values: Iterable[Any]) -> bool:
    return all(isinstance(value, (bytes, bytearray)) for value in values)


def _concat(*texts: Any) -> str | bytes:
    return b"".join(texts) if _are_binary(texts) else "".join(map(to_string, texts))


def _starts_with(value: Any, prefix: Any) -> bool:
    if _are_binary((value, prefix)):
        return bytes(value).startswith(prefix)
    return to_string(value).startswith(to_string(prefix))


def _substring(value: Any, start: int, length: int) -> str | bytes:
    whole = bytes(value) if _are_binary((value,)) else to_string(value)
    return whole[start - 1 : start - 1 + length]


def _substring_before(text: str, delimiter: str) -> str | None:
    at = text.find(delimiter)
    return None if at < 0 else text[:at]


def _substring_after(text: str, delimiter: str) -> str:
    at = text.find(delimiter)
    return "" if at < 0 else text[at + len(delimiter) :]


def _cast(value: Any, kind: str) -> Any:
    return None if value is None else CASTS[kind](value)


def _length(value: Any) -> int:
    return len(value if isinstance(value, (bytes, bytearray)) else to_string(value))


OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "field": field_of,
    "row": lambda name, value: None if value is None else Row({name: value}),
    "eq": _null_in_null_out(same),
    "ne": _null_in_null_out(lambda left, right: not same(left, right)),
    "lt": _compared(lambda sign: sign < 0),
    "le": _compared(lambda sign: sign <= 0),
    "gt": _compared(lambda sign: sign > 0),
    "ge": _compared(lambda sign: sign >= 0),
    "not": _null_in_null_out(lambda value: not _truth(value)),
    "add": _null_in_null_out(partial(arithmetic, "+")),
    "sub": _null_in_null_out(partial(arithmetic, "-")),
    "mul": _null_in_null_out(partial(arithmetic, "*")),
    "div": _null_in_null_out(partial(divided, "/")),
    "mod": _null_in_null_out(partial(divided, "%")),
    "is_null": lambda value: value is None,
    "concat": _null_in_null_out(_concat),
    "upper": _of_texts(str.upper),
    "lower": _of_texts(str.lower),
    "length": _null_in_null_out(_length),
    "substring": _null_in_null_out(_substring),
    "substring_before": _of_texts(_substring_before),
    "substring_after": _of_texts(_substring_after),
    "starts_with": _null_in_null_out(_starts_with),
    "cast": _cast,
    "least": _extreme(min),
    "greatest": _extreme(max),
    "merge": _merge,
}

#: Operations that evaluate an operand only if the result depends on it; they take operands as functions.
CHOICES: Final[dict[str, Callable[..., Any]]] = {"and": _and, "or": _or, "case": _case, "coalesce": _coalesce}
