"""CHECK constraints that others added to a table, and that rows of this library need not satisfy."""

from __future__ import annotations

import re
from typing import Final

from versioned.errors import SchemaError
from versioned.identifiers import TableRef, quote

#: Delta's message. It does not match that of a generated column, whose constraint has a name of two words.
_REFUSED: Final = re.compile(r"CHECK constraint (\w+) \(.*?violated by row", re.DOTALL)
#: Prefix of the names of the library's own constraints.
_OWN: Final = "versioned_"


def refused_by_others(target: TableRef, error: Exception) -> SchemaError | None:
    """The error to raise if a constraint of somebody else refused a write; None if the write failed otherwise.

    >>> told = "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint cheap (price < 9) violated by row with values:"
    >>> print(refused_by_others(TableRef.parse("main.shop.prices"), ValueError(told)))  # doctest: +ELLIPSIS
    The constraint "cheap" of main.shop.prices refuses rows of this write. It is none of ...
    """
    found = _REFUSED.search(str(error))
    if found is None or found[1].startswith(_OWN):
        return None
    return SchemaError(
        f'The constraint "{found[1]}" of {target} refuses rows of this write. It is none of this library, whose '
        "rows have null values too, such as those of deletions. Let it take them (OR ... IS NULL), or drop it: "
        f"ALTER TABLE {target.sql} DROP CONSTRAINT {quote(found[1])}. Records are judged before they get here, by the "
        'rules of their source ("quality").'
    )
