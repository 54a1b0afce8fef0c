"""Of two that begin in one root at once: another application is refused, a second driver of the same one is not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any, cast
from unittest.mock import Mock

import pytest
from crashing import then
from pyspark.sql import SparkSession
from two_tables import application, write_batch

from streams.recovery_rules import CheckpointFacts, LedgerFacts
from streams.spark import StreamingApplication
from streams.spark import ledger as ledgers
from streams.spark.ledger import Ledger, LedgerState
from streams.spark.recovery import RecoverySurvey, begin_ledger
from versioned import commit, faults
from versioned.errors import CheckpointMismatchError, CommitError
from versioned.identifiers import TableRef

_LEDGER = TableRef.parse("/t/ledger")
_UNKNOWN = RecoverySurvey(LedgerFacts("shop"), CheckpointFacts("/c"), {})


class MetadataChangedException(Exception):
    """As Delta's, where somebody else changed the table while it was being changed."""


def _applications(spark: SparkSession, folder: Path, names: tuple[str, str], **options: Any) -> list[Any]:
    write_batch(folder / "input", 0)
    return [application(spark, folder / "input", folder / "out", name=name, **options) for name in names]


def _begun(app: StreamingApplication) -> str | None:
    """Why an application may not begin, as far as its ledger tells."""
    try:
        begin_ledger(app._ledger, app._agreed_state())
    except CheckpointMismatchError as refused:
        return str(refused)
    return None


@pytest.mark.parametrize("new_epoch", [False, True])
@pytest.mark.parametrize(("point", "stays"), [("before:ledger", 1), ("after:ledger", 0)])
def test_of_two_applications_that_begin_in_one_root_the_one_that_makes_the_ledger_goes_on(
    spark: SparkSession, tmp_path: Path, point: str, stays: int, new_epoch: bool
) -> None:
    names = ("shop", "other")
    first, second = _applications(spark, tmp_path, names, new_epoch=new_epoch)
    told: dict[int, str | None] = {}
    with faults.armed(then(point, lambda: told.update({1: _begun(second)}))):
        told[0] = _begun(first)
    assert told[stays] is None
    assert f'that of the application "{names[stays]}", and has room for one only' in cast(str, told[1 - stays])
    wrote = {row["application"] for row in spark.read.format("delta").load(f"{tmp_path}/out/ledger").collect()}
    assert wrote == ({names[stays]} if new_epoch else set())


@pytest.mark.parametrize(("names", "refused"), [(("shop", "other"), 1), (("shop", "shop"), 0)])
def test_of_two_that_make_the_ledger_at_the_same_moment_only_another_application_is_refused(
    spark: SparkSession, tmp_path: Path, names: tuple[str, str], refused: int
) -> None:
    both = Barrier(2)
    with ThreadPoolExecutor(2) as threads, faults.armed(lambda name: name == "before:ledger" and both.wait(60)):
        told = list(threads.map(_begun, _applications(spark, tmp_path, names)))
    assert len([each for each in told if each is not None]) == refused


@pytest.mark.parametrize(
    ("found", "others", "refused"),
    [
        (_UNKNOWN, ("other",), True),
        (_UNKNOWN, (), False),
        (replace(_UNKNOWN, topics=("prices",)), ("other",), False),
        (replace(_UNKNOWN, state=LedgerState(1, 0)), ("other",), False),
    ],
    ids=["another made it", "it made it itself", "was started there before", "ran there before"],
)
def test_an_application_that_was_never_in_a_root_is_refused_where_another_made_the_ledger_meanwhile(
    found: RecoverySurvey, others: tuple[str, ...], refused: bool
) -> None:
    wrong = pytest.raises(CheckpointMismatchError, match=r'that of the application "other".* Nothing was written')
    with wrong if refused else nullcontext():
        begin_ledger(Mock(others=lambda: others), found)


_KEPT: list[Callable[[Ledger], None]] = [
    lambda ledger: ledger.keep_topics(("prices",), ()),
    lambda ledger: ledger.keep_checkpoint(1, "q"),
]


@pytest.mark.parametrize("keep", _KEPT, ids=["topics", "checkpoint"])
@pytest.mark.parametrize(("conflicts", "ends"), [(1, True), (99, False)])
def test_what_a_second_driver_keeps_in_the_ledger_at_the_same_moment_is_kept_or_refused_in_words(
    keep: Callable[[Ledger], None], conflicts: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, kept = [MetadataChangedException] * conflicts, list[Any]()

    def change(*said: Any) -> None:
        if left:
            raise left.pop()
        kept.append(said)

    monkeypatch.setattr(ledgers, "set_properties", change)
    monkeypatch.setattr(commit.time, "sleep", lambda _: None)
    with nullcontext() if ends else pytest.raises(CommitError, match="changed by others during each of 6 tries"):
        keep(Ledger(Mock(), _LEDGER, "shop"))
    assert len(kept) == ends
