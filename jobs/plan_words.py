"""Adds the words of settings to errors about a declared plan, which use the names of the Python DSL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from jobs.strict import PlacedError
from versioned.errors import TopologyError

#: What Python writes, and settings.
_WORDS: Final[Mapping[str, str]] = {
    "Materialized.versioned": "`store: {kind: versioned, history_retention: ...}`",
    "Materialized.key_value": "`store: {kind: key_value}`",
    "Materialized.with_name": "`name` of a `store`",
    "Suppressed.until_time_limit": "`until: time_limit`",
    "Suppressed.with_name": "the name of the step",
}


@contextmanager
def as_declared(plan: str | Mapping[str, Any]) -> Iterator[None]:
    """Tell of a declared plan that is refused how settings write what its message names.

    Args:
        plan: As of the settings; one that a function builds, which they name, is refused in the words of Python alone.

    Raises:
        TopologyError: with these words behind the others.
    """
    try:
        yield
    except TopologyError as error:
        added = "" if isinstance(plan, str) else in_words_of_settings(error.said)
        if not added:
            raise
        raise TopologyError(error.rule, error.node, f"{error.said} {added}") from None


@contextmanager
def refused_at(path: str, rule: str, said: str) -> Iterator[None]:
    """Tell of one rule of the engine that is broken with the path of the setting that breaks it.

    Args:
        path: As of :func:`jobs.strict.at`.
        rule: The rule of the error.
        said: What is wrong, and what to do, in the words of settings.

    Raises:
        ConfigurationError: the rule is broken.
        TopologyError: another one is.
    """
    try:
        yield
    except TopologyError as error:
        if error.rule != rule:
            raise
        raise PlacedError(path, said) from None


def in_words_of_settings(said: str) -> str:
    """How settings write what a message names in Python's words; nothing where it says so itself, or names nothing.

    >>> in_words_of_settings("Store it with Materialized.key_value() first.")
    'In settings Materialized.key_value is `store: {kind: key_value}`.'
    >>> in_words_of_settings("Give another one with Materialized.with_name, in YAML with store.name.")
    ''
    """
    if "YAML" in said:
        return ""
    named = [f"{word} is {other}" for word, other in _WORDS.items() if re.search(rf"\b{re.escape(word)}\b", said)]
    return f"In settings {'; '.join(named)}." if named else ""
