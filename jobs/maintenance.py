"""Maintains an application's tables: checks invariants, deletes expired history, compacts, removes old files.

It may run beside the stream, in another process or in a thread (:func:`beside`): where its commit and that of a batch
conflict, one of the two tries again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, cast

from pyspark.sql import SparkSession, is_remote

from jobs.exit_codes import line_of
from jobs.maintain_settings import MaintainSettings
from jobs.named_tables import check_there, missing_there, name_of, tables_of, those_there
from streams.spark.window_upkeep import optimize_windows, purge_windows
from versioned import upkeep
from versioned.errors import NotAVersionedTableError, RetentionError
from versioned.identifiers import TableRef
from versioned.stream_times import keep_told_times
from versioned.table import VersionedTable
from versioned.table_details import is_missing

_LOG: Final = logging.getLogger(__name__)
#: Tables other than versioned ones are compacted once they have this many files.
_MANY_FILES: Final = 16
_A_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True)
class Upkeep:
    """What was done with one table.

    ``broken`` counts rows per broken invariant. ``failed`` says why upkeep of the table failed; that does not affect
    other tables. ``held_back`` names the silent scope that holds back the purge.
    """

    table: str
    versioned: bool
    rows: int | None = None
    broken: Mapping[str, int] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    seconds: float = 0.0
    failed: str | None = None
    held_back: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        if self.failed is not None:
            return f"{self.table:<24} FAILED: {self.failed}"
        rows = "" if self.rows is None else f"{self.rows:,} rows sound" if not self.broken else f"BROKEN: {self.broken}"
        held_back = self.held_back and f"purge held back by {self.held_back}"
        return f"{self.table:<24} {', '.join(filter(None, (rows, *self.done, held_back))) or 'nothing to do'}"


def maintain(
    spark: SparkSession,
    settings: MaintainSettings,
    work: Path,
    on_table: Callable[[Upkeep], None] | None = None,
    stop: Event | None = None,
    targets: Sequence[TableRef] | None = None,
) -> list[Upkeep]:
    """Maintain each table in turn. A table with broken rows is reported and otherwise left as it is.

    An error at one table is raised once the others have been maintained; of several errors, the first.

    With ``every`` in the settings, this is repeated until ``stop`` is set. Errors are then logged. Tables that do not
    exist, as before the first batch of a stream, are logged as well, and looked for in each pass.

    Args:
        spark: The session.
        settings: What to do.
        work: The work folder, which a relative ``root`` is below.
        on_table: Called after each table.
        stop: Ends repeated upkeep, after the current pass.
        targets: The tables that the settings name, if they have been looked for already; not used with ``every``, where
            each pass looks for them.

    Returns:
        What the last pass did.

    Raises:
        ConfigurationError: a table does not exist (without ``every``), or the work folder has a scheme.
        RetentionError: ``retain`` is shorter than what a replay or the table's own properties need. With ``every`` it
            is logged and reported for its table when it occurs, and raised at the end if it occurred in the last pass.
    """
    told, stopped, missing = on_table or (lambda _kept: None), stop or Event(), None
    if settings.every is None:
        once, failed = tables_of(settings, work, lambda: spark) if targets is None else targets, list[Exception]()
        check_there(spark, once)
        kept = _pass(once, told, partial(_look_after_anyway, spark, settings, failed))
        if failed:
            raise failed[0]
        return kept
    while True:
        before, (there, missing) = missing, those_there(settings, work, lambda: spark)
        missing = missing or missing_there(spark, there)
        if missing not in (None, before):  # Once, not in every pass: the stream may still create them.
            _LOG.warning("Upkeep leaves out what is not there, and looks for it in each pass: %s", missing)
        refused = list[RetentionError]()
        kept = _pass(there, told, partial(_try_to_look_after, spark, settings, refused))
        if _is_last(stopped, settings.every):
            if refused:
                raise refused[0]
            return kept


@contextmanager
def beside(
    spark: SparkSession,
    settings: MaintainSettings,
    work: Path,
    on_table: Callable[[Upkeep], None] | None = None,
) -> Iterator[None]:
    """Run upkeep in a thread of this process, pass after pass, for as long as the block lasts.

    Errors are logged when they occur; an error that ends the upkeep is raised when the block ends.

    Args:
        spark: The session. The thread uses one of its own, so that settings for one write do not leak into another.
        settings: What to do; ``every`` is the pause between passes, one second if not given.
        work: The work folder, which a relative ``root`` is below.
        on_table: Called after each table, from the thread.

    >>> with beside(spark, settings, work):                              # doctest: +SKIP
    ...     app.run("10 seconds")
    """
    repeated = settings if settings.every is not None else settings.model_copy(update={"every": _A_SECOND})
    stop, failed = Event(), list[BaseException]()
    own = _session_beside(spark)  # Here, since an error in the thread is raised only when the block ends.

    def run() -> None:
        try:
            maintain(own, repeated, work, on_table, stop)
        except BaseException as error:
            # Log it now, for whoever watches the stream: the block may last for months.
            _LOG.error("Upkeep beside the stream has ended: %s", line_of(error), exc_info=error)
            failed.append(error)

    thread = Thread(target=run, name="upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def _session_beside(spark: SparkSession) -> SparkSession:
    # A remote session has no newSession, and a classic one no cloneSession.
    return cast(SparkSession, cast(Any, spark).cloneSession()) if is_remote() else spark.newSession()


def _pass(
    targets: Sequence[TableRef], told: Callable[[Upkeep], None], look_after: Callable[[TableRef], Upkeep]
) -> list[Upkeep]:
    kept = []
    for target in targets:
        kept.append(look_after(target))
        told(kept[-1])
    return kept


def _is_last(stopped: Event, pause: timedelta) -> bool:
    try:
        return stopped.wait(pause.total_seconds())
    except KeyboardInterrupt:
        return True


def _try_to_look_after(
    spark: SparkSession, settings: MaintainSettings, refused: list[RetentionError], target: TableRef
) -> Upkeep:
    """As :func:`_look_after_anyway`, but errors are logged, and end neither the pass nor the stream."""
    failed = list[Exception]()
    kept = _look_after_anyway(spark, settings, failed, target)
    for error in failed:
        if isinstance(
            error, RetentionError
        ):  # a retry does not help: somebody has to change the settings, or the table's
            _LOG.error("Upkeep of %s is refused: %s", kept.table, error)
            refused.append(error)
        else:
            _LOG.warning("Upkeep of %s failed and will be tried again: %s", kept.table, error)
    return kept


def _look_after_anyway(
    spark: SparkSession, settings: MaintainSettings, failed: list[Exception], target: TableRef
) -> Upkeep:
    """As :func:`_look_after`, but an error is added to ``failed``, so that the other tables are maintained."""
    try:
        return _look_after(spark, settings, target)
    except Exception as error:  # Spark's own errors, and those that Py4J raises where Spark wraps none
        failed.append(error)
        return Upkeep(name_of(target), False, failed=line_of(error))


def _look_after(spark: SparkSession, settings: MaintainSettings, target: TableRef) -> Upkeep:
    started = time.monotonic()
    name, done = name_of(target), []
    if is_missing(spark, target):
        return Upkeep(name, False)  # It is being created, or its creation was interrupted.
    try:
        table = VersionedTable.open(spark, target)
    except NotAVersionedTableError:
        table = None
    rows: int | None = None
    broken: dict[str, int] = {}
    held_back: str | None = None
    if table is not None and settings.verify:
        report = table.verify()
        rows, broken = report.rows, {rule: count for rule, count in report.broken.items() if count}
    # Broken rows are evidence: remove nothing before somebody has looked at them.
    if not broken:
        if table is not None and (settings.purge or settings.optimize or settings.vacuum):
            # Once only foreign writers commit, the commits with the stream times may be cleaned away, and a purge would
            # have only the rows to go by.
            keep_told_times(spark, target, table.spec)
        if settings.purge:
            held_back = None if table is None else table.spec.held_back_by(table.stream_times())
            if _purged(spark, target, table):
                done.append("purged")
        if settings.optimize and _optimized(spark, target, table):
            done.append("optimized")
        if settings.vacuum:
            _vacuum(spark, target, table, settings)
            done.append("vacuumed")
    seconds = round(time.monotonic() - started, 1)
    return Upkeep(name, table is not None, rows, broken, tuple(done), seconds, held_back=held_back)


def _optimized(spark: SparkSession, target: TableRef, table: VersionedTable | None) -> bool:
    if table is not None:
        table.optimize()
        return True
    kinds = (optimize_windows, upkeep.optimize_appended, upkeep.optimize_merged)
    return any(compacted(spark, target, _MANY_FILES) for compacted in kinds)


def _vacuum(spark: SparkSession, target: TableRef, table: VersionedTable | None, settings: MaintainSettings) -> None:
    if table is None:
        upkeep.vacuum(spark, target, settings.retain)
    else:
        table.vacuum(settings.retain)


def _purged(spark: SparkSession, target: TableRef, table: VersionedTable | None) -> bool:
    done = purge_windows(spark, target) if table is None else table.purge()
    return bool(done)
