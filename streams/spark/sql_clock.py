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

_OF_DAYS: Final = """
    date date_add date_diff date_sub datediff day dayofmonth dayofweek dayofyear hour last_day minute month quarter
    second to_date unix_micros unix_millis unix_seconds weekday weekofyear year
"""
_OF_INSTANTS: Final = """
    timestamp timestamp_ltz timestamp_micros timestamp_millis timestamp_ntz timestamp_seconds to_timestamp
    try_to_timestamp
"""
#: Words that make an instant, so that a text beside them becomes one.
INSTANTS: Final = frozenset(_OF_INSTANTS.split())
#: Those, and words that make a day of a text, or take it for either.
DAYS: Final = INSTANTS | frozenset(_OF_DAYS.split())
#: The kind of what stands behind the last word.
_END: Final = "end"
_ESCAPED: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_CONTROLS: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def check_now(words: Sequence[tuple[str, str]], days: frozenset[str]) -> None:
    """Refuse a text such as ``'today'`` where Spark would take it for the instant or the day on which it is asked.

    Args:
        words: The condition.
        days: Words and columns, in small letters, that are about instants or days.

    Raises:
        ConfigurationError: naming the text.
    """
    asking, is_day, depth, last = "", False, 0, ""
    for kind, word in (*words, (_END, "")):
        lower = word.strip("`").lower()
        if kind in ("word", "sign"):
            # What a CASE gives, or a function is given, has one type with what is beside it there.
            depth = max(0, depth + (lower in ("(", "case")) - (lower in (")", "end")))
        ends = kind == _END or (kind == "word" and lower in ("and", "or") and depth == 0)
        # The "and" of a "between" is part of what it says.
        if ends and not (lower == "and" and last == "between"):
            if asking and is_day:
                raise ConfigurationError(
                    f"a condition follows from the row alone, or a replay would decide differently: no {asking} beside "
                    "an instant or a day, for which Spark takes it. Compare with an instant of the row."
                )
            asking, is_day = "", False
        elif kind == "text" and asks_for_now(_unescaped(word)[1:]):
            asking = word
        if kind == "word" and depth == 0 and lower in ("between", "and", "or"):
            last = lower
        is_day |= kind in ("word", "quoted") and lower in days


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
