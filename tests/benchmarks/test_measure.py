"""Turns, medians and ratios; the report. No Spark."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import __main__ as command
from benchmarks import data, docs, report
from benchmarks.measure import Contestant, Figure, Timing, alternate
from benchmarks.setting import Setting


def _figure(ours: float, peer: float, aim: float, sense: Literal["faster", "slower"] = "faster") -> Figure:
    timings = {"we": [Timing(ours, 0.1)] * 3, "they": [Timing(peer, 0.1)] * 3}
    return Figure("P0", "work", "we", "they", timings, 100, aim, sense)


def test_contestants_take_turns_and_each_round_begins_with_another() -> None:
    order: list[str] = []

    def run(name: str) -> Contestant:
        return Contestant(name, lambda number: order.append(f"{name}{number}"))  # type: ignore[func-returns-value]

    told = alternate([run("a"), run("b")], runs=2, warm_ups=1)
    assert order == ["a0", "b0", "b1", "a1", "a2", "b2"]
    assert {name: len(runs) for name, runs in told.items()} == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("ours", "peer", "aim", "sense", "ratio", "met"),
    [
        (1.0, 3.0, 3.0, "faster", 3.0, True),
        (1.0, 2.9, 3.0, "faster", 2.9, False),
        (1.1, 1.0, 1.15, "slower", 1.1, True),
        (1.2, 1.0, 1.15, "slower", 1.2, False),
    ],
)
def test_a_ratio_is_held_against_its_aim(
    ours: float, peer: float, aim: float, sense: Literal["faster", "slower"], ratio: float, met: bool
) -> None:
    figure = _figure(ours, peer, aim, sense)
    assert figure.ratio == pytest.approx(ratio)
    assert figure.is_met is met


def test_a_peer_that_was_given_fewer_records_is_compared_per_record() -> None:
    timings = {"we": [Timing(2.0, 0)], "they": [Timing(1.0, 0)]}
    figure = Figure("P0", "work", "we", "they", timings, 1_000, 1.0, peer_records=100)
    assert figure.ratio == pytest.approx(5.0)


def test_the_report_holds_every_run_and_the_chart_every_figure(tmp_path: Path) -> None:
    figures = [_figure(1, 4, 3), _figure(2, 1, 1.5, "slower")]
    for path in report.write(figures, {"cores": 2, "memory_gib": 24, "date": "today"}, tmp_path):
        assert path.exists()
    told = json.loads((tmp_path / "benchmarks.json").read_text())
    assert [len(figure["runs"]["we"]) for figure in told["figures"]] == [3, 3]
    assert [figure["met"] for figure in told["figures"]] == [True, False]
    chart = (tmp_path / "benchmarks.svg").read_text()
    assert chart.count("P0 we / they<") == 2


def test_each_stored_version_ends_where_the_next_begins(tmp_path: Path) -> None:
    table = pq.read_table(data.write_versions(tmp_path, keys=50, versions=3)).to_pandas()
    for _, rows in table.sort_values("validFrom").groupby("key"):
        assert list(rows["validTo"][:-1]) == list(rows["validFrom"][1:])
        assert rows["validTo"].isna().sum() == 1


def test_a_batch_is_in_order_but_for_the_share_that_is_late() -> None:
    in_order = data.batch(1_000, 400, 3)
    assert (np.diff(in_order.ts) >= 0).all()
    assert len(np.unique(in_order.key)) == 400
    late = data.batch(1_000, 400, 3, late=0.1, stored=3)
    is_late = late.ts < data.starts(late.key, 2)
    assert 20 <= is_late.sum() <= 60


def test_longs_hold_the_same_records_as_parquet(tmp_path: Path) -> None:
    records = data.batch(100, 30, 1)
    longs = np.fromfile(records.write_longs(tmp_path / "longs"), dtype=">i8").reshape(-1, 3)
    stored = pq.read_table(records.write(tmp_path / "records.parquet")).to_pandas()
    assert list(stored["key"]) == list(longs[:, 0])
    assert list(stored["ts"].astype("int64") // 1_000) == list(longs[:, 1])
    assert list(stored["a"] * 4) == list(longs[:, 2])
    assert list(stored["name"]) == [f"name-{n:07}" for n in longs[:, 2]]


def test_the_table_in_the_documentation_has_every_point_in_order(tmp_path: Path) -> None:
    figures = [replace(_figure(1.0, 2.0, 1.5), point=point) for point in ("P10", "P9", "P5k", "P1")]
    names = ("date", "cores", "cpu", "memory_gib", "system", "pyspark", "delta-spark", "python")
    report.write(figures, {**dict.fromkeys(names, "x"), "scale": 1.0}, tmp_path)
    told = docs.table([json.loads((tmp_path / "benchmarks.json").read_text())])
    assert [line.split(" | ")[0] for line in told.splitlines() if line.startswith("| P")] == [
        "| P1", "| P5k", "| P9", "| P10",
    ]  # fmt: skip


def test_the_folder_for_the_data_is_made_and_nothing_is_left_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, seen = tmp_path / "not" / "there", []

    def measure(points: list[str], setting: Setting, out: Path) -> bool:
        seen.append((points, setting.work.parent, setting.work.is_dir(), out))
        return True

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "P1", "--work", str(work), "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"^0$"):
        command.main()
    assert seen == [(["P1"], work, True, tmp_path)]
    assert list(work.iterdir()) == []
