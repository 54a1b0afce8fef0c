"""The suppression buffer, record by record: KIP-328's eviction tables, KIP-539, and properties of random histories."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suppress.buffer_rules import BufferedRow, BufferRule, Cause, Emission, SuppressBuffer, Update
from suppress.order import canonical_order
from suppress.sizes import value_size
from suppress.window_rules import Window
from versioned.errors import BufferFullError

NEVER_US = 10**15
HOUR_US = 3_600_000_000

Record = tuple[str, Any, int]


def update(key: str, value: Any, ts_us: int, old: Any = None, window: Window | None = None) -> Update:
    return Update(key, canonical_order(key), value, old, ts_us, window)


def shown(emissions: Iterable[Emission]) -> list[Record]:
    return [(str(e.row.key), e.row.value, e.row.ts_us) for e in emissions]


def content(buffer: SuppressBuffer) -> list[Record]:
    return sorted((str(row.key), row.value, row.ts_us) for row in buffer.rows())


def put(buffer: SuppressBuffer, change: Update, now_us: int = 0) -> list[Record]:
    """What a change made leave."""
    return shown(buffer.put(change, now_us))


def feed(buffer: SuppressBuffer, records: Iterable[Record], now_us: int = 0) -> list[list[Record]]:
    """What each record made leave."""
    return [put(buffer, update(*record), now_us) for record in records]


def restored(rule: BufferRule, rows: Iterable[BufferedRow], stream_time_us: int | None, **more: Any) -> SuppressBuffer:
    buffer = SuppressBuffer.restore(rule, stream_time_us, **more)
    for row in rows:
        buffer.hold(row)
    return buffer


def eviction_table(**bounds: Any) -> SuppressBuffer:
    rule = BufferRule("table", **{"wait_us": NEVER_US, **bounds}, timer="record", when_full="emit_early")
    return SuppressBuffer(rule, size_of=value_size)


TABLES = [
    pytest.param(
        {}, [("A", "x", 0), ("A", "y", 1)], [[], []], [("A", "y", 1)],
        marks=pytest.mark.rule("R94"), id="an update overwrites",
    ),
    pytest.param(
        {}, [("A", "x", 1), ("A", "w", 0)], [[], []], [("A", "w", 0)],
        marks=pytest.mark.rule("R95"), id="an update overwrites even when it is older",
    ),
    pytest.param(
        {"max_records": 2}, [("A", "w", 0), ("A", "x", 1), ("B", "y", 2), ("C", "z", 3)],
        [[], [], [], [("A", "x", 1)]], [("B", "y", 2), ("C", "z", 3)],
        marks=pytest.mark.rule("R96"), id="two keys",
    ),
    pytest.param(
        {"max_bytes": 3}, [("A", "xx", 0), ("A", "yy", 1), ("B", "zz", 2)],
        [[], [], [("A", "yy", 1)]], [("B", "zz", 2)],
        marks=pytest.mark.rule("R97"), id="three bytes",
    ),
    pytest.param(
        {"wait_us": 2}, [("A", "w", 0), ("A", "x", 1), ("B", "y", 2), ("C", "z", 3)],
        [[], [], [], [("A", "x", 1)]], [("B", "y", 2), ("C", "z", 3)],
        marks=pytest.mark.rule("R98"), id="after two units of time",
    ),
    pytest.param(
        {"wait_us": 2}, [("A", "w", 3), ("A", "x", 1), ("B", "y", 1)],
        [[], [("A", "x", 1)], [("B", "y", 1)]], [],
        marks=pytest.mark.rule("R99"), id="after two units of time, late records leave at once",
    ),
    pytest.param(
        {"max_records": 2}, [("A", "w", 0), ("A", "x", 1), ("B", "y", 2), ("C", "z", 0)],
        [[], [], [], [("C", "z", 0)]], [("A", "x", 1), ("B", "y", 2)],
        marks=pytest.mark.rule("R100"), id="two keys, the newest arrival is the oldest by time",
    ),
    pytest.param(
        {"max_bytes": 3}, [("A", "xx", 0), ("A", "yy", 1), ("B", "zz", 0)],
        [[], [], [("B", "zz", 0)]], [("A", "yy", 1)],
        marks=pytest.mark.rule("R101"), id="three bytes, the newest arrival is the oldest by time",
    ),
    pytest.param(
        {"max_bytes": 3}, [("A", "x", 0), ("B", "y", 1), ("C", "zzz", 2)],
        [[], [], [("A", "x", 0), ("B", "y", 1)]], [("C", "zzz", 2)],
        marks=pytest.mark.rule("R102"), id="a big record pushes several out",
    ),
    pytest.param(
        {"max_bytes": 3}, [("A", "x", 0), ("B", "y", 1), ("C", "zzzz", 2)],
        [[], [], [("A", "x", 0), ("B", "y", 1), ("C", "zzzz", 2)]], [],
        marks=pytest.mark.rule("R103"), id="a record too big for the buffer leaves after the older ones",
    ),
]  # fmt: skip


@pytest.mark.rule("R43", "R85", "R86", "R87", "R89", "R90", "R91", "R92")
@pytest.mark.parametrize(("bounds", "records", "emitted", "left"), TABLES)
def test_an_eviction_table_of_kip_328_holds_to_the_letter(
    bounds: dict[str, int], records: list[Record], emitted: list[list[Record]], left: list[Record]
) -> None:
    buffer = eviction_table(**bounds)
    assert feed(buffer, records) == emitted
    assert content(buffer) == left


@pytest.mark.rule("R104")
def test_an_old_record_is_not_held_back_by_a_younger_one_that_came_first() -> None:
    buffer = eviction_table(wait_us=2)
    emitted = feed(buffer, [("A", "x", 2), ("B", "y", 1), ("C", "z", 3), ("C", "zz", 4)])
    assert emitted == [[], [], [("B", "y", 1)], [("A", "x", 2)]]
    assert content(buffer) == [("C", "zz", 4)]


@pytest.mark.rule("R105")
@pytest.mark.parametrize("bound", [{"wait_us": 2}, {"max_records": 2}, {"max_bytes": 2}], ids=lambda b: next(iter(b)))
def test_the_order_of_eviction_is_the_same_for_every_kind_of_bound(bound: dict[str, int]) -> None:
    # Late keys, so that the order of arrival is another one.
    emitted = feed(eviction_table(**bound), [("A", "x", 5), ("B", "y", 4), ("C", "z", 6), ("D", "w", 7), ("E", "v", 8)])
    assert emitted == [[], [], [("B", "y", 4)], [("A", "x", 5)], [("C", "z", 6)]]


@pytest.mark.rule("R56", "R107")
def test_the_first_timer_is_not_restarted_by_updates() -> None:
    buffer = SuppressBuffer(BufferRule("first", wait_us=5))
    emitted = feed(buffer, [("A", "1", 0), ("A", "2", 4), ("B", "t", 5)])
    assert emitted == [[], [], [("A", "2", 4)]]


@pytest.mark.rule("R106")
@pytest.mark.parametrize(
    ("records", "emitted_at"),
    [
        ([("A", "1", 0), ("A", "2", 4), ("B", "t", 8), ("B", "t", 9)], 3),
        ([("A", "1", 0), ("A", "2", 4), ("A", "3", 8), ("A", "4", 11), ("A", "5", 12)], 4),
        ([("A", "1", 4), ("A", "2", 0), ("B", "t", 8), ("B", "t", 9)], 3),
    ],
    ids=["an update restarts it", "max_age ends it", "an older update does not shorten it"],
)
def test_the_last_timer_runs_from_the_latest_update_up_to_its_max_age(records: list[Record], emitted_at: int) -> None:
    buffer = SuppressBuffer(BufferRule("last", wait_us=5, timer="last", max_age_us=12))
    emitted = feed(buffer, records)
    assert [position for position, step in enumerate(emitted) if step and step[0][0] == "A"] == [emitted_at]


@pytest.mark.rule("R60")
def test_a_wait_of_zero_passes_every_update_in_its_own_order_and_keeps_nothing() -> None:
    records = [("A", "1", 5), ("A", "2", 3), ("B", "3", 9), ("A", None, 9)]
    buffer = SuppressBuffer(BufferRule("off", wait_us=0))
    assert [row for step in feed(buffer, records) for row in step] == records
    assert buffer.records == 0


@pytest.mark.rule("R88")
def test_stream_time_alone_can_evict() -> None:
    buffer = SuppressBuffer(BufferRule("time", wait_us=5))
    feed(buffer, [("A", "1", 0)])
    assert shown(buffer.advance(5, now_us=0)) == [("A", "1", 0)]


@pytest.mark.rule("R30")
@pytest.mark.parametrize(("clock", "left_at"), [("record", 9), ("window_start", 7)])
def test_a_time_limit_on_windows_counts_from_the_record_or_the_window_start(clock: Any, left_at: int) -> None:
    buffer = SuppressBuffer(BufferRule("windowed", wait_us=7, clock=clock))
    put(buffer, update("A", "1", 2, window=Window(0, 10)))
    left = [ts for ts in range(3, 12) if list(buffer.advance(ts, now_us=0))]
    assert left == [left_at]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [(["é", "z", "a"], ["a", "z", "é"]), ([10, 9, -1], [-1, 9, 10]), (["ab", "a", "b"], ["a", "ab", "b"])],
    ids=["text by its UTF-8 bytes", "numbers by value", "a prefix first"],
)
def test_ties_leave_in_the_canonical_order_of_their_keys(keys: list[Any], expected: list[Any]) -> None:
    buffer = SuppressBuffer(BufferRule("ties", wait_us=5))
    for key in keys:
        put(buffer, Update(key, canonical_order(key), "v", None, 0))
    assert [emission.row.key for emission in buffer.advance(5, now_us=0)] == expected


@pytest.mark.rule("R35", "R47", "R83")
@pytest.mark.parametrize(
    ("bounds", "words"), [({"max_records": 2}, "3 of 2 records"), ({"max_bytes": 4}, "6 of 4 bytes")]
)
def test_a_full_strict_buffer_shuts_down_and_says_what_to_do(bounds: dict[str, Any], words: str) -> None:
    buffer = SuppressBuffer(BufferRule("alerts", NEVER_US, when_full="shut_down", **bounds), size_of=value_size)
    feed(buffer, [("A", "xx", 0), ("B", "yy", 1)])
    with pytest.raises(BufferFullError) as caught:
        feed(buffer, [("C", "zz", 2)])
    message = str(caught.value)
    assert f"alerts: the suppression buffer is full: it would hold {words}. " in message
    assert "Raise the bound, shorten the wait, or let it spill" in message


@pytest.mark.parametrize("final", [False, True])
def test_a_full_buffer_advises_what_the_next_start_follows_and_settings_know(final: bool) -> None:
    buffer = SuppressBuffer(BufferRule("n", NEVER_US, max_records=0, final=final))
    with pytest.raises(BufferFullError, match="when_full: spill, in Python ") as full:
        feed(buffer, [("A", "xx", 0)])
    # A store of windows refuses another grace.
    assert ("begin in a new root with a shorter grace" in str(full.value)) is final
    assert ("shorten the wait" in str(full.value)) is not final


def test_what_is_due_leaves_before_a_bound_is_judged() -> None:
    buffer = SuppressBuffer(BufferRule("strict", wait_us=5, when_full="shut_down", max_records=1))
    assert feed(buffer, [("A", "1", 0), ("B", "2", 5)]) == [[], [("A", "1", 0)]]


@pytest.mark.rule("R34", "R48", "R86")
@pytest.mark.parametrize("bound", [{"max_records": 50}, {"max_bytes": 50}], ids=["records", "bytes"])
def test_a_spilling_buffer_keeps_its_memory_within_the_bound_at_ten_times_the_load(bound: dict[str, int]) -> None:
    # Of one byte each, so that both bounds let fifty stay.
    buffer = SuppressBuffer(BufferRule("spill", wait_us=1_000, when_full="spill", **bound), size_of=value_size)
    hot = []
    for number in range(500):
        assert put(buffer, update(f"k{number}", "v", number)) == []
        hot.append(buffer.hot_records)
    assert max(hot) == 50
    assert buffer.records == 500


def _peak_of(take: Callable[[SuppressBuffer], Iterable[object]], keys: int) -> int:
    """The most memory in use while something is taken from a buffer that has spilled nearly all its rows, all long."""
    buffer = SuppressBuffer(BufferRule("spill", wait_us=10**6, when_full="spill", max_records=50, retention_us=10))
    feed(buffer, ((f"k{number}", "v" * 20_000, number) for number in range(keys)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in take(buffer)) == keys
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.rule("R34", "R48", "R82")
@pytest.mark.parametrize(
    "take",
    [
        SuppressBuffer.rows,
        SuppressBuffer.drain,
        lambda buffer: buffer.put(update("last", "v", 10**9), now_us=0),
        lambda buffer: buffer.advance(10**9, now_us=0),
        lambda buffer: buffer.tick(10),
    ],
    ids=["its rows", "a drain", "an update", "stream time", "a tick"],
)
def test_what_a_buffer_has_spilled_comes_back_row_by_row(take: Callable[[SuppressBuffer], Iterable[object]]) -> None:
    assert _peak_of(take, 1_000) < 2 * _peak_of(take, 100)


def _grown_beside_one_that_waits(rule: BufferRule, held_us: int, keys: list[str]) -> int:
    """How much memory a buffer takes when updates of these keys have come while a row of that instant waits."""
    tracemalloc.start()
    try:
        buffer = SuppressBuffer(rule)
        assert list(buffer.put(update("held", "v", held_us), now_us=0, stream_us=0)) == []
        left = sum(len(put(buffer, update(key, "v", ts_us))) for ts_us, key in enumerate(keys))
        assert left == max(len(set(keys)) - 2, 0)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.rule("R34", "R48", "R106", "R116")
@pytest.mark.parametrize(
    ("rule", "held_us", "key"),
    [
        (BufferRule("n", 2, when_full="spill", max_records=50, retention_us=10**9), 10**9, "k{}"),
        (BufferRule("n", 10**9, timer="record"), 0, "hot"),
    ],
    ids=["rows that come and go", "a timer that is restarted"],
)
def test_what_passes_beside_a_row_that_waits_leaves_nothing_in_memory(rule: BufferRule, held_us: int, key: str) -> None:
    keys = list(map(key.format, range(20_000)))
    few, many = (_grown_beside_one_that_waits(rule, held_us, keys[:count]) for count in (2_000, 20_000))
    assert many < 2 * few


@pytest.mark.rule("R84")
def test_a_thousand_and_one_keys_make_the_oldest_leave_early() -> None:
    buffer = SuppressBuffer(BufferRule("rate", wait_us=30_000_000, when_full="emit_early", max_records=1_000))
    emitted = feed(buffer, [(f"k{number:04}", "v", number) for number in range(1_001)])
    assert [row for step in emitted for row in step] == [("k0000", "v", 0)]


@pytest.mark.rule("R109", "R112", "R115")
def test_a_wall_clock_limit_needs_no_further_record() -> None:
    buffer = SuppressBuffer(BufferRule("wall", wait_us=10, clock="wall"))
    feed(buffer, [("A", "1", 500)], now_us=100)
    assert [shown(buffer.tick(now)) for now in (109, 110)] == [[], [("A", "1", 500)]]


@pytest.mark.rule("R113")
def test_a_replacement_does_not_restart_the_wall_clock_timer() -> None:
    buffer = SuppressBuffer(BufferRule("wall", wait_us=10, clock="wall"))
    feed(buffer, [("A", "1", 500)], now_us=100)
    feed(buffer, [("A", "2", 501)], now_us=108)
    assert shown(buffer.tick(110)) == [("A", "2", 501)]


@pytest.mark.rule("R110", "R123")
def test_a_sensor_that_is_silent_for_a_day_emits_nothing_and_moves_no_stream_time() -> None:
    buffer = SuppressBuffer(BufferRule("sensor", wait_us=HOUR_US))
    feed(buffer, [("A", "1", 0)], now_us=0)
    hours = [list(buffer.tick(hour * HOUR_US)) for hour in range(1, 25)]
    assert hours == [[]] * 24
    assert buffer.stream_time_us == 0


@pytest.mark.rule("R116", "R122")
def test_retention_flushes_what_an_event_time_buffer_has_held_too_long() -> None:
    buffer = SuppressBuffer(BufferRule("sensor", wait_us=HOUR_US, retention_us=5 * HOUR_US))
    feed(buffer, [("A", "1", 0)], now_us=7)
    ticks = [list(buffer.tick(hour * HOUR_US + 7)) for hour in range(1, 25)]
    assert [position for position, left in enumerate(ticks, start=1) if left] == [5]
    assert ticks[4][0].cause is Cause.RETENTION


@pytest.mark.rule("R34", "R116")
@pytest.mark.parametrize("first", ["A", "B"])
@pytest.mark.parametrize("updates", [[], [("B", "w", 0)]], ids=["each once", "B again"])
def test_retention_lets_go_of_the_longest_held_be_it_in_memory_or_in_the_file(
    first: str, updates: list[Record]
) -> None:
    buffer = SuppressBuffer(BufferRule("n", NEVER_US, when_full="spill", max_records=1, retention_us=10))
    order = ["A", "B"] if first == "A" else ["B", "A"]
    for key, now_us in zip(order, (0, 5), strict=True):
        feed(buffer, [(key, "v", 0)], now_us)
    feed(buffer, updates, now_us=6)
    assert [[key for key, _, _ in shown(buffer.tick(now_us))] for now_us in (10, 15)] == [[key] for key in order]


@pytest.mark.rule("R34", "R116")
def test_retention_lets_go_of_what_was_spilled_before_what_came_into_memory_later() -> None:
    buffer = SuppressBuffer(BufferRule("n", 50, when_full="spill", max_records=1, retention_us=10))
    # B goes to the file, since A is still there; A is due then, and C finds room.
    left = [feed(buffer, [record], now_us) for record, now_us in ((("A", "v", 0), 0), (("B", "v", 100), 2))]
    assert left == [[[]], [[("A", "v", 0)]]]
    assert feed(buffer, [("C", "v", 101)], now_us=4) == [[]]
    assert [shown(buffer.tick(now_us)) for now_us in (12, 14)] == [[("B", "v", 100)], [("C", "v", 101)]]


@pytest.mark.rule("R34", "R116")
@pytest.mark.parametrize("arrivals", [(3, 8, 9), (8, 3, 9), (9, 8, 3)])
def test_the_first_arrival_is_known_be_it_in_memory_or_in_the_file(arrivals: tuple[int, ...]) -> None:
    rows = [
        BufferedRow(key, canonical_order(key), "v", None, None, 0, 0, 0, us)
        for key, us in zip("ABC", arrivals, strict=True)
    ]
    told = []
    for bound in (3, 2, 1, 0):
        rule = BufferRule("n", NEVER_US, when_full="spill", max_records=bound)
        assert SuppressBuffer(rule).first_arrived_us() is None
        told.append(restored(rule, rows, None).first_arrived_us())
    assert told == [3, 3, 3, 3]


@pytest.mark.rule("R106", "R116")
@pytest.mark.parametrize("leave", ["by time", "by retention"])
# With 1,107 the buffer clears away what stale timers left; soon after it all of it is new again.
@pytest.mark.parametrize("steps", [1_106, 1_108, 1_130, 3_000])
def test_rows_that_were_updated_again_and_again_leave_in_the_order_of_their_last_timers(leave: str, steps: int) -> None:
    keys = [f"k{number:02}" for number in range(40)]
    buffer = SuppressBuffer(BufferRule("n", 10**9, timer="record", retention_us=1_000))
    for step in range(steps):
        feed(buffer, [(keys[step * 7_919 % 10_007 % 40], "v", step * 6_007 % 10_009)], now_us=step % 900)
    waiting = {str(row.key): row for row in buffer.rows()}
    assert len(waiting) > 20
    if leave == "by time":
        left = buffer.advance(2 * 10**9, now_us=0)
        expected = sorted(waiting, key=lambda key: (waiting[key].ts_us, key))
    else:
        left = buffer.tick(3_000)
        expected = sorted(waiting, key=lambda key: (waiting[key].arrived_us, key))
    assert [emission.row.key for emission in left] == expected


def test_a_key_that_is_not_held_can_be_forgotten() -> None:
    buffer = SuppressBuffer(BufferRule("n", wait_us=5))
    feed(buffer, [("A", "1", 0)])
    for key in ("B", "A", "A"):
        buffer.forget(key)
    assert (buffer.records, buffer.bytes) == (0, 0)


@pytest.mark.rule("R121")
@pytest.mark.parametrize("restarts", [False, True], ids=["running on", "restored"])
def test_a_wall_clock_that_is_set_back_only_makes_rows_wait(restarts: bool) -> None:
    rule = BufferRule("wall", wait_us=10, clock="wall")
    buffer = SuppressBuffer(rule)
    feed(buffer, [("A", "1", 0)], now_us=95)
    assert shown(buffer.tick(100)) == []
    if restarts:
        buffer = restored(rule, buffer.rows(), buffer.stream_time_us, clock_us=buffer.clock_us)
    assert shown(buffer.tick(40)) == []
    feed(buffer, [("B", "2", 0)], now_us=40)
    left = {now: shown(buffer.tick(now)) for now in (50, 104, 105, 109, 110)}
    assert left == {50: [], 104: [], 105: [("A", "1", 0)], 109: [], 110: [("B", "2", 0)]}


@pytest.mark.rule("R120", "R126")
@pytest.mark.parametrize(
    ("rule", "left_at"),
    [
        (BufferRule("wall", wait_us=10, clock="wall"), {10: [("A", "v", 5)], 14: [("B", "v", 1)]}),
        (BufferRule("wall", wait_us=10, clock="wall", retention_us=7), {7: [("A", "v", 5)], 11: [("B", "v", 1)]}),
    ],
)
def test_the_wall_clock_is_data_so_that_a_replay_decides_the_same(
    rule: BufferRule, left_at: dict[int, list[Record]]
) -> None:
    def run() -> dict[int, list[Record]]:
        buffer = SuppressBuffer(rule)
        # A comes at 0 and B at 4, by the clock that the caller tells; their own times are the other way round.
        assert [feed(buffer, [(key, "v", ts)], now) for key, ts, now in [("A", 5, 0), ("B", 1, 4)]] == [[[]], [[]]]
        return {now: left for now in range(5, 20) if (left := shown(buffer.tick(now)))}

    assert [run(), run()] == [left_at] * 2


def test_final_results_leave_out_tombstones() -> None:
    buffer = SuppressBuffer(BufferRule("final", wait_us=0, clock="window_end", final=True))
    put(buffer, update("A", None, 3, window=Window(0, 10)))
    assert shown(buffer.advance(10, now_us=0)) == []
    assert buffer.records == 0


@pytest.mark.rule("R28", "R52")
@pytest.mark.parametrize(
    ("values", "left_at"),
    [("v", 15), ("vw", 15), ([None], 13), (["v", None], 13), ([None, "v"], 15)],
    ids=["a result", "an update", "a tombstone", "merged away", "come back"],
)
def test_of_final_results_only_tombstones_leave_earlier(values: list[Any], left_at: int) -> None:
    rule = BufferRule("final", wait_us=5, clock="window_end", final=True, tombstone_lead_us=2)
    buffer = SuppressBuffer(rule)
    for value in values:
        put(buffer, update("A", value, 3, window=Window(0, 10)))
    emptied = [ts for ts in range(10, 17) if list(buffer.advance(ts, now_us=0)) or not buffer.records]
    assert emptied[0] == left_at


def test_an_emitted_row_remembers_what_downstream_knew_before() -> None:
    buffer = SuppressBuffer(BufferRule("old", wait_us=5))
    put(buffer, update("A", "2", 0, old="1"))
    put(buffer, update("A", "3", 1, old="2"))
    assert [emission.row.prior for emission in buffer.advance(5, now_us=0)] == ["1"]


RECORDS = st.lists(
    st.tuples(st.sampled_from("ABCD"), st.one_of(st.none(), st.text("xyz", max_size=3)), st.integers(-20, 60)),
    max_size=40,
)


def rules(*when_full: str) -> st.SearchStrategy[BufferRule]:
    return st.builds(
        BufferRule,
        node=st.just("any"),
        wait_us=st.integers(0, 30),
        clock=st.sampled_from(["record", "wall"]),
        timer=st.sampled_from(["first", "record", "last"]),
        max_age_us=st.just(40),
        max_records=st.one_of(st.none(), st.integers(0, 4)),
        max_bytes=st.one_of(st.none(), st.integers(0, 8)),
        when_full=st.sampled_from(when_full),
    )


ANY_RULE = rules("shut_down", "emit_early", "spill")
#: Those of buffers that take every record.
GOES_ON = rules("emit_early", "spill")
ANY_BUFFER = settings(max_examples=150, deadline=None)


def fed(buffer: SuppressBuffer, records: list[Record]) -> tuple[list[list[Record]], bool]:
    """What each record made leave up to the one for which the buffer shuts down, and whether it does."""
    emitted = []
    for record in records:
        try:
            # The times of the records are those of the wall clock, too.
            emitted += feed(buffer, [record], now_us=record[2])
        except BufferFullError:
            return emitted, True
    return emitted, False


def brute_force(rule: BufferRule, records: list[Record]) -> tuple[list[list[Record]], bool]:
    """KIP-328's algorithm over a plain list: insert or update, then take the oldest away while a bound is violated."""
    rows: list[dict[str, Any]] = []
    stream_time = -(10**9)
    emitted: list[list[Record]] = []
    for key, value, ts in records:
        stream_time = max(stream_time, ts)
        slot = stream_time if rule.clock == "wall" else ts
        row = next((row for row in rows if row["key"] == key), None)
        if row is None:
            rows.append({"key": key, "slot": slot, "first": slot, "value": value, "ts": ts})
        else:
            row.update(value=value, ts=ts)
            if rule.timer == "record":
                row["slot"] = slot
            elif rule.timer == "last":
                row["slot"] = min(max(row["slot"], slot), row["first"] + max(0, 40 - rule.wait_us))
        emitted.append([])
        while rows:
            oldest = min(rows, key=lambda row: (row["slot"], row["key"]))
            size = sum(len(row["value"] or "") for row in rows)
            full = rule.when_full != "spill" and (
                (rule.max_records is not None and len(rows) > rule.max_records)
                or (rule.max_bytes is not None and size > rule.max_bytes)
            )
            if oldest["slot"] + rule.wait_us > stream_time:
                if full and rule.when_full == "shut_down":
                    return emitted[:-1], True
                if not full:
                    break
            rows.remove(oldest)
            emitted[-1].append((oldest["key"], oldest["value"], oldest["ts"]))
    return emitted, False


@pytest.mark.rule("R35", "R92", "R107", "R114")
@ANY_BUFFER
@given(rule=ANY_RULE, records=RECORDS)
def test_any_history_leaves_as_the_plain_algorithm_says(rule: BufferRule, records: list[Record]) -> None:
    assert fed(SuppressBuffer(rule, size_of=value_size), records) == brute_force(rule, records)


@pytest.mark.rule("R34")
@ANY_BUFFER
@given(rule=GOES_ON, records=RECORDS)
def test_a_spilling_buffer_emits_what_an_unbounded_one_emits(rule: BufferRule, records: list[Record]) -> None:
    spilling = BufferRule("s", rule.wait_us, timer=rule.timer, max_age_us=40, when_full="spill", max_records=1)
    unbounded = BufferRule("u", rule.wait_us, timer=rule.timer, max_age_us=40)
    assert feed(SuppressBuffer(spilling), records) == feed(SuppressBuffer(unbounded), records)


@pytest.mark.rule("R85", "R86", "R114")
@ANY_BUFFER
@given(rule=ANY_RULE, records=RECORDS)
def test_every_bound_holds_after_every_record(rule: BufferRule, records: list[Record]) -> None:
    buffer = SuppressBuffer(rule, size_of=value_size)
    with contextlib.suppress(BufferFullError):
        for record in records:
            feed(buffer, [record])
            assert rule.max_records is None or buffer.hot_records <= rule.max_records
            assert rule.max_bytes is None or buffer.hot_bytes <= rule.max_bytes


@pytest.mark.rule("R25", "R27")
@ANY_BUFFER
@given(rule=GOES_ON, records=RECORDS)
def test_after_a_drain_downstream_holds_the_latest_update_of_every_key(rule: BufferRule, records: list[Record]) -> None:
    buffer = SuppressBuffer(rule, size_of=value_size)
    emitted = [row for step in feed(buffer, records) for row in step] + shown(buffer.drain())
    assert {key: (value, ts) for key, value, ts in emitted} == {key: (value, ts) for key, value, ts in records}
    assert (buffer.records, buffer.bytes) == (0, 0)


@pytest.mark.rule("R93")
@ANY_BUFFER
@given(rule=GOES_ON, records=RECORDS)
def test_the_updates_of_a_key_leave_in_the_order_in_which_they_came(rule: BufferRule, records: list[Record]) -> None:
    numbered = [(key, f"{number}", ts) for number, (key, _, ts) in enumerate(records)]
    buffer = SuppressBuffer(rule)
    emitted = [row for step in feed(buffer, numbered) for row in step]
    for key in "ABCD":
        numbers = [int(value) for name, value, _ in emitted if name == key]
        assert numbers == sorted(set(numbers))


@ANY_BUFFER
@given(rule=GOES_ON, records=RECORDS, cut=st.integers(0, 40))
def test_a_buffer_restored_from_its_rows_goes_on_as_if_nothing_had_happened(
    rule: BufferRule, records: list[Record], cut: int
) -> None:
    whole = SuppressBuffer(rule, size_of=value_size)
    first = SuppressBuffer(rule, size_of=value_size)
    before = feed(first, records[:cut])
    rows: list[BufferedRow] = list(first.rows())
    second = restored(rule, rows, first.stream_time_us, size_of=value_size)
    assert before + feed(second, records[cut:]) == feed(whole, records)
    assert (list(second.rows()), second.bytes) == (list(whole.rows()), whole.bytes)
