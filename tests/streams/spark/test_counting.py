"""How many records a node took: what its store counted, where it counts them one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streams.nodes import Materialized, Node, StreamSource, TableSource
from streams.spark.counting import _finish
from streams.spark.flow import NodeReport

_VERSIONED = Materialized.versioned("1 hour")


@pytest.mark.parametrize(
    ("node", "accepted"),
    [
        pytest.param(TableSource("t", topic="t", materialized=_VERSIONED), 3, id="a table that lost a record tells it"),
        pytest.param(
            TableSource("t", topic="t", materialized=_VERSIONED, reorder=timedelta(hours=1)), 4, id="where records wait"
        ),
        pytest.param(StreamSource("s", topic="s"), 4, id="a node without a store"),
    ],
)
def test_what_a_versioned_table_accepts_is_its_own_count(node: Node, accepted: int) -> None:
    report = NodeReport({"input": 4, "accepted": 3, "late": 1})
    _finish(node, report, 5)
    assert report.counts == {"input": 5, "accepted": accepted, "late": 1, "dropped": 1}
