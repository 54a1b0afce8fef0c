"""Aggregates of a versioned table at past instants: exact, though the running aggregate ignored late records."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

import pytest
from both_engines import Input, on_spark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType

from streams.functions import length, substring, when
from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication, aggregate_as_of
from streams.topology import StreamsBuilder
from versioned.errors import TopologyError
from versioned.session_settings import session_settings

pytestmark = pytest.mark.slow

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_RECORDS = [
    Input("in", "x", "a1", 1_000),
    Input("in", "y", "a22", 2_000),
    Input("in", "x", "b1", 5_000),
    Input("in", "z", "a333", 6_000),
    Input("in", "y", None, 7_000),
    Input("in", "x", "a4444", 3_000),
]
#: Of the records only the late one has a text so long that the product is beyond 64 bits.
_FACTOR = 2**60 * 17 // 10


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
    groups.avg(lambda value: length(value.v) * Decimal("1.00"), name="mean").to_changelog("means")
    groups.max(lambda value: length(value.v) * _FACTOR, name="largest").to_changelog("largest_out")
    groups.reduce(lambda total, part: part, lambda total, part: total, name="last").to_changelog("last_out")
    return builder.build()


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamingApplication:
    return on_spark(spark, tmp_path_factory.mktemp("as_of"), _topology(), _RECORDS, [len(_RECORDS)])


@pytest.mark.rule("R163")
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


def test_a_mean_of_decimals_is_a_double_as_it_is_while_it_runs(spark: SparkSession, app: StreamingApplication) -> None:
    asked = aggregate_as_of(app, "mean", datetime.fromtimestamp(6, timezone.utc))
    running = spark.read.format("delta").load(str(app.table("means"))).schema["avg"].dataType
    assert (asked.schema["avg"].dataType, running) == (DoubleType(), DoubleType())
    assert {tuple(row) for row in asked.collect()} == {("a", 3.5), ("b", 2.0)}


def test_a_value_beyond_64_bits_is_an_error_in_a_session_without_ansi_mode_too(
    spark: SparkSession, app: StreamingApplication
) -> None:
    with session_settings(spark, {"spark.sql.ansi.enabled": "false"}):
        asked = [aggregate_as_of(app, "largest", datetime.fromtimestamp(second, timezone.utc)) for second in (2, 4)]
        assert [tuple(row) for row in asked[0].collect()] == [("a", 3 * _FACTOR)]
        with pytest.raises(PySparkException, match="ARITHMETIC_OVERFLOW"):
            asked[1].collect()


@pytest.mark.parametrize("node", ["last", "table"])
def test_user_code_and_other_nodes_are_refused(app: StreamingApplication, node: str) -> None:
    with pytest.raises(TopologyError, match="built-in aggregates"):
        aggregate_as_of(app, node, datetime.fromtimestamp(0, timezone.utc))
