"""Which of several stream-time scopes holds a key whose records come from all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from suppress.buffer_rules import BufferRule, SuppressBuffer, Update
from suppress.scoped_buffers import ScopedBuffers
from suppress.window_rules import Window
from suppress.windows import SessionWindows, TimeWindows, Windows

_TUMBLING, _SESSIONS = TimeWindows.of("1 minute"), SessionWindows.of("1 minute")
_HELD = Window(0, 100)
_FINAL = BufferRule("final", wait_us=0, clock="window_end", final=True)
_LIMIT = BufferRule("limit", wait_us=50)


def _buffers(rule: BufferRule, windows: Windows | None) -> ScopedBuffers:
    return ScopedBuffers(lambda _: SuppressBuffer(rule), windows)


def _put(
    buffers: ScopedBuffers,
    scope: int,
    record_us: int,
    newest_us: int,
    arrived_us: int,
    *,
    now_us: int = 0,
    window: Window = _HELD,
) -> list[int]:
    """The instants of what leaves when a window gets a record of that scope."""
    update = Update(f"k{window.end_us}", bytes([window.end_us]), "v", None, newest_us, window)
    holder = buffers.holder(scope, update, record_us)
    left = buffers.put(scope, update, holder, arrived_us=arrived_us, now_us=now_us)
    return [emission.row.ts_us for emission in left]


@pytest.mark.rule("R4")
@pytest.mark.parametrize(
    ("rule", "windows", "record_us", "held"),
    [
        (_FINAL, _SESSIONS, 5, {0: 0, 1: 1}),
        (_FINAL, _TUMBLING, 5, {0: 1, 1: 0}),
        (_FINAL, _TUMBLING, 7, {0: 0, 1: 1}),
        (_FINAL, _TUMBLING, 9, {0: 0, 1: 1}),
        (_LIMIT, _TUMBLING, 5, {0: 0, 1: 1}),
        (_LIMIT, None, 5, {0: 0, 1: 1}),
    ],
    ids=[
        "a session moves",
        "a window stays with its newest",
        "of equal ones the greatest scope",
        "newer",
        "a limit of windows",
        "a limit",
    ],
)
def test_one_scope_holds_a_key(rule: BufferRule, windows: Windows | None, record_us: int, held: dict[int, int]) -> None:
    buffers = _buffers(rule, windows)
    assert _put(buffers, 0, 7, 7, 7) == []
    assert _put(buffers, 1, record_us, max(7, record_us), record_us) == []
    assert {scope: buffer.records for scope, buffer in buffers} == held
    assert (buffers.records, buffers.bytes) == (sum(held.values()), sum(buffer.bytes for _, buffer in buffers))


def test_a_record_moves_the_time_of_its_own_scope_also_where_another_one_holds_its_window() -> None:
    buffers = _buffers(_FINAL, _TUMBLING)
    assert _put(buffers, 0, 7, 7, 7) == []
    assert _put(buffers, 1, 3, 7, 3) == []
    assert {scope: buffer.stream_time_us for scope, buffer in buffers} == {0: 7, 1: 3}


@pytest.mark.rule("R5", "R88")
def test_a_record_into_a_window_that_another_scope_holds_closes_windows_of_its_own_scope() -> None:
    buffers = _buffers(_FINAL, _TUMBLING)
    assert _put(buffers, 1, 7, 7, 7) == []
    assert _put(buffers, 0, 150, 150, 150, window=Window(100, 200)) == []
    assert _put(buffers, 1, 120, 150, 120, window=Window(100, 200)) == [7]
    assert {scope: buffer.records for scope, buffer in buffers} == {0: 1, 1: 0}


def test_a_window_that_moves_does_not_bring_the_time_of_the_scope_that_held_it() -> None:
    buffers = _buffers(_FINAL, _SESSIONS)
    assert _put(buffers, 0, 7, 7, 7) == []
    assert _put(buffers, 1, 5, 7, 5) == []
    assert {scope: (buffer.records, buffer.stream_time_us) for scope, buffer in buffers} == {0: (0, 7), 1: (1, 5)}


@pytest.mark.rule("R117")
@pytest.mark.parametrize("scope", [0, 1], ids=["the same scope", "another one"])
def test_an_update_does_not_let_a_final_result_wait_anew(scope: int) -> None:
    buffers = _buffers(replace(_FINAL, retention_us=10), _TUMBLING)
    assert _put(buffers, 0, 7, 7, 7) == _put(buffers, scope, 8, 8, 8, now_us=6) == []
    assert [emission.row.ts_us for emission in buffers.of(scope).tick(10)] == [8]


@pytest.mark.parametrize("scope", [0, 1], ids=["the same scope", "another one"])
def test_a_limit_tells_what_downstream_knew_and_waits_from_the_first_update(scope: int) -> None:
    buffers = _buffers(BufferRule("limit", wait_us=5), None)
    first, second = Update("k", b"k", "v", "known", 3), Update("k", b"k", "w", "v", 4)
    for place, update in ((0, first), (scope, second)):
        told = buffers.put(place, update, buffers.holder(place, update, update.ts_us), arrived_us=0, now_us=0)
        assert list(told) == []
    left = buffers.put(scope, replace(first, key="o", ts_us=8), buffers.of(scope), arrived_us=8, now_us=0)
    assert [(emission.row.value, emission.row.prior) for emission in left] == [("w", "known")]


@pytest.mark.rule("R35", "R52")
def test_a_window_that_closes_makes_room_for_the_one_whose_record_closed_it() -> None:
    buffers = _buffers(replace(_FINAL, max_records=1), _TUMBLING)
    assert _put(buffers, 0, 7, 7, 7) == []
    assert _put(buffers, 0, 100, 100, 100, window=Window(100, 200)) == [7]


def test_a_time_limit_goes_by_the_time_of_the_update_and_not_by_that_of_the_scope() -> None:
    buffers = _buffers(BufferRule("limit", wait_us=5), None)
    assert _put(buffers, 1, 3, 20, 3) == []
    assert buffers.of(1).stream_time_us == 20
