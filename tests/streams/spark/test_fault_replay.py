"""What a replayed batch makes and writes: nothing below a table that has landed, for that was written before it."""

from __future__ import annotations

import pytest
from fault_plans import KINDS, SUBTRACTING

from streams.nodes import Topology
from streams.spark.engine import operators_of
from streams.spark.recovery import written_before_crash
from streams.topology import StreamsBuilder
from versioned.identifiers import TableRef

_ROOT = TableRef.parse("/data/out")
_PLANS = {**KINDS, **SUBTRACTING}


def _plan(kind: str) -> Topology:
    builder = StreamsBuilder()
    _PLANS[kind](builder)
    return builder.build()


@pytest.mark.parametrize(
    ("kind", "landed", "over"),
    [
        ("stream-table join", [], set()),
        ("stream-table join", ["rejects/rejects/main"], set()),
        ("stream-table join", ["joined/joined/main"], set()),
        ("stream-table join", ["joined/joined/main", "newest/newest/main"], {"newest"}),
        ("stream-table join", ["history_c/versions_c/splice"], {"join", "joined", "newest"}),
        ("stream-table join", ["history_c/versions_c/main"], {"versions_c", "join", "joined", "newest"}),
        ("join with grace, reordered table", ["history_c/versions_c/main"], {"waits", "joined"}),
        (
            "join with grace, reordered table",
            ["history_c/versions_c/main", "versions_c_waiting/versions_c:reorder/hold"],
            {"versions_c", "waits", "joined"},
        ),
        ("correction feed", ["corrections/corrections/main"], {"corrections", "corrected"}),
        (
            "correction feed",
            ["history_c/versions_c/main"],
            {"versions_c", "answers", "joined", "corrections", "corrected"},
        ),
        ("table-table and foreign-key join", ["both/by_key/main"], {"by_key", "joined"}),
        (
            "table-table and foreign-key join",
            ["plain_a/table_a/main"],
            {"table_a", "by_key", "joined", "by_foreign", "looked_up"},
        ),
        ("an aggregate that subtracts", ["names/names/main"], {"names", "names_told"}),
    ],
)
def test_what_has_landed_and_what_lies_below_it_is_neither_made_nor_written_again(
    kind: str, landed: list[str], over: set[str]
) -> None:
    topology = _plan(kind)
    steps = [(_ROOT.child(table), node, step) for table, node, step in (said.split("/") for said in landed)]
    assert written_before_crash(topology, operators_of(topology), _ROOT, steps) == over


@pytest.mark.parametrize("kind", _PLANS)
def test_every_table_of_an_operator_is_in_one_of_its_steps(kind: str) -> None:
    for operator in operators_of(_plan(kind)).values():
        assert {table for table, _, _ in operator.steps(_ROOT)} == set(operator.tables(_ROOT))
