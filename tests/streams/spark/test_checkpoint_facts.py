"""What the files of a checkpoint tell, whole and damaged. No session here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams.recovery_rules import CheckpointFacts
from streams.spark import checkpoint
from streams.spark.checkpoint import add_sources, facts_of, read_checkpoint
from versioned.errors import CheckpointMismatchError

_OFFSETS = 'v1\n{"batchTimestampMs": 1}\n{"offset": 3}\n{"logOffset": 0}\n-'
_COMMIT = 'v1\n{"nextBatchWatermarkMs": 0}'
_NO_SESSION: Any = None
_FILES = {"metadata": '{"id": "q"}', "offsets/9": _OFFSETS, "offsets/10": _OFFSETS, "commits/9": _COMMIT}


def test_the_newest_batches_are_the_largest_numbers() -> None:
    assert facts_of("/c", _FILES, 3) == CheckpointFacts("/c", "q", 10, 9)


def test_other_files_are_no_batches() -> None:
    more = {"offsets/.11.crc": "crc", "offsets/12.tmp": "v1"}
    assert facts_of("/c", {**_FILES, **more}, 3).offset == 10


def test_an_empty_folder_holds_nothing() -> None:
    assert facts_of("/c", {}, 3) == CheckpointFacts("/c")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("metadata", "{", '"metadata" is no JSON'),
        ("metadata", None, '"metadata" is gone'),
        ("offsets/10", "", '"offsets/10" is empty'),
        ("offsets/10", _OFFSETS.rsplit("\n", 1)[0], "4 lines of at least 5"),
        ("offsets/10", _OFFSETS[:-6], "4 lines of at least 5"),
        ("offsets/10", _OFFSETS.replace("0}", "0"), "line 4"),
        ("offsets/10", 'v2\n{"batchTimestampMs": 1}\n0:{"offset": 3}', '"offsets/10" is in version 2 of Spark'),
        ("commits/9", "", '"commits/9" is empty'),
        ("commits/9", "v1\n{", 'line 2 of its file "commits/9"'),
    ],
)
def test_damage_is_told_by_file_and_line(name: str, content: str | None, told: str) -> None:
    files = {**_FILES, name: content}
    facts = facts_of("/c", {name: text for name, text in files.items() if text is not None}, 3)
    assert told in (facts.damage or "")


def test_a_path_that_is_not_on_this_machine_is_read_where_spark_has_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "read_by_spark", lambda spark, place: _FILES)
    assert read_checkpoint(_NO_SESSION, str(tmp_path / "gone"), 3).query == "q"
    assert read_checkpoint(_NO_SESSION, str(tmp_path), 3).query is None


def test_a_file_of_more_sources_than_known_is_whole() -> None:
    assert facts_of("/c", _FILES, 2).damage is None


@pytest.mark.parametrize("scheme", ["", "file://", "file:"])
@pytest.mark.parametrize("name", ["app", "a#b", "a?b", "a;b", "a%20b", "a:b"])
def test_sources_are_added_to_every_offset_file(name: str, scheme: str, tmp_path: Path) -> None:
    (tmp_path / name / "offsets").mkdir(parents=True)
    (tmp_path / name / "offsets" / "0").write_text(_OFFSETS, encoding="utf-8")
    assert add_sources(_NO_SESSION, f"{scheme}{tmp_path}/{name}", 4) == 1
    assert (tmp_path / name / "offsets" / "0").read_text(encoding="utf-8").splitlines()[-2:] == ["-", "-"]


@pytest.mark.parametrize("files", [{}, _FILES], ids=["before the first batch", "after some"])
def test_a_checkpoint_on_another_file_system_needs_nothing_while_its_sources_stay(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "read_by_spark", lambda spark, place: files)
    assert add_sources(_NO_SESSION, "s3://bucket/checkpoint", 3) == 0


def test_sources_that_are_added_to_a_checkpoint_on_another_file_system_are_refused_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoint, "read_by_spark", lambda spark, place: _FILES)
    with pytest.raises(CheckpointMismatchError, match=r"append 2 lines \"-\" to each of its files .*offsets/9"):
        add_sources(_NO_SESSION, "s3://bucket/checkpoint", 5)


def test_files_that_a_running_query_takes_away_meanwhile_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {**_FILES, "offsets/8": _OFFSETS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    read = Path.read_bytes

    def taken_away(file: Path) -> bytes:
        if file.name == "8":
            file.unlink()
        return read(file)

    monkeypatch.setattr(checkpoint, "is_remote", lambda: False)
    monkeypatch.setattr(Path, "read_bytes", taken_away)
    facts = checkpoint.read_checkpoint(_NO_SESSION, str(tmp_path), 3)
    assert (facts.offset, facts.commit, facts.damage) == (10, 9, None)
