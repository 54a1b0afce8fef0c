"""The columns that a text of DDL names, as far as they can be told without Spark.

Spark alone parses DDL in full. What is not understood here, or may mean something else in another session, is told as
not known, never guessed: :func:`versioned.schema.columns_of` asks Spark.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_]\w*)|(\d+)|([<>(),:])|('(?:[^'\\]|\\.)*'))\s*", re.ASCII)
_PLAIN: Final[dict[str, DataType]] = {
    "bigint": LongType(), "binary": BinaryType(), "boolean": BooleanType(), "byte": ByteType(), "date": DateType(),
    "double": DoubleType(), "float": FloatType(), "int": IntegerType(), "integer": IntegerType(), "long": LongType(),
    "real": FloatType(), "short": ShortType(), "smallint": ShortType(), "string": StringType(),
    "timestamp": TimestampType(), "timestamp_ltz": TimestampType(), "timestamp_ntz": TimestampNTZType(),
    "tinyint": ByteType(), "variant": VariantType(), "void": NullType(),
}  # fmt: skip
_DECIMALS: Final = ("dec", "decimal", "numeric")
_MOST_DIGITS: Final = 38
#: No size has more digits.
_LONGEST: Final = 10
_END: Final = ""


class _NotKnownError(Exception):
    """What only Spark understands, if anybody does."""


def columns_if_known(ddl: str) -> StructType | None:
    """The columns that DDL names; None where only Spark can tell whether it names any, and which.

    Args:
        ddl: Columns with their types, or one struct of them.

    >>> columns_if_known("id STRING NOT NULL, tags array<string>, `unit price` DECIMAL(9, 2)").names
    ['id', 'tags', 'unit price']
    >>> columns_if_known("id STRING, length INTERVAL DAY TO SECOND") is None
    True
    """
    try:
        parts = _Parts(ddl)
        if parts.is_struct():
            whole = parts.kind()
            parts.take(_END)
            return whole if isinstance(whole, StructType) else None
        return parts.fields(_END)
    except (_NotKnownError, RecursionError):
        return None


class _Parts:
    """The parts of a text from one place on; each method takes those that it reads."""

    def __init__(self, text: str) -> None:
        #: Each with whether it is a name in backquotes, which is never a word of the language.
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
        """Whether it is one struct, and no columns."""
        return [part.lower() for part, _ in self._parts[:2]] == ["struct", "<"]

    def fields(self, end: str) -> StructType:
        """Fields with their types, and what ends them."""
        found = [self._field()]
        while self._takes(","):
            found.append(self._field())
        self.take(end)
        return StructType(found)

    def kind(self) -> DataType:
        """A type."""
        word = self._word()
        if word in _PLAIN:
            return _PLAIN[word]
        if word in _DECIMALS:
            return self._decimal()
        if word == "varchar":
            return VarcharType(self._sizes(1)[0])
        self.take("<")
        if word == "struct":
            return self.fields(">")
        if word == "array":
            return self._closed(ArrayType(self.kind()))
        if word == "map":
            key = self.kind()
            self.take(",")
            return self._closed(MapType(key, self.kind()))
        raise _NotKnownError

    def take(self, wanted: str) -> None:
        """What has to stand here.

        Raises:
            _NotKnownError: it does not.
        """
        if not self._takes(wanted):
            raise _NotKnownError

    def _closed(self, kind: DataType) -> DataType:
        self.take(">")
        return kind

    def _field(self) -> StructField:
        name, quoted = self._next()
        if not (quoted or re.match(r"[A-Za-z_]", name)):
            raise _NotKnownError
        self._takes(":")
        kind = self.kind()
        if self._takes("not"):
            self.take("null")
        if self._takes("comment") and not self._next()[0].startswith("'"):
            raise _NotKnownError
        return StructField(name, kind)

    def _decimal(self) -> DataType:
        sizes = self._sizes(2) if self._here() == ("(", False) else [10]
        precision, scale = [*sizes, 0][:2]
        if not 0 <= scale <= precision <= _MOST_DIGITS or precision == 0:
            raise _NotKnownError
        return DecimalType(precision, scale)

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
