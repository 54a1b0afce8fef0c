"""Names of an application's tables: each name belongs to one table, regardless of case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from versioned.errors import ConfigurationError

#: Names in an application's root besides the tables of its nodes.
_RESERVED: Final = ("ledger", "rejects", "_checkpoint")


def check_table_names(names: Iterable[str]) -> None:
    """Refuse a name that is reserved or used twice, ignoring case.

    To catalogs, and many file systems, names that differ only by case are the same.

    Raises:
        ConfigurationError: there is one; names the table.
    """
    taken = {name: name for name in _RESERVED}
    for name in names:
        other = taken.get(name.lower())
        if other == name:
            raise ConfigurationError(f'The table name "{name}" is reserved or used twice. Rename the node or store.')
        if other is not None:
            raise ConfigurationError(
                f'The table names "{other}" and "{name}" differ only by case: a catalog takes them for one table, and '
                "so do many disks. Rename the node or store."
            )
        taken[name.lower()] = name
