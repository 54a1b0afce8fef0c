"""Detects source files that disappear before the batch that reads them is done.

Spark lists the files of a batch, keeps their names in the checkpoint, and silently leaves out those that no longer
exist when the batch is restarted. For a batch that was partly written, its fingerprints show this; for one that failed
before its first write, nothing else does. Only files on this machine are checked.
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
    """The files of the batch that has begun and not ended, which are gone.

    Args:
        checkpoint: What was read of it; its newest offsets are whole.
    """
    folder = local_folder(checkpoint.place)
    if folder is None or checkpoint.damage is not None or checkpoint.offset <= checkpoint.commit:
        return ()
    # A query that runs meanwhile takes its oldest files away; of what is not there nothing can be told.
    with suppress(FileNotFoundError, CheckpointMismatchError):
        begins = log_offsets(folder, checkpoint.offset - 1) if checkpoint.offset > 0 else {}
        return _gone(folder, begins, log_offsets(folder, checkpoint.offset))
    return ()


def lost_behind(place: str, batch_id: int) -> tuple[str, ...]:
    """The files that batches behind this one have read and that are gone: read again, those batches lack them.

    Args:
        place: The checkpoint.
        batch_id: The batch.

    Raises:
        CheckpointMismatchError: the checkpoint has no offsets of the batch.
    """
    folder = local_folder(place)
    if folder is None:
        return ()
    ends = log_offsets(folder, batch_id)
    # As above: a driver that is not shut out yet goes on.
    with suppress(FileNotFoundError):
        return _gone(folder, ends)
    return ()


def _gone(folder: Path, begins: Mapping[int, int], ends: Mapping[int, int] | None = None) -> tuple[str, ...]:
    """The files that are gone of those that sources took behind their offsets ``begins``, up to ``ends`` if given."""
    gone: set[str] = set()
    logs = {int(log.name): log for log in (folder / "sources").glob("*") if log.name.isdigit() and log.is_dir()}
    for number, log in logs.items():
        first, last = begins.get(number, -1), inf if ends is None else ends.get(number, -1)
        if first < last:
            gone.update(path for path, at in _entries(log) if first < at <= last and _is_gone(path))
    return tuple(sorted(gone))


def _entries(log: Path) -> set[tuple[str, int]]:
    """The files that the log of a file source names, and with which of its offsets."""
    named = set()
    for text in read_log(log).values():
        for line in text.splitlines()[1:]:
            # A line that is cut off is for Spark to tell.
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
    # Spark writes an address, in which a space is "%20"; were it a plain path, "%20" would be in the name.
    return not any(place is not None and place.exists() for place in (local_path(unquote(path)), local_path(path)))
