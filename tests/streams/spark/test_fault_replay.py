"""What a replayed batch writes: nothing below a table that has landed, for that was written, or empty, before it."""

from __future__ import annotations

import pytest
from fault_plans import KINDS

from streams.spark.engine import operators_of
from streams.spark.recovery import written_before_crash
from streams.topology import StreamsBuilder
from versioned.identifiers import TableRef


@pytest.mark.parametrize(
    ("kind", "landed", "over"),
    [
        ("stream-table join", [], set()),
        ("stream-table join", ["rejects"], set()),
        ("stream-table join", ["joined"], set()),
        ("stream-table join", ["rejects", "joined", "newest"], set()),
        ("stream-table join", ["history_c"], {"join", "joined", "newest"}),
        ("correction feed", ["corrections"], {"corrected"}),
        ("correction feed", ["history_c"], {"answers", "joined", "corrections", "corrected"}),
        ("table-table and foreign-key join", ["both"], {"joined"}),
        ("table-table and foreign-key join", ["plain_a"], {"by_key", "joined", "by_foreign", "looked_up"}),
    ],
)
def test_what_lies_below_a_landed_table_is_not_written_again(kind: str, landed: list[str], over: set[str]) -> None:
    builder = StreamsBuilder()
    KINDS[kind](builder)
    topology = builder.build()
    assert written_before_crash(topology, operators_of(topology), TableRef.parse("/data/out"), landed) == over
