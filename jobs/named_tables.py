"""The tables that a command works on: all below a folder, address or schema, or those that its settings name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import Field
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from jobs.exit_codes import line_of
from jobs.place_setting import Root, below, catalog_schema_of, has_scheme, work_folder
from jobs.strict import Names, Strict, nearest
from streams.spark.tables_below import names_below
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef, is_path_in_sql
from versioned.table_details import is_missing

_NO_ROOT: Final = (
    "root: give the folder of the tables, or tables of a catalog or with an address, as in sales.prices or "
    "s3a://bucket/tables/prices."
)

#: Creates the session on demand: names alone need none.
SessionMaker = Callable[[], SparkSession]


class NamedTables(Strict):
    """Settings that name tables."""

    root: Root | None = Field(
        default=None,
        description="Where the tables are: a folder below the work folder, an address such as `s3a://bucket/tables`, "
        "or a catalog schema such as `catalog:main.shop`. Required unless each table is named by its catalog name or "
        "address.",
    )
    tables: Names = Field(
        default=(),
        description="Names of tables. Default: all below `root`. A name with a dot is a catalog name, `sales.prices`; "
        "an address such as `s3a://bucket/tables/prices` works too.",
    )


def tables_of(named: NamedTables, work: Path, session: SessionMaker) -> list[TableRef]:
    """The tables that settings name, in their order.

    Whether named tables of a catalog, or with an address, exist is not checked: only Spark knows (:func:`check_there`).

    Args:
        named: The settings.
        work: The work folder, which a relative ``root`` is below.
        session: Called if Spark has to list the tables: none are named, and the root is an address or a schema.

    Raises:
        ConfigurationError: there are no tables below the root, or none of a given name; a root is needed and not given;
            or the tables cannot be listed.
    """
    found, missing = those_there(named, work, session)
    if missing is not None:
        raise ConfigurationError(missing)
    return found


def those_there(named: NamedTables, work: Path, session: SessionMaker) -> tuple[list[TableRef], str | None]:
    """The tables as for :func:`tables_of`, and an error message if any are missing or cannot be listed, else None.

    Raises:
        ConfigurationError: a root is needed and not given; the work folder has a scheme; or a name is a path, though
            the root is an address.
    """
    schema = None if named.root is None else catalog_schema_of(named.root)
    if schema is not None:
        return _of_schema(named, schema, session)
    root = None if named.root is None else below(work_folder(work), named.root)
    elsewhere = {name: _parsed(name) for name in named.tables if _is_of_catalog(name, root) or _is_address(name)}
    names = [name for name in named.tables if name not in elsewhere]
    if not names and elsewhere:
        return list(dict.fromkeys(elsewhere.values())), None
    if root is None:
        raise ConfigurationError(_NO_ROOT)
    if not has_scheme(root):
        there = {log.parent.name: str(log.parent.resolve()) for log in sorted(Path(root).glob("*/_delta_log"))}
    elif names:
        there = {name: f"{root.rstrip('/')}/{name}" for name in names}
        paths = [name for name in names if name.startswith("/") or is_path_in_sql(name)]
        if paths:
            raise ConfigurationError(f"tables: {', '.join(paths)}: name them below {root}, or by their address.")
    else:
        try:
            there = {name: f"{root.rstrip('/')}/{name}" for name in names_below(session(), TableRef.parse(root))}
        except Exception as error:  # any error of the store, or of Spark without its classes
            return [], (
                f"root: the tables below {root} cannot be listed ({line_of(error)}). Mend that; or name them: "
                "tables: [prices, orders]."
            )
    found = elsewhere | {name: _parsed(there[name]) for name in names or there if name in there}
    targets = dict.fromkeys(found[name] for name in named.tables or found if name in found)
    return list(targets), _missing(root, there, names)


def _of_schema(named: NamedTables, schema: TableRef, session: SessionMaker) -> tuple[list[TableRef], str | None]:
    """The tables of a schema, without views; or the named ones, unchecked, since only Spark knows if they exist."""
    is_whole = [_is_of_catalog(name, None) or _is_address(name) for name in named.tables]
    given = (_parsed(name) if whole else schema.child(name) for name, whole in zip(named.tables, is_whole, strict=True))
    if named.tables:
        return list(dict.fromkeys(given)), None
    try:
        names = names_below(session(), schema)
    except AnalysisException as error:
        return [], f"root: the tables of {schema} cannot be listed ({line_of(error)}). Name a schema that is there."
    return [schema.child(name) for name in names], _missing(str(schema), names, [])


def check_there(spark: SparkSession, targets: Sequence[TableRef]) -> None:
    """Refuse tables of a catalog, or with an address, that Spark does not find.

    Raises:
        ConfigurationError: names them.
    """
    told = missing_there(spark, targets)
    if told is not None:
        raise ConfigurationError(told)


def missing_there(spark: SparkSession, targets: Sequence[TableRef]) -> str | None:
    """The message about tables that :func:`check_there` refuses; None if there are none."""
    asked = [target for target in targets if target.path is None or has_scheme(target.path)]
    missing = [target for target in asked if is_missing(spark, target)]
    names = [str(target) for target in missing if target.path is None]
    places = [str(target) for target in missing if target.path is not None]
    told = [f"not in the catalog: {', '.join(names)}. Write them as in sales.prices."] if names else []
    told += [f"there is no table at {', '.join(places)}. Run the job first, or name another place."] if places else []
    return f"tables: {' '.join(told)}" if told else None


def name_of(target: TableRef) -> str:
    """The name of a table in the output of a command.

    >>> name_of(TableRef.parse("/data/prices-eu")), name_of(TableRef.parse("sales.prices"))
    ('prices_eu', 'sales.prices')
    """
    return target.short_name if target.path is not None else str(target)


def names_of(targets: Sequence[TableRef]) -> list[str]:
    """As :func:`name_of`, each name once: tables that would share one go by their folder's name, or by their place.

    >>> names_of([TableRef.parse(f"/data/{name}") for name in ("prices-eu", "prices_eu", "sold-eu")])
    ['prices-eu', 'prices_eu', 'sold_eu']
    """
    names = list(map(name_of, targets))
    for longer in (_folder_of, str):
        shared = Counter(names)
        names = [name if shared[name] == 1 else longer(target) for name, target in zip(names, targets, strict=True)]
    return names


def _folder_of(target: TableRef) -> str:
    return str(target) if target.path is None else target.path.rpartition("/")[2]


def _parsed(name: str) -> TableRef:
    target = TableRef.parse(name)
    return target if target.path is None else replace(target, path=target.path.rstrip("/"))


def _is_of_catalog(name: str, root: str | None) -> bool:
    # A node, and so its folder, may have a dot in its name too.
    return "." in name and "/" not in name and (root is None or has_scheme(root) or not Path(root, name).is_dir())


def _is_address(name: str) -> bool:
    # Plain, or as SQL writes it, delta.`s3a://bucket/prices`.
    return "/" in name and has_scheme(str(TableRef.parse(name)))


def _missing(root: str, there: Collection[str], names: list[str]) -> str | None:
    """The message if a root has no tables, or not all of these names; None if it has them all."""
    if not there:
        return f"root: there are no tables below {root}. Run the job first, or name another folder."
    missing = [name for name in names if name not in there]
    told = (f'tables: there is no table "{name}" below {root}{nearest(name, list(there))}' for name in missing)
    return "; ".join(told) or None
