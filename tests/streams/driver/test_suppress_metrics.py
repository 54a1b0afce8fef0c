"""What ``suppress`` counts and measures on the test driver: KIP-328's metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from suppressions import HOUR_US, SECOND_US, finals, limited, piped

from streams.testing import TopologyTestDriver
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows


@pytest.mark.rule("R62")
def test_late_expired_skipped_and_suppressed_are_counted_apart() -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()), TimeWindows.of("10 us"))
    records = [("a", "x", 0), ("a", "x", 1), ("a", "x", 2), (None, "x", 3), ("b", "x", 10), ("a", "x", 4)]
    piped(running, "events", *records)
    counts = {name: running.total(name) for name in ("late", "expired", "skipped", "suppressed", "emitted")}
    assert counts == {"late": 1, "expired": 1, "skipped": 1, "suppressed": 2, "emitted": 1}


@pytest.mark.rule("R69", "R72")
@pytest.mark.parametrize(
    ("records", "expected"),
    [([("a", "abc", 0), ("b", "de", 1)], (5, 2)), ([("a", "abc", 0), ("b", "de", 1), ("c", "f", 6)], (1, 1))],
    ids=["all wait", "a record lets the others go"],
)
def test_the_buffer_metrics_show_what_is_held_now(
    records: list[tuple[str, str, int]], expected: tuple[int, int]
) -> None:
    running = limited(Suppressed.until_time_limit("5 us", BufferConfig.unbounded(), size_of="value"))
    piped(running, "in", *records)
    held = {value.name: value.value for value in running.metrics if value.tags.get("buffer-id") == "limit"}
    assert (held["suppression-buffer-size-current"], held["suppression-buffer-count-current"]) == expected


_HOUR = Suppressed.until_time_limit("1 hour", BufferConfig.unbounded())


@pytest.mark.rule("R69", "R72", "R76", "R122")
@pytest.mark.parametrize(
    ("suppressed", "leave"),
    [
        (_HOUR, lambda running: running.pipe_input("in", "b", None, HOUR_US + 1)),
        (_HOUR, lambda running: running.drain("limit")),
        (replace(_HOUR, retention_us=SECOND_US), lambda running: running.advance_wall_clock("1 second")),
        (
            Suppressed.until_wall_clock_time_limit("1 second", BufferConfig.unbounded()),
            lambda running: running.advance_wall_clock("1 second"),
        ),
    ],
    ids=["a record", "a drain", "a retention", "a wall-clock limit"],
)
def test_what_leaves_is_held_no_more_and_counts_as_emitted_whatever_lets_it_go(
    suppressed: Suppressed, leave: Callable[[TopologyTestDriver], None]
) -> None:
    running = limited(suppressed)
    piped(running, "in", ("a", "abc", 0), ("b", "de", 1))
    leave(running)
    told = {value.name: value.value for value in running.metrics if {"limit"} & set(value.tags.values())}
    names = ("suppression-buffer-size-current", "suppression-buffer-count-current", "suppression-emit-total")
    assert [told[name] for name in names] == [0, 0, 2]


@pytest.mark.rule("R70", "R73")
@pytest.mark.parametrize("leave", ["tick", "drain"])
def test_a_buffer_is_measured_when_rows_leave_a_partition_and_not_at_an_idle_tick(leave: str) -> None:
    running = limited(Suppressed.until_wall_clock_time_limit("10 seconds", BufferConfig.unbounded()))
    for partition in (0, 1):
        running.pipe_input("in", f"k{partition}", "v", 1, partition=partition)
    running.advance_wall_clock("5 seconds")
    running.advance_wall_clock("6 seconds") if leave == "tick" else running.drain("limit")
    running.advance_wall_clock("1 second")
    running.drain("limit")
    readings = {value.name: value.value for value in running.metrics if value.tags.get("buffer-id") == "limit"}
    # One and two rows after the records, one and none after each partition.
    assert readings["suppression-buffer-count-avg"] == (1 + 2 + 1 + 0) / 4


@pytest.mark.rule("R63", "R64")
def test_lateness_is_told_at_the_first_instant_of_all_too() -> None:
    running = finals(Suppressed.until_window_closes(BufferConfig.unbounded()))
    piped(running, "events", ("ann", "x", 0), ("ann", "x", -3_000_000))
    told = {one.name: one.value for one in running.metrics if one.tags.get("processor-node-id") == "finals"}
    assert told["record-lateness-max"] == 3_000
