"""A foreign-key join whose left table is a join that is not stored: its rows are computed, and so are their times."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from both_engines import Input, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.expressions import Expr
from streams.functions import coalesce, concat, substring
from streams.nodes import Materialized, Topology
from streams.topology import StreamsBuilder

_SOURCE: Final = {"key": "k", "value": "v", "deleted": "dead"}
#: "p" points to "x", whose row comes after that which "p" was joined with was deleted, and is older.
_RECORDS: Final = (
    Input("c", "p", "x", 10),
    Input("d", "p", "1", 20),
    Input("d", "p", None, 30),
    Input("d", "x", "9", 15),
)


def _topology() -> Topology:
    builder = StreamsBuilder()
    left, right = (builder.table(name, Materialized.key_value(f"{name}-store"), name=name, **_SOURCE) for name in "cd")
    joined = left.left_join(right, _pair, name="joined")
    pointing = joined.left_join(right, _pair, foreign_key=lambda value: substring(value.v, 1, 1), name="pointing")
    pointing.to_changelog("out")
    return builder.build()


def _pair(left: Expr, right: Expr) -> dict[str, Expr]:
    return {"v": concat(left.v, coalesce(right.v, ""))}


@pytest.mark.rule("R155")
@pytest.mark.slow
@pytest.mark.parametrize("ends", [pytest.param([4], id="whole"), pytest.param([3, 4], id="cut before the right row")])
def test_a_computed_left_row_counts_with_the_ts_of_what_its_sides_hold(
    spark: SparkSession, tmp_path: Path, ends: list[int]
) -> None:
    told = sink_rows(spark, on_spark(spark, tmp_path, _topology(), _RECORDS, ends), _topology())
    assert told == on_driver(_topology(), _RECORDS)
    assert told["out"][-1] == (("p",), ("x9",), 15_000)


def _both_sides() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("c", Materialized.key_value("store"), name="table", **_SOURCE)
    itself = table.left_join(table, _pair, foreign_key=lambda value: substring(value.v, 1, 1), name="itself")
    pointing = table.join(itself, _pair, foreign_key=lambda value: substring(value.v, 1, 1), name="pointing")
    pointing.to_changelog("out")
    return builder.build()


@pytest.mark.slow
@pytest.mark.rule("R155")
def test_a_record_that_comes_by_the_right_side_first_dates_its_left_row_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [Input("c", "b", "bq", 100), Input("c", "b", "bz", 5)]
    told = sink_rows(spark, on_spark(spark, tmp_path, _both_sides(), records, [2]), _both_sides())
    assert told == on_driver(_both_sides(), records)
    assert (("b",), ("bqbzbz",), 5_000) in told["out"]


def _itself() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("c", Materialized.key_value("store"), name="table", **_SOURCE)
    table.left_join(table, _pair, foreign_key=lambda value: value.v, name="itself").to_changelog("out")
    return builder.build()


@pytest.mark.slow
@pytest.mark.rule("R3", "R155")
def test_by_arrival_a_table_meets_itself_as_on_the_driver_where_partitions_have_offset_and_time_in_common(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Of two partitions, whose records have offsets and times in common: rows that point to each other or to themselves.
    pairs = [(("a", "b"), ("b", "z")), (("d", "z"), ("e", "d")), (("f", "f"), ("g", "f"))]
    records = [
        Input("c", key, value, 10 * at, partition, sequence=at)
        for at, pair in enumerate(pairs)
        for partition, (key, value) in enumerate(pair)
    ]
    app = on_spark(spark, tmp_path, _itself(), records, [len(records)], by_arrival=True, in_partitions=True)
    told, wanted = sink_rows(spark, app, _itself())["out"], on_driver(_itself(), records)["out"]
    # Of each key in order: all partitions are one scope behind a foreign key, in an order of its own.
    assert sorted(told, key=lambda row: row[0]) == sorted(wanted, key=lambda row: row[0])
    assert (("a",), ("bz",), 0) in told
