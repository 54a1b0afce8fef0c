"""SQL over every kind of stored table: views and table functions, in addition to the table itself.

=============== ====================================================================================================
versioned table ``_current``, ``_history``, ``_as_of(ts)``, ``_between(from_ts, until_ts)`` (``versioned.sql``)
window store    ``_open``, ``_final``, ``_starting(from_ts, until_ts)``
suppression     ``_held``, ``_due(ts)``
waiting records ``_held``, ``_due(ts)``
join buffer     ``_held``
ledger          ``_stream_times``, ``_counts``, ``_metrics``, ``_totals``, ``_versions``
=============== ====================================================================================================
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from streams.spark.stored_kinds import StoredTable, stored_table
from streams.spark.window_upkeep import OPEN
from versioned.errors import ConfigurationError, first_line
from versioned.identifiers import TableRef, beside, quote
from versioned.reading import read_table
from versioned.sql import SqlNames, register_versions, select, source
from versioned.table_details import properties_of

_LOG: Final = logging.getLogger(__name__)
_OPEN = quote(OPEN)
#: The prefix of a URL of a folder on this machine, before its path.
_THIS_MACHINE: Final = re.compile(r"\Afile:(//(localhost)?)?(?=/)")


def register_table_sql(
    spark: SparkSession,
    target: TableRef | str,
    name: str | None = None,
    *,
    temporary: bool = True,
    version: int | None = None,
) -> list[str]:
    """Create (or replace) the views and table functions of a stored table of any kind.

    Args:
        spark: The session.
        target: The table.
        name: Base of the names; by default the table's own.
        temporary: Whether they are for this session only; False = in the catalog, by default in the table's schema.
        version: Query the table as of this version (system time); None = as it is.

    Returns:
        The names made; none for a table that has only its own name.

    Raises:
        ConfigurationError: the name is a path, is malformed, or has parts although it is temporary.
    """
    ref = TableRef.parse(target)
    return _register(spark, ref, SqlNames.of_table(ref, name, temporary=temporary), version)


def _register(spark: SparkSession, ref: TableRef, names: SqlNames, version: int | None = None) -> list[str]:
    columns = read_table(spark, ref).columns
    table = stored_table(ref.short_name, columns, properties_of(spark, ref))
    if table.spec is not None:
        return register_versions(spark, ref, table.spec, names, version)
    stored = source(spark, ref, version)
    if table.kind == "windows":
        return _windows(spark, names, stored, table)
    if table.kind in ("buffer", "waiting"):
        return _waiting(spark, names, stored, table)
    if table.kind == "join":
        return [names.view(spark, "held", select(_list(*table.keys, "side", "left", "right", "ts", "matched"), stored))]
    return _ledger(spark, names, stored) if table.kind == "ledger" else []


def register_application_sql(spark: SparkSession, root: str) -> list[str]:
    """Register every Delta table below a folder for SQL in this session, with its views and functions.

    A table that cannot be opened is left out with a warning: its creation was interrupted, or its log is damaged.

    Args:
        spark: The session.
        root: The folder of an application's tables, on this machine.

    Returns:
        All names, including those of the tables; empty if there are no tables that can be opened.

    Raises:
        ConfigurationError: this machine has no such folder.
    """
    logs = _folder(root).glob("*/_delta_log")
    tables = {log.parent.name: TableRef.parse(str(log.parent.absolute())) for log in logs}
    made: dict[str, list[str]] = {}
    for name, target in sorted(tables.items()):
        try:
            # A folder may have a name that needs quotes in SQL: unnamed nodes have a dash in theirs.
            made[name] = _register(spark, target, SqlNames((name,)))
        except Exception as error:  # of any kind: the other tables can still be queried
            _LOG.warning("%s cannot be opened, and is left out: %s", target, first_line(error))
    for name in made:
        # Last, so that a table's own name always is the table, not a view of another one.
        SqlNames((name,)).view(spark, "", select("*", source(spark, tables[name])))
    return [each for name, views in made.items() for each in (name, *(view for view in views if view not in made))]


def _folder(root: str) -> Path:
    """The folder as a path on this machine, where alone tables are looked for."""
    folder = Path(_THIS_MACHINE.sub("", root, count=1))
    if not folder.is_dir():
        raise ConfigurationError(
            f'There is no folder "{root}" on this machine. Tables that lie elsewhere, or in a catalog, are made known '
            "one by one: register_table_sql(spark, table) makes the views and functions of one."
        )
    return folder


def _windows(spark: SparkSession, names: SqlNames, stored: str, table: StoredTable) -> list[str]:
    taken = [*table.keys, *(name for name in table.columns if name not in table.keys and name[0] != "_")]
    shown = _list(*taken)
    if {"_sum", "_count"} <= set(table.columns):
        # An average is stored as sum and count, so that late records can be added.
        average = beside("avg", taken, "window_")
        shown = f"{shown}, try_divide(_sum, _count) AS {average}"
    final = beside("final", taken, "is_")
    return [
        names.view(spark, "open", select(shown, stored, _OPEN)),
        names.view(spark, "final", select(shown, stored, f"NOT {_OPEN}")),
        names.function(
            spark,
            "starting",
            ("from_ts", "until_ts"),
            lambda said: select(
                f"{shown}, NOT {_OPEN} AS {final}",
                stored,
                f"windowStart >= {said['from_ts']} AND windowStart < {said['until_ts']}",
            ),
            table.columns,
        ),
    ]


def _waiting(spark: SparkSession, names: SqlNames, stored: str, table: StoredTable) -> list[str]:
    more = ("bufferTime", "arrivedAt", "size") if table.kind == "buffer" else ()
    shown = _list(*table.keys, "value", "ts", "deadline", *more)
    return [
        names.view(spark, "held", select(shown, stored)),
        names.function(
            spark, "due", ("ts",), lambda said: select(shown, stored, f"deadline <= {said['ts']}"), table.columns
        ),
    ]


def _ledger(spark: SparkSession, names: SqlNames, stored: str) -> list[str]:
    row = "application, epoch, batch_id, clock"
    times = "max_by(stream_times, struct(epoch, batch_id)) AS times"
    # The first row of an epoch has no metrics.
    told = "max_by(metrics, struct(epoch, batch_id)) FILTER (WHERE size(metrics) > 0) AS metrics"
    lasting = f"({select(f'application, {times}, {told}', stored)} GROUP BY application)"
    by_node = select("application, explode(times) AS (node, scopes)", lasting)
    metrics = select(f"{row}, explode(metrics) AS metric", stored)
    totals = select("application, explode(metrics) AS metric", lasting)
    versions = select(f"{row}, explode(versions) AS (`table`, version)", stored)
    before = "lag(version) OVER (PARTITION BY application, `table` ORDER BY epoch, batch_id) AS version_before"
    return [
        names.view(
            spark,
            "stream_times",
            select("application, node, explode(scopes) AS (scope, stream_time)", f"({by_node})"),
        ),
        names.view(spark, "counts", select(f"{row}, explode(counts) AS (what, n)", stored)),
        names.view(spark, "metrics", select(f"{row}, metric.*", f"({metrics})")),
        names.view(spark, "totals", f"{_summed(totals)} GROUP BY application, metric.name"),
        names.view(spark, "versions", select(f"{row}, `table`, {before}, version", f"({versions})")),
    ]


def _summed(metrics: str) -> str:
    """The totals over all nodes of an application, by a view, since metrics are per node (R61)."""
    counted = "metric.name LIKE '%-total'"
    return select("application, metric.name, sum(metric.value) AS value", f"({metrics})", counted)


def _list(*names: str) -> str:
    return ", ".join(map(quote, names))
