"""Results of types that take a second look: decimals and maps of user code, lists as constants, maps in corrections."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from both_engines import Input, Told, on_driver, on_spark, sink_rows
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.functions import is_in, python_function
from streams.nodes import Joined, Materialized, Topology
from streams.topology import StreamsBuilder

pytestmark = pytest.mark.slow

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_RECORDS = [
    Input("t", "a", "1.5", 0), Input("s", "a", "2.25", 10), Input("s", "a", "3", 20), Input("t", "a", "7", 5),
    Input("s", "b", "3", 30), Input("t", "a", "7", 6),
]  # fmt: skip
_counted = python_function(lambda text: {text: 1}, "map<string, int>")


def _plan() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("t", Materialized.versioned("1 hour"), name="table", **_SOURCE)
    stream = builder.stream("s", name="stream", **_SOURCE)
    stream.transform_values(lambda value: Decimal(value.v), "decimal(10, 2)").to_changelog("priced")
    total = stream.group_by_key().aggregate(
        lambda: Decimal(0), lambda key, value, sofar: sofar + Decimal(value.v), schema="decimal(10, 2)", name="total"
    )
    total.to_changelog("totals")
    stream.filter(lambda value: is_in(value.v, *map(str, range(3, 300)))).to_changelog("listed")
    stream.map_values(lambda value: {"list": [1, 2], "pair": ("a", "b"), "v": value.v}).to_changelog("constants")
    answers = stream.join(
        table,
        lambda left, right: {"v": left.v, "counted": _counted(right.v)},
        joined=Joined().with_corrections("1 hour"),
        name="answers",
    )
    answers.corrections(name="corrections").to_changelog("corrected")
    return builder.build()


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sequence[dict[str, Told]]:
    """What the test driver told, and what Spark told."""
    app = on_spark(spark, tmp_path_factory.mktemp("types"), _plan(), _RECORDS, [3, 6])
    return on_driver(_plan(), _RECORDS), sink_rows(spark, app, _plan())


@pytest.mark.parametrize(
    ("sink", "rows"),
    [
        ("priced", [("a", Decimal("2.25")), ("a", Decimal("3.00")), ("b", Decimal("3.00"))]),
        ("totals", [("a", Decimal("2.25")), ("a", Decimal("5.25")), ("b", Decimal("3.00"))]),
        ("listed", [("a", "3"), ("b", "3")]),
    ],
)
def test_both_engines_tell_the_same(told: Sequence[dict[str, Told]], sink: str, rows: list[tuple[str, object]]) -> None:
    for engine in told:
        assert [(*key, *value) for key, value, _ in engine[sink]] == rows


def test_lists_and_tuples_are_constants_of_whole_numbers_with_64_bits(told: Sequence[dict[str, Told]]) -> None:
    driver, spark = told
    assert [list(map(list, value[:2])) for _, value, _ in driver["constants"]] == [[[1, 2], ["a", "b"]]] * 3
    assert [list(map(list, value[:2])) for _, value, _ in spark["constants"]] == [[[1, 2], ["a", "b"]]] * 3


def test_an_answer_with_a_map_is_corrected_where_it_changed(told: Sequence[dict[str, Told]]) -> None:
    for engine in told:
        revised = [(key, value[2], dict(value[4]["counted"])) for key, value, _ in engine["corrected"]]
        # Both answers of the key; the second change of the table makes none of them another one.
        assert revised == [(("a",), 1, {"7": 1})] * 2


def test_a_map_as_a_key_is_refused_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("s", name="stream", **_SOURCE)
    stream.select_key(lambda value: {"tags": _counted(value.v)}).group_by_key().count().to_changelog("out")
    with pytest.raises(StreamingQueryException, match="maps and variants have no exact equality"):
        on_spark(spark, tmp_path, builder.build(), _RECORDS[1:2], [1])


def test_what_functions_return_is_the_same_in_one_batch_and_in_many(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("s", name="stream", **_SOURCE)
    grouped = stream.group_by(lambda value: "all")
    grouped.aggregate(float, lambda key, value, sofar: sofar + 0.1, schema="float", name="a").to_changelog("singles")
    # Between two batches there is a field that the function left out, of null.
    partly = {"schema": "n bigint, missing bigint", "name": "b"}
    grouped.aggregate(dict, lambda key, value, sofar: {"n": len(sofar)}, **partly).to_changelog("lacking")
    plan = builder.build()
    records = [Input("s", "a", str(n), n) for n in range(5)]
    one, many = (on_spark(spark, tmp_path / str(len(ends)), plan, records, ends) for ends in ([5], [1, 2, 5]))
    assert sink_rows(spark, one, plan) == sink_rows(spark, many, plan)
