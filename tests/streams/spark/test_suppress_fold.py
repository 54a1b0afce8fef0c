"""The fold of a suppression over plain rows, without Spark."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any, Final

import pytest

from streams.spark.flow import KEY, OLD, PLACE, SCOPE, US, VALUE
from streams.spark.kernel import PlainRow
from streams.spark.suppress_fold import FIRST_PLACE, SuppressFold
from suppress.buffer_rules import BufferRule
from suppress.windows import TimeWindows, Windows

_RULE: Final = BufferRule("held", wait_us=5, clock="wall")
_START, _END = (datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2))


def _told(windows: Windows | None, clock_us: int, states: list[PlainRow], key: PlainRow | None) -> dict[str, Any]:
    event = {KEY: key, VALUE: {"n": 1}, OLD: None, US: 3, PLACE: [3]}
    fold = SuppressFold(_RULE, "record", windows, clock_us, {})
    told = fold({SCOPE: 0}, iter(states), iter([] if key is None else [event]))
    return {kind: row for kind, row in told if kind != "count"}


@pytest.mark.parametrize(
    ("windows", "key"),
    [
        (TimeWindows.of("1 day"), {"k": "a", "windowStart": _START, "windowEnd": _END}),
        (None, {"k": "a", "windowStart": _START}),
        (None, {"k": "a", "windowStart": date(2026, 1, 1), "windowEnd": date(2026, 1, 2)}),
        (None, {"windowStart": "first", "windowEnd": 7}),
    ],
    ids=["windowed", "start only", "dates", "other types"],
)
def test_a_key_leaves_as_it_came_also_if_its_fields_are_called_like_those_of_windows(
    windows: Windows | None, key: PlainRow
) -> None:
    waiting = _told(windows, 0, [], key)["state"]
    assert _told(windows, 5, [waiting], None)["out"][KEY] == waiting[KEY] == key


@pytest.mark.parametrize(("place", "values"), [([FIRST_PLACE, 1, 0], [2]), ([3], [1])], ids=["a tick before", "record"])
def test_what_the_tick_of_an_earlier_node_let_go_comes_before_a_nodes_own_tick(
    place: list[int], values: list[int]
) -> None:
    waiting = _told(None, 0, [], {"k": "a"})["state"]
    event = {KEY: {"k": "a"}, VALUE: {"n": 2}, OLD: {"n": 1}, US: 4, PLACE: place}
    told = SuppressFold(_RULE, "record", None, 5, {}, position=2)({SCOPE: 0}, iter([waiting]), iter([event]))
    assert [row[VALUE]["n"] for kind, row in told if kind == "out"] == values
