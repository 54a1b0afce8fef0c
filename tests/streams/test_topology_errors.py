"""The 43 plans of the traces: refused or accepted as expected."""

from __future__ import annotations

import json
import re
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


#: Of each refused case, the rule that its error names, and words that tell the cause.
_CAUSES = {
    "suppress_on_versioned_table": ("R165", "table is versioned"),
    "suppress_on_filtered_versioned_table": ("R166", "filter-1 is versioned, which it inherits"),
    "suppress_on_mapvalues_versioned_table": ("R166", "map-values-1 is versioned, which it inherits"),
    "global_table_versioned": ("R170", "a global table cannot be versioned"),
    "until_window_closes_on_unwindowed_table": ("R51", "the keys of plain have none"),
    "until_window_closes_on_unwindowed_aggregate": ("R51", "the keys of count-1 have none"),
    "until_window_closes_on_unlimited_windows": ("R9", "the unlimited window of windowed-count-1 never closes"),
    "stream_table_join_grace_unversioned_table": ("R145", "a join grace needs a versioned table, and plain is not"),
    "stream_table_join_grace_exceeds_retention": ("R145", "is larger than the history retention of table"),
    "stream_table_join_grace_to_stream_to_table": ("R145", "needs a versioned table, and to-table-1 is not"),
    "window_store_retention_less_than_size_plus_grace": ("R14", "shorter than size 5 milliseconds + grace"),
    "session_store_retention_less_than_gap_plus_grace": ("R14", "shorter than gap 5 milliseconds + grace"),
    "suppress_duplicate_names": ("unique-names", 'the name "sup" is already that of the Suppress sup'),
}
#: Of each case with an impossible value, what the value is of and what is given.
_VALUES = {
    "stream_table_join_grace_negative": "Join grace must not be negative; got -1 millisecond",
    "versioned_store_negative_retention": "history_retention must not be negative; got -1 millisecond",
    "negative_window_size": "Window size must be larger than zero; got -1 millisecond",
    "zero_window_size": "Window size must be larger than zero; got 0",
    "negative_window_grace": "Grace must not be negative; got -1 millisecond",
    "advance_larger_than_size": "at most the window size; got advance 6 milliseconds",
    "advance_zero": "Advance must be positive .* got advance 0",
    "session_gap_negative": "Session gap must not be negative; got -1 millisecond",
    "sliding_difference_negative": "Time difference must not be negative; got -1 millisecond",
    "join_windows_negative_interval": "before [+] after must not be negative; got before -6 milliseconds",
    "suppress_time_limit_negative": "wait must not be negative; got -1 millisecond",
    "suppress_max_records_negative": "max_records must not be negative; got -1",
}
_ACCEPTED = [_case(scenario) for scenario in _SCENARIOS if scenario["expected"]["ok"]]
_REFUSED = [_case(scenario) for scenario in _SCENARIOS if not scenario["expected"]["ok"]]


@pytest.mark.rule("R51", "R145", "R165", "R166", "R170", "R186")
@pytest.mark.parametrize("case", _ACCEPTED)
def test_a_plan_that_the_traces_accept_is_built(case: str) -> None:
    assert build_case(case).nodes


@pytest.mark.parametrize(
    ("case", "rule", "words"),
    [
        pytest.param(case, rule, words, marks=pytest.mark.rule(rule) if rule[1:].isdigit() else (), id=case)
        for case, (rule, words) in _CAUSES.items()
    ],
)
def test_a_plan_that_the_traces_refuse_is_refused_by_its_rule_and_with_the_cause(
    case: str, rule: str, words: str
) -> None:
    with pytest.raises(TopologyError, match=re.escape(words)) as caught:
        build_case(case)
    assert caught.value.rule == rule


@pytest.mark.rule("R186")
@pytest.mark.parametrize(("case", "words"), _VALUES.items(), ids=list(_VALUES))
def test_a_value_that_the_traces_refuse_is_refused_by_its_name(case: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        build_case(case)


def test_every_case_of_the_traces_is_built_and_every_refused_one_has_its_words() -> None:
    assert sorted(CASES) == sorted([*_ACCEPTED, *_REFUSED])
    assert sorted(_REFUSED) == sorted([*_CAUSES, *_VALUES])
