"""Unwindowed aggregates of a stream, record by record: one aggregate per group key."""

from __future__ import annotations

from collections.abc import Iterator

from streams.driver.aggregators import Aggregator
from streams.driver.group_aggregate import GroupAggregateProcessor
from streams.driver.keys import computed_key, whole_key
from streams.driver.processor import Change, Context
from streams.driver.window_state import Slot
from streams.nodes import StreamAggregate
from streams.reasons import NULL_KEY, NULL_VALUE
from streams.rows import Row


class StreamAggregateProcessor(GroupAggregateProcessor):
    """The running aggregate of each group (Kafka: ``KStreamAggregate``).

    The result's timestamp is the largest of its records', so it never goes back (R168). Records without a key, a group
    key or a value are skipped.
    """

    def __init__(self, node: StreamAggregate, context: Context) -> None:
        self._aggregator = Aggregator(node.aggregation, exact_means=True)
        super().__init__(node, context, self._aggregator.result)

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        """Process one record, and yield the change of its group."""
        group_key = self._group_key
        key = whole_key(change.key) if group_key is None else computed_key(group_key, change.key, change.new)
        if key is None or change.new is None:
            self.skip(change, NULL_KEY if key is None else NULL_VALUE)
            return
        before = self._slots.get(key)
        state = self._aggregator.add(self._aggregator.initial() if before is None else before.state, key, change.new)
        after = Slot(state, change.ts_us if before is None else max(before.ts_us, change.ts_us))
        yield from self._told(key, before, after, self._aggregator.result(state))

    def items(self) -> Iterator[tuple[Row, Row | None, int]]:
        """Every group with its value and timestamp."""
        for key, slot in self._slots.items():
            yield key, self._aggregator.result(slot.state), slot.ts_us
