"""Every benchmark at a tiny size: it runs, and its peers come to the same result as ours."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.__main__ import POINTS
from benchmarks.setting import Setting
from versioned.session_settings import session_settings

_AGREE = ("same current rows", "same answers", "same final counts", "same emissions", "sound")


#: What Spark's own state in RocksDB needs, and tests do without.
_LOCAL_FILES = {
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@pytest.fixture
def setting(spark: SparkSession, tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path, scale=0.001, runs=1, quick=True)
    made.__dict__["spark"] = spark
    with session_settings(spark, _LOCAL_FILES):
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_benchmark_runs_and_its_peers_agree(setting: Setting, point: str) -> None:
    figures = POINTS[point](setting)
    assert figures
    for figure in figures:
        assert figure.ratio > 0
        assert not [name for name in _AGREE if not figure.notes.get(name, True)], dict(figure.notes)


@pytest.mark.slow
def test_out_of_order_records_break_the_merge_by_hand_and_not_the_versioned_table(setting: Setting) -> None:
    notes: dict[str, Any] = dict(POINTS["P2"](setting)[0].notes)
    wrong = notes["wrong intervals"]
    assert wrong["versioned put"] == 0
    assert wrong["SCD2 MERGE"] > 0


@pytest.mark.slow
def test_the_command_measures_spark_with_its_state_in_rocksdb(tmp_path: Path) -> None:
    """In a session of the command's own: Spark's state store does not take every class of local files."""
    told = [sys.executable, "-m", "benchmarks", "P6", "--scale", "0.001", "--runs", "1", "--out", str(tmp_path)]
    run = subprocess.run(told, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-2_000:]
    (figure,) = json.loads((tmp_path / "benchmarks.json").read_text(encoding="utf-8"))["figures"]
    assert figure["notes"]["same final counts"]
