"""Windowed aggregates of a stream, record by record: tumbling, hopping, unlimited, session and sliding windows."""

from __future__ import annotations

from collections.abc import Iterator

from streams.driver.aggregators import Aggregator
from streams.driver.keys import computed_key, split_windowed_key, whole_key, windowed_key
from streams.driver.processor import Change, Context, Dated, Processor
from streams.driver.stream_times import StreamTimes
from streams.driver.window_state import Outcome, Slot, WindowState
from streams.nodes import Materialized, WindowedAggregate
from streams.plan_facts import window_retention_us
from streams.reasons import AFTER_WINDOWS, BEFORE_WINDOWS, LATE, NULL_KEY, NULL_VALUE
from streams.rows import Row
from suppress.window_rules import close_wait_us, last_taken_us
from suppress.windows import SlidingWindows


class WindowedAggregateProcessor(Processor):
    """The aggregate per (key, window) of one node (Kafka: ``KStreamWindowAggregate`` and its siblings).

    A record is *late* if every window it belongs to is closed: it is dropped, or rejected with the reason if the
    node's late policy is ``side_table``, and logged at DEBUG (R23). Each closed window also counts as *expired*.
    """

    def __init__(self, node: WindowedAggregate, context: Context) -> None:
        super().__init__(node, context)
        stored = node.materialized or Materialized()
        self._late_policy = node.late_policy
        self._group_key = node.group_key
        self._aggregator = Aggregator(node.aggregation)
        self._unit_us = stored.time_resolution.value
        self._last_us = last_taken_us(node.windows, self._unit_us)
        retention_us = window_retention_us(node)
        self._state = WindowState(node.windows, self._aggregator, self._unit_us, retention_us)
        self._times = StreamTimes(stored.time_scope)
        self._retention_us = retention_us
        self._purged_at_us: int | None = None
        #: The timestamp of the current record; a change has that of the newest record of its window.
        self.record_us: int | None = None

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        """Process one record, and yield a change of the table for each window that it changes."""
        key = self._key_of(change)
        if key is None or (change.new is None and isinstance(self._state.windows, SlidingWindows)):
            self.skip(change, NULL_KEY if key is None else NULL_VALUE)
            return
        ts_us = change.ts_us // self._unit_us * self._unit_us
        if ts_us > self._last_us:
            self.skip(change, AFTER_WINDOWS)
            return
        self.record_us = ts_us
        stream_time_us = self.observe(self._times, key, ts_us)
        self._purge()
        outcome = self._state.add(key, change.new, ts_us, stream_time_us)
        self.metrics.count("expired", outcome.expired)
        if not outcome.results:
            self._refuse(change, outcome, stream_time_us)
        for result in outcome.results:
            yield Change(
                windowed_key(key, result.window), self._value(result.after), self._value(result.before), result.ts_us
            )

    def get(self, key: Row) -> Dated | None:
        """Value and timestamp of a (key, window), for joins and queries."""
        plain, window = split_windowed_key(key)
        slot = self._state.get(plain, window)
        return None if slot is None else (self._value(slot), slot.ts_us)

    def stream_time_us(self) -> int | None:
        """The stream time of the current partition; ``None`` before its first record."""
        return self._times.get(self.context.partition, None)

    def items(self) -> Iterator[tuple[Row, Row | None, int]]:
        """Every stored window with its value and timestamp."""
        for key, window, slot in self._state.items():
            yield windowed_key(key, window), self._value(slot), slot.ts_us

    def close_idle(self, key: Row) -> None:
        """Close a window by the wall clock: a record that would still join it is late (R117)."""
        self._state.close_idle(*split_windowed_key(key))

    def _key_of(self, change: Change) -> Row | None:
        if self._group_key is None:
            return whole_key(change.key)
        return computed_key(self._group_key, change.key, change.new)

    def _value(self, slot: Slot | None) -> Row | None:
        return None if slot is None else self._aggregator.result(slot.state)

    def _purge(self) -> None:
        # A purge looks at every window, so it runs once per retention; nothing younger than that is ever removed.
        slowest_us = self._times.slowest()
        if slowest_us is None:
            return
        if self._purged_at_us is None or slowest_us - self._purged_at_us > self._retention_us:
            self._purged_at_us = slowest_us
            self._state.purge(slowest_us)

    def _refuse(self, change: Change, outcome: Outcome, stream_time_us: int) -> None:
        if not outcome.is_late:
            self.skip(change, BEFORE_WINDOWS)
            return
        closes = f"its windows close {close_wait_us(self._state.windows, self._unit_us)} us after their end"
        self.count_late(change.ts_us, f"dropped: stream time is {stream_time_us} us and {closes}")
        self.metrics.count("dropped")
        if self._late_policy == "side_table":
            self.context.reject(self.node, change, LATE)
