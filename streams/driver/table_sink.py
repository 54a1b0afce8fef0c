"""Sinks of the test driver that keep the latest state per key; changelogs are in ``stateless.py``."""

from __future__ import annotations

from collections.abc import Iterator

from streams.driver.keys import whole_key
from streams.driver.processor import Change, Context
from streams.driver.table_state import StoringProcessor
from streams.nodes import TableSink
from streams.reasons import NULL_KEY


class TableSinkProcessor(StoringProcessor):
    """Keeps the latest row of each key, which a tombstone deletes; the rows are read as a store of the sink's name.

    An out-of-order record of a versioned table is not the latest of its key, so it changes nothing here.
    """

    def __init__(self, node: TableSink, context: Context) -> None:
        super().__init__(node, context, always_stored=True)

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        key = whole_key(change.key)
        if key is None:
            self.skip(change, NULL_KEY)
            return
        if not change.is_latest:
            self.metrics.count("ignored")
            return
        taken = self._stored(key, change)
        if taken is not None:
            yield taken
