"""The 43 plans of the traces: refused or accepted as expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.testing.trace_errors import CASES, build_case
from versioned.errors import ConfigurationError, TopologyError

_SCENARIOS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "traces" / "topology_errors.json").read_text(encoding="utf-8")
)


def _case(scenario: dict[str, Any]) -> str:
    return str(scenario["params"]["case"])


@pytest.mark.rule("R51", "R165", "R166", "R170", "R14", "R186")
@pytest.mark.parametrize("scenario", _SCENARIOS, ids=_case)
def test_a_plan_is_refused_exactly_if_the_traces_say_so(scenario: dict[str, Any]) -> None:
    if scenario["expected"]["ok"]:
        build_case(_case(scenario))
    else:
        with pytest.raises((TopologyError, ConfigurationError)):
            build_case(_case(scenario))


def test_every_case_of_the_traces_is_built() -> None:
    assert sorted(CASES) == sorted(map(_case, _SCENARIOS))
