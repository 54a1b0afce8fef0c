"""The net changelog: one change per key and batch, of a versioned table the latest values alone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from both_engines import Input, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.nodes import Materialized, Topology
from streams.spark import StreamingApplication
from streams.topology import StreamsBuilder

#: An older value comes in the batch of the latest one, and in one of its own.
_RECORDS: Final = (
    Input("t", "a", "new", 100),
    Input("t", "a", "older", 50),
    Input("t", "a", "oldest", 20),
    Input("t", "b", "other", 120),
)


def _topology() -> Topology:
    builder = StreamsBuilder()
    stored = Materialized.versioned("1 hour", name="versions")
    builder.table("t", stored, key="k", value="v", deleted="dead").to_changelog("net", emit="net")
    return builder.build()


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamingApplication:
    return on_spark(spark, tmp_path_factory.mktemp("net"), _topology(), _RECORDS, [2, 4])


@pytest.mark.slow
def test_the_last_value_that_a_net_changelog_tells_of_a_key_is_its_latest(
    spark: SparkSession, app: StreamingApplication
) -> None:
    told = sink_rows(spark, app, app.topology)["net"]
    assert told == [(("a",), ("new",), 100_000), (("b",), ("other",), 120_000)]
    assert told == on_driver(app.topology, _RECORDS)["net"]


@pytest.mark.slow
def test_a_net_changelog_tells_every_record_that_has_no_key(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("s", key="k", value="v", name="records").to_changelog("net", emit="net")
    records = [Input("s", None, "one", 1), Input("s", "a", "first", 2), Input("s", None, "two", 3)]
    records.append(Input("s", "a", "last", 4))
    app = on_spark(spark, tmp_path, builder.build(), records, [4])
    told = [(key, value) for key, value, _ in sink_rows(spark, app, app.topology)["net"]]
    assert told == [(None, ("one",)), (None, ("two",)), (("a",), ("last",))]
