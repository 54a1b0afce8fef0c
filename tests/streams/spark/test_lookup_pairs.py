"""Many records are looked up by pairs with versions, those of crowded keys on a line: with the same answers."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import Mock

import pytest
from both_engines import Input, in_one_query, on_driver, sink_rows
from pyspark.sql import DataFrame, SparkSession

from streams.nodes import Materialized, Topology
from streams.spark import lookup, lookup_pairs
from streams.spark.lookup_pairs import STORED, with_versions
from streams.spark.operator import Batch
from streams.topology import StreamsBuilder
from versioned import sent_rows

_VERSIONS = "t STRING, _us LONG, _to_us LONG, _value STRUCT<n: LONG>"
_CROWDED = 2


@pytest.fixture(autouse=True)
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_pairs, "MOST_PAIRED", _CROWDED)


def _histories(chance: random.Random) -> dict[str, list[int]]:
    """Starts of versions; where one ends the next begins."""
    return {key: sorted(chance.sample(range(20), chance.randint(1, 5))) for key in "abcdef"}


def _stored(spark: SparkSession, histories: dict[str, list[int]]) -> DataFrame:
    rows = [
        (key, start, end, (start,))
        for key, starts in histories.items()
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
    return spark.createDataFrame(rows, _VERSIONS)


def _cut(frame: DataFrame) -> DataFrame:
    return frame.localCheckpoint()


@pytest.mark.rule("R138")
@pytest.mark.parametrize("sends", [False, True])
def test_each_record_gets_the_version_of_its_instant(spark: SparkSession, sends: bool) -> None:
    chance = random.Random(138)
    histories = _histories(chance)
    asked = [(chance.choice("aaaabcdefg"), chance.randrange(22), number) for number in range(40)]
    lined: list[set[str]] = []

    def on_lines(mine: DataFrame, theirs: DataFrame) -> DataFrame:
        lined.append({row["k"] for row in mine.collect()} | {row["t"] for row in theirs.collect()})
        return lookup_pairs._pairs(mine, theirs, ["k"], ["t"], sends=False)

    frame = spark.createDataFrame(asked, "k STRING, _us LONG, n INT")
    found = with_versions(frame, _stored(spark, histories), ["k"], ["t"], _cut, on_lines, sends=sends)
    starts = {row["n"]: row[STORED] and row[STORED]["us"] for row in found.collect()}
    wanted = {n: max((start for start in histories.get(key, ()) if start <= us), default=None) for key, us, n in asked}
    assert starts == wanted
    keys = [key for key, _, _ in asked]
    assert lined == [{key for key in keys if keys.count(key) > _CROWDED}]


def test_records_of_keys_that_are_not_crowded_need_no_line(spark: SparkSession) -> None:
    asked = spark.createDataFrame([("a", 5), ("b", 5)], "k STRING, _us LONG")
    stored = _stored(spark, {"a": [1, 6]})

    def on_lines(mine: DataFrame, theirs: DataFrame) -> DataFrame:
        raise AssertionError

    found = with_versions(asked, stored, ["k"], ["t"], _cut, on_lines)
    assert {row["k"]: row[STORED] and row[STORED]["value"]["n"] for row in found.collect()} == {"a": 1, "b": None}


def test_all_are_on_lines_where_more_keys_are_crowded_than_can_be_sent(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_pairs, "MOST_SENT", 1)
    asked = spark.createDataFrame([(key, 5) for key in "aaabbbc"], "k STRING, _us LONG")
    lined = Mock()
    stored = _stored(spark, {"a": [1]})
    found = with_versions(asked, stored, ["k"], ["t"], _cut, lined)
    assert found is lined.return_value
    lined.assert_called_once_with(asked, stored)


def _join() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("table", Materialized.versioned("1 day", name="store"), key="k", value=["v"], deleted="dead")
    stream = builder.stream("stream", key="k", value=["v"])
    stream.left_join(table, lambda left, right: {"v": left.v, "w": right.v}).to_changelog("out")
    return builder.build()


def test_versions_that_no_record_finds_stay_where_they_are_if_the_records_are_sent(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = spark.createDataFrame([("a", 5), ("b", 5)], "k STRING, _us LONG")
    with_versions(asked, _stored(spark, {"a": [1, 6]}), ["k"], ["t"], _cut, Mock(), sends=True).explain()
    semi = [line for line in capsys.readouterr().out.splitlines() if "LeftSemi" in line]
    assert ["BroadcastHashJoin" in line for line in semi] == [True]


@pytest.mark.slow
@pytest.mark.rule("R138")
@pytest.mark.parametrize("least_bytes", [0, 2**40])
def test_a_join_of_many_records_answers_as_the_test_driver_while_its_table_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_bytes: int
) -> None:
    monkeypatch.setattr(Batch, "amount", lambda *_: "many")
    monkeypatch.setattr(sent_rows, "LARGE_BYTES", least_bytes)
    chance = random.Random(914)
    records = [
        Input(
            topic := chance.choice(["table", "stream"]),
            chance.choice("aaab") if chance.random() < 0.5 else chance.choice("cdefghij"),
            None if topic == "table" and chance.random() < 0.2 else str(number),
            number * 1_000 - chance.choice([0, 0, 4_000, 30_000]),
        )
        for number in range(120)
    ]
    paired = Mock(wraps=with_versions)
    monkeypatch.setattr(lookup, "with_versions", paired)
    app = in_one_query(spark, tmp_path, _join(), records, [50, 120])
    assert {call.kwargs["sends"] for call in paired.call_args_list} == {least_bytes == 0}
    assert sink_rows(spark, app, _join()) == on_driver(_join(), records)
