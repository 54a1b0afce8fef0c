"""SQL access to a versioned table: a view of what is current, and table functions along valid time.

``<name>_current``, ``<name>_as_of(ts)`` and ``<name>_between(a, b)`` are ordinary Spark SQL objects; predicates on them
reach the Delta scan. They read every stored version; for the promise of retention use the Python API, or compare with
the table's horizon. Delta's own time travel is the other axis: ``SELECT ... FROM <table> VERSION AS OF 3 WHERE ...``.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

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
    """
    base = TableRef.parse(name or target.short_name).parts
    made = [".".join([*base[:-1], f"{base[-1]}_{kind}"]) for kind in ("current", "as_of", "between")]
    quoted = [".".join(map(quote, made_name.split("."))) for made_name in made]
    kind = "TEMPORARY " if temporary else ""
    spark.sql(f"CREATE OR REPLACE {kind}VIEW {quoted[0]} AS {_select(target, spec)} AND {quote(CURRENT)}")
    start, end = quote(spec.valid_from), quote(spec.valid_to)
    at = f"{start} <= ts AND ({end} IS NULL OR ts < {end})"
    spark.sql(
        f"CREATE OR REPLACE {kind}FUNCTION {quoted[1]}(ts TIMESTAMP) "
        f"RETURNS TABLE RETURN {_select(target, spec)} AND {at}"
    )
    reach = f"{start} <= until_ts AND ({end} IS NULL OR {end} > from_ts)"
    spark.sql(
        f"CREATE OR REPLACE {kind}FUNCTION {quoted[2]}(from_ts TIMESTAMP, until_ts TIMESTAMP) "
        f"RETURNS TABLE RETURN {_select(target, spec)} AND {reach}"
    )
    return made


def _select(target: TableRef, spec: VersionedTableSpec) -> str:
    columns = ", ".join(quote(name) for name in (*spec.keys, spec.valid_from, spec.valid_to, *spec.values))
    return f"SELECT {columns} FROM {target.sql} WHERE NOT {quote(DELETED)}"  # noqa: S608 - quoted names only, no values
