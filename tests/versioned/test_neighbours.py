"""What is next to an out-of-order record: the same by sorting as by comparing all with all."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from versioned.neighbours import among_all, among_blocks
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


def _sorted(rows: list[Row]) -> list[Any]:
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.rule("R172")
@pytest.mark.parametrize("order", ["any", "descending", "ascending", "ties", "one record"])
def test_blocks_tell_what_all_pairs_tell(order: str, spark: SparkSession) -> None:
    chance = random.Random(order)
    size = 1 if order == "one record" else 70
    instants = [chance.randint(-30, 3 if order == "ties" else 300) for _ in range(size)]
    if order in ("ascending", "descending"):
        instants.sort(reverse=order == "descending")
    stored = [(key, us, _value("old", us)) for key in "abc" for us in chance.sample(range(-20, 320), 9)]
    accepted = spark.createDataFrame(_accepted(instants, chance), _ACCEPTED)
    known = spark.createDataFrame(stored, _STORED)
    expected = among_all(accepted, known, _SPEC)
    found = among_blocks(accepted, known, _SPEC)
    assert found.columns == expected.columns
    assert _sorted(found.collect()) == _sorted(expected.collect())
    assert expected.where("_pred IS NOT NULL AND _succ_us IS NOT NULL").count() > 0 or size == 1
