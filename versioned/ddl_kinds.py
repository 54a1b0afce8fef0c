"""The declarations in a DDL text, as far as they can be parsed without Spark: a tree of field names and type words.

Only Spark parses DDL in full. Text that is not understood here, or that may mean something else in another session, is
reported as unknown, never guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_]\w*)|(\d+)|([<>(),:])|('(?:[^'\\]|\\.)*'))\s*", re.ASCII)
_PLAIN: Final = frozenset((
    "bigint", "binary", "boolean", "byte", "date", "double", "float", "int", "integer", "long", "real", "short",
    "smallint", "string", "timestamp", "timestamp_ltz", "timestamp_ntz", "tinyint", "variant", "void",
))  # fmt: skip
_DECIMALS: Final = ("dec", "decimal", "numeric")
_MOST_DIGITS: Final = 38
#: The most digits that a size has.
_LONGEST: Final = 10
_END: Final = ""


@dataclass(frozen=True)
class Plain:
    """A scalar type: its name (``decimal`` for all synonyms of it) and its sizes in brackets."""

    word: str
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Array:
    """An array: the type of its elements."""

    part: Kind


@dataclass(frozen=True)
class Map:
    """A map: the types of its keys and its values."""

    key: Kind
    part: Kind


@dataclass(frozen=True)
class Struct:
    """A struct: its fields with their types, in order."""

    fields: tuple[tuple[str, Kind], ...]


Kind = Plain | Array | Map | Struct


def fields_if_known(ddl: str) -> Struct | None:
    """The fields that DDL names; None if only Spark can tell whether it names any, and which.

    Args:
        ddl: Fields with their types, or one struct of them.

    >>> fields_if_known("id STRING NOT NULL, `unit price` DECIMAL(9, 2)")
    Struct(fields=(('id', Plain(word='string', sizes=())), ('unit price', Plain(word='decimal', sizes=(9, 2)))))
    >>> fields_if_known("id STRING, length INTERVAL DAY TO SECOND") is None
    True
    """
    try:
        parts = _Parts(ddl)
        if parts.is_struct():
            whole = parts.kind()
            parts.take(_END)
            return whole if isinstance(whole, Struct) else None
        return parts.fields(_END)
    except (_NotKnownError, RecursionError):
        return None


class _NotKnownError(Exception):
    """The text is not understood here; perhaps Spark understands it."""


class _Parts:
    """The tokens of a text from the current position on; each method consumes those that it reads."""

    def __init__(self, text: str) -> None:
        #: Each token, and whether it is a name in backticks, which is never a keyword.
        self._parts: list[tuple[str, bool]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise _NotKnownError
            quoted = found[1] is not None
            self._parts.append((found[1].replace("``", "`") if quoted else found[0].strip(), quoted))
            at = found.end()
        self._at = 0

    def is_struct(self) -> bool:
        """Whether the text is one struct instead of columns."""
        return [part.lower() for part, _ in self._parts[:2]] == ["struct", "<"]

    def fields(self, end: str) -> Struct:
        """Read fields with their types, and the token that ends them."""
        found = [self._field()]
        while self._takes(","):
            found.append(self._field())
        self.take(end)
        return Struct(tuple(found))

    def kind(self) -> Kind:
        """Read a type."""
        word = self._word()
        if word in _PLAIN:
            return Plain(word)
        if word in _DECIMALS:
            return self._decimal()
        if word == "varchar":
            return Plain(word, tuple(self._sizes(1)))
        self.take("<")
        if word == "struct":
            return self.fields(">")
        if word == "array":
            return self._closed(Array(self.kind()))
        if word == "map":
            key = self.kind()
            self.take(",")
            return self._closed(Map(key, self.kind()))
        raise _NotKnownError

    def take(self, wanted: str) -> None:
        """Read the token that must come here.

        Raises:
            _NotKnownError: another one does.
        """
        if not self._takes(wanted):
            raise _NotKnownError

    def _closed(self, kind: Kind) -> Kind:
        self.take(">")
        return kind

    def _field(self) -> tuple[str, Kind]:
        name, quoted = self._next()
        if not (quoted or re.match(r"[A-Za-z_]", name)):
            raise _NotKnownError
        self._takes(":")
        kind = self.kind()
        if self._takes("not"):
            self.take("null")
        if self._takes("comment") and not self._next()[0].startswith("'"):
            raise _NotKnownError
        return name, kind

    def _decimal(self) -> Kind:
        sizes = self._sizes(2) if self._here() == ("(", False) else [10]
        precision, scale = [*sizes, 0][:2]
        if not 0 <= scale <= precision <= _MOST_DIGITS or precision == 0:
            raise _NotKnownError
        return Plain("decimal", (precision, scale))

    def _sizes(self, most: int) -> list[int]:
        self.take("(")
        sizes = [self._number()]
        while len(sizes) < most and self._takes(","):
            sizes.append(self._number())
        self.take(")")
        return sizes

    def _number(self) -> int:
        text, _ = self._next()
        if not text.isdecimal() or len(text) > _LONGEST:
            raise _NotKnownError
        return int(text)

    def _word(self) -> str:
        text, quoted = self._next()
        if quoted:
            raise _NotKnownError
        return text.lower()

    def _next(self) -> tuple[str, bool]:
        found = self._here()
        self._at += 1
        return found

    def _here(self) -> tuple[str, bool]:
        return self._parts[self._at] if self._at < len(self._parts) else (_END, False)

    def _takes(self, wanted: str) -> bool:
        text, quoted = self._here()
        is_here = not quoted and text.lower() == wanted
        self._at += is_here
        return is_here
