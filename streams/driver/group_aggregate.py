"""Unwindowed aggregates, record by record: what streams and tables have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streams.driver.processor import Change, Context, Dated
from streams.driver.table_state import StoringProcessor
from streams.driver.window_state import Slot
from streams.nodes import StreamAggregate, TableAggregate
from streams.rows import Row


class GroupAggregateProcessor(StoringProcessor):
    """The running aggregate of each group, and what becomes of it as its store takes results.

    Args:
        node: The node.
        context: The driver's.
        result: The row that flows out of a state.
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
        return None if slot is None else (self._result(slot.state), slot.ts_us)

    def _told(self, group: Row, before: Slot | None, after: Slot, new: Row | None) -> Iterator[Change]:
        """The change of a group from one aggregate to another, whose result is ``new``, if the store takes that."""
        old = None if before is None else self._result(before.state)
        taken = self._stored(group, Change(group, new, old, after.ts_us))
        if taken is None:
            # A versioned store that refuses the result keeps what it has, and so does the aggregate.
            return
        if new is None:
            self._slots.pop(group, None)
        elif taken.is_latest:
            self._slots[group] = after
        # Else the store's latest is a tombstone, from which the group begins anew the next time.
        yield taken
