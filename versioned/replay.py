"""What a replayed batch must have in common with the batch that was committed before it.

Delta knows a write by its transaction id alone, and skips a second write with the same id whatever it contains. So each
commit of a batch also records where its input came from: the ``checkpoint`` that counted the batch, and the
``fingerprints`` of its input per topic. If these differ, the skipped write belonged to another batch. A fingerprint is
text: the number of records, and two sums of their hashes. A commit also records which ``driver`` made it: two drivers
on one checkpoint make the same batch, each from the state that it found.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any, Final

from versioned.errors import FencedError, ReplayMismatchError

#: Keys of a commit's details.
CHECKPOINT: Final = "checkpoint"
FINGERPRINTS: Final = "fingerprints"
DRIVER: Final = "driver"
#: In the details of a commit that erased rows (``streams.spark.erase``); later commits do not repeat it.
ERASED: Final = "erased"
#: In the details of commits that add columns to a table: epoch and id of the batch that needs them.
COLUMNS_OF: Final = "columnsOf"
_OF_ONE: Final = frozenset({CHECKPOINT, FINGERPRINTS, DRIVER, ERASED, COLUMNS_OF})

#: What remains to be done if the batches of a checkpoint cannot continue.
GIVE_UP: Final = (
    "start with --new-epoch: it reads the sources from their starting offsets, so name those that are not applied yet"
)

#: Shared by this process and all that are forked from it.
_STARTED: Final = uuid.uuid4().hex


def this_driver() -> dict[str, str]:
    """The commit details that identify this process, and no other one, as the writer."""
    return {DRIVER: f"{_STARTED}-{os.getpid()}"}


def without_origin(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details of a commit without its origin and without what it did itself (erase rows, add columns).

    A commit that is not of a batch repeats these from the one before it.

    >>> without_origin({"checkpoint": "q", "columnsOf": [1, 3], "erased": True, "streamTimes": {"0": 7}})
    {'streamTimes': {'0': 7}}
    """
    return {name: said for name, said in details.items() if name not in _OF_ONE}


def way_back(epoch: int, batch_id: int) -> str:
    """The advice for a batch that cannot be completed: roll back to the one before or, for the first, start over.

    >>> way_back(1, 3)
    'take the tables back to the batch before: versioned rollback --batch 2'
    >>> way_back(1, 0)
    'start over with another root and checkpoint, or delete both: there is no batch before it'
    """
    if batch_id > 0:
        return f"take the tables back to the batch before: versioned rollback --batch {batch_id - 1}"
    if epoch > 1:
        return f"{GIVE_UP}; there is no batch before it in this epoch"
    return "start over with another root and checkpoint, or delete both: there is no batch before it"


def check_origin(where: str, batch: tuple[int, int], landed: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a batch that is not the one that landed under its id; what either side does not say is not compared.

    Args:
        where: What landed, for the message.
        batch: Epoch and id of the batch.
        landed: The details of its commit.
        now: The details of the batch at hand.

    Raises:
        FencedError: it belongs to another checkpoint.
        ReplayMismatchError: a topic's records are not the same ones.

    >>> check_origin("batch 3", (1, 3), {"fingerprints": {"rates": "2:1f:3c"}}, {"fingerprints": {"rates": "2:1f:3c"}})
    """
    theirs, ours = landed.get(CHECKPOINT), now.get(CHECKPOINT)
    if theirs and ours and theirs != ours:
        raise FencedError(
            f"{where} was written by another driver, with the checkpoint {theirs}; this one has {ours}. "
            "Stop one of the two. If this is the rightful one, start it with --new-epoch."
        )
    if FINGERPRINTS in landed and FINGERPRINTS in now:
        changed = _changed(landed[FINGERPRINTS], now[FINGERPRINTS])
        if changed:
            raise ReplayMismatchError(
                f"{where} landed with other input than it has now: {'; '.join(changed)}. What landed would be kept and "
                "the rest made of the new input. Put the input back as it was (deleted or overwritten files, expired "
                "offsets, other columns of a source: change them once this batch is done); or "
                f"{way_back(*batch)}."
            )


def check_driver(where: str, batch: tuple[int, int], landed: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to continue if another driver has written the batch at hand since this driver began it.

    Args:
        where: What landed, for the message.
        batch: Epoch and id of the batch.
        landed: The details of its commit.
        now: The details of the batch at hand.

    Raises:
        FencedError: another driver has written it.

    >>> check_driver("batch 3", (1, 3), {"driver": "a"}, {"driver": "a"})
    """
    theirs, ours = landed.get(DRIVER), now.get(DRIVER)
    if theirs and ours and theirs != ours:
        raise FencedError(
            f"{where} was written by another driver, on the same checkpoint, while this one made the same batch. What "
            f"the two have written of it may not belong together. Stop both, {way_back(*batch)}. Then start one."
        )


def _changed(landed: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    topics = sorted({*landed, *now})
    changed = [topic for topic in topics if not _is_same(landed.get(topic), now.get(topic))]
    return [f'"{topic}" had {_records(landed.get(topic))}, now {_records(now.get(topic))}' for topic in changed]


def _is_same(landed: str | None, now: str | None) -> bool:
    # Earlier versions appended a hash of the columns to the three parts.
    return landed is not None and now is not None and landed.split(":")[:3] == now.split(":")[:3]


def _records(fingerprint: str | None) -> str:
    count = "0" if fingerprint is None else fingerprint.partition(":")[0]
    return f"{count} records ({fingerprint or '-'})"
