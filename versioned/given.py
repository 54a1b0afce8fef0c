"""Checks the types of arguments where they are passed; errors say what was expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from difflib import get_close_matches
from inspect import isclass, isroutine
from typing import Any

from versioned.durations import instant_us
from versioned.errors import ConfigurationError, UnknownNameError


def told(given: object) -> str:
    """A value as messages show it: text in quotes, classes and functions by their names.

    >>> told("5 MB"), told(timedelta), told(timedelta(hours=1))
    ('"5 MB"', 'the class timedelta', '1:00:00')
    """
    if isinstance(given, str):
        return f'"{given}"'
    if isclass(given):
        return f"the class {given.__name__}"
    if isroutine(given):
        return f"the function {given.__name__}, which was not called"
    return str(given) if isinstance(given, (timedelta, datetime)) else repr(given)


def check_kind(option: str, given: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Refuse a value of a class that an option does not take; True and False are not numbers.

    Args:
        option: Its name.
        given: What it was given.
        kinds: The classes that it takes.
        wanted: What it takes, in words; advice may follow after a semicolon.

    Raises:
        ConfigurationError: the value is of none of these.

    >>> check_kind("name", 5, str, "a text")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: name takes a text; got 5.
    """
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(given, allowed) or (isinstance(given, bool) and bool not in allowed):
        raise ConfigurationError(f"{option} takes {wanted}; got {told(given)}.")


def check_flag(option: str, given: object) -> None:
    """Refuse what is neither True nor False: the text "false", as from a widget or a variable, would count as true.

    Raises:
        ConfigurationError: it is neither.

    >>> check_flag("new_epoch", "false")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: new_epoch takes True or False; got "false".
    """
    check_kind(option, given, bool, "True or False")


def texts_of(option: str, given: object, wanted: str) -> tuple[str, ...]:
    """One or several texts as a tuple; a single text is one, not its letters.

    Raises:
        ConfigurationError: one of them is not a text.

    >>> texts_of("keys", "id", "names"), texts_of("keys", ["id", "day"], "names")
    (('id',), ('id', 'day'))
    """
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"{option} takes {wanted}; got {told(given)}.")
    texts = tuple(given)
    for each in texts:
        check_kind(option, each, str, wanted)
    return texts


def check_optional(option: str, given: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Like :func:`check_kind`, for an option that may be left out: None is allowed, an empty text is not.

    Raises:
        ConfigurationError: it is of another kind, or an empty text.

    >>> check_optional("checkpoint", "", str, "a folder")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: checkpoint takes a folder; got "". Leave it out where none is meant.
    """
    if given is not None:
        check_kind(option, given, kinds, wanted)
    if isinstance(given, str) and not given:
        raise ConfigurationError(f'{option} takes {wanted}; got "". Leave it out where none is meant.')


def check_name(option: str, given: object) -> None:
    """Refuse a name that is not a text; None is allowed."""
    if given is not None:
        check_kind(option, given, str, "a text")


def check_function(option: str, given: object, wanted: str) -> None:
    """Refuse what cannot be called, for an option that may be left out: None is allowed.

    Raises:
        ConfigurationError: it cannot be called.

    >>> check_function("on_batch", "print", "a function of the batch's report")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: on_batch takes a function of the batch's report; got "print".
    """
    if given is not None and not callable(given):
        raise ConfigurationError(f"{option} takes {wanted}; got {told(given)}.")


def check_mapping(option: str, given: Any, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Refuse what is not a mapping from texts to values of the classes that an option takes.

    Args:
        option: Its name.
        given: What it was given.
        kinds: The classes of a value.
        wanted: What a value is, in words.

    Raises:
        ConfigurationError: it is not a mapping, or a name or a value in it is of another class.

    >>> check_mapping("patterns", {"short": 5}, str, "a regular expression")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: patterns: "short" takes a regular expression; got 5.
    """
    check_kind(option, given, Mapping, f"a mapping, by name, of {wanted}")
    for name, value in given.items():
        check_kind(f"A name in {option}", name, str, "a text")
        check_kind(f"{option}: {told(name)}", value, kinds, wanted)


def given_instant_us(option: str, given: Any) -> int:
    """An instant in microseconds since 1970, given as such or as a datetime (UTC if it has no zone).

    Raises:
        ConfigurationError: it is neither.

    >>> given_instant_us("start", datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    wanted = "a datetime, such as datetime(2026, 1, 31), or an int of microseconds since 1970"
    check_kind(option, given, (datetime, int), wanted)
    return instant_us(given) if isinstance(given, datetime) else int(given)


def no_such(what: str, given: object, known: Iterable[str]) -> UnknownNameError:
    """The error for an unknown name, with the name that was probably meant and all known ones.

    >>> str(no_such("sink", "oot", ["out", "in"]))
    'there is no sink "oot"; did you mean "out"? There are: in, out'
    """
    names = sorted(set(known))
    there = f"There are: {', '.join(names)}" if names else "There is none at all."
    return UnknownNameError(f"there is no {what} {told(given)}{near(str(given), names)} {there}")


def near(given: str, known: Iterable[str]) -> str:
    """The name that was probably meant, to follow "there is no ..."; ends the sentence if no name is close.

    >>> near("amont", ["amount", "city"]), near("x", ["amount"])
    ('; did you mean "amount"?', '.')
    """
    found = close(given, known)
    return "." if found is None else f'; did you mean "{found}"?'


def close(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that is most similar to another one, by at least ``cutoff`` (0 to 1); None if there is none.

    >>> close("amont", ["amount", "city"]), close("amont", ["amount", "city"], 0.95)
    ('amount', None)
    """
    return next(iter(get_close_matches(word, list(known), n=1, cutoff=cutoff)), None)
