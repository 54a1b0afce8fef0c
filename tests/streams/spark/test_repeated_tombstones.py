"""Tombstones that a versioned table is spared."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streams.spark import repeated_tombstones
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE
from streams.spark.kernel import fold_groups
from streams.spark.repeated_tombstones import without_repeated_tombstones
from versioned.spec import TimeScope, VersionedTableSpec
from versioned.store_rules import VersionedStore

_RECORD = f"{KEY} STRUCT<k: STRING>, {VALUE} STRUCT<v: STRING>, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>"
_SPEC = VersionedTableSpec.of(keys=("k",), values=("v",), history_retention="1 day")


@pytest.mark.rule("R160")
@pytest.mark.parametrize(
    ("before", "values", "left"),
    [
        ("x", [None], [None]),
        ("x", [None, None], [None]),
        ("x", [None, None, None], [None]),
        (None, [None, None], []),
        ("x", ["y", "y"], ["y", "y"]),
    ],
)
def test_of_equal_records_only_the_first_tombstone_is_left(
    before: str | None, values: list[str | None], left: list[str | None], spark: SparkSession
) -> None:
    rows = [(("a",), value and (value,), 7, 0, [7, 0, 0, 99, 1, row]) for row, value in enumerate(values)]
    current = spark.createDataFrame([(("a",), before and (before,), 5)], f"{_RECORD.split(SCOPE)[0].rstrip(', ')}")
    kept = without_repeated_tombstones(spark.createDataFrame(rows, _RECORD), current, _SPEC, {0: 5})
    assert [row[VALUE] and row[VALUE]["v"] for row in kept.collect()] == left
    assert kept.columns == [KEY, VALUE, US, SCOPE, PLACE]


def _many() -> list[tuple[str, str | None, int, int]]:
    """Key, value, instant and scope of records out of order, some of them far too late; half of them delete."""
    drawn = random.Random(160)
    rows = []
    for at in range(120):
        # What is late by one record is late by others before it.
        late_us = 20_000 if at > 60 and drawn.random() < 0.2 else drawn.randrange(60)
        rows.append((drawn.choice("abcde"), drawn.choice(["x", None]), at * 10 - late_us, drawn.randrange(2)))
    return rows


#: A tombstone of a key without versions moves no stream time, so what comes behind it is not late.
_SPARED_AHEAD = [("a", "x", 0, 0), ("b", None, 5_000, 0), ("a", "y", 100, 0), ("a", None, 200, 0), ("a", None, 300, 0)]


def _left(
    rows: list[tuple[str, str | None, int, int]], before: Mapping[str, tuple[str | None, int]], spec: VersionedTableSpec
) -> list[int]:
    """The numbers of the records that reach the store, one by one as the test driver does."""
    store, left = VersionedStore(spec.history_retention_us, spec.grace_us, spec.time_scope), []
    for key, (value, us) in before.items():
        store.restore(key, value, us)
    for number, (key, value, us, scope) in enumerate(rows):
        if value is not None or store.get(key) is not None:
            left.append(number)
            store.put(key, value, us, scope)
    return left


@pytest.mark.rule("R160")
@pytest.mark.parametrize(
    ("rows", "time_scope", "by"),
    [(_many(), "partition", KEY), (_many(), "key", KEY), (_SPARED_AHEAD, "partition", "_all")],
    ids=["what is late is plain", "a stream time for each key", "one spared one tells what is late"],
)
def test_many_records_are_gone_through_key_by_key_unless_what_is_late_depends_on_what_is_spared(
    rows: list[tuple[str, str | None, int, int]],
    time_scope: TimeScope,
    by: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = VersionedTableSpec.of(
        keys=("k",), values=("v",), history_retention="1 day", grace="1 ms", time_scope=time_scope
    )
    before: dict[str, tuple[str | None, int]] = {"c": ("x", -9), "d": (None, -9)}
    state = [((key,), value and (value,), us) for key, (value, us) in before.items()]
    current = spark.createDataFrame(state, _RECORD.split(SCOPE)[0].rstrip(", "))
    records = spark.createDataFrame(
        [((key,), value and (value,), us, scope, [n]) for n, (key, value, us, scope) in enumerate(rows)], _RECORD
    )
    groups = []

    def seen(events: Any, states: Any, names: list[str], *rest: Any) -> Any:
        groups.append(names)
        return fold_groups(events, states, names, *rest)

    monkeypatch.setattr(repeated_tombstones, "fold_groups", seen)
    kept = without_repeated_tombstones(records, current, spec, {}, cut=lambda frame: frame)
    assert sorted(row[PLACE][0] for row in kept.collect()) == _left(rows, before, spec)
    assert groups == [[by]]
