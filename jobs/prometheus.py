"""An application's metrics for Prometheus: a text file for the node exporter, or an endpoint of its own.

    exporter = PrometheusExporter()
    app = StreamingApplication(..., on_batch=exporter.observe)
    exporter.serve(9100)  # or exporter.write_textfile("metrics.prom") after each batch

Metrics have KIP-328's names with underscores, since Prometheus allows no dashes; the label ``metric`` has the exact
name.
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
        registry: Where the metrics are registered; a new registry if not given.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}

    def observe(self, report: BatchReport) -> None:
        """Record the metrics of a batch; pass this method to the application as ``on_batch``."""
        for metric in report.metrics:
            if metric.value is not None:
                labels = {_plain(tag): text for tag, text in metric.tags.items()}
                gauge = self._gauge(metric.name, (*labels, "metric", "level"))
                gauge.labels(**labels, metric=metric.name, level=metric.level).set(metric.value)

    def write_textfile(self, path: Path | str) -> None:
        """Write all metrics as text, atomically, for the node exporter's textfile collector."""
        write_to_textfile(str(path), self.registry)

    def serve(self, port: int, address: str = "127.0.0.1") -> None:
        """Serve the metrics over HTTP from a thread."""
        start_http_server(port, address, self.registry)

    def _gauge(self, name: str, labels: tuple[str, ...]) -> Gauge:
        # A metric has different tags in different groups: windows and sessions name their stores differently.
        key = f"{name}/{labels}"
        if key not in self._gauges:
            told = _plain(name) if "session_state_id" not in labels else f"{_plain(name)}_session"
            self._gauges[key] = Gauge(told, f"{name} (KIP-328)", labels, registry=self.registry)
        return self._gauges[key]


def into_textfile(path: Path) -> Callable[[BatchReport], None]:
    """A callback that writes the metrics of each batch to a text file, and creates its folder if need be.

    If the file cannot be written, that is only logged: it is no reason to stop a stream whose batch is committed.
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
