"""Passes the metrics of each batch to a function, as a listener of Spark's streaming queries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryListener

from streams.spark.application import StreamingApplication
from versioned import spark_functions as F
from versioned.given import check_function, check_kind

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_LOG: Final = logging.getLogger(__name__)


class MetricsListener(StreamingQueryListener):
    """Passes on the metrics of each batch of an application, once Spark has reported its progress.

    Register it with ``spark.streams.addListener(MetricsListener(app, told.append))``.

    Args:
        application: The application.
        tell: Called with the metric rows of each batch: ``ts, epoch, batch_id, name, level, group, tags, value``.

    Raises:
        ConfigurationError: an argument of the wrong kind.
    """

    def __init__(self, application: StreamingApplication, tell: Callable[[list[Row]], None]) -> None:
        check_kind("application", application, StreamingApplication, "a StreamingApplication")
        check_function("tell", tell, "a function of the rows of a batch's metrics")
        self._application = application
        self._tell = tell

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch has ended; a batch that wrote nothing has no metrics."""
        if event.progress.name != self._application.name:
            return
        metrics = self._application.metrics().where(F.col("batch_id") == event.progress.batchId)
        # Batch ids may occur again in another epoch.
        rows = metrics.where(F.col("epoch") == self._application.epoch).collect()
        if rows:
            self._tell(rows)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to tell."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """A query that failed is worth a line."""
        if event.exception:
            _LOG.warning("a streaming query ended with %s", event.exception.splitlines()[0])
