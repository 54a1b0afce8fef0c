"""A batch that died is begun again with other input under its id, or with another plan."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from crashing import crash_at
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from two_tables import application, commits, topology, write_batch

from streams.nodes import ChangelogSink, Topology
from streams.spark.doctor import examine
from streams.spark.rollback import rollback
from versioned import faults

pytestmark = pytest.mark.slow


def test_a_node_that_is_added_while_a_batch_is_unfinished_tells_for_itself(spark: SparkSession, tmp_path: Path) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    with faults.armed(crash_at("after:priced_orders/main")), pytest.raises(StreamingQueryException):
        application(spark, own, out).run()
    plan, told = topology(), list[dict[str, int]]()
    grown = Topology((*plan, ChangelogSink("all_orders", (plan.node("orders"),))))
    application(spark, own, out, grown, on_batch=lambda report: told.append(dict(report.emitted))).run()
    assert told == [{"priced_orders": 2, "all_orders": 2}]


@pytest.mark.parametrize(
    ("point", "notes", "is_over"),
    [("after:priced_orders/main", ["unfinished-batch"], False), ("end:batch", [], True)],
    ids=["in part", "whole"],
)
def test_what_landed_in_part_is_not_replayed_with_other_input_and_what_landed_whole_is_over(
    point: str, notes: list[str], is_over: bool, spark: SparkSession, tmp_path: Path
) -> None:
    # That the same input goes on is the crash tests' to show.
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    with faults.armed(crash_at(point)), pytest.raises(StreamingQueryException):
        application(spark, own, out).run()
    before = commits(out)
    assert [found.rule for found in examine(application(spark, own, out)).findings] == notes
    write_batch(own, 0, amount=7)
    refused = pytest.raises(StreamingQueryException, match=r'"orders" had 2 records .*, now 2 records')
    with nullcontext() if is_over else refused:
        application(spark, own, out).run()
    assert commits(out) == before


def test_a_rollback_gives_up_what_landed_of_a_batch_whose_input_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    own, out = tmp_path / "input", tmp_path / "out"
    write_batch(own, 0)
    application(spark, own, out).run()
    write_batch(own, 1)
    with faults.armed(crash_at("after:priced_orders/main")), pytest.raises(StreamingQueryException):
        application(spark, own, out).run()
    write_batch(own, 1, amount=7)
    with pytest.raises(StreamingQueryException, match="versioned rollback"):
        application(spark, own, out).run()
    rollback(application(spark, own, out), 0)
    application(spark, own, out).run()
    amounts = spark.read.format("delta").load(str(out / "priced_orders")).select("amount").collect()
    assert sorted(row[0] for row in amounts) == [1, 1, 7, 7]
