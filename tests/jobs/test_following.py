"""Who is told of a job's batches where they run in the server of Spark Connect: the client, from the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from jobs import following
from jobs.following import followed, in_process, run_followed
from jobs.prometheus import into_textfile
from jobs.settings import JobSettings, parse
from streams.spark import BatchReport
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef


def _settings(**changes: Any) -> JobSettings:
    said = {"application": "shop", "plan": "plan_functions:build", "root": "r", "sources": {"s": {"format": "rate"}}}
    return parse(said | changes)


def _report(batch_id: int) -> BatchReport:
    return BatchReport(batch_id, datetime(2026, 1, 1, tzinfo=timezone.utc), {"s": 1}, {}, 0, 0, 1.0)


@dataclass
class _Server:
    """An application whose batches run elsewhere; each wait for it ends with so many batches in its ledger."""

    waits: list[int]
    error: Exception | None = None
    landed: int = 1
    target: Any = None
    spark: Any = None
    name: str = "shop"
    asked: list[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=list)

    def table(self, name: str) -> TableRef:
        return TableRef(path=f"/tables/{name}")

    def start(self, trigger: str) -> _Server:
        return self

    def awaitTermination(self, seconds: int) -> bool:
        self.landed = self.waits.pop(0)
        if self.error is not None and not self.waits:
            raise self.error
        return not self.waits

    def newest_row(self) -> tuple[int, int]:
        return 1, self.landed - 1

    def reports(self, after: tuple[int, int], until: tuple[int, int]) -> Iterator[BatchReport]:
        self.asked.append((after, until))
        return map(_report, range(after[1] + 1, until[1] + 1))


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """As over Spark Connect."""
    monkeypatch.setattr(following, "is_remote", lambda: True)


def _told(server: Any, monkeypatch: pytest.MonkeyPatch, settings: JobSettings, work: Path) -> list[int]:
    heard: list[int] = []
    monkeypatch.setattr(following, "Ledger", lambda *_: server)
    try:
        run_followed(server, settings, work, lambda report: heard.append(report.batch_id))
    except ConfigurationError:
        heard.append(-1)
    return heard


@pytest.mark.usefixtures("remote")
def test_each_batch_behind_the_start_is_told_once_while_the_query_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = _Server([2, 2, 5])
    assert _told(server, monkeypatch, _settings(), tmp_path) == [1, 2, 3, 4]
    assert server.asked == [((1, 0), (1, 1)), ((1, 1), (1, 4))]


@pytest.mark.usefixtures("remote")
def test_no_batch_is_left_out_when_another_epoch_begins_meanwhile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server, newest = _Server([1]), iter([(1, 41), (2, 0)])
    monkeypatch.setattr(server, "newest_row", lambda: next(newest))
    monkeypatch.setattr(server, "reports", lambda after, until: server.asked.append((after, until)) or ())
    _told(server, monkeypatch, _settings(), tmp_path)
    assert server.asked == [((1, 41), (2, 0))]


@pytest.mark.usefixtures("remote")
def test_batches_that_landed_before_a_failure_are_told_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = _Server([2, 3], ConfigurationError("refused"))
    assert _told(server, monkeypatch, _settings(), tmp_path) == [1, 2, -1]


@pytest.mark.usefixtures("remote")
def test_the_metrics_for_prometheus_are_written_by_the_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = _settings(metrics={"prometheus": "told.prom"})
    assert _told(_Server([2]), monkeypatch, settings, tmp_path) == [1]
    assert (tmp_path / "told.prom").exists()


@pytest.mark.usefixtures("remote")
def test_nothing_that_cannot_travel_goes_to_the_server_with_the_application(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="pickle"):
        cloudpickle.dumps(into_textfile(tmp_path / "told.prom"))
    assert in_process(_settings(metrics={"prometheus": "told.prom"}), tmp_path, lambda _: None) is None


def test_in_one_process_the_application_tells_its_batches_itself(tmp_path: Path) -> None:
    heard: list[BatchReport] = []
    told = in_process(_settings(), tmp_path, heard.append)
    assert told is not None
    told(_report(3))
    app: Any = None
    with followed(app, _settings(), tmp_path, heard.append) as tell:
        tell()
    assert heard == [_report(3)]
