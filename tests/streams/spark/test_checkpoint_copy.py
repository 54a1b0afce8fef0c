"""A copy of a checkpoint ends at a batch, and a query with it reads exactly what came behind that batch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from streams.spark import checkpoint, checkpoint_copy
from streams.spark.checkpoint_copy import check_copy, check_free, copy_checkpoint, cut_log
from versioned.errors import CheckpointMismatchError

#: A folder on this machine is read without a session.
_UNASKED: Any = None


def _line(offset: int) -> str:
    return json.dumps({"path": f"file:///in/{offset}", "batchId": offset})


def _log(*plain: int, compact: int | None = None) -> dict[str, str]:
    files = {str(offset): f"v1\n{_line(offset)}" for offset in plain}
    if compact is not None:
        files[f"{compact}.compact"] = "\n".join(["v1", *map(_line, range(compact + 1))])
    return files


@pytest.mark.parametrize(
    ("log", "last", "names"),
    [
        (_log(0, 1, 2), 1, {"0", "1"}),
        # Spark has written the first ten anew and deleted them.
        (_log(10, 11, compact=9), 7, {str(n) for n in range(8)}),
        (_log(10, 11, compact=9), 9, {"9.compact"}),
        (_log(10, 11, compact=9), 10, {"9.compact", "10"}),
        # The next time it has done so; where it will look for the first such file there is one again.
        (_log(20, compact=19), 12, {"9.compact", "10", "11", "12"}),
        (_log(8, 10, compact=9), 8, {str(n) for n in range(9)}),
    ],
)
def test_the_log_of_a_file_source_is_cut_as_spark_would_have_left_it(
    log: dict[str, str], last: int, names: set[str]
) -> None:
    cut = cut_log(log, last)
    assert set(cut) == names
    lines = [line for text in cut.values() for line in text.splitlines()]
    assert lines.count("v1") == len(cut)
    assert sorted(line for line in lines if line != "v1") == sorted(map(_line, range(last + 1)))


def test_a_log_that_is_not_whole_is_refused() -> None:
    with pytest.raises(CheckpointMismatchError, match=r"nothing of its offsets \[1\]; it cannot be cut at 2"):
        cut_log(_log(0, 2), 2)
    with pytest.raises(CheckpointMismatchError, match='a line of its file "1" is cut off'):
        cut_log({**_log(0), "1": 'v1\n{"path":'}, 1)


def test_what_is_wrong_behind_the_end_of_the_copy_is_no_matter(tmp_path: Path) -> None:
    _checkpoint(tmp_path, {"offsets/5": "v1\n{}\n-", "offsets/6": "", "commits/5": "v1\n{}", "commits/6": ""})
    check_copy(_UNASKED, str(tmp_path), 5)
    assert set(cut_log({**_log(0), "1": 'v1\n{"path":'}, 0)) == {"0"}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"offsets/5": ""}, r'its file "offsets/5" is empty'),
        ({"offsets/5": "v1\n{}\n-", "commits/5": "v1"}, r'its file "commits/5" has 1 lines of at least 2'),
        ({"offsets/5": "v1\n{}\n-", "metadata": "{"}, r'its file "metadata" is no JSON'),
    ],
)
def test_a_copy_that_would_be_damaged_is_refused(tmp_path: Path, files: dict[str, str], told: str) -> None:
    _checkpoint(tmp_path, files)
    with pytest.raises(CheckpointMismatchError, match=f"ends at batch 5 would be damaged: {told}.*Nothing was written"):
        check_copy(_UNASKED, str(tmp_path), 5)


def test_a_folder_of_another_life_in_the_place_of_the_copy_is_refused(tmp_path: Path) -> None:
    check_free(str(tmp_path / "app-epoch-3"))
    check_free("s3://b/app-epoch-3")
    (tmp_path / "app-epoch-3").mkdir()
    with pytest.raises(CheckpointMismatchError, match=r"app-epoch-3, where .* is there already.*Move it away"):
        check_free(str(tmp_path / "app-epoch-3"))


def _checkpoint(folder: Path, files: dict[str, str]) -> None:
    for name, text in {"metadata": '{"id":"q"}', **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_a_copy_has_nothing_of_sources_that_were_added_behind_its_end(tmp_path: Path) -> None:
    source, copied = tmp_path / "source", tmp_path / "copied"
    source.mkdir()
    took = 'v1\n{}\n7\n{"logOffset":0}'
    files = {"offsets/4": f"{took}\n-", "offsets/5": took, "offsets/6": f"{took}\n{{}}", "commits/4": "v1\n{}"}
    _checkpoint(source, files)
    for number in (1, 2):
        (source / "sources" / str(number)).mkdir(parents=True)
        (source / "sources" / str(number) / "0").write_text(_log(0)["0"])
    assert copy_checkpoint(str(source), str(copied), 5, sources=2) is None
    assert {file.name: file.read_text() for file in (copied / "offsets").iterdir()} == {"4": took, "5": took}
    assert [file.name for file in (copied / "sources").iterdir()] == ["1"]


@pytest.mark.parametrize("is_far", [False, True], ids=["local", "another file system"])
def test_a_batch_that_the_checkpoint_no_longer_has_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_far: bool
) -> None:
    for module in (checkpoint, checkpoint_copy) if is_far else ():
        monkeypatch.setattr(module, "local_folder", lambda place: None)
    _checkpoint(tmp_path, {"offsets/5": "v1\n{}\n-"})
    check_copy(spark, str(tmp_path), 5)
    with pytest.raises(CheckpointMismatchError, match=r"no offsets of batch 4.*last 100 triggers, idle ones too"):
        check_copy(spark, str(tmp_path), 4)


def test_on_another_file_system_it_is_told_what_to_copy() -> None:
    told = copy_checkpoint("s3://b/app/_checkpoint", "s3://b/app/_checkpoint-epoch-3", 7, sources=3)
    assert told is not None
    assert "s3://b/app/_checkpoint-epoch-3" in told
    assert "above 7" in told
    assert "the first 5 lines only of each in offsets" in told


def test_a_client_of_spark_connect_copies_nothing_of_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "is_remote", lambda: True)
    told = copy_checkpoint(str(tmp_path), str(tmp_path / "copy"), 4)
    assert told is not None
    assert str(tmp_path / "copy") in told
    assert not (tmp_path / "copy").exists()


@pytest.mark.slow
@pytest.mark.parametrize("last", [8, 9, 10, 14])
def test_spark_goes_on_behind_the_batch_also_where_its_log_was_written_anew(
    spark: SparkSession, tmp_path: Path, last: int
) -> None:
    source, first = tmp_path / "in", tmp_path / "first"
    source.mkdir()
    for number in range(16):
        _write(source, number)
    assert _read(spark, source, first) == [[number] for number in range(16)]
    log = first / "sources" / "0"
    assert (log / "9.compact").exists()
    for number in range(9):
        # Some batches later Spark removes what it has written anew.
        (log / str(number)).unlink()
    copied = tmp_path / "copied"
    assert copy_checkpoint(str(first), str(copied), last) is None
    _write(source, 16)
    assert _read(spark, source, copied) == [[number] for number in range(last + 1, 17)]


def _write(source: Path, number: int) -> None:
    file = source / f"{number:02}.json"
    file.write_text(json.dumps({"n": number}), encoding="utf-8")
    # Spark takes files by their time; several are written within its unit.
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def _read(spark: SparkSession, source: Path, checkpoint: Path) -> list[list[int]]:
    batches: list[list[int]] = []

    def keep(frame: DataFrame, _: int) -> None:
        batches.append([row["n"] for row in frame.collect()])

    reader = spark.readStream.format("json").schema("n LONG").option("maxFilesPerTrigger", 1)
    writer = reader.load(str(source)).writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(keep)
    writer.trigger(availableNow=True).start().awaitTermination()
    return batches
