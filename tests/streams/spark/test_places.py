"""Places: what orders the records of a scope, put in order in one piece or in many."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from raw_rows import LATEST_US, raw_rows, rule_of, taken_in

from streams.nodes import StreamSource, TableSource
from streams.spark import places
from streams.spark.flow import PLACE, SCOPE, US
from streams.spark.intake import WHY_INVALID, shape
from streams.spark.places import PIECE
from streams.topology import StreamsBuilder

_MAXIMA = {"nothing before": {}, "times before": {0: 5_000_500}, "later times before": {0: 7_900_000}}


@pytest.fixture(scope="module")
def stream() -> StreamSource:
    builder = StreamsBuilder()
    builder.stream("in", key="k", value=["v"], name="stream").to_changelog("out")
    (source,) = (node for node in builder.build() if isinstance(node, StreamSource))
    return source


@pytest.fixture(scope="module")
def raw(spark: SparkSession) -> DataFrame:
    return raw_rows(spark).localCheckpoint()


def _told(records: DataFrame) -> list[tuple[object, ...]]:
    return sorted(
        tuple(map(str, row)) for row in records.select(PLACE, "_key", "_value", US, SCOPE, WHY_INVALID).collect()
    )


@pytest.mark.parametrize("sequence_by", ["seq", None], ids=["by sequence", "by time"])
@pytest.mark.parametrize("maxima", _MAXIMA.values(), ids=_MAXIMA)
def test_records_have_the_same_places_in_one_piece_and_in_many(
    sequence_by: str | None,
    maxima: Mapping[int, int],
    raw: DataFrame,
    stream: StreamSource,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = rule_of(stream, "arrival", None, sequence_by)
    in_one, surveyed = taken_in(raw, rule, maxima)
    assert {row[PIECE] for row in surveyed} == {0}
    monkeypatch.setattr(places, "_MANY", 100)
    in_many, surveyed = taken_in(raw, rule, maxima)
    assert len({row[PIECE] for row in surveyed}) > 20
    assert _told(in_many) == _told(in_one)


def test_a_place_begins_with_the_newest_valid_time_so_far(raw: DataFrame, stream: StreamSource) -> None:
    records, _ = taken_in(raw, rule_of(stream, "arrival", "part", "seq"), {1: 4_100_000})
    for scope, rows in itertools.groupby(records.sort(SCOPE, PLACE).collect(), key=lambda row: row[SCOPE]):
        newest = {1: 4_100_000}.get(scope, -(2**62))
        for row in rows:
            newest = newest if row[WHY_INVALID] is not None else max(newest, row[US])
            assert row[PLACE][0] == newest


@pytest.mark.rule("R3")
@pytest.mark.parametrize("maxima", [{}, {0: 7_900_000}], ids=["nothing before", "later times before"])
def test_records_of_one_time_come_from_tables_before_streams_and_then_as_declared(
    maxima: Mapping[int, int], spark: SparkSession, stream: StreamSource
) -> None:
    table = TableSource("table", topic="in", key=("k",), value=("v",))
    sources = {"stream": (stream, 0), "later table": (table, 2), "table": (table, 1), "later stream": (stream, 3)}
    # The sequences of topics have nothing to do with each other.
    row = {name: ("a", name, 5_000_000, 0, -number) for number, name in enumerate(sources)}
    every = [
        taken_in(
            spark.createDataFrame([row[name]], raw_rows(spark).schema),
            replace(rule_of(node, "arrival", None, "seq"), position=at),
            maxima,
        )[0]
        for name, (node, at) in sources.items()
    ]
    in_order = reduce(DataFrame.unionByName, every).sort(SCOPE, PLACE).collect()
    assert [row["_value"]["v"] for row in in_order] == ["table", "later table", "stream", "later stream"]


@pytest.mark.parametrize("sequence_by", ["seq", None], ids=["by sequence", "by time"])
def test_no_record_has_the_place_of_one_of_another_batch(
    sequence_by: str | None, raw: DataFrame, stream: StreamSource
) -> None:
    # A sequence may tell several records one number: those of the two batches are the same here.
    rule = rule_of(stream, "arrival", None, sequence_by)
    first, later = (taken_in(raw, rule, {0: LATEST_US}, number)[0].select(PLACE) for number in (7, 8))
    assert first.unionAll(later).distinct().count() == 2 * first.count()


def test_no_two_records_of_a_batch_have_one_place_where_sequences_repeat_and_rows_are_equal(
    raw: DataFrame, stream: StreamSource
) -> None:
    rule = rule_of(stream, "sequence", "part", "seq")
    records, _ = taken_in(raw.unionAll(raw), rule, {}, 7)
    assert records.select(SCOPE, PLACE).distinct().count() == 2 * raw.count()


@pytest.mark.parametrize("sequence_by", ["seq", None], ids=["by sequence", "by time"])
def test_records_of_two_partitions_have_places_of_their_own_in_the_order_of_partitions(
    sequence_by: str | None, spark: SparkSession, stream: StreamSource
) -> None:
    rows = [("b", "y", 5_000_000, 1, 1), ("a", "x", 5_000_000, 0, 1), ("c", "x", 5_000_000, 0, 2)]
    raw = spark.createDataFrame(rows, raw_rows(spark).schema)
    records, _ = taken_in(raw, rule_of(stream, "arrival", "part", sequence_by), {})
    told = records.sort(PLACE).collect()
    assert len({tuple(row[PLACE]) for row in told}) == len(rows)
    assert [row[SCOPE] for row in told] == [0, 1, 0]


_OF_ONE_NUMBER = [
    ("c", "5", 3, 0, 9),
    ("a", "late", 5, 0, 9),
    ("b", "5", 4, 0, 9),
    ("d", "7", 2, 0, 9),
    ("e", "x", 1, 0, 8),
]


@pytest.mark.parametrize(
    ("sequence_by", "told"),
    [("seq", "edcba"), (("seq", "v"), "ecbda"), (("seq", "v", "k"), "ebcda"), (("seq", "k"), "eabcd")],
)
def test_records_of_one_number_go_by_the_next_columns_and_then_by_time(
    sequence_by: str | tuple[str, ...], told: str, spark: SparkSession, stream: StreamSource
) -> None:
    raw = spark.createDataFrame(_OF_ONE_NUMBER, raw_rows(spark).schema)
    records, _ = taken_in(raw, rule_of(stream, "arrival", "part", sequence_by), {})
    assert "".join(row["_key"]["k"] for row in records.sort(PLACE).collect()) == told


@pytest.mark.rule("R3")
def test_by_sequence_a_record_has_the_same_place_in_whatever_batch_it_comes(
    raw: DataFrame, stream: StreamSource
) -> None:
    rule = rule_of(stream, "sequence", "part", "seq")
    first, later = (_told(taken_in(raw, rule, {}, number)[0]) for number in (7, 8))
    assert first == later


@pytest.mark.parametrize("order", ["arrival", "sequence"])
def test_a_record_without_a_sequence_goes_by_its_time(
    order: places.Order, spark: SparkSession, stream: StreamSource
) -> None:
    rows = [("a", "later", 7, 0, 9), ("a", "without", 5, 0, None), ("a", "first", 3, 0, 4)]
    raw = spark.createDataFrame(rows, raw_rows(spark).schema)
    records, _ = taken_in(raw, rule_of(stream, order, "part", "seq"), {})
    told = records.sort(PLACE).collect()
    assert [row["_value"]["v"] for row in told] == ["first", "without", "later"]
    assert all(None not in row[PLACE] for row in told)


@pytest.mark.parametrize(
    ("partition_by", "order", "count"),
    [("part", "arrival", 10**6), (None, "sequence", 10**6), (None, "arrival", 99_999)],
    ids=["scopes are pieces", "nothing is added up", "a small batch"],
)
def test_a_batch_that_gains_nothing_by_pieces_is_one(
    partition_by: str | None, order: places.Order, count: int, raw: DataFrame, stream: StreamSource
) -> None:
    rule = rule_of(stream, order, partition_by, "seq")
    records = shape(raw, rule, 0, {}, count)
    assert {row[PIECE] for row in records.select(PIECE).distinct().collect()} == {0}


def test_a_span_that_no_long_can_tell_is_one_piece(spark: SparkSession, stream: StreamSource) -> None:
    ends = spark.createDataFrame([("a", "x", 1, 0, -(2**62)), ("a", "y", 2, 0, 2**62)], raw_rows(spark).schema)
    records = shape(ends, rule_of(stream, "arrival", None, "seq"), 9, {}, 10**6)
    assert [row[PIECE] for row in records.select(PIECE).collect()] == [0, 0]
