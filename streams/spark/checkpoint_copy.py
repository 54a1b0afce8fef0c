"""Copies a Spark checkpoint up to a batch, so that a query with the copy continues after that batch.

Offsets and commits of later batches are left out. A file source logs the files that it has taken, by its own offsets;
entries after the batch's offset are left out too, or Spark would read all their files in the next batch, however many.
Every ten offsets Spark compacts that log into one file and deletes the ones before, so the part up to an offset may
have to be extracted from a compacted file. If sources were added since, every offset file has a line for each of them
(:mod:`streams.spark.checkpoint`), which is removed: a query without these sources would not start with them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from streams.spark.checkpoint import facts_of, files_of, local_folder, local_path
from versioned.errors import CheckpointMismatchError

_HEADER_LINES: Final = 2
#: Spark's ``spark.sql.streaming.fileSource.log.compactInterval``.
_INTERVAL: Final = 10
_COMPACT: Final = ".compact"
_VERSION: Final = "v1"


def check_copy(spark: SparkSession, checkpoint: str, batch_id: int) -> None:
    """Raise unless a checkpoint can be cut after a batch; nothing is written.

    Args:
        spark: The session; used where the folder is not on a local file system.
        checkpoint: The folder.
        batch_id: The last batch that stays.

    Raises:
        CheckpointMismatchError: it has no offsets of that batch (Spark keeps those of the last 100), the logs of its
            file sources are incomplete, or files that belong in the copy are damaged. The logs are checked only in a
            folder on a local file system.
    """
    files = files_of(spark, checkpoint)
    if f"offsets/{batch_id}" not in files:
        raise _without_offsets(checkpoint, batch_id)
    # Damage of later batches is not copied.
    damage = facts_of(checkpoint, {name: text for name, text in files.items() if _is_kept(name, batch_id)}).damage
    if damage is not None:
        raise CheckpointMismatchError(
            f"A copy of the checkpoint {checkpoint} that ends at batch {batch_id} would be damaged: {damage}. Nothing "
            "was written. Restore a copy of the checkpoint; or name another batch; or start with --new-epoch."
        )
    folder = local_folder(checkpoint)
    if folder is not None:
        _cut_sources(folder, batch_id)


def copy_checkpoint(checkpoint: str, copy: str, batch_id: int, sources: int | None = None) -> str | None:
    """Copy a checkpoint up to a batch.

    Args:
        checkpoint: The folder; it is not changed.
        copy: The new folder; it must not exist.
        batch_id: The last batch that stays.
        sources: How many sources the query had then, the tick included; anything of later ones is left out.

    Returns:
        None; or, if the folder is not on a local file system, what is left to do by hand.

    Raises:
        CheckpointMismatchError: as :func:`check_copy`.
    """
    source, target = local_folder(checkpoint), local_path(copy)
    if source is None or target is None:
        lines = "" if sources is None else f"; keep the first {_HEADER_LINES + sources} lines only of each in offsets"
        return (
            f"copy {checkpoint} to {copy}, without the files in offsets and commits that have a number above "
            f"{batch_id}, and without what its file sources took after the offsets of batch {batch_id}{lines}"
        )
    cut = _cut_sources(source, batch_id)
    made = target.with_name(f"{target.name}.new")
    shutil.rmtree(made, ignore_errors=True)
    # Hadoop's checksums would not match files that are cut; without them, files are read unchecked.
    shutil.copytree(source, made, ignore=partial(_left_out, source, set(cut), sources))
    for name in ("offsets", "commits"):
        (made / name).mkdir()
        for file in (source / name).glob("*"):
            if _is_kept(f"{name}/{file.name}", batch_id):
                shutil.copy2(file, made / name)
    if sources is not None:
        for file in (made / "offsets").iterdir():
            _shorten(file, _HEADER_LINES + sources)
    for number, files in cut.items():
        _write(made / "sources" / str(number), files)
    made.rename(target)
    return None


def check_free(copy: str) -> None:
    """Raise if the folder for a copy already exists; folders on other file systems are not checked.

    Raises:
        CheckpointMismatchError: it exists.
    """
    target = local_path(copy)
    if target is not None and target.exists():
        raise CheckpointMismatchError(
            f"{copy}, where the checkpoint of the next epoch is to be, is there already: of tables that are gone? "
            "Nothing was written. Move it away, then try again."
        )


def cut_log(files: Mapping[str, str], last: int) -> dict[str, str]:
    """The log of a file source up to an offset: the names of its files and their text.

    Args:
        files: The whole log, likewise.
        last: The last offset that stays.

    Raises:
        CheckpointMismatchError: parts of it are missing.

    >>> log = {"0": 'v1\\n{"batchId":0}', "1": 'v1\\n{"batchId":1}'}
    >>> sorted(cut_log(log, 0))
    ['0']
    """
    entries: dict[int, dict[str, str]] = {}
    for name, text in files.items():
        # Later files are not copied, so it does not matter what is in them.
        if name.removesuffix(_COMPACT).isdigit() and not (name.isdigit() and int(name) > last):
            for line in text.splitlines()[1:]:
                entries.setdefault(_batch_of(line, name), {})[line] = name
    missing = [number for number in range(last + 1) if number not in entries]
    if missing:
        raise CheckpointMismatchError(
            f"The log of a file source has nothing of its offsets {missing[:5]}; it cannot be cut at {last}."
        )
    # Spark expects a compacted file at every interval.
    compact = (last + 1) // _INTERVAL * _INTERVAL - 1
    cut = {str(number): _text(entries[number]) for number in range(compact + 1, last + 1)}
    if compact >= 0:
        cut[f"{compact}{_COMPACT}"] = _text(line for number in range(compact + 1) for line in entries[number])
    return cut


def _is_kept(name: str, batch_id: int) -> bool:
    """Whether a file, by its name relative to the checkpoint, belongs in the copy."""
    number = name.rpartition("/")[2]
    return name == "metadata" or (number.isdigit() and int(number) <= batch_id)


def log_offsets(folder: Path, batch_id: int) -> dict[int, int]:
    """The offset that each file source had reached with a batch, by the source's position.

    Raises:
        CheckpointMismatchError: the checkpoint has no offsets of the batch.
    """
    offsets = folder / "offsets" / str(batch_id)
    if not offsets.is_file():
        raise _without_offsets(str(folder), batch_id)
    lines = offsets.read_text(encoding="utf-8").splitlines()[_HEADER_LINES:]
    told = {number: _log_offset(line) for number, line in enumerate(lines)}
    return {number: last for number, last in told.items() if last is not None}


def _cut_sources(folder: Path, batch_id: int) -> dict[int, dict[str, str]]:
    """The logs of the file sources up to a batch, by the source's position."""
    ends = log_offsets(folder, batch_id)
    logs = {number: folder / "sources" / str(number) for number in ends}
    return {number: cut_log(read_log(log), ends[number]) for number, log in logs.items() if log.is_dir()}


def _without_offsets(checkpoint: str, batch_id: int) -> CheckpointMismatchError:
    return CheckpointMismatchError(
        f"The checkpoint {checkpoint} has no offsets of batch {batch_id}; Spark keeps those of the last 100 triggers, "
        "idle ones too (spark.sql.streaming.minBatchesToRetain). Start the application until a batch with input has "
        "ended, and name that or a later one; or restore a copy of the checkpoint."
    )


def read_log(log: Path) -> dict[str, str]:
    """The files of the log of a file source, by name."""
    files = (file for file in log.glob("*") if file.name.removesuffix(_COMPACT).isdigit())
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def _log_offset(line: str) -> int | None:
    """The offset of a file source; None for any other source, and for one that has read nothing."""
    try:
        said: Any = json.loads(line)
    except ValueError:
        return None
    return int(said["logOffset"]) if isinstance(said, dict) and "logOffset" in said else None


def _shorten(file: Path, most: int) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    if len(lines) > most:
        file.write_text("\n".join(lines[:most]), encoding="utf-8")


def _left_out(checkpoint: Path, cut: set[int], sources: int | None, folder: str, names: list[str]) -> set[str]:
    """The names in a folder that are not copied unchanged: checksums, and files that are written anew."""
    anew = {"offsets", "commits"} if Path(folder) == checkpoint else set()
    if Path(folder) == checkpoint / "sources":
        added = {name for name in names if sources is not None and name.isdigit() and int(name) >= sources}
        anew = added | {str(number) for number in cut}
    return {name for name in names if name in anew or name.endswith(".crc")}


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _batch_of(line: str, name: str) -> int:
    try:
        return int(json.loads(line)["batchId"])
    except (ValueError, KeyError, TypeError):
        raise CheckpointMismatchError(
            f'The log of a file source is damaged: a line of its file "{name}" is cut off. Restore a '
            "copy of the checkpoint, or start with --new-epoch."
        ) from None


def _text(lines: Iterable[str]) -> str:
    return "\n".join([_VERSION, *lines])
