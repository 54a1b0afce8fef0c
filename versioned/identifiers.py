"""Names of tables and columns: the only place that checks and quotes them.

Values never go into SQL text here or anywhere else; only names do, and only through this module.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from versioned.errors import ConfigurationError
from versioned.given import check_kind

_COLUMN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
_PART: Final = re.compile(r"[A-Za-z0-9_\-]{1,255}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f*?\[\]{}]")
_PATH_IN_SQL: Final = re.compile(r"delta\.`(.+)`", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Columns that the library itself writes besides the user's.
RESERVED: Final = frozenset({"deleted", "_change_type", "_commit_version", "_commit_timestamp", "_metadata"})


def quote(name: str) -> str:
    """One identifier part in backticks.

    >>> quote("odd`name")
    '`odd``name`'
    """
    return "`" + name.replace("`", "``") + "`"


def beside(name: str, taken: Iterable[str], prefix: str) -> str:
    """A name for a column of the library that no column of the user has: prefixed for as long as it is taken.

    >>> beside("reason", ["id", "Reason"], "lookup_"), beside("reason", ["id"], "lookup_")
    ('lookup_reason', 'reason')
    """
    others = {other.lower() for other in taken}
    while name.lower() in others:
        name = prefix + name
    return name


def text_literal(text: str) -> str:
    """A SQL string literal for names and properties (never for users' values).

    >>> text_literal("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def check_columns(names: Iterable[str], *, reserved: Iterable[str] = ()) -> None:
    """Refuse column names that are malformed, reserved, or equal when case is ignored.

    Raises:
        ConfigurationError: names the column and the rule.
    """
    taken: dict[str, str] = {}
    barred = {name.lower() for name in (*RESERVED, *reserved)}
    for name in names:
        if not is_column(name):
            raise ConfigurationError(
                f'Column name "{name}" is not allowed: use letters, digits and _, at most 128, beginning with a letter.'
            )
        if name.lower() in barred:
            raise ConfigurationError(f'Column name "{name}" is reserved by the library. Rename the column.')
        if name.lower() in taken:
            if name == taken[name.lower()]:
                raise ConfigurationError(f'Column "{name}" is named twice. Rename one.')
            raise ConfigurationError(f'Columns "{taken[name.lower()]}" and "{name}" differ only by case. Rename one.')
        taken[name.lower()] = name


def is_column(name: str) -> bool:
    """Whether a column of a table may have this name.

    >>> is_column("temp"), is_column("_us"), is_column("a.b")
    (True, False, False)
    """
    return _COLUMN.fullmatch(name) is not None


def named_twice(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, ignoring case, sorted; the columns of a table must not.

    >>> named_twice(["id", "at", "ID"])
    ['ID', 'id']
    """
    told = list(names)
    counted = Counter(name.lower() for name in told)
    return sorted(name for name in told if counted[name.lower()] > 1)


def is_path_in_sql(target: str) -> bool:
    """Whether a table is given by its path in SQL notation.

    >>> is_path_in_sql("delta.`/data/rates`"), is_path_in_sql("/data/rates")
    (True, False)
    """
    return _PATH_IN_SQL.fullmatch(target) is not None


@dataclass(frozen=True)
class TableRef:
    """A Delta table by path or by catalog name. Make it with :meth:`parse`."""

    path: str | None = None
    parts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, target: str | TableRef) -> TableRef:
        """Parse a path or a multipart name such as ``catalog.schema.table``.

        A path has a ``/``, with or without SQL's ``delta.`` and backticks around it. Relative paths are made absolute.

        Raises:
            ConfigurationError: it is not a text; the path has ``..``, control characters or globs; or a part of the
                name is empty or malformed.

        >>> TableRef.parse("sales.rates").sql
        '`sales`.`rates`'
        """
        if isinstance(target, TableRef):
            return target
        check_kind("target", target, str, "a path or the name of a table as text; of a Path it is str(path)")
        if "/" in target:
            in_sql = _PATH_IN_SQL.fullmatch(target)
            return cls(path=_absolute(_checked_path(in_sql[1].replace("``", "`") if in_sql else target)))
        quoted = target.split(".")
        # A quoted part has a backtick at both ends; one with a dot inside is split here, and refused below.
        parts = tuple(part[1:-1] if len(part) > 1 and part[0] == part[-1] == "`" else part for part in quoted)
        if not all(_PART.fullmatch(part) for part in parts):
            raise ConfigurationError(
                f'"{target}" is not a table name. Write a path with a "/", or name parts of letters, digits, _ and -.'
            )
        return cls(parts=parts)

    @property
    def sql(self) -> str:
        """The quoted form for SQL text."""
        if self.path is not None:
            return f"delta.{quote(self.path)}"
        return ".".join(quote(part) for part in self.parts)

    @property
    def short_name(self) -> str:
        """The last part of the name or path, as the base of view and function names."""
        last = self.path.rstrip("/").rsplit("/", 1)[-1] if self.path is not None else self.parts[-1]
        return re.sub(r"[^A-Za-z0-9_]", "_", last)

    def child(self, name: str) -> TableRef:
        """The table ``name`` below this path or name: one more part of the path or of the name."""
        if self.path is not None:
            return TableRef(path=_checked_path(f"{self.path.rstrip('/')}/{name}"))
        return TableRef(parts=(*self.parts, re.sub(r"[^A-Za-z0-9_]", "_", name)))

    def __str__(self) -> str:
        return self.path if self.path is not None else ".".join(self.parts)


def _absolute(path: str) -> str:
    # SQL over delta.`path` takes no relative path; a path with a scheme stays as it is.
    return path if _SCHEME.match(path) or path.startswith("/") else os.path.abspath(path)


def _checked_path(path: str) -> str:
    if ".." in path.split("/") or _CONTROL.search(path):
        raise ConfigurationError(
            f'The path {path!r} is refused: a table has none with "..", control characters or globs.'
        )
    return path
