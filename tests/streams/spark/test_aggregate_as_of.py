"""Aggregates of a versioned table at past instants: exact, though the running aggregate ignored late records."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from both_engines import Input, on_spark
from pyspark.sql import SparkSession

from streams.functions import length, substring, when
from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication, aggregate_as_of
from streams.topology import StreamsBuilder
from versioned.errors import TopologyError

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_RECORDS = [
    Input("in", "x", "a1", 1_000),
    Input("in", "y", "a22", 2_000),
    Input("in", "x", "b1", 5_000),
    Input("in", "z", "a333", 6_000),
    Input("in", "y", None, 7_000),
    Input("in", "x", "a4444", 3_000),
]


def _topology() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", Materialized.versioned("1 hour", name="history"), name="table", **_SOURCE)
    groups = table.filter(lambda value: length(value.v) > 1, name="kept").group_by(
        lambda value: substring(value.v, 1, 1)
    )
    groups.count(name="members").to_changelog("members_out")
    groups.sum(lambda value: length(value.v), name="letters").to_changelog("letters_out")
    emptied = table.map_values(lambda value: when(length(value.v) > 3, value).otherwise(None))
    emptied.map_values(lambda value: {"g": "all"}).group_by(lambda value: value.g).count(name="long").to_changelog(
        "longs"
    )
    groups.reduce(lambda total, part: part, lambda total, part: total, name="last").to_changelog("last_out")
    return builder.build()


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamingApplication:
    return on_spark(spark, tmp_path_factory.mktemp("as_of"), _topology(), _RECORDS, [len(_RECORDS)])


@pytest.mark.rule("R163", "R164")
@pytest.mark.parametrize(
    ("aggregate", "second", "wanted"),
    [
        ("members", 0, {}),
        ("members", 1, {"a": 1}),
        ("members", 2, {"a": 2}),
        ("letters", 2, {"a": 5}),
        ("letters", 3, {"a": 8}),
        ("members", 5, {"a": 1, "b": 1}),
        ("long", 2, {}),
        ("long", 3, {"all": 1}),
        ("letters", 7, {"a": 4, "b": 2}),
    ],
)
def test_late_records_count_where_they_belong(
    app: StreamingApplication, aggregate: str, second: int, wanted: dict[str, int]
) -> None:
    rows = aggregate_as_of(app, aggregate, datetime.fromtimestamp(second, timezone.utc)).collect()
    assert {row[0]: row[1] for row in rows} == wanted


@pytest.mark.parametrize("node", ["last", "table"])
def test_user_code_and_other_nodes_are_refused(app: StreamingApplication, node: str) -> None:
    with pytest.raises(TopologyError, match="built-in aggregates"):
        aggregate_as_of(app, node, datetime.fromtimestamp(0, timezone.utc))
