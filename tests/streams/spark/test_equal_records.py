"""Records that are equal in every column, their sequence too, are records of their own on Spark as on the driver."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Final

import pytest
from both_engines import Input, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.nodes import Topology
from streams.spark import StreamingApplication
from streams.testing import TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.windows import TimeWindows

pytestmark = pytest.mark.slow

#: Five equal records, two that are late, and one that goes on from what is stored of the five.
_RECORDS: Final = (
    *[Input("a", "x", "d", 10, sequence=1)] * 5,
    Input("a", "y", "e", 500, sequence=2),
    *[Input("a", "x", "late", 20, sequence=3)] * 2,
    Input("a", "x", "d", 600, sequence=9),
)


def _topology() -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("a", key="k", value="v").group_by_key()
    grouped.count(name="count").to_changelog("counts")
    windows = TimeWindows.of_size_and_grace("100 milliseconds", timedelta(0))
    grouped.windowed_by(windows, late_policy="side_table").count(name="windows").to_changelog("windows_out")
    return builder.build()


@pytest.fixture(scope="module")
def app(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamingApplication:
    return on_spark(spark, tmp_path_factory.mktemp("equal"), _topology(), _RECORDS, [8, 9])


def test_each_of_several_equal_records_is_added_up(spark: SparkSession, app: StreamingApplication) -> None:
    assert sink_rows(spark, app, app.topology) == on_driver(app.topology, _RECORDS)


def test_each_of_several_equal_late_records_is_put_aside(spark: SparkSession, app: StreamingApplication) -> None:
    driver = TopologyTestDriver(app.topology)
    for record in _RECORDS:
        driver.pipe_input("a", record.k, {"v": record.v}, record.ms * 1000)
    wanted = Counter((reject.node, reject.reason) for reject in driver.rejects)
    rejects = spark.read.format("delta").load(str(app.table("rejects")))
    assert Counter(tuple(row) for row in rejects.select("node", "reason").collect()) == wanted
    assert wanted == {("windows", "LATE"): 2}
