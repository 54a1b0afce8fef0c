"""Corrections of stream-table joins on Spark: the driver's, however the input is cut."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from both_engines import Input, Told, on_driver, on_spark, sink_rows
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streams.functions import coalesce, concat, python_function
from streams.nodes import CorrectionFeed, Joined, Materialized, Topology
from streams.spark import SparkSource, StreamingApplication
from streams.spark.correction_feed import CorrectionFeedOperator
from streams.spark.flow import FOUND, KEY, PLACE, SCOPE, US
from streams.spark.operator import Batch
from streams.spark.places import Order
from streams.topology import StreamsBuilder
from versioned.errors import ConfigurationError
from versioned.identifiers import TableRef

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_COUNT = 80


def _topology() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("c", Materialized.versioned("1 hour", name="history"), name="table", **_SOURCE)
    views = {"whole": table, "view": table.filter(lambda value: value.v > "b", name="kept")}
    stream = builder.stream("a", name="stream", **_SOURCE)
    for kind, name in (("join", "whole"), ("left_join", "view")):
        options = Joined().with_corrections("400 milliseconds")
        joined = getattr(stream, kind)(views[name], _pair, joined=options, name=f"{kind}_{name}")
        joined.to_changelog(f"{kind}_{name}_out")
        joined.corrections(name=f"{kind}_{name}_corrections").to_changelog(f"{kind}_{name}_corrected")
    return builder.build()


def _pair(left: Any, right: Any) -> Any:
    return {"j": concat(left.v, "/", coalesce(right.v, "-"))}


def _records(seed: int) -> list[Input]:
    chance = random.Random(seed)
    records = []
    for number in range(_COUNT):
        late = chance.choice((0, 0, 30, 100, 500))
        value = None if chance.random() < 0.15 else chance.choice("abc")
        key = chance.choice("xy")
        # Each key has a partition of its own, as in Kafka: the stream times of the two differ.
        records.append(Input(chance.choice("ac"), key, value, max(0, number * 10 - late), int(key == "y")))
    return records


def _without_places(told: dict[str, Told]) -> dict[str, Told]:
    """Corrections name their answer by its place, which each engine counts in its own way."""
    return {sink: [(key, _shown(value), us) for key, value, us in rows] for sink, rows in told.items()}


def _shown(value: Any) -> Any:
    if value is None or len(value) == 1:
        return value
    revision, old, new, cause = value[2:6]
    return revision, _text(old), _text(new), cause


def _text(part: Any) -> Any:
    return part["j"] if isinstance(part, (SparkRow, dict)) or hasattr(part, "j") else part


@pytest.mark.slow
@pytest.mark.rule("R154")
def test_corrections_are_the_drivers_and_the_main_output_is_untouched(spark: SparkSession, tmp_path: Path) -> None:
    # The first change of a partition of its own comes last, for an answer that the others have passed long ago.
    topology, records = _topology(), [Input("a", "z", "a", 0, 2), *_records(seed=5), Input("c", "z", "c", 0, 2)]
    app = on_spark(spark, tmp_path, topology, records, [30, _COUNT + 1, _COUNT + 2])
    wanted = _without_places(on_driver(topology, records))
    assert all(rows[-1][0] == ("z",) for sink, rows in wanted.items() if sink.endswith("_corrected"))
    assert _without_places(sink_rows(spark, app, topology)) == wanted


def _expiring() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("c", Materialized.versioned("100 milliseconds", name="history"), name="table", **_SOURCE)
    stream = builder.stream("a", name="stream", **_SOURCE)
    for on_expired in ("null", "drop"):
        options = Joined().with_corrections("1 hour").with_on_expired(on_expired)
        joined = stream.left_join(table, _pair, joined=options, name=f"{on_expired}_join")
        joined.corrections(name=f"{on_expired}_corrections").to_changelog(f"{on_expired}_corrected")
    both = python_function(lambda left, right: f"{left.v}/{right.v}", "string")
    options = Joined().with_corrections("1 hour")
    joined = stream.join(table, lambda left, right: {"j": both(left, right)}, joined=options, name="inner_join")
    joined.corrections(name="inner_corrections").to_changelog("inner_corrected")
    return builder.build()


@pytest.mark.slow
@pytest.mark.rule("R154")
def test_a_key_of_two_partitions_corrects_no_record_that_was_left_out_as_expired_for_one_of_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    topology = _expiring()
    asks = [Input("c", "x", "a", 1_000), Input("c", "x", "b", 2_000), Input("a", "x", "s", 1_500)]
    records = [*asks, Input("c", "x", "c", 1_400, 1), Input("c", "x", None, 1_450, 1)]
    app = on_spark(spark, tmp_path, topology, records, [3, 5])
    wanted = _without_places(on_driver(topology, records))
    assert _without_places(sink_rows(spark, app, topology)) == wanted
    # The inner join's function of the user hears of no pair that is none.
    assert [len(wanted[f"{name}_corrected"]) for name in ("null", "drop", "inner")] == [2, 0, 2]


def _graceful() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("c", Materialized.versioned("1 hour"), name="table", **_SOURCE)
    stream = builder.stream("a", name="stream", **_SOURCE)
    options = Joined.with_grace_period("50 milliseconds").with_corrections("400 milliseconds")
    joined = stream.left_join(table, _pair, joined=options, name="join")
    joined.to_changelog("out")
    joined.corrections(name="corrections").to_changelog("corrected")
    return builder.build()


def _named_by_driver(told: dict[str, Told], records: list[Input]) -> list[tuple[Any, ...]]:
    """Key, microsecond and value of the record that each correction names."""
    named = [records[value[1]] for _, value, _ in told["corrected"]]
    return [(record.k, record.ms * 1000, record.v) for record in named]


def _named_on_spark(spark: SparkSession, app: StreamingApplication) -> list[tuple[Any, ...]]:
    """The same by the places of the answers."""
    answers, corrections = (spark.read.format("delta").load(str(app.table(sink))) for sink in ("out", "corrected"))
    places = answers.selectExpr(
        "k AS whose", "unix_micros(ts) AS us", "split(j, '/')[0] AS v", "_scope AS s", "_seq AS p"
    )
    named = corrections.join(places, F.expr("original_scope = s AND slice(p, 1, size(original_seq)) = original_seq"))
    return [(row.whose, row.us, row.v) for row in named.orderBy("_batch_id", "_seq", "_scope").collect()]


@pytest.mark.slow
@pytest.mark.rule("R145", "R154")
def test_a_correction_of_a_record_that_waited_names_that_record_as_on_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    topology, records = _graceful(), _records(seed=5)
    app = on_spark(spark, tmp_path, topology, records, [30, _COUNT])
    told = on_driver(topology, records)
    assert _without_places(sink_rows(spark, app, topology)) == _without_places(told)
    named = _named_by_driver(told, records)
    assert len(set(named)) > 1
    assert _named_on_spark(spark, app) == named


@pytest.fixture(scope="module")
def answers_kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableRef:
    """Where answers to records with ``a`` and ``b`` are kept, found in a table with ``v`` and ``w``."""
    root = TableRef.parse(str(tmp_path_factory.mktemp("kept")))
    _make_ready(spark, root, "k", "a: STRING, b: STRING", "v: STRING, w: STRING")
    return root


def _make_ready(spark: SparkSession, root: TableRef, key: str, left: str, found: str) -> None:
    columns = f"{KEY} STRUCT<{key}: STRING>, _left STRUCT<{left}>, {FOUND} STRUCT<{found}>"
    answers = spark.createDataFrame([], f"{columns}, {US} LONG, {SCOPE} INT, {PLACE} ARRAY<BIGINT>")
    node = _graceful().node("corrections")
    assert isinstance(node, CorrectionFeed)
    feed = CorrectionFeedOperator(node, Mock(), Mock())
    feed._make_ready(Batch(spark, "app", root, 1, 1, 0, {}), answers)


@pytest.mark.parametrize(
    ("key", "left", "found", "refused"),
    [
        ("k", "a: STRING, b: STRING, c: STRING", "v: STRING, w: STRING", r"other columns .*\['value.c is new'\]"),
        (
            "k",
            "a: STRING, b: STRING",
            "v: STRING, x: STRING",
            r"\['found.w is gone', 'found.x is new'\]",
        ),
        ("found", "a: STRING, b: STRING", "v: STRING, w: STRING", r"\['found'\] twice"),
    ],
    ids=["a field more", "another field", "key as a column"],
)
def test_fields_that_answers_could_not_keep_are_refused(
    answers_kept: TableRef, spark: SparkSession, key: str, left: str, found: str, refused: str
) -> None:
    with pytest.raises(ConfigurationError, match=refused):
        _make_ready(spark, answers_kept, key, left, found)


def test_answers_are_kept_whatever_the_order_of_their_fields(answers_kept: TableRef, spark: SparkSession) -> None:
    _make_ready(spark, answers_kept, "k", "b: STRING, a: STRING", "w: STRING, v: STRING")


@pytest.mark.slow
@pytest.mark.rule("R154")
@pytest.mark.parametrize(
    ("sequence", "second"), [(None, 3), ("seq", 3), ("seq", 2)], ids=["by time", "numbers", "one number"]
)
def test_answers_of_different_batches_are_remembered_apart(
    sequence: str | None, second: int, spark: SparkSession, tmp_path: Path
) -> None:
    # The second batch's record is late, so that both have the same running maximum, each the first of its batch.
    batches = (
        {
            "prices": [{"seq": 1, "k": "tea", "v": "old", "ts": _at(0)}],
            "orders": [{"seq": 2, "k": "tea", "ts": _at(50)}],
        },
        {"orders": [{"seq": second, "k": "tea", "ts": _at(40)}]},
        {"prices": [{"seq": 4, "k": "tea", "v": "new", "ts": _at(30)}]},
    )
    told = _corrected(spark, tmp_path, batches, sequence)
    assert [row["v"] for row in told] == ["new", "new"]
    assert len({tuple(row["original_seq"]) for row in told}) == 2


@pytest.mark.slow
@pytest.mark.rule("R154")
def test_each_of_records_that_are_equal_in_every_column_is_corrected(spark: SparkSession, tmp_path: Path) -> None:
    order = {"seq": 2, "k": "tea", "ts": _at(50)}
    batches = (
        {"prices": [{"seq": 1, "k": "tea", "v": "old", "ts": _at(0)}], "orders": [order, order]},
        {"prices": [{"seq": 4, "k": "tea", "v": "new", "ts": _at(30)}]},
        {"prices": [{"seq": 5, "k": "tea", "v": "newer", "ts": _at(40)}], "orders": [order]},
    )
    told = _corrected(spark, tmp_path, batches, "seq", "sequence")
    assert [row["v"] for row in told] == ["new", "new", "newer", "newer", "newer"]
    # The one of a batch of its own has the place of the first one of the other batch.
    assert len({tuple(row["original_seq"]) for row in told}) == 2


def _corrected(
    spark: SparkSession,
    tmp_path: Path,
    batches: Sequence[Mapping[str, list[Mapping[str, Any]]]],
    sequence: str | None,
    order: Order = "arrival",
) -> list[SparkRow]:
    """The corrections of orders that are joined to prices, in order."""
    builder = StreamsBuilder()
    prices = builder.table("prices", Materialized.versioned("1 hour"), key="k", value="v")
    orders = builder.stream("orders", key="k", value="seq", name="orders")
    joined = orders.join(prices, joined=Joined().with_corrections("1 hour"), name="priced")
    joined.corrections(name="answers").to_changelog("corrected")
    sources = {
        topic: SparkSource(
            "json", {"path": str(tmp_path / topic)}, "seq LONG, k STRING, v STRING, ts TIMESTAMP", sequence_by=sequence
        )
        for topic in ("prices", "orders")
    }
    for topic in sources:
        (tmp_path / topic).mkdir()
    app = StreamingApplication(spark, "apart", builder.build(), str(tmp_path / "out"), sources, order=order)
    for number, batch in enumerate(batches):
        for topic, rows in batch.items():
            (tmp_path / topic / f"{number}.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        app.run()
    told = spark.read.format("delta").load(str(app.table("corrected"))).orderBy("_batch_id", "_seq")
    return told.selectExpr("new.v AS v", "original_seq").collect()


def _at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}Z"
