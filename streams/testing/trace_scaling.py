"""Scenarios with different times made alike: the rules of tables know differences of times only.

Example: a history of 100 ms and one of 5 ms are the same history, if the times of the latter's scenario are multiplied
by 20.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from streams.testing.trace_run import Scenario

#: Windows lie at multiples of their size and end one unit of time before another, so their times cannot be scaled.
SCALED: Final = frozenset(
    ("stream_table_join", "table_table_join", "fk_join", "table_filter", "table_aggregate", "propagation")
)


def same_parameters(scenarios: Sequence[Scenario]) -> dict[str, list[tuple[Scenario, int]]]:
    """Scenarios that have the same parameters after scaling.

    Returns:
        By these parameters: the scenarios with them in place of their own, and the factors of their times.
    """
    units = {scenario["id"]: _unit(scenario) for scenario in scenarios}
    common = math.lcm(*units.values()) if units else 1
    groups: dict[str, list[tuple[Scenario, int]]] = {}
    for scenario in scenarios:
        factor = common // units[scenario["id"]] if scenario["op"] in SCALED else 1
        params = _multiplied(scenario["params"], factor)
        groups.setdefault(json.dumps(params, sort_keys=True), []).append(({**scenario, "params": params}, factor))
    return groups


def _unit(scenario: Scenario) -> int:
    """The largest time that all times of the parameters are multiples of; 1 where times are not scaled."""
    return math.gcd(*_times(scenario["params"])) or 1 if scenario["op"] in SCALED else 1


def _times(params: Any) -> Iterator[int]:
    if isinstance(params, list):
        for part in params:
            yield from _times(part)
    elif isinstance(params, Mapping):
        for name, part in params.items():
            yield from [part] if name.endswith("_ms") else _times(part)


def _multiplied(params: Any, factor: int) -> Any:
    if isinstance(params, list):
        return [_multiplied(part, factor) for part in params]
    if not isinstance(params, Mapping):
        return params
    return {name: part * factor if name.endswith("_ms") else _multiplied(part, factor) for name, part in params.items()}
