"""Checks options that take one of a few words against the ``Literal`` type of the option."""

from __future__ import annotations

from typing import get_args

from versioned.errors import ConfigurationError
from versioned.given import told


def check_choice(option: str, given: object, allowed: object) -> None:
    """Refuse a word that an option does not take: a misspelt one would act like some other choice.

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
    # Text only: for a NumPy array, ``in`` raises an error.
    if not isinstance(given, str) or given not in words:
        raise ConfigurationError(f"{option} must be {', '.join(words[:-1])} or {words[-1]}; got {told(given)}.")
