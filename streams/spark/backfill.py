"""Backfill into a versioned table that an application owns; the application must be stopped meanwhile."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from streams.spark.application import StreamingApplication
from streams.spark.ledger import BACKFILLED
from streams.spark.takeover import check_takeover, taken_over
from versioned.backfill import BackfillResult
from versioned.errors import ConfigurationError, NotAVersionedTableError
from versioned.table import VersionedTable
from versioned.table_details import is_missing


def backfill(
    application: StreamingApplication,
    table: str,
    records: DataFrame,
    *,
    timestamp: str = "ts",
    deleted: str | None = None,
    sequence: str | None = None,
    dry_run: bool = False,
) -> BackfillResult:
    """Put old history into a live table of an application, with grace off.

    A driver that is running is shut out: it ends with FencedError at its next write. When it is started again, it goes
    on after the last batch that it had finished; an unfinished one is undone and run again. The counts go into the log,
    and into the ledger's row with which the new epoch begins, as ``<table>.backfilled.<what>``.

    Only the table changes. What was joined, counted and emitted before stays as it was; where that matters, run that
    part of the input again (:func:`~streams.spark.rollback.rollback`).

    Args:
        application: The owner of the table; it must not run in this session.
        table: The table's name.
        records: Key columns, value columns and a timestamp column; no record after the table's stream time.
        timestamp: Name of the timestamp column.
        deleted: Name of a boolean column that is true for tombstones.
        sequence: Name of the column that orders the records; None = by timestamp.
        dry_run: Only count what would become of the records.

    Raises:
        ConfigurationError: the application has no such table yet, has written no batch, or runs in this session; the
            plan lacks a table in which rows could wait after the newest batch; or the ledger is append-only.
        NotAVersionedTableError: the table keeps no versions.
        SchemaError: a column is missing or has another type.

    >>> backfill(app, "prices", old_prices).counts["accepted"]           # doctest: +SKIP
    1200
    """
    spark = application.spark
    known = {target.short_name: target for target in application.tables() if not is_missing(spark, target)}
    if table not in known:
        raise ConfigurationError(f'{application.name} has no table "{table}"; there are {sorted(known)}.')
    application.refuse_changes(application.survey())
    try:
        opened = VersionedTable.open(spark, known[table])
    except NotAVersionedTableError:
        raise ConfigurationError(
            f'"{table}" of {application.name} keeps no versions: no history can be put into it. Name a table with a '
            "versioned store."
        ) from None
    said = {"timestamp": timestamp, "deleted": deleted, "sequence": sequence, "owner": application.name}
    # Find what is wrong with the records before shutting any driver out.
    tried = opened.backfill(records, dry_run=True, **said)  # type: ignore[arg-type]
    if dry_run:
        return replace(tried, by_others=check_takeover(application).by_others)
    if not tried.counts["accepted"]:
        return tried
    with taken_over(application) as held:
        done = opened.backfill(records, **said)  # type: ignore[arg-type]
        held.counts.update({f"{table}{BACKFILLED}{what}": count for what, count in done.counts.items()})
    return replace(done, by_others=held.by_others)
