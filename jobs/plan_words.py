"""Adds the words of settings to errors about a declared plan, which use the names of the Python DSL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from jobs.strict import PlacedError
from versioned.errors import TopologyError

#: Names in Python, and how settings write them.
_WORDS: Final[Mapping[str, str]] = {
    "Materialized.versioned": "`store: {kind: versioned, history_retention: ...}`",
    "Materialized.key_value": "`store: {kind: key_value}`",
    "Materialized.with_name": "`name` of a `store`",
    "Suppressed.until_time_limit": "`until: time_limit`",
    "Suppressed.with_name": "the name of the step",
}


@contextmanager
def as_declared(plan: str | Mapping[str, Any]) -> Iterator[None]:
    """If a declared plan is refused, add to the message how settings write the Python names in it.

    Args:
        plan: The ``plan`` of the settings. If it names a function that builds the plan, the message stays as it is.

    Raises:
        TopologyError: with these words at its end.
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
    """Replace the error for a broken rule of the engine by one with the path of the setting that breaks it.

    Args:
        path: The path of the setting, as for :func:`jobs.strict.at`.
        rule: The rule whose error is replaced.
        said: What is wrong, and what to do, in the words of settings.

    Raises:
        ConfigurationError: the rule is broken.
        TopologyError: another rule is broken.
    """
    try:
        yield
    except TopologyError as error:
        if error.rule != rule:
            raise
        raise PlacedError(path, said) from None


def in_words_of_settings(said: str) -> str:
    """How settings write the Python names in a message; empty if it has none, or speaks of YAML itself.

    >>> in_words_of_settings("Store it with Materialized.key_value() first.")
    'In settings Materialized.key_value is `store: {kind: key_value}`.'
    >>> in_words_of_settings("Give another one with Materialized.with_name, in YAML with store.name.")
    ''
    """
    if "YAML" in said:
        return ""
    named = [f"{word} is {other}" for word, other in _WORDS.items() if re.search(rf"\b{re.escape(word)}\b", said)]
    return f"In settings {'; '.join(named)}." if named else ""
