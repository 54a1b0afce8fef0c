"""SQL access to a versioned table: a view of what is current, and table functions along valid time.

``<name>_current``, ``<name>_as_of(ts)`` and ``<name>_between(from_ts, until_ts)`` are ordinary Spark SQL objects;
predicates on them reach the Delta scan, and the functions can be joined with LATERAL. Delta's own time travel is the
other axis, system time: ``SELECT ... FROM <table> VERSION AS OF 3 WHERE ...``.

They answer from every *stored* version: SQL knows no stream time. So an instant older than the horizon (stream time
minus history retention) may show versions that :meth:`~versioned.table.VersionedTable.as_of` no longer promises,
until ``purge`` has removed them. From the horizon on both say the same.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef, quote
from versioned.spec import CURRENT, DELETED, VersionedTableSpec


def register_sql(
    spark: SparkSession, target: TableRef, spec: VersionedTableSpec, name: str | None = None, *, temporary: bool = True
) -> list[str]:
    """Create (or replace) the view and the two table functions of a table.

    Args:
        spark: The session.
        target: The table.
        spec: Its contract.
        name: Base of the three names; the table's own by default. May have parts (``catalog.schema.rates``) if they
            are persistent.
        temporary: For this session only; False = in the catalog.

    Returns:
        The names made.

    Raises:
        ConfigurationError: the name is a path, is malformed, or has parts although it is temporary.
    """
    base = _base_name(name or target.short_name, temporary)
    kinds = ("current", "as_of", "between")
    view, as_of, between = [(*base[:-1], f"{base[-1]}_{kind}") for kind in kinds]
    word = "TEMPORARY " if temporary else ""
    rows = _select(target, spec)
    start, end = quote(spec.valid_from), quote(spec.valid_to)
    spark.sql(f"CREATE OR REPLACE {word}VIEW {_sql(view)} AS {rows} AND {quote(CURRENT)}")
    # Qualified by the function's name, an argument is never taken for a column of the same name.
    at, since, until = (f"{quote(f[-1])}.{a}" for f, a in ((as_of, "ts"), (between, "from_ts"), (between, "until_ts")))
    spark.sql(
        f"CREATE OR REPLACE {word}FUNCTION {_sql(as_of)}(ts TIMESTAMP) RETURNS TABLE "
        f"RETURN {rows} AND {start} <= {at} AND ({end} IS NULL OR {at} < {end})"
    )
    spark.sql(
        f"CREATE OR REPLACE {word}FUNCTION {_sql(between)}(from_ts TIMESTAMP, until_ts TIMESTAMP) RETURNS TABLE "
        f"RETURN {rows} AND {start} <= {until} AND ({end} IS NULL OR {end} > {since})"
    )
    return [".".join(parts) for parts in (view, as_of, between)]


def _base_name(name: str, temporary: bool) -> tuple[str, ...]:
    parts = TableRef.parse(name).parts
    if not parts:
        raise ConfigurationError(f'"{name}" is a path. Give the view and functions a name, such as "rates".')
    if temporary and len(parts) > 1:
        raise ConfigurationError(
            f'"{name}" has {len(parts)} parts, but a temporary view has one. Use one part, or temporary=False.'
        )
    return parts


def _sql(parts: tuple[str, ...]) -> str:
    return ".".join(map(quote, parts))


def _select(target: TableRef, spec: VersionedTableSpec) -> str:
    columns = ", ".join(quote(name) for name in (*spec.keys, spec.valid_from, spec.valid_to, *spec.values))
    return f"SELECT {columns} FROM {target.sql} WHERE NOT {quote(DELETED)}"  # noqa: S608 - quoted names only, no values
