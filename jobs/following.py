"""Who is notified of each batch of a job: in the process that runs it, or, with Spark Connect, from the ledger.

With Connect, batches run in a Python worker of the server. What they call would have to travel, and would change a
copy: lines would stand in the server's log, and a summary would count nothing. So nothing travels, and the client reads
the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import is_remote

from jobs.forgotten import warn_if_forgotten
from jobs.settings import JobSettings
from jobs.strict import at
from streams.spark import BatchReport, StreamingApplication
from streams.spark.ledger import Ledger

OnBatch = Callable[[BatchReport], None]
#: How often to look into the ledger for new batches while a query runs in a server.
_SECONDS: Final = 10


def in_process(settings: JobSettings, work: Path, on_batch: OnBatch | None) -> OnBatch | None:
    """The callback that the application itself calls after each batch; None with Spark Connect."""
    return None if is_remote() else exported(settings, work, on_batch)


def exported(settings: JobSettings, work: Path, on_batch: OnBatch | None) -> OnBatch | None:
    """``on_batch``, preceded by the export of metrics to Prometheus if the settings ask for it."""
    if settings.metrics.prometheus is None:
        return on_batch
    with at("metrics.prometheus"):
        from jobs.prometheus import into_textfile

    write = into_textfile(work / settings.metrics.prometheus)

    def both(report: BatchReport) -> None:
        write(report)
        if on_batch is not None:
            on_batch(report)

    return both


def run_followed(app: StreamingApplication, settings: JobSettings, work: Path, on_batch: OnBatch) -> None:
    """Run an application with its trigger until it ends, and call ``on_batch`` for each batch."""
    warn_if_forgotten(app.spark, app.table("ledger"), "root: tables")
    with followed(app, settings, work, on_batch) as tell:
        if not is_remote():
            app.run(settings.trigger)
            return
        query = app.start(settings.trigger)
        while not query.awaitTermination(_SECONDS):
            tell()


@contextmanager
def followed(
    app: StreamingApplication, settings: JobSettings, work: Path, on_batch: OnBatch
) -> Iterator[Callable[[], None]]:
    """Report the batches that an application runs within the block, to ``on_batch``: at its end, and on request.

    Args:
        app: The application. In this process it calls ``on_batch`` itself, and nothing is left to report.
        settings: They say whether metrics are exported to Prometheus.
        work: The work folder.
        on_batch: Called with the report of each batch.

    Yields:
        A function that reports the batches that have finished since the last report.
    """
    if not is_remote():
        yield lambda: None
        return
    call, ledger = exported(settings, work, on_batch) or on_batch, Ledger(app.spark, app.table("ledger"), app.name)
    seen = ledger.newest_row()

    def tell() -> None:
        nonlocal seen
        newest = ledger.newest_row()
        # A batch that finishes meanwhile is reported the next time.
        for report in app.reports(seen, newest) if newest > seen else ():
            call(report)
        seen = newest

    try:
        yield tell
    finally:
        tell()  # After a failure too: the batches before it are committed.
