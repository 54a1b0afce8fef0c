"""Texts in conditions that depend on the clock: Spark reads some as an instant of today, so a replay would differ.

It does so for ``'now'`` and the like where a constant text becomes an instant, and for a time without a day wherever a
text does. Texts in the rows may hold such a time too, and constants may be concatenated (``'no' || 'w'``): these are
not detected.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Sequence
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
#: Words that make an instant, so that a text compared with them becomes one.
INSTANTS: Final = frozenset(_OF_INSTANTS.split())
#: These, and words that make a day of a text, or take it for an instant or a day.
DAYS: Final = INSTANTS | frozenset(_OF_DAYS.split())
#: The kind of the end marker after the last word.
_END: Final = "end"
_ESCAPED: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_CONTROLS: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def check_now(words: Sequence[tuple[str, str]], days: frozenset[str]) -> None:
    """Refuse a text such as ``'today'`` that Spark would replace by the current instant or day.

    Args:
        words: The condition.
        days: Words and columns, in lower case, of instants or days.

    Raises:
        ConfigurationError: there is one; names it.
    """
    # Results of a CASE, and arguments of a function, are cast to one type, so they count as beside each other.
    asking = _beside(words, days, asks_for_now, ("and", "or"), at_top=True)
    if asking:
        raise ConfigurationError(
            f"a condition follows from the row alone, or a replay would decide differently: no {asking} beside an "
            "instant or a day, for which Spark takes it. Compare with an instant of the row."
        )


def check_times(words: Sequence[tuple[str, str]], instants: frozenset[str]) -> None:
    """Refuse a time of day beside instants: Spark would take it for an instant of the current day.

    Args:
        words: The condition.
        instants: Words and columns, in lower case, of instants.

    Raises:
        ConfigurationError: there is one; names it.
    """
    alone = _beside(words, instants, is_time_alone, ("and", "or", "when", "then", "else"), at_top=False)
    if alone:
        raise ConfigurationError(
            f"a condition takes {alone} for an instant: without a day it is one of today, and a replay would decide "
            "differently. Write the day too."
        )


def _beside(
    words: Sequence[tuple[str, str]],
    kinds: frozenset[str],
    asks: Callable[[str], bool],
    ends: Collection[str],
    *,
    at_top: bool,
) -> str:
    """The last text that asks the clock in the first part of a condition where it is beside an instant; empty if none.

    Args:
        words: The condition.
        kinds: Words and columns, in lower case, that make an instant of a text beside them.
        asks: Whether a text asks the clock.
        ends: The words at which a part ends.
        at_top: Whether such words end no part within brackets and CASE.
    """
    asking, is_beside, depth, last = "", False, 0, ""
    for kind, word in (*words, (_END, "")):
        lower = word.strip("`").lower()
        if kind in ("word", "sign"):
            depth = max(0, depth + (lower in ("(", "case")) - (lower in (")", "end")))
        is_seen = kind == "word" and (depth == 0 or not at_top)
        # The "and" of a "between" ends no part.
        if kind == _END or (is_seen and lower in ends and not (lower == "and" and last == "between")):
            if asking and is_beside:
                return asking
            asking, is_beside = "", False
        elif kind == "text" and asks(_unescaped(word)[1:]):
            asking = word
        if is_seen and (lower in ends or lower == "between"):
            last = lower
        is_beside |= kind in ("word", "quoted") and lower in kinds
    return ""


def _unescaped(word: str) -> str:
    """A text as Spark reads it, with its backslash escapes replaced."""
    return _ESCAPED.sub(_character, word)


def _character(found: re.Match[str]) -> str:
    short, long, octal, other = found.groups()
    if other is not None:
        return _CONTROLS.get(other, other)
    code = int(octal, 8) if octal else int(short or long, 16)
    return chr(code) if code <= sys.maxunicode else "?"
