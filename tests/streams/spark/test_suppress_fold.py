"""The fold of a suppression over plain rows, without Spark."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timezone
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.fields import CLOSED_BY
from streams.rows import Row
from streams.spark.flow import KEY, OLD, PLACE, SCOPE, US, VALUE
from streams.spark.kernel import PlainRow
from streams.spark.meeting_scopes import TOGETHER
from streams.spark.suppress_fold import (
    ARRIVED_US,
    BUFFER_US,
    FIRST_PLACE,
    FIRST_US,
    FULL,
    PRIOR,
    RECORD_US,
    SAMPLES,
    STREAM_US,
    SuppressFold,
)
from suppress.buffer_rules import BufferRule, Cause, Emission, SuppressBuffer, Update
from suppress.sizes import sizer
from suppress.suppress_rules import tie_order
from suppress.window_rules import Window
from suppress.windows import TimeWindows, Windows
from versioned.durations import instant, instant_us
from versioned.errors import BufferFullError

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


def _left(scope: int, rule: BufferRule, clock_us: int, drains: bool) -> list[PlainRow]:
    """What a tick or a drain lets go of two keys that a scope holds."""
    events = [{KEY: {"k": f"{scope}{name}"}, VALUE: {"n": 1}, OLD: None, US: 3, PLACE: [3, name]} for name in (0, 1)]
    told = SuppressFold(rule, "record", None, 0, {})({SCOPE: scope}, iter([]), iter(events))
    held = iter([row for kind, row in told if kind == "state"])
    told = SuppressFold(rule, "record", None, clock_us, {}, drains)({SCOPE: scope}, held, iter([]))
    return [row for kind, row in told if kind == "out"]


@pytest.mark.rule("R59", "R118")
@pytest.mark.parametrize(("clock_us", "drains"), [(5, False), (4, True)], ids=["a tick", "a drain"])
def test_where_scopes_are_one_later_on_what_leaves_each_comes_as_a_whole(clock_us: int, drains: bool) -> None:
    rows = [*_left(1, _RULE, clock_us, drains), *_left(0, _RULE, clock_us, drains)]
    rows.sort(key=lambda row: (row[PLACE], row[SCOPE]))
    assert [row[KEY]["k"] for row in rows] == ["00", "01", "10", "11"]


@pytest.mark.rule("R70", "R73")
@pytest.mark.parametrize(("clock_us", "drains"), [(5, False), (4, True)], ids=["a tick", "a drain"])
@pytest.mark.parametrize("scopes", [(), (0,), (0, 1)], ids=["no", "one", "two"])
def test_a_buffer_is_measured_once_for_each_scope_that_rows_leave(
    scopes: tuple[int, ...], clock_us: int, drains: bool
) -> None:
    waiting = _told(None, 0, [], {"k": "a"})["state"]
    states = iter([{**waiting, KEY: {"k": f"k{scope}"}, SCOPE: scope} for scope in scopes])
    told = SuppressFold(_RULE, "record", None, clock_us, {}, drains)({TOGETHER: 0}, states, iter([]))
    assert [row for kind, row in told if kind == "count" and row[0] == SAMPLES] == [(SAMPLES, len(scopes))]


@pytest.mark.rule("R59", "R117")
def test_a_window_that_is_drained_while_it_is_open_says_so() -> None:
    final = BufferRule("final", wait_us=0, clock="window_end", final=True, retention_us=9)
    key = {"k": "a", "windowStart": _START, "windowEnd": _END}
    event = {KEY: key, VALUE: {"n": 1}, OLD: None, US: instant_us(_START), PLACE: [1]}
    fold = SuppressFold(final, "record", TimeWindows.of("1 day"), 0, {}, drains=True)
    told = fold({SCOPE: 0}, iter([]), iter([event]))
    assert [row[VALUE] for kind, row in told if kind == "out"] == [Row(n=1, closed_by="drain")]


_WINDOWS: Final = TimeWindows.of("10 us")
#: A key, the start of its window, what it is now, and the instant: windows and instants need not go together.
_Change = tuple[str, int, int | None, int]
#: How far the batch clock moves on, and the changes of the batch.
_Batch = tuple[int, list[_Change]]
_changes = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from([0, 10]),
    st.none() | st.integers(0, 9),
    st.integers(0, 9) | st.integers(-9, 40),
)
_batches = st.lists(st.tuples(st.integers(0, 6), st.lists(_changes, max_size=9)), min_size=1, max_size=5)
_bounds: Final = {
    "node": st.just("held"),
    "wait_us": st.integers(0, 12),
    "max_records": st.none() | st.integers(0, 4),
    "max_bytes": st.none() | st.integers(0, 120),
    "retention_us": st.none() | st.integers(1, 9),
}
_timed = st.builds(
    BufferRule,
    clock=st.sampled_from(["record", "window_start"]),
    timer=st.sampled_from(["first", "record", "last"]),
    max_age_us=st.just(15),
    when_full=st.sampled_from(["emit_early", "shut_down", "spill"]),
    **_bounds,
)
_by_arrival = st.builds(
    BufferRule, clock=st.just("wall"), when_full=st.sampled_from(["emit_early", "shut_down", "spill"]), **_bounds
)
_final = st.builds(
    BufferRule,
    clock=st.just("window_end"),
    final=st.just(True),
    when_full=st.sampled_from(["shut_down", "spill"]),
    **_bounds,
)


def _folded(rule: BufferRule, batches: list[_Batch]) -> tuple[list[PlainRow], list[PlainRow], bool]:
    """What leaves and what stays, batch by batch through stored rows, up to a batch that a full buffer refuses."""
    left: list[PlainRow] = []
    states: list[PlainRow] = []
    clock_us, times = 0, dict[int, int]()
    for step_us, changes in batches:
        clock_us += step_us
        fold = SuppressFold(rule, "record", _WINDOWS, clock_us, times)
        told = list(fold({SCOPE: 0}, iter(states), _events(changes)))
        if any(kind == "count" and row[0].startswith(FULL) for kind, row in told):
            return left, states, True
        left += [row for kind, row in told if kind == "out"]
        states = [row for kind, row in told if kind == "state"]
        if changes:
            times = {0: max(*times.values(), *(us for *_, us in changes), -(2**62))}
    return left, states, False


def _events(changes: Iterable[_Change]) -> Iterator[PlainRow]:
    for place, (key, start_us, value, us) in enumerate(changes):
        windowed = {"k": key, "windowStart": instant(start_us), "windowEnd": instant(start_us + 10)}
        new = None if value is None else {"n": value}
        yield {KEY: windowed, VALUE: new, OLD: {"n": us}, US: us, PLACE: [place]}


def _held(rule: BufferRule, batches: list[_Batch]) -> tuple[list[Emission], SuppressBuffer, bool]:
    """The same with one buffer that is never put away."""
    buffer, left, clock_us = SuppressBuffer(rule, sizer("record")), list[Emission](), 0
    for step_us, changes in batches:
        clock_us += step_us
        before = list(buffer.rows())
        try:
            told = list(buffer.tick(clock_us))
            for key, start_us, value, us in changes:
                window = Window(start_us, start_us + 10)
                parts = Row({"k": key, "windowStart": start_us, "windowEnd": start_us + 10})
                new = None if value is None else Row({"n": value})
                order = tie_order([key], window)
                told += buffer.put(Update(parts, order, new, Row({"n": us}), us, window), clock_us)
        except BufferFullError:
            begun = SuppressBuffer(rule, sizer("record"))
            for row in before:
                begun.hold(row)
            return left, begun, True
        left += told
    return left, buffer, False


def _leaving(rule: BufferRule, emission: Emission) -> tuple[Any, ...]:
    row = emission.row
    closed = {CLOSED_BY: "wall_clock" if emission.cause is Cause.RETENTION else "stream_time"}
    value = (
        row.value if row.value is None or not rule.final or rule.retention_us is None else Row({**row.value, **closed})
    )
    return row.key["k"], row.key["windowStart"], value, None if rule.final else row.prior, row.ts_us


def _plain(row: PlainRow) -> tuple[Any, ...]:
    start = next(us for us in (0, 10) if instant(us) == row[KEY]["windowStart"])
    return row[KEY]["k"], start, row[VALUE], row[OLD], row[US]


@pytest.mark.rule("R30", "R56", "R92", "R106", "R107")
@settings(max_examples=400, deadline=None)
@given(rule=_timed | _by_arrival | _final, batches=_batches)
def test_stored_after_each_batch_a_buffer_tells_and_holds_what_one_in_memory_does(
    rule: BufferRule, batches: list[_Batch]
) -> None:
    left, states, is_full = _folded(rule, batches)
    emitted, buffer, was_full = _held(rule, batches)
    assert is_full == was_full
    assert [_plain(row) for row in left] == [_leaving(rule, emission) for emission in emitted]
    stored = [(*_plain(row)[:2], row[US], row[BUFFER_US], row[FIRST_US], row[ARRIVED_US]) for row in states]
    assert sorted(stored) == sorted(
        (row.key["k"], row.key["windowStart"], row.ts_us, row.buffer_us, row.first_us, row.arrived_us)
        for row in buffer.rows()
    )


def _window(key: str, start_us: int) -> PlainRow:
    return {"k": key, "windowStart": instant(start_us), "windowEnd": instant(start_us + 10)}


def _waiting(keys: int) -> Iterator[PlainRow]:
    """Final results that wait for the end of one window in scope 1, and one of a later window in scope 0."""
    for key in range(keys):
        yield _final_state(_window(f"k{key}", 0), scope=1, us=3, end_us=10, arrived_us=0)
    yield _final_state(_window("other", 10), scope=0, us=19, end_us=20, arrived_us=4)


def _final_state(key: PlainRow, *, scope: int, us: int, end_us: int, arrived_us: int) -> PlainRow:
    values = {VALUE: {"n": "v" * 200}, OLD: None, PRIOR: None, SCOPE: scope}
    return {KEY: key, **values, US: us, BUFFER_US: end_us, FIRST_US: end_us, ARRIVED_US: arrived_us}


def _peak_of(key: str | None, clock_us: int, keys: int) -> int:
    """The most memory that is in use at once while a record of scope 1 or the clock lets go of so many results."""
    row = {VALUE: {"n": "v"}, OLD: None, US: 19, RECORD_US: 15, STREAM_US: 15, SCOPE: 1, PLACE: [3]}
    events = [] if key is None else [{KEY: _window(key, 10), **row}]
    rule = BufferRule("held", 0, "window_end", max_records=50, when_full="spill", retention_us=5, final=True)
    tracemalloc.start()
    try:
        told = SuppressFold(rule, "record", _WINDOWS, clock_us, {})({}, _waiting(keys), iter(events))
        assert sum(kind == "out" for kind, _ in told) == keys
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.rule("R34", "R48")
@pytest.mark.parametrize(
    ("key", "clock_us"),
    [("new", 0), ("other", 0), (None, 5)],
    ids=["a record", "a record of a window that another scope holds", "a tick"],
)
def test_what_one_record_or_tick_lets_go_of_leaves_a_spilling_buffer_row_by_row(key: str | None, clock_us: int) -> None:
    assert _peak_of(key, clock_us, 3_000) < 2 * _peak_of(key, clock_us, 300)
