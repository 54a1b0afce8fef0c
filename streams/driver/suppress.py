"""``suppress``, record by record: the buffer of ``suppress.buffer_rules`` behind a table (KIP-328, KIP-539)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from streams.driver.keys import split_windowed_key
from streams.driver.processor import Change, Context, Dated, Processor
from streams.driver.windowed_aggregate import WindowedAggregateProcessor
from streams.fields import WINDOW_START
from streams.nodes import Suppress
from streams.plan_facts import windowed_ancestor
from streams.reasons import NULL_KEY
from streams.rows import Row, one_nan
from streams.suppression import rule_of, stamped
from streams.user_functions import size_function
from suppress.buffer_rules import Cause, Emission, SuppressBuffer, Update
from suppress.scoped_buffers import ScopedBuffers
from suppress.suppress_rules import tie_order, warn_of_idle
from suppress.window_rules import Window, lateness_us


class SuppressProcessor(Processor):
    """A suppression. The bounds of its buffer apply per stream-time scope, as Kafka's apply per task.

    Joins see what the suppressed table has emitted, never what it still holds.
    """

    def __init__(self, node: Suppress, context: Context) -> None:
        super().__init__(node, context)
        self._source = windowed_ancestor(node.parents[0])
        windows = None if self._source is None else self._source.windows
        self.rule = rule_of(node, context.suppressed_retention_us)
        warn_of_idle(node.name, node.suppressed, self.rule, windows)
        size_of = size_function(node.suppressed.size_of)
        self._buffers = ScopedBuffers(lambda _: SuppressBuffer(self.rule, size_of), windows)
        self._emitted: dict[Row, tuple[Row, int]] = {}
        self.metrics.wait_us = self.rule.wait_us

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        """Process one change of the table, and yield what leaves the buffer because of it, oldest first.

        Raises:
            BufferFullError: a strict buffer is over its bound.
        """
        if change.key is None:
            self.skip(change, NULL_KEY)
            return
        update, scope = self._update(change.key, change), self.context.partition
        buffer = self._buffers.holder(scope, update, self._record_us(change))
        self.metrics.count("suppressed", int(buffer.get(update.key) is not None))
        emissions = self._buffers.put(
            scope, update, buffer, arrived_us=self._arrived_us(change), now_us=self.context.now_us
        )
        assert buffer.stream_time_us is not None  # The update has set it.
        self.metrics.observe_lateness(lateness_us(buffer.stream_time_us, change.ts_us))
        yield from self._emit(emissions)
        self._observe()

    def tick(self, now_us: int) -> Iterator[Change]:
        """Emit what has waited too long by the wall clock; stream time stays where it is (R118-R123)."""
        yield from self._emit_of_each(lambda buffer: buffer.tick(now_us))

    def drain(self) -> Iterator[Change]:
        """Emit everything that is held, partition by partition, oldest first (R59)."""
        yield from self._emit_of_each(SuppressBuffer.drain)

    def get(self, key: Row) -> Dated | None:
        """What downstream has seen of a key: the last emitted value and its timestamp."""
        return self._emitted.get(key)

    @property
    def buffered(self) -> tuple[int, int]:
        """The number of records and bytes that the node holds now."""
        return self._buffers.records, self._buffers.bytes

    @property
    def _windowed(self) -> WindowedAggregateProcessor | None:
        """The aggregate whose windows are held; ``None`` if the table has no windows."""
        source = None if self._source is None else self.context.processor(self._source.name)
        return source if isinstance(source, WindowedAggregateProcessor) else None

    def _record_us(self, change: Change) -> int:
        """The timestamp of the record that caused a change; a window's change itself has that of its newest record."""
        known = None if self._windowed is None else self._windowed.record_us
        return change.ts_us if known is None else known

    def _arrived_us(self, change: Change) -> int:
        """Stream time when a change was caused, which may be before the newest record of the window that changed."""
        known = None if self._windowed is None else self._windowed.stream_time_us()
        return change.ts_us if known is None else known

    def _update(self, key: Row, change: Change) -> Update:
        window: Window | None = None
        plain = key
        if self._source is not None and WINDOW_START in key:
            plain, window = split_windowed_key(key)
        return Update(key, tie_order(plain.values(), window), change.new, change.old, change.ts_us, window)

    def _emit_of_each(self, leaving: Callable[[SuppressBuffer], Iterable[Emission]]) -> Iterator[Change]:
        """Emit what leaves the buffer of each partition, as changes of that partition."""
        for partition, buffer in self._buffers:
            held = buffer.records
            with self.context.at(partition=partition):
                yield from self._emit(leaving(buffer))
            if buffer.records < held:
                self._observe()

    def _emit(self, emissions: Iterable[Emission]) -> Iterator[Change]:
        for emission in emissions:
            self.metrics.count("emitted")
            row = emission.row
            # A key that was spilled to a file comes back with another NaN object.
            key: Row = one_nan(row.key)
            if self.rule.final and emission.cause is Cause.RETENTION:
                self._close_idle(key)
            value = stamped(self.rule, row.value, emission.cause)
            if value is None:
                self._emitted.pop(key, None)
            else:
                self._emitted[key] = (value, row.ts_us)
            yield Change(key, value, None if self.rule.final else row.prior, row.ts_us)

    def _close_idle(self, key: Row) -> None:
        if self._windowed is not None:
            self._windowed.close_idle(key)

    def _observe(self) -> None:
        records, size = self.buffered
        self.metrics.observe_buffer(size, records)
