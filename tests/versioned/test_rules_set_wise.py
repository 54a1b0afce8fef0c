"""The set-wise reads and the purge equal the record-by-record rule, over random histories.

All histories are packed into one table: the history is the first part of every key. Each is shifted in time so that
all have their horizon at 1970, and one literal horizon serves them all.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from versioned.lookup_frames import as_of_frame, between_frame, lookup_frame, reachable
from versioned.spec import TimeScope, VersionedTableSpec
from versioned.store_rules import Reason, Version, VersionedStore
from versioned.upkeep import expired_rows

_RETENTION_US: Final = 25
_HISTORIES: Final = 120
_TIMES: Final = range(-70, 71, 5)
_STORED: Final = "case INT, k STRING, v STRING, first LONG, last LONG"
_ASKED: Final = "case INT, k STRING, at_us LONG"


@dataclass(frozen=True)
class History:
    """A store after some random puts; ``shift_us`` is taken from its times when it is stored."""

    case: int
    store: VersionedStore
    shift_us: int

    def row(self, version: Version) -> tuple[int, Any, Any, int, int | None]:
        end = version.valid_to_us
        shifted = None if end is None else end - self.shift_us
        return (self.case, version.key, version.value, version.valid_from_us - self.shift_us, shifted)


def _history(case: int, scope: TimeScope) -> History:
    chance = random.Random(case)
    store = VersionedStore(_RETENTION_US, chance.choice([0, 10, _RETENTION_US]), scope)
    now = 0
    for _ in range(chance.randint(1, 25)):
        now += chance.randint(0, 8)
        value = chance.choice(["x", "y", "z", None])
        store.put(chance.choice("ab"), value, now - chance.choice([0, 0, 3, 12, 30]))
    horizon_us = store.horizon_us() if scope != "key" else 0
    assert horizon_us is not None
    return History(case, store, horizon_us)


@pytest.fixture(scope="module", params=["store", "key"])
def scope(request: pytest.FixtureRequest) -> TimeScope:
    """What shares a stream time."""
    shared: TimeScope = request.param
    return shared


@pytest.fixture(scope="module")
def histories(scope: TimeScope) -> list[History]:
    """Random histories of two keys."""
    return [_history(case, scope) for case in range(_HISTORIES)]


@pytest.fixture(scope="module")
def spec(scope: TimeScope) -> VersionedTableSpec:
    """The contract of the table that holds them all."""
    retention = f"{_RETENTION_US} us"
    return VersionedTableSpec.of(keys=["case", "k"], values="v", history_retention=retention, time_scope=scope)


@pytest.fixture(scope="module")
def rows(spark: SparkSession, histories: list[History]) -> DataFrame:
    """What is stored."""
    stored = [history.row(version) for history in histories for version in history.store]
    ends = "timestamp_micros(last)"
    return (
        spark.createDataFrame(stored, _STORED)
        .selectExpr(
            "case", "k", "timestamp_micros(first) AS validFrom", f"{ends} AS validTo", "v",
            "v IS NULL AS deleted", "last IS NULL AS _current",
        )
        .coalesce(1)
        .cache()
    )  # fmt: skip


@pytest.fixture(scope="module")
def horizon(scope: TimeScope) -> Column | None:
    """One for all, unless each key has its own."""
    return None if scope == "key" else F.timestamp_micros(F.lit(0))


def _questions(histories: list[History]) -> dict[tuple[int, str, int], Version | Reason]:
    """What the rule answers at many instants, for two keys and one that was never put."""
    return {
        (history.case, key, at_us): history.store.as_of(key, at_us + history.shift_us)
        for history in histories
        for key in ("a", "b", "nobody")
        for at_us in _TIMES
    }


def _answer(found: Version | Reason) -> str:
    return found.value if isinstance(found, Reason) else f"{found.value}@{found.valid_from_us}"


def _expected(histories: list[History]) -> dict[tuple[int, str, int], str]:
    shifts = {history.case: history.shift_us for history in histories}
    told = {}
    for (case, key, at_us), found in _questions(histories).items():
        if isinstance(found, Version):
            found = Version(key, found.value, found.valid_from_us - shifts[case], None)
        told[case, key, at_us] = _answer(found)
    return told


def _asked(spark: SparkSession, histories: list[History]) -> DataFrame:
    frame = spark.createDataFrame(list(_questions(histories)), _ASKED)
    return frame.withColumn("at", F.timestamp_micros("at_us"))


def _told(found: DataFrame) -> dict[tuple[int, str, int], str]:
    answer = F.coalesce("reason", F.concat("v", F.lit("@"), F.unix_micros("validFrom").cast("string")))
    return {tuple(row[:3]): row[3] for row in found.select("case", "k", "at_us", answer).collect()}


@pytest.mark.rule("R138", "R139", "R140", "R141", "R159", "R184")
@pytest.mark.parametrize("sends", [False, True], ids=["versions move", "sent to the versions"])
def test_a_left_lookup_gives_the_version_or_the_reason_that_the_rule_gives(
    spark: SparkSession,
    histories: list[History],
    rows: DataFrame,
    spec: VersionedTableSpec,
    horizon: Column | None,
    sends: bool,
) -> None:
    found = lookup_frame(_asked(spark, histories), rows, spec, "at", "left", horizon, sends=lambda: sends)
    assert _told(found) == _expected(histories)


@pytest.mark.rule("R138", "R139", "R159")
def test_an_inner_lookup_gives_the_versions_only(
    spark: SparkSession, histories: list[History], rows: DataFrame, spec: VersionedTableSpec, horizon: Column | None
) -> None:
    found = lookup_frame(_asked(spark, histories), rows, spec, "at", "inner", horizon)
    reasons = {reason.value for reason in Reason}
    assert _told(found) == {place: told for place, told in _expected(histories).items() if told not in reasons}


def test_what_is_out_of_reach_changes_no_answer(
    spark: SparkSession, histories: list[History], rows: DataFrame, spec: VersionedTableSpec, horizon: Column | None
) -> None:
    left = reachable(rows, spec, horizon)
    found = lookup_frame(_asked(spark, histories), left, spec, "at", "left", horizon)
    assert _told(found) == _expected(histories)


@pytest.mark.rule("R138", "R159", "R184")
@pytest.mark.parametrize("at_us", [-60, -1, 0, 1, 20, 70])
def test_as_of_gives_the_versions_that_the_rule_gives(
    histories: list[History], rows: DataFrame, spec: VersionedTableSpec, horizon: Column | None, at_us: int
) -> None:
    found = as_of_frame(rows, spec, F.timestamp_micros(F.lit(at_us)), horizon)
    asked = [(h.case, key, h.store.as_of(key, at_us + h.shift_us)) for h in histories for key in ("a", "b")]
    expected = {(case, key): version.value for case, key, version in asked if isinstance(version, Version)}
    assert {(row["case"], row["k"]): row["v"] for row in found.collect()} == expected


@pytest.mark.parametrize(("from_us", "to_us"), [(-60, 70), (0, 0), (-5, 12), (10, 25)])
def test_a_range_gives_the_versions_that_the_rule_gives(
    histories: list[History], rows: DataFrame, spec: VersionedTableSpec, from_us: int, to_us: int
) -> None:
    start, end = (F.timestamp_micros(F.lit(us)) for us in (from_us, to_us))
    found = between_frame(rows, spec, start, end).select("case", "k", "v", F.unix_micros("validFrom"))
    expected = [
        history.row(version)[:4]
        for history in histories
        for key in ("a", "b")
        for version in history.store.history(key, from_us + history.shift_us, to_us + history.shift_us)
    ]
    assert sorted(map(tuple, found.collect())) == sorted(expected)


@pytest.mark.rule("R184")
def test_a_purge_removes_the_rows_that_the_rule_removes(
    histories: list[History], rows: DataFrame, spec: VersionedTableSpec, horizon: Column | None
) -> None:
    gone = expired_rows(rows, spec, horizon).select("case", "k", F.unix_micros("validFrom"))
    before = {
        (*history.row(version)[:2], history.row(version)[3]) for history in histories for version in history.store
    }
    kept = set()
    for history in histories:
        purged = _history(history.case, spec.time_scope)
        purged.store.purge()
        kept |= {(*purged.row(version)[:2], purged.row(version)[3]) for version in purged.store}
    assert {tuple(row) for row in gone.collect()} == before - kept
