"""Tables from topics or streams, record by record: versioned, plain, or without a store of their own."""

from __future__ import annotations

from collections.abc import Iterator

from streams.driver.hold_buffer import HoldBuffer
from streams.driver.keys import key_parts, whole_key
from streams.driver.processor import Change, Context
from streams.driver.stream_times import StreamTimes
from streams.driver.table_state import StoringProcessor
from streams.nodes import GlobalTableSource, Materialized, TableSource, ToTable
from streams.reasons import NULL_KEY
from streams.rows import Row
from versioned.durations import duration_us

#: A record held for reordering: its key, the change, its offset.
_Waiting = tuple[Row, Change, int]


class TableSourceProcessor(StoringProcessor):
    """Turns records into changes of a table (Kafka: ``KTableSource``), also those of a stream (``to_table``).

    A record that the versioned store refuses is not forwarded (R174); an out-of-order record is, with
    ``is_latest = False``. A record with a null key is rejected. With ``reorder``, records are held and reach the table
    in order of time, unless they are later than that (R169).
    """

    def __init__(self, node: TableSource | ToTable | GlobalTableSource, context: Context) -> None:
        super().__init__(node, context, always_stored=True)
        stored = node.materialized or Materialized()
        reorder = getattr(node, "reorder", None)
        self._reorder_us = None if reorder is None else duration_us(reorder)
        self._held: dict[object, HoldBuffer[_Waiting]] = {}
        self._times = StreamTimes(stored.time_scope)

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        key = whole_key(change.key)
        if key is None:
            self.skip(change, NULL_KEY)
        elif self._reorder_us is None:
            yield from self._put(key, change)
        else:
            yield from self._put_each(self._released(key, change, self._reorder_us))

    @property
    def held(self) -> int:
        """The number of records held for reordering."""
        return sum(len(buffer) for buffer in self._held.values())

    def _released(self, key: Row, change: Change, wait_us: int) -> list[_Waiting]:
        scope = self._times.of(self.context.partition, key_parts(key))
        waiting = (key, change, self.context.offset)
        return self._held.setdefault(scope, HoldBuffer(wait_us)).hold(change.ts_us, key.values(), waiting)

    def _put_each(self, released: list[_Waiting]) -> Iterator[Change]:
        for key, change, offset in released:
            with self.context.at(offset=offset):
                yield from self._put(key, change)

    def _put(self, key: Row, change: Change) -> Iterator[Change]:
        taken = self._stored(key, change)
        # A refused record is measured too: it is older than the stream time, and so does not move it.
        self.observe(self._times, key, change.ts_us)
        if taken is not None:
            yield taken
