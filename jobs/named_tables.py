"""The tables that a command looks at: all below a folder, or those of these names, there or in a catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from pydantic import Field
from pyspark.sql import SparkSession

from jobs.place_setting import LocalPlace, local_folder
from jobs.strict import Names, Strict, nearest
from versioned.commit import is_missing
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef

_NO_ROOT: Final = "root: give the folder of the tables, or tables of a catalog, as in sales.prices."


class NamedTables(Strict):
    """Settings that name tables."""

    root: LocalPlace | None = Field(
        default=None, description="Folder of the tables, below the work folder; needed unless all are of a catalog."
    )
    tables: Names = Field(
        default=(),
        description="Names of tables; all below `root` if none are given. One with a dot is that of a catalog: "
        "`sales.prices`.",
    )


def tables_of(named: NamedTables, work: Path) -> list[TableRef]:
    """The tables that settings name, in their order; whether those of a catalog are there, only Spark can tell.

    Raises:
        ConfigurationError: there is none below the root, or not one of these names; or no root where one is needed.
    """
    found, missing = those_there(named, work)
    if missing is not None:
        raise ConfigurationError(missing)
    return found


def those_there(named: NamedTables, work: Path) -> tuple[list[TableRef], str | None]:
    """As :func:`tables_of`, and what is said if there are none below the root, or not all.

    Raises:
        ConfigurationError: there is no root where one is needed, or the work folder has a scheme.
    """
    root = None if named.root is None else local_folder(work) / named.root
    of_catalog = {name: TableRef.parse(name) for name in named.tables if _is_of_catalog(name, root)}
    below = [name for name in named.tables if name not in of_catalog]
    if not below and of_catalog:
        return list(of_catalog.values()), None
    if root is None:
        raise ConfigurationError(_NO_ROOT)
    there = {log.parent.name: log.parent for log in sorted(root.glob("*/_delta_log"))}
    found = of_catalog | {name: TableRef.parse(str(there[name].resolve())) for name in below or there if name in there}
    return [found[name] for name in dict.fromkeys(named.tables or found) if name in found], _missing(root, there, below)


def check_catalog(spark: SparkSession, targets: list[TableRef]) -> None:
    """Refuse tables that the catalog does not have.

    Raises:
        ConfigurationError: naming them.
    """
    missing = [str(target) for target in targets if target.path is None and is_missing(spark, target)]
    if missing:
        raise ConfigurationError(f"tables: not in the catalog: {', '.join(missing)}. Write them as in sales.prices.")


def name_of(target: TableRef) -> str:
    """What a table is called in what a command tells of it.

    >>> name_of(TableRef.parse("/data/prices-eu")), name_of(TableRef.parse("sales.prices"))
    ('prices_eu', 'sales.prices')
    """
    return target.short_name if target.path is not None else str(target)


def names_of(targets: Sequence[TableRef]) -> list[str]:
    """As :func:`name_of`, each name once: folders that differ only in signs are called as they are.

    >>> names_of([TableRef.parse(f"/data/{name}") for name in ("prices-eu", "prices_eu", "sold-eu")])
    ['prices-eu', 'prices_eu', 'sold_eu']
    """
    shared = Counter(map(name_of, targets))
    return [
        name_of(target) if target.path is None or shared[name_of(target)] == 1 else target.path.rpartition("/")[2]
        for target in targets
    ]


def _is_of_catalog(name: str, root: Path | None) -> bool:
    # A node, and so its folder, may have a dot in its name too.
    return "." in name and "/" not in name and (root is None or not (root / name).is_dir())


def _missing(root: Path, there: Collection[str], names: list[str]) -> str | None:
    """What is said if there are no tables in a folder, or not all of these names."""
    if not there:
        return f"root: there are no tables below {root}. Run the job first, or name another folder."
    missing = [name for name in names if name not in there]
    told = (f'tables: there is no table "{name}" below {root}{nearest(name, list(there))}' for name in missing)
    return "; ".join(told) or None
