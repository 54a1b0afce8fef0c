"""A replayed batch is compared with what landed of it before."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from versioned.errors import FencedError, ReplayMismatchError
from versioned.replay import check_driver, check_origin, this_driver

_SAME = {"checkpoint": "q", "fingerprints": {"a": "3:1f:2", "b": "1:1:1"}}


@pytest.mark.parametrize(
    ("landed", "now"),
    [
        (_SAME, _SAME),
        ({}, _SAME),
        (_SAME, {}),
        ({"checkpoint": None, "fingerprints": {}}, {"checkpoint": "q", "fingerprints": {}}),
        ({"checkpoint": "q"}, {"checkpoint": ""}),
    ],
)
def test_the_same_origin_or_one_that_is_not_told_passes(landed: dict[str, Any], now: dict[str, Any]) -> None:
    check_origin("batch 1", (1, 1), landed, now)


def test_the_batch_that_another_driver_makes_at_the_same_time_is_fenced() -> None:
    with pytest.raises(FencedError, match="batch 1 was written by another driver, on the same checkpoint"):
        check_driver("batch 1", (1, 1), {"driver": "other"}, this_driver())
    for told in ({}, this_driver()):
        check_driver("batch 1", (1, 1), told, this_driver())


def test_the_batch_of_another_checkpoint_is_fenced() -> None:
    with pytest.raises(FencedError, match=r"batch 1 .* another driver, with the checkpoint other.*--new-epoch"):
        check_origin("batch 1", (1, 1), {**_SAME, "checkpoint": "other"}, _SAME)


@pytest.mark.parametrize(
    ("landed", "now", "is_same"),
    [
        ("3:1f:2", "3:7:8", False),
        ("3:1f:2", "4:1f:2", False),
        ("3:1f:2:aa", "3:1f:2", True),
    ],
    ids=["other hashes", "more records", "columns told by an earlier version"],
)
def test_fingerprints_are_compared_by_records_and_their_hashes(landed: str, now: str, is_same: bool) -> None:
    outcome = nullcontext() if is_same else pytest.raises(ReplayMismatchError, match="other columns of a source")
    with outcome:
        check_origin("batch 1", (1, 1), {"fingerprints": {"a": landed}}, {"fingerprints": {"a": now}})


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"a": "3:1f:3", "b": "1:1:1"}, '"a" had 3 records .*, now 3 records'),
        ({"a": "2:1f:2", "b": "1:1:1"}, '"a" had 3 records .*, now 2 records'),
        ({"a": "3:1f:2"}, '"b" had 1 records .*, now 0 records'),
        ({**_SAME["fingerprints"], "c": "4:1:1"}, '"c" had 0 records .*, now 4 records'),  # type: ignore[dict-item]
        ({}, '"a" had 3 .*"b" had 1 '),
    ],
)
def test_other_input_under_the_same_id_is_refused_topic_by_topic(now: dict[str, str], told: str) -> None:
    with pytest.raises(ReplayMismatchError, match=told):
        check_origin("batch 1", (1, 1), _SAME, {**_SAME, "fingerprints": now})


@pytest.mark.parametrize(
    ("batch", "told", "not_told"),
    [
        ((1, 7), "versioned rollback --batch 6", "--new-epoch"),
        ((1, 0), "another root and checkpoint, or delete both", "rollback"),
        ((2, 0), "start with --new-epoch", "rollback"),
    ],
    ids=["a later batch", "the very first", "the first of a new epoch"],
)
def test_a_first_batch_that_cannot_end_is_not_sent_to_the_batch_before_it(
    batch: tuple[int, int], told: str, not_told: str
) -> None:
    with pytest.raises(ReplayMismatchError, match=told) as other_input:
        check_origin("this batch", batch, _SAME, {**_SAME, "fingerprints": {}})
    with pytest.raises(FencedError, match=told) as other_driver:
        check_driver("this batch", batch, {"driver": "other"}, this_driver())
    assert not_told not in f"{other_input.value}{other_driver.value}"
