"""Types as DDL, checked as far as possible without Spark, so that a misspelt word is refused at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from versioned.errors import ConfigurationError
from versioned.given import check_kind, near

_TYPES: Final = frozenset((
    "array", "bigint", "binary", "boolean", "byte", "char", "character", "date", "dec", "decimal", "double", "float",
    "geography", "geometry", "int", "integer", "interval", "long", "map", "numeric", "real", "short", "smallint",
    "string", "struct", "time", "timestamp", "timestamp_ltz", "timestamp_ntz", "tinyint", "varchar", "variant", "void",
))  # fmt: skip
_QUOTED: Final = re.compile(r"`(?:[^`]|``)*`")
#: Signs of a text or a comment, which may hold words that are no types.
_COMMENTS: Final = ("'", '"', "--", "/*")
_FIELD: Final = re.compile(r"\s*[^\s:]+\s*[\s:]\s*([A-Za-z_]+)")
_WORD: Final = re.compile(r"\s*([A-Za-z_]+)\b")
_TYPE: Final = re.compile(r"\s*([A-Za-z_]+)\s*(?:$|[<(])")
_MAP: Final = re.compile(r"\s*map\s*<", re.IGNORECASE)
_UNIT: Final = "(?:year|month|day|hour|minute|second)"
#: A single type, not fields: a word, perhaps with brackets, a string with its collation, or an interval with units.
_ONE: Final = re.compile(
    rf"\s*(?!struct\s*<)(?:\w+\s*(?:\(.*\)|<.*>)?(?:\s*collate\s+[\w.]+)?|interval\s+{_UNIT}(?:\s+to\s+{_UNIT})?)\s*",
    re.IGNORECASE | re.DOTALL,
)


def check_ddl(option: str, given: object) -> None:
    """Refuse what is not a text of DDL, or names an unknown type.

    Args:
        option: The option it was given for.
        given: One type, or fields with their types.

    Raises:
        ConfigurationError: with the word, and what was probably meant.

    >>> check_ddl("returns", "price double, labels array<string>")
    >>> check_ddl("returns", "doubel")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: returns: there is no type "doubel"; did you mean "double"?
    """
    wanted = 'a type as DDL, such as "double", or fields with types, such as "price double, label string"'
    check_kind(option, given, str, wanted)
    text = str(given)
    if not text.strip():
        raise ConfigurationError(f'{option} takes {wanted}; got "{text}".')
    for word in _type_words(text):
        if word.lower() not in _TYPES:
            raise ConfigurationError(f'{option}: there is no type "{word}"{near(word.lower(), _TYPES)}')


def names_fields(ddl: str) -> bool:
    """Whether a text of DDL describes a row rather than a single value.

    >>> names_fields("price double"), names_fields("a:int,b:int"), names_fields("struct<a: int>")
    (True, True, True)
    >>> names_fields("decimal(10, 2)"), names_fields("map<string, int>"), names_fields("interval day to second")
    (False, False, False)
    """
    return _ONE.fullmatch(ddl) is None


def check_result(option: str, ddl: str) -> None:
    """Refuse, as the result type of a user's aggregate, what is not DDL, or only a map: a dictionary becomes a row.

    Args:
        option: The option it was given for.
        ddl: One type, or fields with their types.

    Raises:
        ConfigurationError: as :func:`check_ddl`, or it is a map.

    >>> check_result("schema", "seen map<string, bigint>")
    """
    check_ddl(option, ddl)
    if _MAP.match(ddl):
        raise ConfigurationError(
            f'{option}: "{ddl}" is a map alone, and what the function gives, a dictionary, is a row by its fields. '
            f'Name it, as in "seen {ddl.strip()}", and give {{"seen": {{...}}}}.'
        )


def _type_words(text: str) -> Iterable[str]:
    """The words that can only be names of types; all others are left to Spark."""
    text = _QUOTED.sub("quoted ", text)
    alone = _TYPE.match(text)
    if alone:
        return [alone[1]]
    first = _WORD.match(text)
    if any(sign in text for sign in _COMMENTS) or (first is not None and first[1].lower() in _TYPES):
        # A comment may contain any word, and some types have several words.
        return []
    return _field_types(text)


def _field_types(text: str) -> Iterator[str]:
    """The first word of each field's type."""
    depth, begun = 0, 0
    for place, sign in enumerate(f"{text},"):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            found = _FIELD.match(text[begun:place])
            if found:
                yield found[1]
            begun = place + 1
