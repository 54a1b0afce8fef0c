"""Which plans the Spark engine runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from streams.spark.engine import operators_of
from streams.testing.trace_packing import pack
from streams.testing.trace_spark import PLANNERS

_TRACES: Final = Path(__file__).parents[2] / "traces"


@pytest.mark.parametrize("operation", PLANNERS)
def test_the_plan_of_every_trace_is_one_that_the_engine_runs(operation: str) -> None:
    scenarios = json.loads((_TRACES / f"{operation}.json").read_text(encoding="utf-8"))
    branches, _ = pack(PLANNERS[operation], scenarios, {})
    for branch in branches:
        assert list(operators_of(branch.plan.topology)) == [node.name for node in branch.plan.topology]
