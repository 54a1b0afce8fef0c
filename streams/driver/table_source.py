"""Tables from topics or streams: versioned, plain, or without a store of their own."""

from __future__ import annotations

from collections.abc import Iterator

from streams.driver.processor import Change, Context
from streams.driver.stream_times import StreamTimes
from streams.driver.table_state import StoredTable
from streams.nodes import GlobalTableSource, Materialized, TableSource, ToTable
from streams.reasons import NULL_KEY
from suppress.window_rules import lateness_us


class TableSourceProcessor(StoredTable):
    """Records as changes of a table (Kafka: ``KTableSource``); also a stream that becomes one (``to_table``).

    A record that the versioned store refuses goes nowhere (R174); one that is out of order flows on with
    ``is_latest = False``. A null key is rejected.
    """

    def __init__(self, node: TableSource | ToTable | GlobalTableSource, context: Context) -> None:
        super().__init__(node, context, always_stored=True)
        stored: Materialized = getattr(node, "materialized", None) or Materialized()
        self._times = StreamTimes(stored.time_scope)

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if change.key is None:
            self.skip(change, NULL_KEY)
            return
        taken = self._stored(change.key, change)
        if taken is None:
            # Measured against the stream time that the refused record did not move.
            stream_time_us = self._times.get(self.context.partition, change.key)
        else:
            stream_time_us = self._times.advance(self.context.partition, change.key, change.ts_us)
        self.metrics.observe_lateness(
            lateness_us(change.ts_us if stream_time_us is None else stream_time_us, change.ts_us)
        )
        if taken is not None:
            yield taken
