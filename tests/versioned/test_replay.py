"""A replayed batch is compared with what landed of it before."""

from __future__ import annotations

from typing import Any

import pytest

from versioned.errors import FencedError, ReplayMismatchError
from versioned.replay import check_origin

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
    check_origin("batch 1", landed, now)


def test_the_batch_of_another_checkpoint_is_fenced() -> None:
    with pytest.raises(FencedError, match=r"batch 1 .* another driver, with the checkpoint other.*--new-epoch"):
        check_origin("batch 1", {**_SAME, "checkpoint": "other"}, _SAME)


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
        check_origin("batch 1", _SAME, {**_SAME, "fingerprints": now})
