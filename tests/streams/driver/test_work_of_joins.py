"""What a record of a stream-stream join costs does not grow with the records that wait for a partner."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from steps import steps_of

from streams.driver.join_buffer import JoinBuffer, Side
from streams.rows import Row
from suppress.windows import JoinWindows

Event = tuple[int, Side, int]


def take(buffer: JoinBuffer, events: list[Event]) -> int:
    """Let records count as an outer join does; gives how many left alone."""
    alone = 0
    for ts_us, side, key in events:
        if ts_us == buffer.advance(ts_us):
            alone += len(buffer.final_unmatched(side))
        record = buffer.hold(side, Row(k=key), Row(n=ts_us), ts_us)
        for _ in buffer.partners(side, record.key, ts_us):
            record.matched = True
        if not record.matched:
            buffer.await_match(record)
    return alone


def all_alone(ts_us: int) -> Event:
    return ts_us, Side(ts_us % 2), ts_us


def few_of_the_left(ts_us: int) -> Event:
    return ts_us, Side.LEFT if ts_us % 97 == 0 else Side.RIGHT, ts_us


def half_matched(ts_us: int) -> Event:
    """Of four records two are alone, and two meet."""
    return ts_us, Side(ts_us % 2), ts_us - ts_us % 2 if ts_us % 4 < 2 else ts_us


@pytest.mark.parametrize("event", [all_alone, few_of_the_left, half_matched])
@pytest.mark.parametrize("reach", [(1, 1), (1, 0), (0, 1)], ids=["both ways", "before", "after"])
def test_a_record_costs_as_much_beside_many_that_wait_as_beside_few(
    event: Callable[[int], Event], reach: tuple[int, int]
) -> None:
    def work(waiting: int) -> int:
        before, after = reach
        buffer = JoinBuffer(JoinWindows(before * waiting, after * waiting, grace_us=0))
        take(buffer, [event(ts_us) for ts_us in range(2 * waiting)])
        events = [event(ts_us) for ts_us in range(2 * waiting, 2 * waiting + 200)]
        left = 0

        def go_on() -> None:
            nonlocal left
            left = take(buffer, events)

        steps = steps_of(go_on)
        assert left > 0
        return steps

    # Finding a place among four times as many takes two comparisons more, not four times as many.
    assert work(2_000) < 1.3 * work(500)
