"""``versioned doctor`` and ``versioned run --new-epoch``: what they print, and the codes they end with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import run
from pyspark.sql import SparkSession

_CONFIG = """
application: shop
root: tables
sources: {s: {format: json, path: input/s, schema: "ts TIMESTAMP, k STRING, v INT"}}
plan:
  s: {op: stream, key: k, value: v}
  out: {op: to_changelog, from: s}
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder with an application and one record for it."""
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "input" / "s").mkdir(parents=True)
    (folder / "input" / "s" / "0.json").write_text('{"ts": "2026-01-01T00:00:00Z", "k": "a", "v": 1}\n', "utf-8")
    (folder / "shop.yaml").write_text(_CONFIG, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_a_lost_checkpoint_is_told_refused_and_overcome_by_a_new_epoch(spark: SparkSession, work: Path) -> None:
    before = json.loads(run(work, "doctor", "--json").stdout)
    assert (before["healthy"], [found["rule"] for found in before["findings"]]) == (True, ["no-batch"])
    assert "no ledger and no table" in before["findings"][0]["found"]
    assert not (work / "tables").exists()
    assert run(work, "run").exit_code == 0
    healthy = run(work, "doctor")
    assert (healthy.exit_code, "fit together" in healthy.stdout) == (0, True)
    shutil.rmtree(work / "tables" / "_checkpoint")
    ill = run(work, "doctor", "--json")
    (found,) = json.loads(ill.stdout)["findings"]
    assert (ill.exit_code, found["rule"], "--new-epoch" in found["remedy"]) == (3, "checkpoint-lost", True)
    refused = run(work, "run")
    assert (refused.exit_code, "--new-epoch" in refused.stderr) == (1, True)
    assert run(work, "run", "--new-epoch").exit_code == 0
    told = json.loads(run(work, "doctor", "--json").stdout)
    assert (told["healthy"], told["epoch"], told["batch_id"]) == (True, 2, 0)
