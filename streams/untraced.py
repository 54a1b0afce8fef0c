"""Python operations that an expression cannot answer while the plan is built; each error says what to write instead."""

from __future__ import annotations

import dis
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final, NoReturn

from versioned.errors import ArgumentError

_AS_TEXT: Final = (
    "An expression has no text while the plan is built. Use functions.concat(...) to put texts together, "
    'functions.cast(value.field, "string") for one of them, and repr(...) to look at the expression itself.'
)
#: Methods of texts, and of columns in PySpark, with what does the same here.
_METHODS: Final = {
    "startswith": "functions.starts_with({of}, prefix)",
    "isin": "functions.is_in({of}, 1, 2)",
    "isNull": "functions.is_null({of})",
    "isNotNull": "~functions.is_null({of})",
    "astype": 'functions.cast({of}, "double")',
    "cast": 'functions.cast({of}, "double")',
    "substr": "functions.substring({of}, 1, 3)",
    "substring": "functions.substring({of}, 1, 3)",
    "between": "({of} >= low) & ({of} <= high)",
    "alias": 'a dict, which names fields: {{"name": {of}}}',
    "split": 'functions.substring_before({of}, ",")',
    "partition": 'functions.substring_before({of}, ",")',
    "get": '{of}["field"]',
    **{name: f"functions.{name}({{of}})" for name in ("upper", "lower", "length", "is_null")},
    **{name: f"functions.{name}({{of}}, ...)" for name in ("starts_with", "is_in", "coalesce", "concat")},
}


def refuse_identity(function: Callable[..., Any], rows: Collection[str]) -> None:
    """Refuse ``value.a is None``: Python does not ask the expression, which is never None, so a constant would result.

    Args:
        function: Its bytecode is examined; that of functions it calls is not, nor a function without bytecode.
        rows: The names of its arguments that are rows.

    Raises:
        ArgumentError: it compares a row or a field of one with ``is``.
    """
    while isinstance(function, partial):
        function = function.func
    still_rows = set(rows)
    asked, constant = "", None  # the row or the field of one that was put on the stack last; the constant behind it
    for step in dis.get_instructions(function) if hasattr(function, "__code__") else ():
        # Since Python 3.13 one step may read and write two names.
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith("STORE_"):
            still_rows.difference_update(names)
        if "LOAD_FAST" in step.opname or step.opname == "LOAD_DEREF":
            asked, constant = names[-1] if names[-1] in still_rows else "", None
        elif asked and step.opname == "LOAD_ATTR":
            asked = f"{asked}.{step.argval}"
        elif asked and isinstance(constant, str) and (step.opname == "BINARY_SUBSCR" or step.argrepr == "[]"):
            asked = f'{asked}["{constant}"]'
        elif asked and (step.opname == "IS_OP" or step.opname.endswith(("_IF_NONE", "_IF_NOT_NONE"))):
            raise ArgumentError(
                f"{asked} is an expression while the plan is built, which never is None. "
                f"Use functions.is_null({asked})."
            )
        elif step.opname == "LOAD_CONST":
            constant = step.argval
        elif step.opname != "EXTENDED_ARG":
            asked = ""


class Unfinished:
    """Something that is not an expression until one more call completes it."""

    __slots__ = ()


def _refusal(what: str, instead: str) -> Any:
    def refuse(_self: Any, *_args: object) -> NoReturn:
        raise TypeError(f"{what} while the plan is built. Use {instead}.")

    return refuse


class Untraced:
    """Refuses operations that would silently turn an expression into a constant, or fail with an unhelpful message."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise TypeError(
            "An expression has no truth value while the plan is built. Use & | ~ instead of and or not, "
            "functions.when(...) instead of if, and == instead of in."
        )

    def __iter__(self) -> NoReturn:
        # Otherwise Python would ask for [0], whose refusal is about a single element.
        raise TypeError(
            "An expression has no elements while the plan is built. Name a field with value.field, add up records with "
            "the aggregate sum, or look into a list with functions.python_function."
        )

    def __contains__(self, item: object) -> NoReturn:
        raise TypeError(
            "An expression has no elements while the plan is built. Use functions.is_in(value.field, ...) for one of "
            "several values, or look into a list with functions.python_function."
        )

    def __str__(self) -> str:
        raise TypeError(_AS_TEXT)

    def __format__(self, format_spec: str) -> str:
        raise TypeError(_AS_TEXT)

    def __call__(self, *args: object, **named: object) -> NoReturn:
        of, _, name = repr(self).rpartition(".")
        if not name.isidentifier():
            raise TypeError(f"{self!r} is an expression, which cannot be called.")
        instead = _METHODS.get(
            name, 'functions.python_function(f, returns="string")({of}) for what streams.functions lacks'
        )
        raise TypeError(f"{self!r} is the field {name} of {of}, not a method. Use {instead.format(of=of)}.")

    __len__ = _refusal("An expression has no length", "functions.length(value.field) for the number of characters")
    __abs__ = _refusal("An expression has no abs", "functions.greatest(value.field, -value.field)")
    __round__ = _refusal(
        "An expression cannot be rounded", 'functions.python_function(round, returns="bigint")(value.field)'
    )
    __pow__ = _refusal(
        "An expression has no power",
        '* for a square, or functions.python_function(pow, returns="double")(value.field, 2)',
    )
    __rpow__ = __pow__
    __floordiv__ = _refusal("An expression has no //", '/, or functions.cast(a / b, "bigint") to cut the fraction off')
    __rfloordiv__ = __floordiv__
    __int__ = _refusal("An expression is no number", 'functions.cast(value.field, "bigint")')
    __float__ = _refusal("An expression is no number", 'functions.cast(value.field, "double")')
