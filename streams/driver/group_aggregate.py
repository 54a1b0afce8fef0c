"""Unwindowed aggregates, record by record: what streams and tables have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streams.driver.keys import key_parts
from streams.driver.processor import Change, Context, Dated
from streams.driver.table_state import StoringProcessor
from streams.driver.window_state import Slot
from streams.nodes import StreamAggregate, TableAggregate
from streams.rows import Row


class GroupAggregateProcessor(StoringProcessor):
    """The running aggregate of each group, kept in step with the results that the store accepts.

    Args:
        node: The node.
        context: What operators share.
        result: Makes the result row of a state.
    """

    def __init__(
        self, node: StreamAggregate | TableAggregate, context: Context, result: Callable[[Any], Row | None]
    ) -> None:
        super().__init__(node, context)
        self._group_key = node.group_key
        self._result = result
        self._slots: dict[Row, Slot] = {}

    def _view_get(self, key: Row) -> Dated | None:
        slot = self._slots.get(key)
        if slot is None and self.key_fields is None:
            # The plan does not know how the fields are called, so a join could not give them these names.
            slot = next((slot for group, slot in self._slots.items() if key_parts(group) == key_parts(key)), None)
        return None if slot is None else (self._result(slot.state), slot.ts_us)

    def _told(self, group: Row, before: Slot | None, after: Slot, new: Row | None) -> Iterator[Change]:
        """The change of a group to the aggregate ``after`` with the result ``new``; nothing if the store refuses it."""
        old = None if before is None else self._result(before.state)
        taken = self._stored(group, Change(group, new, old, after.ts_us))
        if taken is None:
            # A versioned store that refuses the result keeps the one before, so the aggregate stays as it was too.
            return
        if new is None:
            self._slots.pop(group, None)
        elif taken.is_latest:
            self._slots[group] = after
        # Otherwise the latest in the store is a newer tombstone, and the group starts over with its next record.
        yield taken
