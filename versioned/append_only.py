"""Refuses work that removes rows from append-only tables before it starts; Delta would refuse it only midway.

A table whose rows the library itself replaces is made as one that is not append-only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef

_APPEND_ONLY: Final = "delta.appendOnly"
#: Properties of a table whose rows are replaced: without them, a session may make every new table append-only.
REPLACES_ROWS: Final[Mapping[str, str]] = {_APPEND_ONLY: "false"}


def refuse_append_only(tables: Mapping[TableRef, Mapping[str, str]], who: str) -> None:
    """Refuse work that removes rows, before it does anything, if the properties of a table forbid that.

    Args:
        tables: The properties of each table that would lose rows.
        who: What would remove them.

    Raises:
        ConfigurationError: names all such tables, and the statements that lift the restriction.

    >>> refuse_append_only({TableRef.parse("/out/ledger"): {"delta.appendOnly": "TRUE"}}, "A rollback")
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: A rollback removes rows of ['ledger'], which have the property ...
    """
    kept = [target for target, told in tables.items() if told.get(_APPEND_ONLY, "false").lower() == "true"]
    if kept:
        lets_go = "; ".join(f"ALTER TABLE {target.sql} UNSET TBLPROPERTIES ('{_APPEND_ONLY}')" for target in kept)
        raise ConfigurationError(
            f"{who} removes rows of {[target.short_name for target in kept]}, which have the property {_APPEND_ONLY}. "
            f"Nothing was changed. Take the property away, and set it again afterwards if it is needed: {lets_go}"
        )
