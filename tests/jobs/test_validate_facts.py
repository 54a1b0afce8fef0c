"""Whose stream times a table's rows are compared with. No session here."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.validate import table_facts
from streams.spark.invariants import Facts
from streams.spark.stored_kinds import StoredTable, TableKind
from versioned.identifiers import TableRef
from versioned.written import Written

_NO_SESSION: Any = None
#: Of each node another stream time, so that it tells whose they are.
_TIMES = {
    node: Facts({0: us})
    for us, node in enumerate(("priced", "buffer", "prices", "prices:reorder", "prices_reorder", "held", "late-alerts"))
}


def _written(node: str, **details: Any) -> Written:
    return Written(1, 3, "shop", node, "hold", {"report": {}} | details)


@pytest.mark.parametrize(
    ("table", "kind", "written", "node"),
    [
        pytest.param("priced_waiting", "waiting", _written("priced"), "priced", id="a join with a name"),
        pytest.param("buffer_waiting", "waiting", _written("priced"), "priced", id="a join whose options have another"),
        pytest.param("prices_waiting", "waiting", _written("prices:reorder"), "prices:reorder", id="a reordered table"),
        pytest.param(
            "priced_waiting",
            "waiting",
            _written("prices", writer=["priced", 1, 2]),
            "priced",
            id="a shut table",
        ),
        pytest.param("held", "buffer", _written("held"), "held", id="a suppression"),
        pytest.param("priced_waiting", "waiting", None, "priced", id="a join, by a log that was cleaned"),
        pytest.param("late_alerts", "buffer", None, "late-alerts", id="a suppression, by a log that was cleaned"),
        pytest.param("unknown", "buffer", None, None, id="of no node that has a stream time"),
    ],
)
def test_rows_are_compared_with_the_stream_time_of_the_node_that_wrote_them(
    table: str, kind: TableKind, written: Written | None, node: str | None
) -> None:
    found = table_facts(_NO_SESSION, TableRef.parse(f"/data/{table}"), StoredTable(table, kind, ()), _TIMES, written)
    assert found == (Facts() if node is None else _TIMES[node])


def test_windows_of_a_batch_that_is_not_in_the_ledger_are_compared_with_the_stream_time_of_their_own_commit() -> None:
    table = StoredTable("hourly", "windows", (), (), "hourly")
    told = _written("hourly", report={"hourly": {"times": {"0": 9, "1": 5}}})
    times = {"hourly": Facts({0: 7, 1: 6}, 3)}
    facts = table_facts(_NO_SESSION, TableRef.parse("/data/hourly"), table, times, told)
    assert facts == Facts({0: 9, 1: 6}, 3)
