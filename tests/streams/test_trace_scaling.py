"""Scenarios of one plan get the same parameters by scaling their times, as long as the times stay within SQL's."""

from __future__ import annotations

from typing import Any, Final

import pytest

from streams.testing.trace_scaling import same_parameters

#: The last millisecond that a TIMESTAMP can hold.
_END_OF_TIME_MS: Final = 253_402_300_799_999
_LONGEST_MS: Final = 2**63 - 1
_PRIMES: Final = (7, 11, 13, 17, 19, 23, 29, 31, 37)


def _scenario(history_ms: int, ts: int = 500) -> dict[str, Any]:
    steps = [{"topic": "table", "key": "a", "value": "v", "ts": ts}]
    params = {"type": "inner", "table": {"versioned": True, "history_retention_ms": history_ms}}
    return {"id": f"{history_ms} {ts}", "op": "stream_table_join", "params": params, "steps": steps}


def _factors(*scenarios: dict[str, Any]) -> dict[str, int]:
    groups = same_parameters(scenarios).values()
    return {scenario["id"]: factor for group in groups for scenario, factor in group}


def test_histories_of_different_lengths_become_one() -> None:
    assert _factors(_scenario(100), _scenario(5), _scenario(20)) == {"100 500": 1, "5 500": 20, "20 500": 5}
    assert len(same_parameters([_scenario(100), _scenario(5), _scenario(20)])) == 1


@pytest.mark.parametrize("histories", [_PRIMES, (*_PRIMES, 300_000), (999_983, 999_979, 100), (_LONGEST_MS, 7, 11)])
def test_no_scaled_time_lies_after_the_end_of_time(histories: tuple[int, ...]) -> None:
    factors = _factors(*map(_scenario, histories))
    assert len(factors) == len(histories)
    assert max(factors.values()) * 500 <= _END_OF_TIME_MS


def test_a_scenario_that_lies_too_far_ahead_keeps_its_times() -> None:
    assert _factors(_scenario(100), _scenario(1, ts=10**13)) == {"100 500": 1, f"1 {10**13}": 1}
