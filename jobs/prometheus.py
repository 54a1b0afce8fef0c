"""An application's metrics for Prometheus: a text file for the node exporter, or an endpoint of its own.

    exporter = PrometheusExporter()
    app = StreamingApplication(..., on_batch=exporter.observe)
    exporter.serve(9100)  # or exporter.write_textfile("metrics.prom") after each batch

Names are KIP-328's with underscores, since Prometheus takes no dashes; ``metric`` is the exact name.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from streams.spark import BatchReport
from versioned.errors import ConfigurationError

try:
    from prometheus_client import CollectorRegistry, Gauge, start_http_server, write_to_textfile
except ImportError as missing:
    raise ConfigurationError(
        'Prometheus\' client (prometheus-client) is not installed. Install this package with its extra "metrics".'
    ) from missing

_LOG: Final = logging.getLogger(__name__)


class PrometheusExporter:
    """Keeps the newest value of every metric.

    Args:
        registry: Where the metrics are registered; one of its own if not given.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}

    def observe(self, report: BatchReport) -> None:
        """Take the metrics of a batch; give this as ``on_batch`` to the application."""
        for metric in report.metrics:
            if metric.value is not None:
                labels = {_plain(tag): text for tag, text in metric.tags.items()}
                gauge = self._gauge(metric.name, (*labels, "metric", "level"))
                gauge.labels(**labels, metric=metric.name, level=metric.level).set(metric.value)

    def write_textfile(self, path: Path | str) -> None:
        """Write everything as text, at once, for the node exporter's textfile collector."""
        write_to_textfile(str(path), self.registry)

    def serve(self, port: int, address: str = "127.0.0.1") -> None:
        """Serve the metrics over HTTP from a thread."""
        start_http_server(port, address, self.registry)

    def _gauge(self, name: str, labels: tuple[str, ...]) -> Gauge:
        # The same metric has other tags in other groups: windows and sessions name their stores differently.
        key = f"{name}/{labels}"
        if key not in self._gauges:
            told = _plain(name) if "session_state_id" not in labels else f"{_plain(name)}_session"
            self._gauges[key] = Gauge(told, f"{name} (KIP-328)", labels, registry=self.registry)
        return self._gauges[key]


def into_textfile(path: Path) -> Callable[[BatchReport], None]:
    """What writes the metrics of each batch into a text file; a folder that is missing is made.

    That the file cannot be written is no reason to stop a stream whose batch has landed: it is a line in the log.
    """
    exporter = PrometheusExporter()

    def write(report: BatchReport) -> None:
        exporter.observe(report)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            exporter.write_textfile(path)
        except OSError as error:
            _LOG.warning("the metrics were not written to %s: %s", path, error)

    return write


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
