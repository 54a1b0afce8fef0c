"""Texts of conditions that ask the clock: Spark takes some for an instant of today; a replay would decide differently.

It reads ``'now'`` and its like where a constant text becomes an instant, and a time without a day wherever a text does.
A text of the rows may hold such a time as well, and constants may be put together (``'no' || 'w'``): that is let pass.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from streams.time_texts import asks_for_now, is_time_alone
from versioned.errors import ConfigurationError

#: Words that make an instant of a text.
INSTANTS: Final = frozenset(("timestamp", "timestamp_ltz", "timestamp_ntz", "to_timestamp", "try_to_timestamp"))
_ESCAPED: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_CONTROLS: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def is_of_today(word: str) -> bool:
    """Whether a text begins with a word that Spark takes for an instant or a day of now.

    >>> is_of_today("' Today'"), is_of_today("'nowhere'")
    (True, False)
    """
    return asks_for_now(_unescaped(word)[1:])


def check_times(words: Sequence[tuple[str, str]], instants: frozenset[str]) -> None:
    """Refuse a time of day beside instants: Spark would take it for one of the day on which it is asked.

    Args:
        words: The condition.
        instants: Words and columns, in small letters, that are about instants.

    Raises:
        ConfigurationError: naming the time.
    """
    alone, is_instant, last = "", False, ""
    for kind, word in (*words, ("word", "and")):
        lower = word.strip("`").lower()
        ends = kind == "word" and lower in ("and", "or", "when", "then", "else")
        # The "and" of a "between" is part of what it says.
        if ends and not (lower == "and" and last == "between"):
            if alone and is_instant:
                raise ConfigurationError(
                    f"a condition takes {alone} for an instant: without a day it is one of today, and a replay would "
                    "decide differently. Write the day too."
                )
            alone, is_instant = "", False
        elif kind == "text" and is_time_alone(_unescaped(word)[1:]):
            alone = word
        if ends or lower == "between":
            last = lower
        is_instant |= kind in ("word", "quoted") and lower in instants


def _unescaped(word: str) -> str:
    """A text as Spark reads it: what stands behind a backslash, without it."""
    return _ESCAPED.sub(_character, word)


def _character(found: re.Match[str]) -> str:
    short, long, octal, other = found.groups()
    if other is not None:
        return _CONTROLS.get(other, other)
    code = int(octal, 8) if octal else int(short or long, 16)
    return chr(code) if code <= sys.maxunicode else "?"
