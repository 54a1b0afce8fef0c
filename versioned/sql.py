"""SQL access to a versioned table: views of current rows and of all history, and table functions for both time axes.

``<name>_current``, ``<name>_history``, ``<name>_as_of(ts)`` and ``<name>_between(from_ts, until_ts)`` are ordinary
Spark SQL objects; predicates on them are pushed down to the Delta scan, and the functions can be joined with LATERAL.
They query valid time. For system time (what was known when) use Delta's time travel: ``SELECT ... FROM <table> VERSION
AS OF 3``, or the same views and functions made for one version. A table with system history also has
``<name>_known_as_of(ts, known_at)``. Each has the key columns, ``validFrom``, ``validTo`` and the value columns;
``<name>_history`` also has ``deleted``. The current version is the latest by ``validFrom``, even if that is in the
future.

They see every *stored* version: SQL knows no stream time. So an instant older than the horizon (stream time minus
history retention) may show versions that :meth:`~versioned.table.VersionedTable.as_of` no longer promises, until
``purge`` has removed them. From the horizon on, both give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef, quote
from versioned.reading import sql_in
from versioned.session_settings import session_settings
from versioned.spec import CURRENT, DELETED, KNOWN_BATCH, SYSTEM_FROM, VersionedTableSpec, known_target

#: No column of a user begins with an underscore.
_SAID: Final = "_said"
_RANK: Final = "_rank"
#: Where Spark reserves the keywords of the SQL standard, it does not understand its own RETURNS TABLE.
_RESERVES: Final = "spark.sql.ansi.enforceReservedKeywords"


@dataclass(frozen=True)
class SqlNames:
    """The names of the views and functions of a table: ``base`` followed by an ending.

    >>> SqlNames.of("rates").parts("as_of")
    ('rates_as_of',)
    """

    base: tuple[str, ...]
    temporary: bool = True

    @classmethod
    def of(cls, name: str, *, temporary: bool = True) -> SqlNames:
        """Make the names from a base name as people write it.

        Raises:
            ConfigurationError: the name is a path, is malformed, or has parts although it is temporary.
        """
        parts = TableRef.parse(name).parts
        if not parts:
            raise ConfigurationError(f'"{name}" is a path. Give the view and functions a name, such as "rates".')
        if temporary and len(parts) > 1:
            raise ConfigurationError(
                f'"{name}" has {len(parts)} parts, but a temporary view has one. Use one part, or temporary=False.'
            )
        return cls(parts, temporary)

    @classmethod
    def of_table(cls, target: TableRef, name: str | None, *, temporary: bool) -> SqlNames:
        """Make the names from a name as for :meth:`of`, or from the table's own; if persistent, that is in its schema.

        >>> SqlNames.of_table(TableRef.parse("crm.rates"), None, temporary=False).parts("as_of")
        ('crm', 'rates_as_of')
        >>> SqlNames.of_table(TableRef.parse("crm.rates"), None, temporary=True).parts("as_of")
        ('rates_as_of',)
        """
        if name is None and target.parts and not temporary:
            return cls(target.parts, temporary)
        return cls.of(target.short_name if name is None else name, temporary=temporary)

    def parts(self, ending: str) -> tuple[str, ...]:
        """The parts of the name with an ending."""
        return (*self.base[:-1], f"{self.base[-1]}_{ending}")

    def view(self, spark: SparkSession, ending: str, query: str) -> str:
        """Create (or replace) a view and return its name; without an ending, that is the base name."""
        parts = self.parts(ending) if ending else self.base
        spark.sql(f"CREATE OR REPLACE {self._word}VIEW {_sql(parts)} AS {query}")
        return ".".join(parts)

    def function(
        self,
        spark: SparkSession,
        ending: str,
        arguments: tuple[str, ...],
        query: Callable[[Mapping[str, str]], str],
        columns: Iterable[str],
    ) -> str:
        """Create (or replace) a table function of timestamps and return its name.

        Args:
            spark: The session.
            ending: The ending of its name.
            arguments: The names of its arguments.
            query: Returns the query, given how each argument is written in it.
            columns: The columns of the queried rows.
        """
        parts = self.parts(ending)
        # Qualified by the function's name, an argument is never taken for a column of the same name.
        written = {name: f"{quote(parts[-1])}.{name}" for name in arguments}
        body = query(written)
        if parts[-1].lower() in map(str.lower, columns):
            # But it would be read as a field of a column named like the function: read it where there are no columns.
            read = ", ".join(f"{said} AS {name}" for name, said in written.items())
            told = query({name: f"{_SAID}.{name}" for name in arguments})
            body = f"SELECT found.* FROM (SELECT {read}) AS {_SAID}, LATERAL ({told}) AS found"  # noqa: S608
        taken = ", ".join(f"{name} TIMESTAMP_LTZ" for name in arguments)
        is_barred = str(spark.conf.get(_RESERVES, "false")).lower() == "true"
        with session_settings(spark, {_RESERVES: "false"} if is_barred else {}):
            spark.sql(f"CREATE OR REPLACE {self._word}FUNCTION {_sql(parts)}({taken}) RETURNS TABLE RETURN {body}")
        return ".".join(parts)

    @property
    def _word(self) -> str:
        return "TEMPORARY " if self.temporary else ""


def register_sql(
    spark: SparkSession,
    target: TableRef,
    spec: VersionedTableSpec,
    name: str | None = None,
    *,
    temporary: bool = True,
    version: int | None = None,
) -> list[str]:
    """Create (or replace) the views and table functions of a table.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        name: Base of the names; the table's own by default. Persistent names may have parts
            (``catalog.schema.rates``); by default they are in the schema of the table, or in the current one if it has
            none.
        temporary: For this session only; False = in the catalog.
        version: Query the table as it was at this version; None = as it is.

    Returns:
        The names made.

    Raises:
        ConfigurationError: the name is a path, is malformed, or has parts although it is temporary.
    """
    return register_versions(spark, target, spec, SqlNames.of_table(target, name, temporary=temporary), version)


def register_versions(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, names: SqlNames, version: int | None
) -> list[str]:
    """Like :func:`register_sql`, under the given names."""
    stored, columns = source(spark, target, version), _columns(spec)
    start, end, is_there = quote(spec.valid_from), quote(spec.valid_to), f"NOT {quote(DELETED)}"
    made = [
        names.view(spark, "current", select(columns, stored, f"{is_there} AND {quote(CURRENT)}")),
        names.view(spark, "history", select(f"{columns}, {quote(DELETED)}", stored)),
        names.function(
            spark,
            "as_of",
            ("ts",),
            lambda said: select(columns, stored, f"{is_there} AND {_holds(spec, said['ts'])}"),
            spec.shown,
        ),
        names.function(
            spark,
            "between",
            ("from_ts", "until_ts"),
            lambda said: select(
                columns,
                stored,
                # A null bound is no bound, as None in Python; bounds in the wrong order give nothing.
                f"{is_there} AND ({said['until_ts']} IS NULL OR {start} <= {said['until_ts']}) "
                f"AND ({said['from_ts']} IS NULL OR {end} IS NULL OR {end} > {said['from_ts']}) "
                f"AND NOT coalesce({said['from_ts']} > {said['until_ts']}, false)",
            ),
            spec.shown,
        ),
    ]
    if spec.system_history and version is None:
        known = names.function(
            spark,
            "known_as_of",
            ("ts", "known_at"),
            lambda said: _known(source(spark, known_target(target)), spec, said["ts"], said["known_at"]),
            spec.shown,
        )
        made.append(known)
    return made


def _known(puts: str, spec: VersionedTableSpec, at: str, known_at: str) -> str:
    """The query behind the SQL function ``<name>_known_as_of``: what was known at one instant about another.

    Args:
        puts: The table of puts, as SQL text.
        spec: The contract of the versioned table.
        at: SQL of the instant of valid time.
        known_at: SQL of the instant of system time.
    """
    keys, start, end = ", ".join(map(quote, spec.keys)), quote(spec.valid_from), quote(spec.valid_to)
    newest = f"ORDER BY {SYSTEM_FROM} DESC, {KNOWN_BATCH} DESC"
    ranked = (
        f"SELECT *, row_number() OVER (PARTITION BY {keys}, {start} {newest}) AS {_RANK} "  # noqa: S608 - quoted names
        f"FROM {puts} WHERE {SYSTEM_FROM} <= {known_at}"
    )
    ended = (
        f"SELECT *, lead({start}) OVER (PARTITION BY {keys} ORDER BY {start}) AS {end} "  # noqa: S608 - quoted names
        f"FROM ({ranked}) WHERE {_RANK} = 1"
    )
    return select(_columns(spec), f"({ended})", f"NOT {quote(DELETED)} AND {_holds(spec, at)}")


def source(spark: SparkSession, target: TableRef, version: int | None = None) -> str:
    """A table as SQL text, as of one of its versions if one is given."""
    named = sql_in(spark, target)
    return named if version is None else f"{named} VERSION AS OF {int(version)}"


def select(columns: str, rows: str, where: str | None = None) -> str:
    """The text of a query. Its parts are quoted names and fixed words, never values."""
    query = f"SELECT {columns} FROM {rows}"  # noqa: S608
    return query if where is None else f"{query} WHERE {where}"


def _sql(parts: tuple[str, ...]) -> str:
    return ".".join(map(quote, parts))


def _columns(spec: VersionedTableSpec) -> str:
    return ", ".join(map(quote, spec.shown))


def _holds(spec: VersionedTableSpec, at: str) -> str:
    start, end = quote(spec.valid_from), quote(spec.valid_to)
    return f"{start} <= {at} AND ({end} IS NULL OR {at} < {end})"
