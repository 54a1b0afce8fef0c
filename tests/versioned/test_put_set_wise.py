"""Batches of puts, cut at random, equal the record-by-record rule: outcomes, changes, stored rows, stream times.

Many random histories are put into one table; the history is the first part of every key and its input partition.
"""

from __future__ import annotations

import random
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from touched_keys import WAYS, rows_by_key

from versioned import put as put_module
from versioned.identifiers import TableRef
from versioned.put import PutBatch, PutCounts
from versioned.spec import TimeScope
from versioned.store_rules import LATEST, REFUSED, Outcome, VersionedStore
from versioned.table import VersionedTable
from versioned.table_log import history

_RETENTION_US: Final = 25
_GRACE_US: Final = 15
_HISTORIES: Final = 60
_BATCHES: Final = 2
#: What shares a stream time; and how the batches are written, if not all current rows are replaced in one commit.
_VARIANTS: Final = (
    "partition",
    *(
        pytest.param(variant, marks=pytest.mark.slow)
        for variant in ("partition named", "store spliced", "key spliced", "store merged", "key named")
    ),
)  # fmt: skip
_SCHEMA: Final = "case INT, k STRING, v STRING, us LONG, seq LONG, dead BOOLEAN"

Place = tuple[int, int]


@dataclass(frozen=True)
class Put:
    """One record; ``seq`` is its place in the whole input."""

    case: int
    key: str
    value: str | None
    us: int
    seq: int

    @property
    def row(self) -> tuple[Any, ...]:
        return (self.case, self.key, self.value, self.us, self.seq, self.value is None)


@dataclass(frozen=True)
class Told:
    """What the table said of all puts, and what it holds afterwards."""

    outcomes: dict[Place, tuple[int, str, bool]]
    old: dict[Place, tuple[str | None, int | None]]
    stored: list[tuple[Any, ...]]
    stream_times: dict[int, int]
    is_sound: bool


def _puts() -> list[Put]:
    """The histories, mixed at random; each goes forward in time on the whole, with late records and ties.

    They begin where some late versions end at -1 us, which as a number is that of the latest.
    """
    chance = random.Random(20130101)
    order = [case for case in range(_HISTORIES) for _ in range(chance.randint(1, 20))]
    chance.shuffle(order)
    now = dict.fromkeys(range(_HISTORIES), -22)
    puts = []
    for seq, case in enumerate(order):
        now[case] += chance.randint(0, 7)
        value = chance.choice(["x", "y", "z", None])
        late = chance.choice([0, 0, 0, 4, 9, _GRACE_US, _GRACE_US + 1, 40])
        puts.append(Put(case, chance.choice("ab"), value, now[case] - late, seq))
    return puts


_PUTS: Final = _puts()


def _frame(spark: SparkSession, puts: list[Put]) -> DataFrame:
    return spark.createDataFrame([put.row for put in puts], _SCHEMA).withColumn("ts", F.timestamp_micros("us"))


def _stored(table: VersionedTable) -> list[tuple[Any, ...]]:
    times = [F.unix_micros(name) for name in ("validFrom", "validTo")]
    return [tuple(row) for row in table.rows().select("case", "k", "v", *times, "deleted").collect()]


@pytest.fixture(scope="module", params=_VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    """What shares a stream time, and how the batches are written."""
    return str(request.param)


@pytest.fixture(scope="module")
def scope(variant: str) -> TimeScope:
    """What shares a stream time."""
    shared: TimeScope = variant.split()[0]  # type: ignore[assignment]
    return shared


@pytest.fixture(scope="module")
def told(spark: SparkSession, variant: str, scope: TimeScope, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """All puts, in batches cut at random; late ones are written with the current rows, or before them."""
    path = tmp_path_factory.mktemp("puts") / scope
    way = variant.split()[-1]
    by_key = rows_by_key(spark, way) if way in WAYS else nullcontext()
    with pytest.MonkeyPatch.context() as patch, by_key:
        if variant.endswith("spliced"):
            patch.setattr(put_module, "ROWS_PER_SPLICE", 0)
            patch.setattr(put_module, "ROWS_FOR_ANY_SPLICE", 0)
        if variant.endswith(("spliced", "named")):
            # As of so many late records that not all can be compared with all others.
            patch.setattr(put_module, "FEW_PAIRS", 0)
        told = _put_all(spark, scope, path)
        commits = history(spark, TableRef(path=str(path)), 100)
        assert any(_names_keys(row) for row in commits) is variant.endswith("named")
        assert any(row["operation"] == "MERGE" for row in commits) is variant.endswith(("spliced", "merged"))
        return told


def _names_keys(commit: Row) -> bool:
    return "xxhash64" in commit["operationParameters"].get("predicate", "")


def _put_all(spark: SparkSession, scope: TimeScope, path: Path) -> Told:
    table = VersionedTable.create(
        spark,
        str(path),
        "case INT, k STRING, v STRING",
        keys=["case", "k"],
        history_retention=f"{_RETENTION_US} us",
        grace=f"{_GRACE_US} us",
        time_scope=scope,
    )
    made = Told({}, {}, [], {}, True)
    cuts = [0, *sorted(random.Random(scope).sample(range(1, len(_PUTS)), _BATCHES - 1)), len(_PUTS)]
    put = partial(table.put, deleted="dead", partition="case", sequence="seq")
    # Asked for when the later batches are in the table too: a result tells what was so at its put.
    for said in [put(_frame(spark, _PUTS[start:end])) for start, end in pairwise(cuts)]:
        for row in said.outcomes.collect():
            made.outcomes[row["case"], row["sequence"]] = (row["put_result"], row["outcome"], row["is_latest"])
        for row in said.changes.select("*", F.unix_micros("old_valid_from").alias("us")).collect():
            made.old[row["case"], row["sequence"]] = (row["old"] and row["old"]["v"], row["us"])
    return Told(made.outcomes, made.old, _stored(table), table.stream_times(), table.verify().is_sound)


@dataclass(frozen=True)
class Rule:
    """What the rule says, record by record."""

    store: VersionedStore
    outcomes: dict[Place, tuple[int, str, bool]]
    old: dict[Place, str | None]


def _word(outcome: Outcome) -> str:
    if outcome.is_refused:
        return "refused"
    return "latest" if outcome.is_latest else "out_of_order"


@pytest.fixture(scope="module")
def rule(scope: TimeScope) -> Rule:
    """The same puts, one after the other."""
    made = Rule(VersionedStore(_RETENTION_US, _GRACE_US, scope), {}, {})
    for put in _PUTS:
        key, place = (put.case, put.key), (put.case, put.seq)
        before = made.store.value_at(key, put.us)
        outcome = made.store.take(key, put.value, put.us, put.case)
        made.outcomes[place] = (outcome.result, _word(outcome), outcome.is_latest)
        if not outcome.is_refused:
            made.old[place] = before
    return made


@pytest.mark.rule("R159", "R172", "R173", "R174", "R175", "R176", "R179", "R182", "R183")
def test_every_put_has_the_outcome_that_the_rule_gives(told: Told, rule: Rule) -> None:
    assert told.outcomes == rule.outcomes


def test_some_versions_end_at_the_instant_whose_number_is_that_of_the_latest(rule: Rule) -> None:
    assert (LATEST, "out_of_order", False) in rule.outcomes.values()


def test_a_change_has_the_value_that_was_valid_just_before(told: Told, rule: Rule) -> None:
    assert {place: value for place, (value, _) in told.old.items()} == rule.old


@pytest.mark.rule("R180", "R181", "R183")
def test_the_stored_rows_are_the_versions_of_the_rule(told: Told, rule: Rule) -> None:
    expected = [
        (*version.key, version.value, version.valid_from_us, version.valid_to_us, version.value is None)
        for version in rule.store
    ]
    assert sorted(told.stored, key=lambda row: row[:2] + row[3:4]) == sorted(
        expected, key=lambda row: row[:2] + row[3:4]
    )


@pytest.mark.rule("R182")
def test_stream_time_is_the_largest_accepted_time_of_its_scope(told: Told, rule: Rule, scope: TimeScope) -> None:
    if scope == "partition":
        expected = {case: rule.store.stream_time_us((case, "a"), case) for case in {put.case for put in _PUTS}}
    elif scope == "store":
        expected = {0: rule.store.stream_time_us()}
    else:
        expected = {0: max(put.us for put in _PUTS)}
    assert told.stream_times == expected


def test_the_table_is_sound_after_all_puts(told: Told) -> None:
    assert told.is_sound


@pytest.mark.slow
@pytest.mark.rule("R173", "R183")
def test_a_batch_that_begins_where_the_table_ends_gives_what_the_rule_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance, store = random.Random(5), VersionedStore(_RETENTION_US, _GRACE_US, "store")
    table = VersionedTable.create(
        spark, str(tmp_path / "ahead"), "case INT, k STRING, v STRING", keys=["case", "k"],
        history_retention=f"{_RETENTION_US} us", grace=f"{_GRACE_US} us", time_scope="store",
    )  # fmt: skip
    for first in (0, _GRACE_US):
        # Each batch spans the grace, in any order of instants: late for each other, never for what is stored.
        instants = [first, *(first + chance.randint(0, _GRACE_US) for _ in range(40)), first + _GRACE_US]
        puts = [Put(0, chance.choice("abcd"), chance.choice(["x", "y", None]), us, n) for n, us in enumerate(instants)]
        expected = [store.put((0, put.key), put.value, put.us, 0) for put in puts]
        said = table.put(_frame(spark, puts), deleted="dead", sequence="seq")
        assert [row["put_result"] for row in said.outcomes.orderBy("sequence").collect()] == expected
        out_of_order = sum(outcome not in (LATEST, REFUSED) for outcome in expected)
        assert said.counts == PutCounts(len(puts), 0, out_of_order, 0)
    versions = {(v.key[1], v.valid_from_us): (v.value, v.valid_to_us) for v in store}
    assert {(row[1], row[3]): (row[2], row[4]) for row in _stored(table)} == versions


def test_what_is_asked_for_later_is_worked_out_once_and_its_cache_given_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[PutBatch] = []
    release = PutBatch.release

    def told(batch: PutBatch) -> None:
        released.append(batch)
        release(batch)

    monkeypatch.setattr(PutBatch, "release", told)
    table = VersionedTable.create(
        spark, str(tmp_path / "t"), "case INT, k STRING, v STRING", keys=["case", "k"], history_retention="1 day"
    )
    said = table.put(_frame(spark, [Put(0, "a", "x", 1, 0)]), sequence="seq")
    assert len(released) == 1
    for _ in range(2):
        assert said.outcomes.count() == said.changes.count() == 1
    assert len(released) == 2
