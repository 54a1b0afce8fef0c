"""What is known of a lost ledger from the commits of the tables."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streams.recovery_rules import CheckpointFacts, LedgerFacts
from streams.spark.flow import NodeReport
from streams.spark.lost_ledger import told_by_tables
from streams.spark.operator import REPORT
from streams.spark.recovery import RecoverySurvey
from versioned.identifiers import TableRef
from versioned.written import TableState, Written


def _state(nodes: Sequence[str]) -> TableState:
    reports = {node: NodeReport(stream_times={0: 7}).to_json() for node in nodes}
    return TableState(written=Written(1, 3, "app", nodes[0], "write", {REPORT: reports}))


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_of_two_runs_of_a_batch_the_one_that_knows_more_nodes_counts_whatever_the_order_of_tables(
    order: tuple[str, str],
) -> None:
    # The first run died behind its write of b, and the plan got a node more before the second wrote a.
    states = {"a": _state(["a", "added"]), "b": _state(["b"])}
    tables = {TableRef.parse(f"/shop/{name}"): states[name] for name in order}
    found = RecoverySurvey(LedgerFacts("app"), CheckpointFacts("/shop/_checkpoint"), tables)
    assert told_by_tables(found, ()).stream_times == {"a": {0: 7}, "added": {0: 7}}
