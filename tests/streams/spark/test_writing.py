"""The order of a batch's writes."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from both_engines import Input, application, on_driver, sink_rows, write_records
from fault_chain import Crash
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streams.nodes import Materialized
from streams.spark.engine import operators_of
from streams.spark.writing import write_all
from streams.topology import StreamsBuilder
from versioned import faults


@pytest.fixture
def written(spark: SparkSession) -> dict[str, tuple[float, float]]:
    """When the writes of a join with a table began and ended, by node; those of rejects take longer than all others."""
    builder = StreamsBuilder()
    table = builder.table("rates", Materialized.versioned("1 day", name="store"), key="k", value=["v"], name="table")
    stream = builder.stream("sales", key="k", value=["v"], name="stream")
    stream.left_join(table, lambda left, right: {"v": left.v, "w": right.v}, name="join").to_changelog("sink")
    topology, times = builder.build(), dict[str, tuple[float, float]]()
    operators = operators_of(topology)

    def write(name: str) -> None:
        began = time.monotonic()
        time.sleep(1.5 if name == "rejects" else 0.2)
        times[name] = began, time.monotonic()

    for name, operator in operators.items():
        operator.write = lambda _batch, name=name: write(name)  # type: ignore[method-assign, misc]
    batch: Any = SimpleNamespace(session=spark)
    write_all(topology, operators, lambda: write("rejects"), batch)
    return times


def test_a_table_is_written_after_all_that_read_it_before_the_batch(written: dict[str, tuple[float, float]]) -> None:
    assert all(written["table"][0] >= written[reader][1] for reader in ("sink", "join", "rejects"))


def test_rejects_are_written_beside_sinks(written: dict[str, tuple[float, float]]) -> None:
    assert written["sink"][0] < written["rejects"][1]
    assert written["rejects"][0] < written["sink"][1]


@pytest.mark.slow
def test_a_batch_that_died_between_its_sink_and_its_rejects_puts_them_aside_when_it_is_replayed(
    spark: SparkSession, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    store = Materialized.versioned("20 milliseconds", name="store", late_policy="side_table")
    builder.table("a", store, key="k", value="v", deleted="dead", name="table").to_changelog("told")
    topology = builder.build()
    records = [Input("a", "x", "1", 100), Input("a", "y", "2", 200), Input("a", "x", "late", 150)]
    write_records(spark, tmp_path, topology, records)
    app, landed = application(spark, tmp_path, topology), threading.Event()

    def die_behind_the_sink(name: str) -> None:
        if name.startswith("after:told/"):
            landed.set()
        if name.startswith("before:rejects/"):
            assert landed.wait(60)
            raise Crash(name)

    with faults.armed(die_behind_the_sink), pytest.raises(StreamingQueryException):
        app.run()
    assert landed.is_set()
    again = application(spark, tmp_path, topology)
    again.run()
    rejects = spark.read.format("delta").load(str(app.table("rejects").path)).select("node", "reason").collect()
    assert [tuple(row) for row in rejects] == [("table", "LATE")]
    assert sink_rows(spark, again, topology) == on_driver(topology, records)
