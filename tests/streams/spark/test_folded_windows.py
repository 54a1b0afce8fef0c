"""The fold of windows over plain rows, without Spark."""

from __future__ import annotations

import pytest

from streams.nodes import Aggregation
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE
from streams.spark.folded_windows import WindowCodec, WindowFold
from streams.spark.kernel import PlainRow
from suppress.windows import SessionWindows, TimeWindows, Windows

_COUNT = WindowCodec(Aggregation("count", output="n"), is_scalar=False)


def _event(us: int, scope: int) -> PlainRow:
    return {VALUE: {"v": "x"}, US: us, "_stream_us": us, SCOPE: scope, PLACE: [us]}


@pytest.mark.rule("R4")
@pytest.mark.parametrize(
    ("windows", "late_us", "scope"),
    [
        (TimeWindows.of("100 us"), 5, 0),
        (TimeWindows.of("100 us"), 7, 1),
        (TimeWindows.of("100 us"), 9, 1),
        (TimeWindows.of("100 us").advance_by("50 us"), 5, 0),
        (SessionWindows.of("100 us"), 5, 1),
    ],
    ids=["stays with its newest", "of equal ones the greatest scope", "newer", "hopping", "a session moves"],
)
@pytest.mark.parametrize("is_cut", [False, True], ids=["one batch", "two batches"])
def test_a_window_is_in_the_scope_in_which_its_final_result_waits(
    windows: Windows, late_us: int, scope: int, is_cut: bool
) -> None:
    fold, events = WindowFold(windows, _COUNT, 1, ["n"]), [_event(7, 0), _event(late_us, 1)]
    states: list[PlainRow] = []
    for batch in [events[:1], events[1:]] if is_cut else [events]:
        told = fold({KEY: {"k": "a"}}, iter([{**state, "_idle": False} for state in states]), iter(batch))
        states = [row for kind, row in told if kind == "state"]
    assert [(state[SCOPE], state["n"]) for state in states] == [(scope, 2)]


def test_a_session_that_a_record_ends_as_it_was_tells_an_older_stream_time_than_what_it_becomes() -> None:
    fold = WindowFold(SessionWindows.of("100 us"), _COUNT, 1, ["n"])
    told = fold({KEY: {"k": "a"}}, iter(()), iter([_event(7, 0), _event(50, 0)]))
    assert [(row[PLACE], row["_reached_us"]) for kind, row in told if kind == "out"] == [
        ([7, 0], 7), ([50, 0], 7), ([50, 1], 50),
    ]  # fmt: skip
