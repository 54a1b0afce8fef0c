"""Scales scenarios with different times to the same times: the rules of tables depend on time differences only.

Example: a history of 5 ms is the same as one of 100 ms if all times of its scenario are multiplied by 20.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from streams.testing.trace_run import Scenario

#: Operations whose times can be scaled. Those of windows cannot, since windows lie at multiples of their size and end
#: one unit of time before another.
SCALED: Final = frozenset(
    ("stream_table_join", "table_table_join", "fk_join", "table_filter", "table_aggregate", "propagation")
)
#: The longest common unit and the latest scaled time, milliseconds: instants of SQL end with the year 9999.
_LONGEST_UNIT_MS: Final = 10**9
LATEST_MS: Final = 10**14


def same_parameters(scenarios: Sequence[Scenario]) -> dict[str, list[tuple[Scenario, int]]]:
    """Group the scenarios that have the same parameters after scaling.

    Returns:
        By these parameters, as text: the scenarios, with these in place of their own, and the factors of their times.
    """
    units = [_unit(scenario) for scenario in scenarios]
    common = common_unit(units)
    groups: dict[str, list[tuple[Scenario, int]]] = {}
    for scenario, unit in zip(scenarios, units, strict=True):
        factor = _factor(scenario, unit, common) if scenario["op"] in SCALED else 1
        params = _multiplied(scenario["params"], factor)
        groups.setdefault(json.dumps(params, sort_keys=True), []).append(({**scenario, "params": params}, factor))
    return groups


def common_unit(units: Iterable[int]) -> int:
    """A common multiple of the most frequent units, and of others as long as it is not too long.

    >>> common_unit([2, 3, 3]), common_unit([100, 100, 999_983, 999_979])
    (6, 99998300)
    """
    common = 1
    for unit, _ in Counter(units).most_common():
        longer = math.lcm(common, unit)
        common = longer if longer <= _LONGEST_UNIT_MS else common
    return common


def _factor(scenario: Scenario, unit: int, common: int) -> int:
    """What a scenario's times are multiplied by to have the common unit; 1 if they would lie too far ahead."""
    factor, rest = divmod(common, unit)
    latest = max((abs(time) for time in _instants(scenario)), default=0)
    return factor if rest == 0 and latest * factor <= LATEST_MS else 1


def _instants(scenario: Scenario) -> Iterator[int]:
    yield from (step["ts"] for step in scenario["steps"] if "ts" in step)
    yield from _times(scenario["params"])


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
