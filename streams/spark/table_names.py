"""Names of an application's tables: each name belongs to one table, regardless of case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from versioned.errors import ConfigurationError

#: What lies at an application's root beside the tables of its nodes.
_RESERVED: Final = ("ledger", "rejects", "_checkpoint")


def check_table_names(names: Iterable[str]) -> None:
    """Refuse a name that is reserved or used twice, also if it is written in another case.

    A catalog, and many a disk, takes names that differ only by case for one.

    Raises:
        ConfigurationError: naming the table.
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
