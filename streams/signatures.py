"""Which arguments of a user's function are rows: in ``lambda value, limit=3`` only ``value``; ``limit`` stays 3."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from versioned.errors import ConfigurationError

#: How many rows a function of ``*rows`` gets: key and value, or both sides of a join.
_AT_LARGE: Final = 2
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def row_arguments(function: Callable[..., Any], most: int) -> tuple[str, ...] | None:
    """The names of the arguments that are rows: those without a default, or all of them if all have one.

    Args:
        function: It is called with as many rows as there are names, by position.
        most: How many rows there are. A function of ``*rows`` alone takes at most two of them.

    Returns:
        The names; None for built-in functions without a signature.

    Raises:
        ConfigurationError: an argument without a default is keyword-only.

    >>> row_arguments(lambda value, limit=3: value, 2), row_arguments(lambda value=None: value, 2)
    (('value',), ('value',))
    >>> row_arguments(lambda *rows: rows, 2)
    ('rows[0]', 'rows[1]')
    """
    try:
        arguments = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    needed = [argument for argument in arguments if argument.default is argument.empty]
    named = next((argument.name for argument in needed if argument.kind is argument.KEYWORD_ONLY), None)
    if named is not None:
        raise ConfigurationError(
            f"{named} is given by its name only, and a function is called with rows one after the other. "
            f"Give it a default, or a value: functools.partial(function, {named}=...)."
        )
    any_number = next((argument.name for argument in needed if argument.kind is argument.VAR_POSITIONAL), None)
    if any_number is not None and not _positional(arguments):
        return tuple(f"{any_number}[{place}]" for place in range(min(most, _AT_LARGE)))
    return _positional(needed) or _positional(arguments)


def _positional(arguments: Iterable[inspect.Parameter]) -> tuple[str, ...]:
    return tuple(argument.name for argument in arguments if argument.kind in _POSITIONAL)
