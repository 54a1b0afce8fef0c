"""Input that is gone before its batch has ended, by the files of a checkpoint. No session here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams.recovery_rules import CheckpointFacts
from streams.spark.lost_input import lost_behind, lost_input


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of three batches: a tick, a file source that has taken a file with each, and one that has taken none."""
    folder, log, source = tmp_path / "checkpoint", tmp_path / "checkpoint" / "sources" / "1", tmp_path / "in put"
    for made in (folder / "offsets", log, source):
        made.mkdir(parents=True)
    for number in range(3):
        offsets = ["v1", "{}", str(number), json.dumps({"logOffset": number}), "-"]
        (folder / "offsets" / str(number)).write_text("\n".join(offsets), encoding="utf-8")
        file = source / f"{number}.json"
        file.touch()
        entry = json.dumps({"path": file.as_uri(), "timestamp": 1, "batchId": number})
        (log / str(number)).write_text(f"v1\n{entry}", encoding="utf-8")
    return folder


def _lost(folder: Path, offset: int = 2, commit: int = 1) -> list[str]:
    return [path.rpartition("/")[2] for path in lost_input(CheckpointFacts(str(folder), "q", offset, commit))]


@pytest.mark.parametrize(
    ("gone", "offset", "commit", "lost"),
    [
        pytest.param([], 2, 1, [], id="all there"),
        pytest.param([2], 2, 1, ["2.json"], id="of the unfinished batch"),
        pytest.param([0, 1], 2, 1, [], id="of batches that have ended"),
        pytest.param([2], 2, 2, [], id="no batch is unfinished"),
        pytest.param([0], 0, -1, ["0.json"], id="of the first batch"),
        pytest.param([0], -1, -1, [], id="no batch has begun"),
    ],
)
def test_files_of_the_batch_that_has_begun_and_not_ended_are_missed(
    gone: list[int], offset: int, commit: int, lost: list[str], checkpoint: Path, tmp_path: Path
) -> None:
    for number in gone:
        (tmp_path / "in put" / f"{number}.json").unlink()
    assert _lost(checkpoint, offset, commit) == lost


def test_files_are_missed_also_where_spark_has_written_the_log_anew(checkpoint: Path, tmp_path: Path) -> None:
    log = checkpoint / "sources" / "1"
    lines = [(log / str(number)).read_text(encoding="utf-8").splitlines()[1] for number in range(3)]
    for number in range(3):
        (log / str(number)).unlink()
    (log / "2.compact").write_text("\n".join(["v1", *lines, "{"]), encoding="utf-8")
    (tmp_path / "in put" / "2.json").unlink()
    assert _lost(checkpoint) == ["2.json"]


def test_of_offsets_that_are_gone_nothing_is_told(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "in put" / "2.json").unlink()
    (checkpoint / "offsets" / "1").unlink()
    assert _lost(checkpoint) == []


@pytest.mark.parametrize(("batch", "lost"), [(0, ["1.json", "2.json"]), (1, ["2.json"]), (2, [])])
def test_files_are_missed_that_batches_behind_another_have_read(
    batch: int, lost: list[str], checkpoint: Path, tmp_path: Path
) -> None:
    assert lost_behind(str(checkpoint), batch) == ()
    for number in range(3):
        (tmp_path / "in put" / f"{number}.json").unlink()
    assert [path.rpartition("/")[2] for path in lost_behind(str(checkpoint), batch)] == lost


def test_of_a_source_that_was_not_there_yet_each_file_is_missed(checkpoint: Path, tmp_path: Path) -> None:
    added = checkpoint / "sources" / "2"
    added.mkdir()
    entry = json.dumps({"path": (tmp_path / "gone.json").as_uri(), "timestamp": 1, "batchId": 0})
    (added / "0").write_text(f"v1\n{entry}", encoding="utf-8")
    assert [path.rpartition("/")[2] for path in lost_behind(str(checkpoint), 0)] == ["gone.json"]


@pytest.mark.parametrize("name", ["100%20.json", "a#b?c.json", "plain.json"])
@pytest.mark.parametrize("as_address", [True, False], ids=["an address", "a path"])
def test_a_file_is_there_however_its_name_is_written(
    name: str, as_address: bool, checkpoint: Path, tmp_path: Path
) -> None:
    file = tmp_path / "in put" / name
    file.touch()
    written = file.as_uri() if as_address else f"file://{file}"
    entry = json.dumps({"path": written, "timestamp": 1, "batchId": 2})
    (checkpoint / "sources" / "1" / "2").write_text(f"v1\n{entry}", encoding="utf-8")
    assert _lost(checkpoint) == []
    file.unlink()
    assert len(_lost(checkpoint)) == 1
