"""Whether a rejected record, stored as JSON, contains the value of a subject's key.

A record was put aside because something was wrong with it, so its fields may have any type, be anywhere, and be cut.
The value is searched for as a text anywhere, and as the value of a field with one of the key's names, at any depth, as
JSON writes values of the types that such fields have in the tables. A record that could not be decoded is JSON within a
text; of Kafka's records, within a text of a text.

A record that could not be read may be no JSON, such as a line of CSV, in which nothing tells fields apart. It has the
value if its whole words are anywhere in it: a rejected record too many is erased rather than one too few.

If it is JSON, it is kept as its writer spelt it, and JSON allows any character to be escaped. Such a record is searched
a second time, as Spark would have spelt it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    MapType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from streams.spark.reader_options import MALFORMED
from streams.spark.typed_input import KEPT
from versioned import spark_functions as F
from versioned.sql_types import JSON_INSTANTS

#: How many levels of JSON texts within texts are searched.
_WITHIN: Final = 2
#: Runs of backslashes, here and below, are matched from their first one on and never again from within: a record that
#: has a long one would take hours.
_FROM_FIRST: Final = r"(?<!\\)"
#: Patterns around the value of a field: quotes are escaped in JSON within a text, and the value may be in an array. The
#: array is searched up to the next bracket only: what needs brackets in it is a text, which is found without its field.
_QUOTE: Final = r'\\*+"'
_BEFORE: Final = r":\s*(?:\[[\[\s]*+(?:[^\]\[]*,)?\s*)?\Q"
_AFTER: Final = r"\s*[,}\]]"
#: What a number may have behind it: 17.0 is 17.
_ZEROS: Final = r"(?:\.0+)?"
#: What makes words; a letter of JSON's escapes, as in a new line before a word, does not.
_LETTER: Final = r"[\p{L}\p{M}\p{N}_]"
_WORD: Final = (rf"(?:(?<!{_LETTER})|(?<=\\[bfnrt]))", rf"(?!{_LETTER})")
#: As a word, but neither a part of a fraction nor the value of a field.
_NUMBER: Final = (
    rf'{_WORD[0]}(?<!\d\.|"\s{{0,9}}:\s{{0,9}}-?)',
    rf"{_ZEROS}(?!{_LETTER}|\.\d)",
)
#: The beginning of an escape that Spark does not write.
_ESCAPES: Final = r"\\[u/]"
_RUN: Final = rf"{_FROM_FIRST}\\++"
_HEX: Final = "[0-9a-fA-F]{2}"
#: Escapes in a text with doubled backslashes, and the replacements that make JSON's own escapes of them: first the two
#: halves of characters beyond 16 bits, then all others, except those that Spark escapes too.
_DECODED: Final = (
    (rf"{_RUN}(u[dD][89abAB]{_HEX}){_RUN}(u[dD][c-fC-F]{_HEX})", r"\\$1\\$2"),
    (rf"{_RUN}(u(?!00[01]|0022|005[cC]|[dD][89a-fA-F])[0-9a-fA-F]{{4}})", r"\\$1"),
)
#: The exceptions: the number of backslashes depends on how deeply the text is nested.
_RESPELT: Final = (
    (rf"{_RUN}/", "/"),
    (rf"{_FROM_FIRST}\\(\\*+)u0022", r'\\$1$1"'),
    (rf"({_RUN})u0008", "$1b"),
    (rf"({_RUN})u0009", "$1t"),
    (rf"({_RUN})u000[aA]", "$1n"),
    (rf"({_RUN})u000[cC]", "$1f"),
    (rf"({_RUN})u000[dD]", "$1r"),
    (rf"({_RUN})u005[cC]", "$1$1"),
)


def in_record(record: Column, value: Column, called: tuple[str, ...], kinds: Iterable[DataType]) -> Column:
    """Whether a rejected record has the value: in a field with one of the names, or anywhere as a text.

    Long texts of rejected records may be cut, so the value is cut to the same length.

    Args:
        record: The record as JSON.
        value: The value of the key.
        called: The names that its field may have, in any case.
        kinds: The types that fields of these names have in the tables.
    """
    kinds = list(kinds)
    again = _has(_respelt(record), value, called, kinds)
    return _has(record, value, called, kinds) | F.when(F.regexp_like(record, F.lit(_ESCAPES)), again)


def _has(record: Column, value: Column, called: tuple[str, ...], kinds: Iterable[DataType]) -> Column:
    text = value.cast("string")
    found: Iterable[Column] = (
        F.get_json_object(record, f"$.{side}['{name}']") == text for side in ("key", "value") for name in called
    )
    somewhere = (F.contains(record, quoted) for quoted in _quoted(F.substring(text, 1, KEPT)))
    of_fields = (_in_field(record, value, name, kind) for name in called for kind in kinds)
    return reduce(Column.__or__, (*found, *somewhere, *of_fields, _in_unread(record, text, kinds)))


def _in_unread(record: Column, text: Column, kinds: Iterable[DataType]) -> Column:
    """Whether a record that could not be read has the text as whole words: it may be CSV, which needs no quotes."""
    unread = F.get_json_object(record, f"$.value.{MALFORMED}")
    is_number = any(isinstance(kind, NumericType) for kind in kinds)
    before, after = _NUMBER if is_number else _WORD
    written = _written(text)
    found = (
        F.regexp_like(unread, F.concat(F.lit(rf"{before}\Q"), _literally(form), F.lit(rf"\E{after}")))
        for form in (text, F.substring(written, F.lit(2), F.length(written) - 2))
    )
    # Without a letter there is no word to be found, but the text would be everywhere.
    return F.regexp_like(text, F.lit(_LETTER)) & F.coalesce(reduce(Column.__or__, found), F.lit(False))


def _respelt(record: Column) -> Column:
    """The record with its texts escaped as Spark does it; null if they cannot be decoded."""
    doubled = F.to_json(F.array(record))
    for escape, decoded in _DECODED:
        doubled = F.regexp_replace(doubled, escape, decoded)
    respelt = F.get(F.from_json(doubled, "array<string>"), 0)
    for escape, spelt in _RESPELT:
        respelt = F.regexp_replace(respelt, escape, spelt)
    return respelt


def as_field(value: Column, kind: DataType) -> Column:
    """The value of a key in the type of a field; null where it does not fit exactly.

    Nothing is rounded or cut, since the result might be the value of another subject.
    """
    told = value.try_cast(kind)
    if isinstance(kind, IntegralType):
        return F.when(value.try_cast("double") % 1 == 0, told)
    wider = "double" if isinstance(kind, DecimalType) else "timestamp" if isinstance(kind, DateType) else None
    return told if wider is None else F.when(value.try_cast(wider) == told.try_cast(wider), told)


def kinds_of(kind: DataType, name: str) -> Iterator[DataType]:
    """The types of single values in fields of a name, anywhere in a type.

    >>> from pyspark.sql.types import LongType, StringType
    >>> inner = StructType().add("id", ArrayType(LongType()))
    >>> [each.simpleString() for each in kinds_of(StructType().add("ID", StringType()).add("s", inner), "id")]
    ['string', 'bigint']
    """
    if isinstance(kind, StructType):
        for field in kind.fields:
            if field.name.lower() == name.lower():
                yield from _single(field.dataType)
            yield from kinds_of(field.dataType, name)
    elif isinstance(kind, ArrayType):
        yield from kinds_of(kind.elementType, name)
    elif isinstance(kind, MapType):
        yield from kinds_of(kind.keyType, name)
        yield from kinds_of(kind.valueType, name)


def _single(kind: DataType) -> Iterator[DataType]:
    if isinstance(kind, ArrayType):
        yield from _single(kind.elementType)
    elif isinstance(kind, AtomicType):
        yield kind


def _quoted(text: Column) -> Iterator[Column]:
    """A text as quoted in JSON; then as it appears in JSON within a text, and in that within another text."""
    written = _written(text)
    yield written
    for _ in range(_WITHIN):
        written = _written(written)
        written = F.substring(written, F.lit(2), F.length(written) - 2)
        yield written


def _written(value: Column, options: Mapping[str, Any] | None = None) -> Column:
    """A single value written as JSON."""
    whole = F.to_json(F.array(value), dict(options or {}))
    return F.substring(whole, F.lit(2), F.length(whole) - 2)


def _in_field(record: Column, value: Column, name: str, kind: DataType) -> Column:
    """Whether a field of that name has the value, as JSON writes values of this type."""
    typed = as_field(value, kind)
    field = rf"(?i:{_FROM_FIRST}{_QUOTE}{re.escape(name)}{_QUOTE}){_BEFORE}"
    after = rf"\E{_ZEROS if isinstance(kind, NumericType) else ''}{_AFTER}"
    # Spark writes instants with milliseconds by default; the rejects are written with other options.
    forms = (JSON_INSTANTS, None) if isinstance(kind, (TimestampType, TimestampNTZType)) else (None,)
    found = (
        F.regexp_like(record, F.concat(F.lit(field), _literally(_written(typed, form)), F.lit(after))) for form in forms
    )
    return typed.isNotNull() & F.coalesce(reduce(Column.__or__, found), F.lit(False))


def _literally(written: Column) -> Column:
    """The part of a pattern that matches a JSON value literally, whether its quotes are escaped or not."""
    kept = F.replace(written, F.lit(r"\E"), F.lit(r"\E\\E\Q"))
    return F.replace(kept, F.lit('"'), F.lit(rf"\E{_QUOTE}\Q"))
