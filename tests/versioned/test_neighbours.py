"""What is next to an out-of-order record: the same by sorting as by comparing all with all, and as one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import versioned.neighbours
from versioned.neighbours import among_all, among_blocks, newest_before
from versioned.spec import VersionedTableSpec

_SPEC = VersionedTableSpec.of(keys=("k",), values=("v",), history_retention="1 day")
_STORED = "k STRING, _us LONG, _value STRUCT<v: STRING>"
_ACCEPTED = f"{_STORED}, _scope INT, _place ARRAY<BIGINT>, _is_late BOOLEAN"


def _value(name: str, at: int) -> tuple[str] | None:
    return (f"{name}{at}",) if at % 5 else None


def _accepted(instants: list[int], chance: random.Random) -> list[Any]:
    """Records of two keys, one after the other; of those at one place, which are equal, there are some."""
    rows = []
    for number, us in enumerate(instants):
        key = chance.choice("ab")
        row = (key, us, _value("new", number), 0, [number], chance.random() < 0.7)
        rows += [row] * chance.choice([1, 1, 1, 2])
    return rows


def _one_by_one(accepted: list[Any], stored: list[Any]) -> list[Any]:
    found = set()
    for key, us, _, scope, place, is_late in accepted:
        before_all = [(at, [], value) for of, at, value in stored if of == key]
        versions = before_all + [(at, no, value) for of, at, value, _, no, _ in accepted if of == key and no < place]
        pred = max((version for version in versions if version[0] <= us), default=None, key=lambda version: version[:2])
        succ_us = min((at for at, *_ in versions if at > us), default=None)
        if is_late and versions:
            told = pred and (pred[0], pred[2])
            found.add((key, scope, tuple(place), told, succ_us))
    return sorted(found, key=repr)


def _told(found: DataFrame) -> list[Any]:
    rows = (tuple(row) for row in found.where("_pred IS NOT NULL OR _succ_us IS NOT NULL").collect())
    plain = (
        (key, scope, tuple(no), pred and (pred[0], pred[1] and tuple(pred[1])), us) for key, scope, no, pred, us in rows
    )
    return sorted(plain, key=repr)


@pytest.mark.rule("R172")
@pytest.mark.parametrize("order", ["any", "descending", "ascending", "ties", "one record"])
def test_pairs_and_blocks_tell_what_one_by_one_is_told(order: str, spark: SparkSession) -> None:
    chance = random.Random(order)
    size = 1 if order == "one record" else 70
    instants = [chance.randint(-30, 3 if order == "ties" else 300) for _ in range(size)]
    if order in ("ascending", "descending"):
        instants.sort(reverse=order == "descending")
    stored = [(key, us, _value("old", us)) for key in "abc" for us in chance.sample(range(-20, 320), 9)]
    rows = _accepted(instants, chance)
    accepted, known = spark.createDataFrame(rows, _ACCEPTED), spark.createDataFrame(stored, _STORED)
    one, other = among_all(accepted, known, _SPEC), among_blocks(accepted, known, _SPEC)
    assert one.columns == other.columns
    expected = _one_by_one(rows, stored)
    assert _told(one) == _told(other) == expected
    assert any(pred and succ_us is not None for *_, pred, succ_us in expected) or size == 1


def test_late_records_of_a_key_are_not_paired_with_all_its_stored_versions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []

    def nearest(frame: DataFrame, keys: list[str]) -> DataFrame:
        compared.append(frame.count())
        return frame

    monkeypatch.setattr(versioned.neighbours, "_nearest", nearest)
    late = spark.createDataFrame([("a", at, _value("new", at), 0, [at], True) for at in range(20)], _ACCEPTED)
    among_all(late, spark.createDataFrame([("a", at, ("old",)) for at in range(500)], _STORED), _SPEC)
    assert compared[0] <= 20 * 20


@pytest.mark.rule("R138")
def test_an_ask_is_told_the_newest_of_the_versions_that_came_before_it(spark: SparkSession) -> None:
    chance = random.Random(138)
    places = [(key, [chance.randrange(40)], chance.randrange(12)) for key in "aab" for _ in range(60)]
    asks = [(key, number, place, us) for number, (key, place, us) in enumerate(places)]
    # Of one instant the greater rank is the newer; places repeat, ranks do not.
    versions = [
        (key, us, [chance.randrange(40)], [rank], _value("new", us)) for rank, (key, _, us) in enumerate(places)
    ]
    wanted = {}
    for key, number, place, us in asks:
        before = [(at, rank, value) for of, at, no, rank, value in versions if of == key and no < place and at <= us]
        if before:
            at, _, value = max(before, key=lambda version: version[:2])
            wanted[number] = (at, value)
    told = newest_before(
        spark.createDataFrame(asks, "k STRING, _scope INT, _place ARRAY<BIGINT>, _us BIGINT"),
        spark.createDataFrame(
            versions, "k STRING, _us BIGINT, _place ARRAY<BIGINT>, _rank ARRAY<BIGINT>, _value STRUCT<v: STRING>"
        ),
        ["k"],
    ).collect()
    assert {row["_scope"]: (row["_pred"]["us"], row["_pred"]["value"]) for row in told} == wanted
    assert 0 < len(wanted) < len(asks)
