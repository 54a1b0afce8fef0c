"""What ``explain`` tells: every table that a batch reads or writes, operator by operator."""

from __future__ import annotations

import pytest
from random_plans import random_topology

from streams.spark.engine import operators_of
from streams.spark.explain import explain
from versioned.identifiers import TableRef

_ROOT = TableRef.parse("/tables/app")


@pytest.mark.parametrize("seed", range(30))
def test_every_table_of_an_operator_is_named_with_how_it_is_committed(seed: int) -> None:
    operators = operators_of(random_topology([seed]))
    told = explain(operators, _ROOT)
    for operator in operators.values():
        for table in operator.tables(_ROOT):
            assert f"commits {table.short_name}: " in told


def test_closed_history_is_read_only_as_far_back_as_the_batch_reaches() -> None:
    told = [explain(operators_of(random_topology([seed])), _ROOT) for seed in range(30)]
    closed = [line for text in told for line in text.splitlines() if "_current = false" in line]
    assert closed
    assert all("validTo > the oldest" in line for line in closed)
