"""A joiner asks whether there is a row of the other side: with every join, and on both engines."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from both_engines import Input, on_driver, on_spark, sink_rows
from pyspark.sql import SparkSession

from streams.expressions import Expr
from streams.functions import is_null, when
from streams.nodes import Materialized, Topology
from streams.topology import StreamsBuilder
from suppress.windows import JoinWindows

_RECORDS = (Input("names", "a", "Ann", 0), Input("seen", "a", "x", 10), Input("seen", "b", "y", 20))
_WITHIN = JoinWindows.of_time_difference_with_no_grace(timedelta(milliseconds=15))


def _named(left: Expr, right: Expr) -> dict[str, Expr]:
    return {"of": left.v, "name": when(is_null(right), "unknown").otherwise(right.v)}


def _topology() -> Topology:
    builder = StreamsBuilder()
    columns = {"key": "k", "value": "v", "deleted": "dead"}
    names = builder.table("names", Materialized.versioned("1 day", name="names-store"), name="names-table", **columns)
    seen = builder.stream("seen", name="seen-stream", **columns)
    globally = builder.global_table("names", Materialized.key_value("all-names"), name="all-names", **columns)
    seen_table = seen.to_table(Materialized.versioned("1 day", name="seen-store"), name="seen-table")
    seen.left_join(names, _named).to_changelog("by-table")
    seen.left_join(globally, _named, key=lambda key, value: {"k": key.k}).to_changelog("by-global-table")
    named = builder.stream("names", name="names-stream", **columns)
    seen.left_join(named, _named, windows=_WITHIN).to_changelog("by-stream")
    seen_table.left_join(names, _named).to_changelog("of-tables")
    seen_table.left_join(names, _named, foreign_key=lambda key, value: {"k": key.k}).to_changelog("by-foreign-key")
    return builder.build()


def test_a_missing_side_is_null_whatever_the_join(spark: SparkSession, tmp_path: Path) -> None:
    topology = _topology()
    told = sink_rows(spark, on_spark(spark, tmp_path, topology, _RECORDS, [len(_RECORDS)]), topology)
    assert told == on_driver(topology, _RECORDS)
    assert {name for rows in told.values() for _, (_, name), _ in rows} == {"Ann", "unknown"}
