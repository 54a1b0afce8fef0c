"""Stored rows of the keys that are asked for."""

from __future__ import annotations

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from streams.spark.flow import FOUND, KEY, PLACE, SCOPE, US, VALUE, Bounds, Flow, most_of
from streams.spark.lookup_table import LookupTable, latest_at_place
from streams.spark.of_keys import of_keys, without_keys
from streams.spark.table_table_join import JoinedView


def _keyed(spark: SparkSession, keys: list[tuple[str | None, int | None]]) -> DataFrame:
    rows = [((*key,), number) for number, key in enumerate(keys)]
    return spark.createDataFrame(rows, f"{KEY} STRUCT<a: STRING, b: INT>, n INT")


@pytest.mark.parametrize("few", [True, False])
def test_each_row_is_either_of_a_key_that_is_asked_for_or_not(spark: SparkSession, few: bool) -> None:
    stored = _keyed(spark, [("x", 1), ("x", 2), ("y", 1), ("z", None), (None, None)])
    asked = _keyed(spark, [("x", 2), ("x", 2), ("z", None), ("w", 1)])
    assert sorted(row["n"] for row in of_keys(stored, asked, few=few).collect()) == [1, 3]
    assert sorted(row["n"] for row in without_keys(stored, asked, few=few).collect()) == [0, 2, 4]


def test_rows_are_not_moved_for_few_records(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    stored, asked = _keyed(spark, [("x", 1)]), _keyed(spark, [("x", 1)])
    of_keys(stored, asked, few=True).explain()
    plan = capsys.readouterr().out
    assert "BroadcastHashJoin" in plan
    assert "hashpartitioning" not in plan


def test_how_many_records_flows_have_at_most_is_known_if_it_is_of_each(spark: SparkSession) -> None:
    frame = spark.range(0)
    counted, limited, unknown = Flow(frame, {0: Bounds(0, 1, 7)}), Flow(frame, most=5), Flow(frame)
    assert most_of([counted, limited.map(lambda rows: rows)]) == 12
    assert most_of([counted, unknown]) is None


class _Table(LookupTable):
    """A table of one row."""

    def __init__(self, row: DataFrame) -> None:
        self._row = row

    def rows(self) -> DataFrame:
        return self._row

    def find_latest(self, asked: DataFrame, *, few: bool = False) -> DataFrame:
        return latest_at_place(asked, self._row, None, few=few)


class _Pairing:
    """Puts the values of two tables after each other."""

    def __init__(self, *sides: LookupTable) -> None:
        self.sides = sides

    def value(self, left: Column, right: Column, _: int) -> Column:
        return F.struct(F.concat(left.getField("v"), right.getField("v")).alias("v"))


def _table_of(spark: SparkSession, value: str) -> LookupTable:
    key, at = F.struct("id").alias(KEY), F.lit(1).cast("long").alias(US)
    return _Table(spark.range(1).select(key, F.struct(F.lit(value).alias("v")).alias(VALUE), at))


def _asked(spark: SparkSession) -> DataFrame:
    place = F.array(F.lit(5).cast("long")).alias(PLACE)
    return spark.range(7, 8).select(F.struct(F.col("id") - 7).alias(KEY), F.lit(0).alias(SCOPE), place)


def test_each_side_of_a_join_may_be_a_join_whose_sides_are_joins(spark: SparkSession) -> None:
    tables = [_table_of(spark, letter) for letter in "abcdefgh"]
    while len(tables) > 1:
        pairs = zip(tables[::2], tables[1::2], strict=True)
        tables = [JoinedView(_Pairing(*pair)) for pair in pairs]  # type: ignore[arg-type]
    assert [row[FOUND].v for row in tables[0].find_latest(_asked(spark)).collect()] == ["abcdefgh"]


def test_tables_joined_one_behind_another_ask_for_the_few_keys_once(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    view: LookupTable = _table_of(spark, "a")
    for _ in range(3):
        view = JoinedView(_Pairing(view, _table_of(spark, "a")))  # type: ignore[arg-type]
    found = view.find_latest(_asked(spark), few=True)
    found.explain()
    # Once for the keys that are sent, once for what is found.
    assert capsys.readouterr().out.count("Range (7, 8") == 2
    assert [row[FOUND].v for row in found.collect()] == ["aaaa"]
