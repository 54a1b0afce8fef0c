"""Conditions in Spark SQL that settings may contain: parsed word by word, and refused unless each word is allowed.

Spark's SQL is powerful: ``reflect`` calls any Java method, and a subquery reads any table. So a condition from a file
is never passed on unchecked: it may have columns, constants, operators and the functions listed here, nothing else.
Anything ambiguous (a raw text, a quote after a backslash, a comment) is refused as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyspark.sql import Column
from pyspark.sql.types import StructType

from streams.spark.sql_clock import DAYS, INSTANTS, check_now, check_times
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
#: Words that may precede a bracket but are no functions.
_WORDS: Final = "and or not in between case when then else div like"
#: Words that Spark takes for functions even without brackets. They depend on the clock or on who runs the query, so a
#: replay would decide differently.
_ASKING: Final = (
    "current_timestamp current_date current_time localtimestamp current_user session_user current_catalog "
    "current_database current_schema current_path"
)
#: Names that Spark takes for such functions, even in backticks, if the rows have no such column.
_WITHOUT_COLUMN: Final = f"{_ASKING} user"
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
#: Types that may have numbers in brackets, after the "as" of a cast.
_TYPES: Final = frozenset(("decimal", "dec", "numeric", "char", "varchar"))
#: The functions that a condition may call.
FUNCTIONS: Final = frozenset(_ALLOWED.split())


def sql_condition(text: str, columns: StructType) -> Column:
    """A condition as a column.

    Args:
        text: The condition.
        columns: The columns that the rows have.

    Raises:
        ConfigurationError: as :func:`check_condition`; or it names a missing column, and Spark would take the name for
            a function of the clock or the user.
    """
    check_condition(text)
    there = {name.lower() for name in columns.names}
    words, before = list(_words(text)), ""
    check_times(words, INSTANTS | _of_type(columns, "timestamp"))
    check_now(words, DAYS | _of_type(columns, "timestamp", "date"))
    for kind, word in words:
        name = word.strip("`").lower()
        asks = kind in ("word", "quoted") and before != "." and name in _WITHOUT_COLUMN.split()
        if asks and name not in there:
            raise ConfigurationError(
                f"a condition names {word}, which is no column of the rows. They have: {', '.join(sorted(there))}"
            )
        before = word
    return F.expr(text)


def _of_type(columns: StructType, *kinds: str) -> set[str]:
    """The columns, in lower case, that have one of these types or contain it."""
    return {field.name.lower() for field in columns if any(kind in field.dataType.simpleString() for kind in kinds)}


def check_condition(text: str) -> None:
    """Refuse a condition with anything but columns, constants, operators and the allowed functions.

    Raises:
        ConfigurationError: it has something else; names that, and what is allowed.

    >>> check_condition("paid <= amount AND upper(`the state`) IN ('A', 'B')")
    >>> check_condition("reflect('java.lang.System', 'exit', 1) IS NULL")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: a condition has no function "reflect". Allowed: abs, array_contains, ...
    """
    if len(text) > _LONGEST:
        raise ConfigurationError(f"{len(text)} characters is too long for a condition (at most {_LONGEST}).")
    before: list[str] = ["", ""]
    for kind, word in _words(text):
        if "${" in word:
            raise ConfigurationError(
                f"a condition has no ${{ in a text or a name: {word}. Spark would put a variable of the session or of "
                "its machine there. Write a text in two parts: concat('$', '{...')."
            )
        _check_word(word, before, is_word=kind == "word")
        before = [before[1], word]
    words = list(_words(text))
    if not words:
        raise ConfigurationError("a condition is missing here. Write one such as: paid <= amount")
    check_times(words, INSTANTS)
    check_now(words, DAYS)


def _words(text: str) -> Iterator[tuple[str, str]]:
    """The words, signs and constants of a condition, each with its kind."""
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
            yield str(found.lastgroup), found[0]


def _check_word(word: str, before: list[str], *, is_word: bool) -> None:
    lower, last = word.lower(), before[1].lower()
    if is_word and (lower in _FORBIDDEN.split() or (lower == "from" and last != "distinct")):
        raise ConfigurationError(f'a condition is about one row: no "{word}". Put a column of that name in backticks.')
    if is_word and lower in _ASKING.split():
        raise ConfigurationError(
            f"a condition follows from the row alone, or a replay would decide differently: no {word}. Put a column of "
            "that name in backticks; compare with an instant of the row."
        )
    if word[0] in "'\"" and last[:1] in ("'", '"'):
        raise ConfigurationError(f"a condition has two texts side by side: {before[1]} {word}. Write them as one.")
    if word != "(" or not re.match(r"[\w'\"`]", last):
        return
    types = _TYPES if before[0].lower() == "as" else frozenset()
    if before[0] == "." or last not in FUNCTIONS | _BEFORE_BRACKETS | types:
        called = "".join(before) if before[0] == "." else before[1]
        raise ConfigurationError(f'a condition has no function "{called}". Allowed: {", ".join(sorted(FUNCTIONS))}')
