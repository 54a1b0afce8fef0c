"""Metrics in Prometheus' form: a text file, and an endpoint."""

from __future__ import annotations

import socket
import urllib.request
from datetime import datetime, timezone
from pathlib import Path

import pytest

from jobs.prometheus import PrometheusExporter, into_textfile
from streams.metrics import MetricValue, NodeMetrics
from streams.spark import BatchReport


def _report(*metrics: MetricValue) -> BatchReport:
    return BatchReport(0, datetime(2026, 1, 1, tzinfo=timezone.utc), {}, {}, 0, 0, 1.0, {}, metrics)


def _counted(node: str, late: int, store_type: str | None = "window") -> tuple[MetricValue, ...]:
    metrics = NodeMetrics(node, store_type=store_type)
    metrics.count("late", late)
    metrics.count("expired", late)
    return metrics.report()


def test_the_text_file_has_every_metric_with_its_exact_name_as_a_label(tmp_path: Path) -> None:
    exporter = PrometheusExporter()
    exporter.observe(_report(*_counted("hourly", 3)))
    exporter.write_textfile(tmp_path / "metrics.prom")
    lines = (tmp_path / "metrics.prom").read_text().splitlines()
    (late,) = (line for line in lines if line.startswith("late_record_drop_total{"))
    assert 'metric="late-record-drop-total"' in late
    assert 'processor_node_id="hourly"' in late
    assert late.endswith(" 3.0")


def test_a_later_batch_replaces_the_values_of_the_one_before(tmp_path: Path) -> None:
    exporter = PrometheusExporter()
    for late in (3, 5):
        exporter.observe(_report(*_counted("hourly", late)))
    exporter.write_textfile(tmp_path / "metrics.prom")
    late_lines = [line for line in (tmp_path / "metrics.prom").read_text().splitlines() if line.startswith("late_")]
    assert [line.rsplit(" ", 1)[1] for line in late_lines if "total" in line] == ["5.0"]


def test_windows_and_sessions_name_their_stores_side_by_side(tmp_path: Path) -> None:
    exporter = PrometheusExporter()
    exporter.observe(_report(*_counted("hourly", 1), *_counted("visits", 2, "session")))
    exporter.write_textfile(tmp_path / "metrics.prom")
    text = (tmp_path / "metrics.prom").read_text()
    assert 'window_state_id="hourly"' in text
    assert 'session_state_id="visits"' in text


def test_each_batch_writes_the_text_file_anew_in_a_folder_that_is_made(tmp_path: Path) -> None:
    path = tmp_path / "told" / "metrics.prom"
    write = into_textfile(path)
    for late in (3, 5):
        write(_report(*_counted("hourly", late)))
    assert 'metric="late-record-drop-total",processor_node_id="hourly"' in path.read_text()
    assert [file.name for file in path.parent.iterdir()] == ["metrics.prom"]


def test_a_text_file_that_cannot_be_written_stops_no_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "told").write_text("a file, no folder")
    into_textfile(tmp_path / "told" / "metrics.prom")(_report(*_counted("hourly", 1)))
    assert "the metrics were not written" in caplog.text


def test_the_endpoint_serves_the_same_text() -> None:
    exporter = PrometheusExporter()
    exporter.observe(_report(*_counted("hourly", 7)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    exporter.serve(port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert b'processor_node_id="hourly"' in answer.read()
