"""Conditions in Spark SQL that settings may hold: read word by word, and refused unless each is on the list.

Spark's SQL reaches far: ``reflect`` calls any Java method, a subquery reads any table. So a condition from a file is
never handed on as it is: it may have columns, constants, operators and the functions listed here, nothing else. What
could be read in two ways (a raw text, a quote behind a backslash, a comment) is refused as well.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import Column

from versioned import spark_functions as F
from versioned.errors import ConfigurationError

_LONGEST: Final = 4_000
_TOKEN: Final = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<text>'(?:[^'\\]|\\[^'\"]|'')*'|\"(?:[^\"\\]|\\[^'\"]|\"\")*\")"
    r"|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![A-Za-z0-9_])|\.\d+(?![A-Za-z0-9_]))"
    r"|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)(?!['\"])"
    r"|(?P<sign><=>|<=|>=|<>|!=|==|\|\||(?!--|/\*|\*/)[-+*/%=<>!(),.\[\]])"
)
#: Words that are no functions and may stand before a bracket.
_WORDS: Final = "and or not in between case when then else div like"
#: Words that Spark takes for functions without brackets, and texts that it takes for instants: they ask the clock or
#: who runs the query, and a replay would decide differently.
_ASKING: Final = (
    "current_timestamp current_date current_time localtimestamp current_user session_user current_catalog "
    "current_database current_schema"
)
_OF_TODAY: Final = re.compile(r"['\"]\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_FORBIDDEN: Final = "select with values table using join union lateral exists"
_ALLOWED: Final = """
    abs array_contains bround cardinality cast ceil ceiling char_length coalesce concat contains date date_add date_diff
    date_sub datediff day dayofmonth dayofweek dayofyear endswith exp floor get_json_object greatest hour if ifnull
    initcap instr isnan isnotnull isnull last_day least left length locate log log10 lower lpad ltrim minute mod month
    nanvl negative nullif nvl nvl2 octet_length pmod position positive pow power quarter regexp_extract regexp_like
    regexp_replace replace right round rpad rtrim second sign signum size split sqrt startswith substr substring
    timestamp timestamp_micros timestamp_millis timestamp_seconds to_date to_timestamp trim try_add try_cast try_divide
    try_multiply try_subtract try_to_timestamp unix_micros unix_millis unix_seconds upper weekday weekofyear year
"""
_BEFORE_BRACKETS: Final = frozenset(_WORDS.split())
#: The functions that a condition may call.
FUNCTIONS: Final = frozenset(_ALLOWED.split())


def sql_condition(text: str) -> Column:
    """A condition as a column.

    Raises:
        ConfigurationError: as :func:`check_condition`.
    """
    check_condition(text)
    return F.expr(text)


def check_condition(text: str) -> None:
    """Refuse a condition that has anything but columns, constants, operators and the functions that are allowed.

    Raises:
        ConfigurationError: naming what it has, and what is allowed.

    >>> check_condition("paid <= amount AND upper(`the state`) IN ('A', 'B')")
    >>> check_condition("reflect('java.lang.System', 'exit', 1) IS NULL")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: a condition has no function "reflect". Allowed: abs, array_contains, ...
    """
    if len(text) > _LONGEST:
        raise ConfigurationError(f"{len(text)} characters is too long for a condition (at most {_LONGEST}).")
    before: list[str] = ["", ""]
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConfigurationError(
                f'a condition has no "{text[at]}" (character {at + 1}). Write columns, constants, comparisons, AND, '
                "OR, NOT, IN, IS NULL, LIKE, BETWEEN, CASE and functions; a space before a text, no comments."
            )
        at = found.end()
        if found.lastgroup != "space":
            _check_word(found[0], before, is_word=found.lastgroup == "word")
            before = [before[1], found[0]]


def _check_word(word: str, before: list[str], *, is_word: bool) -> None:
    lower, last = word.lower(), before[1].lower()
    if is_word and (lower in _FORBIDDEN.split() or (lower == "from" and last != "distinct")):
        raise ConfigurationError(f'a condition is about one row: no "{word}". Put a column of that name in backticks.')
    if (is_word and lower in _ASKING.split()) or _OF_TODAY.match(word):
        raise ConfigurationError(
            f"a condition follows from the row alone, or a replay would decide differently: no {word}. Put a column of "
            "that name in backticks; compare with an instant of the row."
        )
    if word != "(" or not re.match(r"[\w'\"`]", last):
        return
    if before[0] == "." or last not in FUNCTIONS | _BEFORE_BRACKETS:
        called = "".join(before) if before[0] == "." else before[1]
        raise ConfigurationError(f'a condition has no function "{called}". Allowed: {", ".join(sorted(FUNCTIONS))}')
