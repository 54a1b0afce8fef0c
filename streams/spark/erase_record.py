"""Whether a rejected record, stored as JSON, contains the value of a subject's key.

A record was rejected because something was wrong with it, so its fields may have any type, be anywhere and be
truncated. The value is searched for as a text anywhere, and as the value of a field with one of the key's names, at any
depth, as JSON writes values of the types that such fields have in the tables. Records that could not be decoded are
JSON within a text, and for Kafka a text within a text.

Input that could not be read is kept as its writer spelled it, and JSON allows any character to be escaped. Such a
record is searched a second time, as Spark would have spelled it.
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from streams.spark.typed_input import KEPT
from versioned import spark_functions as F
from versioned.sql_types import JSON_INSTANTS

#: How often a text may be a text of JSON within another one.
_WITHIN: Final = 2
#: Around the value of a field: JSON within a text has its quotes escaped, and an array may hold the value.
_QUOTE: Final = r'\\*"'
_BEFORE: Final = r":\s*(?:\[(?:[^\]]*,)?\s*)?\Q"
_AFTER: Final = r"\E\s*[,}\]]"
#: How an escape begins that Spark does not write.
_ESCAPES: Final = r"\\[u/]"
_RUN: Final = r"(?:\\\\)+"
_HEX: Final = "[0-9a-fA-F]{2}"
#: Escapes in a text of which each backslash is doubled, and what makes one of JSON's own of them: characters beyond the
#: 16 bits of one escape, in two halves; then others, but for those of which Spark's spelling is an escape too.
_DECODED: Final = (
    (rf"{_RUN}(u[dD][89abAB]{_HEX}){_RUN}(u[dD][c-fC-F]{_HEX})", r"\\$1\\$2"),
    (rf"{_RUN}(u(?!00[01]|0022|005[cC]|[dD][89a-fA-F])[0-9a-fA-F]{{4}})", r"\\$1"),
)
#: Those others, in as many backslashes as the text that they stand in is within others.
_RESPELT: Final = (
    (r"\\+/", "/"),
    (r"(?<!\\)\\(\\*)u0022", r'\\$1$1"'),
    (r"(\\+)u0008", "$1b"),
    (r"(\\+)u0009", "$1t"),
    (r"(\\+)u000[aA]", "$1n"),
    (r"(\\+)u000[cC]", "$1f"),
    (r"(\\+)u000[dD]", "$1r"),
    (r"(\\+)u005[cC]", "$1$1"),
)


def in_record(record: Column, value: Column, called: tuple[str, ...], kinds: Iterable[DataType]) -> Column:
    """Whether a rejected record has the value: in a field with one of the names, or anywhere as a text.

    A record that was too large was cut, and so is what is looked for.

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
    return reduce(Column.__or__, (*found, *somewhere, *of_fields))


def _respelt(record: Column) -> Column:
    """A record whose texts are escaped as Spark does it, whoever wrote them; null if it cannot be told."""
    doubled = F.to_json(F.array(record))
    for escape, decoded in _DECODED:
        doubled = F.regexp_replace(doubled, escape, decoded)
    respelt = F.get(F.from_json(doubled, "array<string>"), 0)
    for escape, spelt in _RESPELT:
        respelt = F.regexp_replace(respelt, escape, spelt)
    return respelt


def as_field(value: Column, kind: DataType) -> Column:
    """The value of a key in the type of a field; null where that type has none.

    Nothing is rounded or cut: the value of another subject might come out.
    """
    told = value.try_cast(kind)
    if isinstance(kind, IntegralType):
        return F.when(value.try_cast("double") % 1 == 0, told)
    wider = "double" if isinstance(kind, DecimalType) else "timestamp" if isinstance(kind, DateType) else None
    return told if wider is None else F.when(value.try_cast(wider) == told.try_cast(wider), told)


def kinds_of(kind: DataType, name: str) -> Iterator[DataType]:
    """The types of single values that fields of a name have in a type.

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
    """A text as JSON has it, in quotes; then as it stands in a text of JSON, and in one within that."""
    written = _written(text)
    yield written
    for _ in range(_WITHIN):
        written = _written(written)
        written = F.substring(written, F.lit(2), F.length(written) - 2)
        yield written


def _written(value: Column, options: Mapping[str, Any] | None = None) -> Column:
    """A single value as JSON."""
    whole = F.to_json(F.array(value), dict(options or {}))
    return F.substring(whole, F.lit(2), F.length(whole) - 2)


def _in_field(record: Column, value: Column, name: str, kind: DataType) -> Column:
    """Whether a field of that name has the value, as JSON writes one of this type."""
    typed = as_field(value, kind)
    field = rf"(?i:{_QUOTE}{re.escape(name)}{_QUOTE}){_BEFORE}"
    # Spark writes instants in milliseconds unless told otherwise, as the rejects are.
    forms = (JSON_INSTANTS, None) if isinstance(kind, (TimestampType, TimestampNTZType)) else (None,)
    found = (
        F.regexp_like(record, F.concat(F.lit(field), _literally(_written(typed, form)), F.lit(_AFTER)))
        for form in forms
    )
    return typed.isNotNull() & F.coalesce(reduce(Column.__or__, found), F.lit(False))


def _literally(written: Column) -> Column:
    """What a pattern in literal mode takes for a value as JSON writes it, its quotes escaped or not."""
    kept = F.replace(written, F.lit(r"\E"), F.lit(r"\E\\E\Q"))
    return F.replace(kept, F.lit('"'), F.lit(rf"\E{_QUOTE}\Q"))
