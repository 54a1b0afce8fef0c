"""Which combinations of ledger, checkpoint and tables an application may go on from. No Spark here."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from streams.recovery_rules import (
    BatchOf,
    CheckpointFacts,
    LedgerFacts,
    TableFacts,
    findings,
    of_checkpoint,
    of_table,
    turn,
)
from versioned.errors import CheckpointMismatchError, ConfigurationError, FencedError

_LEDGER = LedgerFacts("app", 1, 5, "q", (1, 5))
_DONE = CheckpointFacts("/c", "q", 5, 5)
_TABLE = TableFacts("t", version=9, owner="app", batch=(1, 5), recorded=9)
_NEW = LedgerFacts("app")


@pytest.mark.parametrize(
    ("ledger", "checkpoint", "tables"),
    [
        pytest.param(_LEDGER, _DONE, [_TABLE], id="all batches done"),
        pytest.param(_LEDGER, replace(_DONE, commit=4), [_TABLE], id="died before the checkpoint's commit"),
        pytest.param(_LEDGER, replace(_DONE, offset=6), [_TABLE], id="died before the first write"),
        pytest.param(_LEDGER, replace(_DONE, commit=4, lost=("a",)), [_TABLE], id="input gone of a batch that is done"),
        pytest.param(_LEDGER, replace(_DONE, offset=6), [replace(_TABLE, batch=(1, 6))], id="died among the writes"),
        pytest.param(_LEDGER, replace(_DONE, offset=9, commit=9), [_TABLE], id="ticks with nothing to do since"),
        pytest.param(_LEDGER, _DONE, [replace(_TABLE, version=12)], id="maintenance since"),
        pytest.param(_LEDGER, _DONE, [replace(_TABLE, batch=None, owner=None)], id="a cleaned log"),
        pytest.param(_LEDGER, _DONE, [replace(_TABLE, batch=None)], id="a table of ours without a batch"),
        pytest.param(_LEDGER, _DONE, [replace(_TABLE, batch=None, restored=True)], id="restored before any batch"),
        pytest.param(_LEDGER, _DONE, [TableFacts("t", exists=False)], id="a table not needed yet"),
        pytest.param(_LEDGER, _DONE, [replace(_TABLE, node="n", writer="n")], id="a table of a node of the plan"),
        pytest.param(_LEDGER, _DONE, [replace(_TABLE, node="n")], id="a table that was made by hand, or never written"),
        pytest.param(_LEDGER, _DONE, [replace(_TABLE, batch=None, owner=None, strange=True)], id="a clone of all"),
        pytest.param(_NEW, CheckpointFacts("/c"), [], id="never started"),
        pytest.param(_NEW, CheckpointFacts("/c", "q", 0, -1), [], id="died in the first batch"),
        pytest.param(replace(_NEW, checkpoint="q"), CheckpointFacts("/c", "q", 3, 3), [], id="only ticks so far"),
        pytest.param(replace(_NEW, checkpoint="q"), CheckpointFacts("/c"), [], id="lost before anything was written"),
        pytest.param(replace(_LEDGER, checkpoint=None), _DONE, [_TABLE], id="a ledger from before ids were kept"),
        pytest.param(
            LedgerFacts("app", 1, 0, None, (1, 0)),
            CheckpointFacts("/c", "q", 0, 0),
            [],
            id="such a ledger of one batch",
        ),
        pytest.param(
            LedgerFacts("app", 2, -1, None, (2, -1)),
            CheckpointFacts("/c-epoch-2"),
            [replace(_TABLE, batch=(2, -1), restored=False, recorded=None)],
            id="a new epoch after a fence",
        ),
        pytest.param(
            LedgerFacts("app", 2, 5, "q", (2, 5)),
            CheckpointFacts("/c-epoch-2", "q", 9, 9),
            [replace(_TABLE, batch=(1, 8))],
            id="a table last written in a former epoch, in a batch of a number that is passed again",
        ),
    ],
)
def test_what_a_crash_or_a_pause_leaves_is_gone_on_from(
    ledger: LedgerFacts, checkpoint: CheckpointFacts, tables: list[TableFacts]
) -> None:
    assert findings(ledger, checkpoint, tables) == []


_WRONG = [
    ("checkpoint-lost", _LEDGER, CheckpointFacts("/c"), [_TABLE]),
    ("checkpoint-lost", _NEW, CheckpointFacts("/c"), [replace(_TABLE, batch=(1, 0), recorded=None)]),
    ("checkpoint-foreign", _LEDGER, replace(_DONE, query="other"), [_TABLE]),
    ("checkpoint-foreign", _NEW, CheckpointFacts("/c", "other", 3, 3), []),
    ("checkpoint-foreign", _NEW, CheckpointFacts("/c", "other", 0, 0), []),
    ("checkpoint-behind", _LEDGER, replace(_DONE, offset=3, commit=3), [_TABLE]),
    ("checkpoint-behind", _LEDGER, _DONE, [replace(_TABLE, batch=(1, 7))]),
    ("checkpoint-behind", _LEDGER, replace(_DONE, offset=5, commit=8), [_TABLE]),
    ("checkpoint-damaged", _LEDGER, replace(_DONE, damage="cut off"), [_TABLE]),
    ("checkpoint-damaged", _LEDGER, CheckpointFacts("/c", "q", damage="cut off"), [_TABLE]),
    ("ledger-behind", _LEDGER, replace(_DONE, offset=8, commit=8), [replace(_TABLE, batch=(1, 8))]),
    ("ledger-behind", _LEDGER, replace(_DONE, offset=7), [replace(_TABLE, batch=(1, 6))]),
    (
        "ledger-behind",
        replace(_LEDGER, batch_id=3, newest_commit=(1, 3)),
        replace(_DONE, commit=4),
        [_TABLE, replace(_TABLE, name="u", batch=(1, 4))],
    ),
    ("ledger-restored", replace(_LEDGER, newest_commit=(1, 6)), replace(_DONE, offset=6), [_TABLE]),
    ("table-restored", _LEDGER, _DONE, [replace(_TABLE, restored=True)]),
    ("table-restored", _LEDGER, _DONE, [replace(_TABLE, restored=True, recorded=None)]),
    ("table-gone", _LEDGER, _DONE, [replace(_TABLE, exists=False)]),
    ("table-replaced", _LEDGER, _DONE, [replace(_TABLE, version=8)]),
    ("table-of-other", _LEDGER, _DONE, [replace(_TABLE, owner="other")]),
    ("table-of-other", _LEDGER, _DONE, [replace(_TABLE, owner="other", batch=(1, 9))]),
    ("table-of-other", replace(_NEW, others=("other",)), CheckpointFacts("/c"), []),
    ("table-of-node", _LEDGER, _DONE, [replace(_TABLE, writer="first", node="second")]),
    ("table-by-hand", _NEW, CheckpointFacts("/c"), [TableFacts("t", version=1, strange=True)]),
    ("table-by-hand", _LEDGER, _DONE, [_TABLE, TableFacts("added", version=1, node="n", strange=True)]),
    ("table-forgets", _LEDGER, _DONE, [replace(_TABLE, forgets=True)]),
    ("table-forgets", replace(_LEDGER, forgets=True), _DONE, [_TABLE]),
    (
        "table-of-older-driver",
        LedgerFacts("app", 2, 5, "q", (2, 5)),
        _DONE,
        [replace(_TABLE, batch=(1, 7), recorded=None, left=(1, 7))],
    ),
    ("newer-epoch", _LEDGER, _DONE, [replace(_TABLE, batch=(2, 0))]),
    ("newer-epoch", _LEDGER, _DONE, [replace(_TABLE, batch=(2, 9))]),
    ("input-gone", _LEDGER, replace(_DONE, offset=6, lost=("file:///in/6.json",)), [_TABLE]),
    ("empty-commit", _LEDGER, _DONE, [replace(_TABLE, blank=True)]),
    ("empty-commit", replace(_LEDGER, blank=True), _DONE, [_TABLE]),
]


@pytest.mark.parametrize(
    ("rule", "ledger", "checkpoint", "tables"), _WRONG, ids=lambda part: part if isinstance(part, str) else ""
)
def test_damage_is_named_with_what_to_do(
    rule: str, ledger: LedgerFacts, checkpoint: CheckpointFacts, tables: list[TableFacts]
) -> None:
    (found,) = findings(ledger, checkpoint, tables)
    assert found.rule == rule
    told = str(found.error())
    assert "Nothing was written" in told
    assert "None" not in told
    assert any(word in told for word in ("--new-epoch", "estore", "unset", "remove", "root", "call", "put them back"))


def test_a_ledger_that_is_behind_is_to_be_put_back_to_the_newest_batch_of_its_tables() -> None:
    tables = [replace(_TABLE, name=f"t{batch}", batch=(1, batch)) for batch in (7, 8, 6)]
    (found,) = findings(_LEDGER, replace(_DONE, offset=8, commit=8), tables)
    assert "the version that has batch 8" in found.remedy


@pytest.mark.parametrize(
    ("tables", "said", "remedy"),
    [
        ([], '"app" never ran there', "another root"),
        ([replace(_TABLE, batch=(1, -1), recorded=None)], '"app" ran there: its own is gone', "put its ledger back"),
    ],
)
def test_of_a_root_with_the_ledger_of_another_application_it_is_told_who_ran_there(
    tables: list[TableFacts], said: str, remedy: str
) -> None:
    found = findings(replace(_NEW, others=("other",)), CheckpointFacts("/c"), tables)
    (told,) = [each for each in found if each.rule == "table-of-other"]
    assert said in told.found
    assert remedy in told.remedy


def test_a_table_of_an_undone_batch_is_to_be_deleted_only_if_the_ledger_has_no_batch_that_wrote_it() -> None:
    (found,) = findings(*next(case[1:] for case in _WRONG if case[0] == "table-of-older-driver"))
    assert re.search(
        r"If the ledger has none of them, delete.*Otherwise.*RESTORE .* and start with --new-epoch", str(found)
    )


@pytest.mark.parametrize(
    ("batch", "remedy"),
    [
        ((1, 5), "take it to version 9 by RESTORE, or versioned rollback --batch 5, or "),
        ((1, 6), "take the tables back to the batch before: versioned rollback --batch 5, or "),
    ],
    ids=["after a batch that ended", "within one, or after it, that did not end"],
)
def test_a_restored_table_is_taken_forward_only_where_no_write_of_an_unfinished_batch_would_be_lost(
    batch: tuple[int, int], remedy: str
) -> None:
    (found,) = findings(_LEDGER, replace(_DONE, offset=6), [replace(_TABLE, batch=batch, version=11, restored=True)])
    assert found.remedy.startswith(remedy)


def test_of_the_first_batch_of_an_epoch_a_restored_table_has_no_batch_to_go_back_to() -> None:
    ledger, checkpoint = LedgerFacts("app", 2, -1, "q", (2, -1)), CheckpointFacts("/c-epoch-2", "q", 0, -1)
    (found,) = findings(ledger, checkpoint, [replace(_TABLE, batch=(2, 0), version=11, restored=True)])
    assert found.remedy.startswith("start with --new-epoch")


def test_every_rule_has_a_case() -> None:
    assert len({rule for rule, *_ in _WRONG}) == 17


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("newer-epoch", FencedError),
        ("table-forgets", ConfigurationError),
        ("table-by-hand", ConfigurationError),
        ("table-gone", CheckpointMismatchError),
    ],
)
def test_a_finding_refuses_with_the_error_of_its_kind(rule: str, kind: type[Exception]) -> None:
    case = next(case for case in _WRONG if case[0] == rule)
    assert type(findings(*case[1:])[0].error()) is kind


def test_several_faults_are_all_told() -> None:
    told = findings(_LEDGER, CheckpointFacts("/c"), [replace(_TABLE, restored=True), replace(_TABLE, exists=False)])
    assert [found.rule for found in told] == ["table-restored", "table-gone", "checkpoint-lost"]


@pytest.mark.parametrize(("batch", "told"), [((1, 2), 2), ((2, -1), 5)], ids=["a batch", "a takeover behind a batch"])
def test_a_table_that_was_restored_is_told_with_the_batch_behind_which_that_was(batch: BatchOf, told: int) -> None:
    ledger = replace(_LEDGER, epoch=3, newest_commit=(3, 5))
    (wrong,) = of_table(ledger, replace(_TABLE, batch=batch, restored=True))
    assert f"was restored after batch {told}:" in wrong.found


def test_a_new_epoch_needs_a_checkpoint_without_batches() -> None:
    begun = replace(_NEW, epoch=2)
    assert of_checkpoint(begun, CheckpointFacts("/c-epoch-2"), -1) == []
    assert of_checkpoint(begun, CheckpointFacts("/c-epoch-2", "q", 3, 3), -1)[0].rule == "checkpoint-foreign"


@pytest.mark.parametrize(
    ("newest", "ids", "restored", "rule"),
    [
        ((1, 5), ("q", "q"), False, None),
        ((1, 5), (None, "q"), False, None),
        ((1, 5), ("q", None), False, None),
        # Delta has cleaned the log.
        ((1, 4), ("other", "q"), False, None),
        (None, (None, "q"), False, None),
        ((1, 6), ("q", "q"), False, "other-driver"),
        ((1, 5), ("other", "q"), False, "other-driver"),
        ((2, -1), (None, "q"), False, "newer-epoch"),
        ((1, 5), ("q", "q"), True, "ledger-restored"),
    ],
)
def test_a_driver_writes_only_on_top_of_its_own_last_batch(
    newest: tuple[int, int] | None, ids: tuple[str | None, str | None], restored: bool, rule: str | None
) -> None:
    found = turn(_LEDGER, newest, ids, restored)
    assert (None if found is None else found.rule) == rule


def test_of_several_faults_of_a_checkpoint_the_first_is_told() -> None:
    foreign = CheckpointFacts("/c", "other", 3, 3, damage="cut off")
    assert [found.rule for found in of_checkpoint(_LEDGER, foreign, 5)] == ["checkpoint-foreign"]
