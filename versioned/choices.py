"""Options that take one of a few words: what is allowed stands in their type, and is checked where they are given."""

from __future__ import annotations

from typing import get_args

from versioned.errors import ConfigurationError


def check_choice(option: str, given: object, allowed: object) -> None:
    """Refuse a word that an option does not take: a misspelt one would be read as any other that is not asked for.

    Args:
        option: Its name.
        given: What it was given.
        allowed: The option's type, a ``Literal``.

    Raises:
        ConfigurationError: the word is not one of the type's.

    >>> from typing import Literal
    >>> check_choice("timer", "frist", Literal["first", "record", "last"])
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: timer must be first, record or last; got "frist".
    """
    words = get_args(allowed)
    if given not in words:
        told = f'"{given}"' if isinstance(given, str) else repr(given)
        raise ConfigurationError(f"{option} must be {', '.join(words[:-1])} or {words[-1]}; got {told}.")
