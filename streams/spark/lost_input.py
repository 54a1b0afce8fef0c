"""Detects source files that disappear before the batch that reads them is done.

Spark lists the files of a batch, stores their names in the checkpoint, and silently leaves out those that are missing
when the batch is run again. For a batch that has landed in part, its fingerprints would show that; for one that died
before its first write, only this check does. Only files on this machine are looked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from urllib.parse import unquote

from streams.recovery_rules import CheckpointFacts
from streams.spark.checkpoint import local_folder, local_path
from streams.spark.checkpoint_copy import log_offsets, read_log
from versioned.errors import CheckpointMismatchError


def lost_input(checkpoint: CheckpointFacts) -> tuple[str, ...]:
    """The missing files of the batch that has begun but not ended.

    Args:
        checkpoint: The facts read from the checkpoint.
    """
    folder = local_folder(checkpoint.place)
    if folder is None or checkpoint.damage is not None or checkpoint.offset <= checkpoint.commit:
        return ()
    # A running query deletes its oldest files; without them, nothing is known to be lost.
    with suppress(FileNotFoundError, CheckpointMismatchError):
        begins = log_offsets(folder, checkpoint.offset - 1) if checkpoint.offset > 0 else {}
        return _gone(folder, begins, log_offsets(folder, checkpoint.offset))
    return ()


def lost_behind(place: str, batch_id: int) -> tuple[str, ...]:
    """The missing files that batches after this one have read: when these batches are run again, they lack them.

    Args:
        place: The checkpoint folder.
        batch_id: The batch.

    Raises:
        CheckpointMismatchError: the checkpoint has no offsets of the batch.
    """
    folder = local_folder(place)
    if folder is None:
        return ()
    ends = log_offsets(folder, batch_id)
    # As above: a driver that is not shut out yet may be running.
    with suppress(FileNotFoundError):
        return _gone(folder, ends)
    return ()


def _gone(folder: Path, begins: Mapping[int, int], ends: Mapping[int, int] | None = None) -> tuple[str, ...]:
    """The missing files among those that sources took after their offsets ``begins``, up to ``ends`` if given."""
    gone: set[str] = set()
    logs = {int(log.name): log for log in (folder / "sources").glob("*") if log.name.isdigit() and log.is_dir()}
    for number, log in logs.items():
        first, last = begins.get(number, -1), inf if ends is None else ends.get(number, -1)
        if first < last:
            gone.update(path for path, at in _entries(log) if first < at <= last and _is_gone(path))
    return tuple(sorted(gone))


def _entries(log: Path) -> set[tuple[str, int]]:
    """The files in the log of a file source, each with the offset at which it was taken."""
    named = set()
    for text in read_log(log).values():
        for line in text.splitlines()[1:]:
            # Spark itself reports a truncated line.
            with suppress(ValueError, KeyError, TypeError):
                said = json.loads(line)
                named.add((str(said["path"]), int(said["batchId"])))
    return named


def _is_gone(path: str) -> bool:
    """
    >>> _is_gone("file:///no/such%20folder/0.json"), _is_gone("s3a://bucket/0.json")
    (True, False)
    """
    if not path.startswith("file:"):
        return False
    # Spark writes a URL, in which a space is "%20"; but also check for a plain path with "%20" in the name.
    return not any(place is not None and place.exists() for place in (local_path(unquote(path)), local_path(path)))
