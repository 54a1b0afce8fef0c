"""Which batch an application can be taken back to, and which version of a table that was."""

from __future__ import annotations

import pytest

from streams.rollback_rules import CommitFacts, restoration, row_of
from versioned.errors import ConfigurationError, RetentionError

_PLAIN = [(1, 0), (1, 1), (1, 4)]
#: Batches 0 to 3, taken back to 1, on to 3, taken back to 2.
_TWICE = [(1, 0), (1, 1), (3, 1), (3, 2), (5, 2), (5, 3)]
_ANEW = [(1, 0), (1, 1), (2, -1), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("rows", "batch", "found"),
    [
        (_PLAIN, 1, (1, 1)),
        (_PLAIN, 4, (1, 4)),
        (_PLAIN, 3, (1, 1)),
        (_PLAIN, None, (1, 4)),
        (_TWICE, 0, (1, 0)),
        (_TWICE, 1, (3, 1)),
        (_TWICE, 2, (5, 2)),
        (_TWICE, None, (5, 3)),
        (_ANEW, 1, (2, 1)),
        (_ANEW, None, (2, 1)),
    ],
)
def test_the_row_of_a_batch_is_the_newest_that_the_checkpoint_still_knows(
    rows: list[tuple[int, int]], batch: int | None, found: tuple[int, int]
) -> None:
    assert row_of(rows, batch) == found


@pytest.mark.parametrize(
    ("rows", "batch", "told"),
    [
        (_PLAIN, 5, "no batch 5 .* 0 to 4"),
        ([(1, 2), (1, 3)], 1, "no batch 1 .* 2 to 3"),
        ([], None, "written no batch"),
        ([(1, 3), (2, -1)], None, "written no batch in this epoch.* start with --new-epoch"),
        ([], 0, "another root and checkpoint, or delete both"),
    ],
)
def test_a_batch_that_cannot_be_gone_back_to_is_refused(
    rows: list[tuple[int, int]], batch: int | None, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        row_of(rows, batch)


def _commits(*batches: tuple[int, int] | None, oldest: int = 0) -> list[CommitFacts]:
    """Oldest first, as one reads them."""
    commits = [CommitFacts(version, batch, {"n": version}) for version, batch in enumerate(batches, oldest)]
    return commits[::-1]


@pytest.mark.parametrize(
    ("commits", "row", "recorded", "version", "told"),
    [
        (_commits(None, (1, 0), (1, 1)), (1, 1), 2, None, {"n": 2}),
        (_commits(None, (1, 0), (1, 1)), (1, 0), 1, 1, {"n": 1}),
        # A purge between two batches stays done.
        (_commits(None, (1, 0), None, (1, 1)), (1, 0), 1, 2, {"n": 1}),
        # One after the last batch that stays is no reason to restore.
        (_commits(None, (1, 0), None), (1, 0), 1, None, {"n": 1}),
        # A table that a later batch wrote first is empty again.
        (_commits(None, None, (1, 3)), (1, 2), None, 1, {}),
        (_commits(None, (1, 3)), (1, 2), None, 0, {}),
        # Rows that were erased before that stay erased.
        (
            [CommitFacts(3, (1, 1)), CommitFacts(2, None, {"erased": True}), *_commits(None, (1, 0))],
            (1, 0),
            1,
            2,
            {"n": 1},
        ),
        # Two steps of one batch; the second epoch goes on behind batch 0.
        (_commits(None, (1, 0), (1, 0), (1, 1), (2, -1), None, (3, 0), (3, 1)), (3, 0), 6, 6, {"n": 6}),
        # The log was cleaned, but the ledger knows.
        (_commits((1, 5), (1, 6), oldest=90), (1, 4), 80, 80, {}),
        # So does it of what later batches wrote, though only upkeep is left in the log.
        (_commits(None, None, oldest=95), (1, 4), 80, 80, {}),
    ],
)
def test_a_table_is_restored_to_the_version_before_anything_later(
    commits: list[CommitFacts],
    row: tuple[int, int],
    recorded: int | None,
    version: int | None,
    told: dict[str, int],
) -> None:
    found = restoration("prices", commits, row, recorded, 90)
    assert (found.version, found.details, found.erased_again) == (version, told, ())


def test_a_table_that_no_later_batch_wrote_stays_as_it_is_whatever_is_left_of_its_log() -> None:
    assert restoration("prices", _commits(None, None, oldest=95), (1, 4), 80, 80).version is None
    assert restoration("prices", _commits(None, None, oldest=95), (1, 4), None, None).version is None


def test_a_table_that_the_plan_was_without_since_is_taken_back_as_well() -> None:
    assert restoration("prices", _commits(None, None, oldest=95), (1, 4), 80, None).version == 80


@pytest.mark.parametrize(
    ("newest_first", "version"),
    [
        pytest.param([CommitFacts(3, restores=True)], 2, id="the batch that stays was taken back"),
        pytest.param([CommitFacts(4), CommitFacts(3, restores=True)], 2, id="with upkeep on it"),
        pytest.param([CommitFacts(4, (3, 1)), CommitFacts(3, restores=True)], None, id="by a rollback of ours"),
    ],
)
def test_what_somebody_else_restored_is_brought_forward_again(
    newest_first: list[CommitFacts], version: int | None
) -> None:
    commits = [*newest_first, *_commits(None, (1, 0), (1, 1))]
    assert restoration("prices", commits, (3, 1), 2).version == version


@pytest.mark.parametrize(
    ("commits", "row", "version", "told"),
    [
        pytest.param([CommitFacts(3, foreign=True)], (1, 1), 2, (3,), id="behind the newest batch"),
        pytest.param([CommitFacts(4), CommitFacts(3, foreign=True)], (1, 1), 2, (3,), id="with upkeep on it"),
        pytest.param([CommitFacts(4, (1, 2)), CommitFacts(3, foreign=True)], (1, 1), 2, (3,), id="between two batches"),
        pytest.param([CommitFacts(4, (1, 2)), CommitFacts(3, foreign=True)], (1, 0), 1, (3,), id="behind a later one"),
        pytest.param([CommitFacts(4, (1, 2)), CommitFacts(3, foreign=True)], (1, 2), None, (), id="before the batch"),
    ],
)
def test_what_somebody_else_changed_behind_the_batch_is_undone_and_told_of(
    commits: list[CommitFacts], row: tuple[int, int], version: int | None, told: tuple[int, ...]
) -> None:
    found = restoration("prices", [*commits, *_commits(None, (1, 0), (1, 1))], row, 2)
    assert (found.version, found.by_others) == (version, told)


#: Batches 0 to 3 of epoch 1, what shuts others out, and a backfill behind batch 3.
_BACKFILLED = [CommitFacts(6), CommitFacts(5, (2, -1)), *_commits(None, *((1, batch) for batch in range(4)))]


@pytest.mark.parametrize(
    ("newest_first", "recorded", "version"),
    [
        pytest.param([CommitFacts(7, foreign=True)], 6, 6, id="a change of others on it"),
        pytest.param([CommitFacts(7, restores=True)], 6, 6, id="a RESTORE on it"),
        pytest.param([CommitFacts(8, (3, 4)), CommitFacts(7, foreign=True)], 6, 6, id="before a later batch"),
        pytest.param([CommitFacts(8, foreign=True), CommitFacts(7)], 6, 6, id="upkeep between them"),
        pytest.param([CommitFacts(7, foreign=True)], 7, 6, id="a change before the row was written"),
        pytest.param([CommitFacts(7, foreign=True)], None, 5, id="a row that does not tell the table"),
    ],
)
def test_a_backfill_that_the_row_of_the_batch_tells_stays_though_somebody_else_changed_the_table_behind_it(
    newest_first: list[CommitFacts], recorded: int | None, version: int
) -> None:
    assert restoration("prices", [*newest_first, *_BACKFILLED], (3, 3), recorded, recorded).version == version


_PUT = CommitFacts(3, foreign=True, stays=True)


@pytest.mark.parametrize(
    ("commits", "row", "version", "told"),
    [
        pytest.param([_PUT], (1, 1), None, (), id="behind the newest batch"),
        pytest.param([CommitFacts(4, (1, 2)), _PUT], (1, 1), 3, (), id="before a later batch"),
        pytest.param([CommitFacts(4, (1, 2)), _PUT], (1, 0), 1, (3,), id="behind a later batch"),
        pytest.param([CommitFacts(4, restores=True), _PUT], (1, 1), 2, (3,), id="before a RESTORE"),
        pytest.param([CommitFacts(4, foreign=True), _PUT], (1, 1), 2, (3, 4), id="before a change of others"),
    ],
)
def test_a_put_in_the_name_of_the_application_is_no_reason_to_go_back_but_told_of_where_it_is_undone(
    commits: list[CommitFacts], row: tuple[int, int], version: int | None, told: tuple[int, ...]
) -> None:
    found = restoration("prices", [*commits, *_commits(None, (1, 0), (1, 1))], row, 2)
    assert (found.version, tuple(sorted(found.by_others))) == (version, told)


def test_rows_that_were_erased_since_are_told_of() -> None:
    erased = CommitFacts(3, None, {"erased": True})
    commits = [erased, *_commits(None, (1, 0), (1, 1))]
    assert restoration("prices", commits, (1, 0), 1).erased_again == (3,)
    assert restoration("prices", commits, (1, 1), 2).erased_again == ()


@pytest.mark.parametrize(
    ("commits", "error", "told"),
    [
        (_commits((1, 3)), ConfigurationError, "made by a later batch"),
        (_commits((1, 5), (1, 6), oldest=90), RetentionError, "version 90 only, but an older version is needed"),
        # Of several later batches only the last one is left in the log, or none.
        (_commits(None, (1, 50), oldest=6), RetentionError, "version 6 only"),
        (_commits(None, None, oldest=95), RetentionError, "version 95 only"),
        # Nothing at all is left of it but what this rollback wrote.
        ([], RetentionError, "Delta has cleaned its log"),
    ],
)
def test_what_cannot_be_restored_is_refused(commits: list[CommitFacts], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        restoration("prices", commits, (1, 2), None, 94)
