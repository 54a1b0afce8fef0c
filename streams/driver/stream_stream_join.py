"""Stream-stream joins within a time window, record by record: inner, left, outer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streams.driver.join_buffer import JoinBuffer, Side
from streams.driver.keys import whole_key
from streams.driver.processor import Change, Context, Processor
from streams.expressions import evaluate
from streams.nodes import JoinKind, StreamStreamJoin
from streams.reasons import NULL_KEY, NULL_VALUE
from streams.rows import Row
from suppress.window_rules import lateness_us

PADDED_SIDES: Final[dict[JoinKind, frozenset[Side]]] = {
    "inner": frozenset(),
    "left": frozenset({Side.LEFT}),
    "outer": frozenset({Side.LEFT, Side.RIGHT}),
}


class StreamStreamJoinProcessor(Processor):
    """Joins records of two streams with the same key and near timestamps (Kafka: ``KStreamKStreamJoin``).

    The result's ts is the larger of the two. A record with a null value is skipped. So is one with a null key, unless
    its side is padded (the left side of a left join, both of an outer join): then it is emitted padded at once, without
    being held. All of them advance stream time, as in Kafka, but only a record that is held triggers the scan for final
    ones. An unmatched record of a padded side is emitted once its window and the grace have passed: exactly once, and
    never in addition to a joined result.
    """

    def __init__(self, node: StreamStreamJoin, context: Context) -> None:
        super().__init__(node, context)
        self._joiner = node.joiner
        self._padded_sides = PADDED_SIDES[node.kind]
        self._windows = node.windows
        self._buffers: dict[int, JoinBuffer] = {}

    @property
    def _buffer(self) -> JoinBuffer:
        """The buffer of the current record's stream-time scope (Kafka: of its task)."""
        return self._buffers.setdefault(self.context.partition, JoinBuffer(self._windows))

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        """Process one record of the left stream (parent 0) or the right one (parent 1)."""
        side = Side.LEFT if parent == 0 else Side.RIGHT
        own = None if change.key is None else self.own_key(change.key)
        key = whole_key(own)
        stream_time_us = self._buffer.advance(change.ts_us)
        self.metrics.observe_lateness(lateness_us(stream_time_us, change.ts_us))
        if change.new is None or (key is None and side not in self._padded_sides):
            self.skip(change, NULL_VALUE if change.new is None else NULL_KEY)
            return
        if key is None:
            yield self._padded(side, own, change.new, change.ts_us)
            return
        for record, partner in self._buffer.take(side, key, change.new, change.ts_us, self._padded_sides):
            if partner is not None:
                left, right = (record, partner) if side is Side.LEFT else (partner, record)
                yield self._change(key, left.value, right.value, max(record.ts_us, partner.ts_us))
            elif record.padded:
                yield self._padded(record.side, record.key, record.value, record.ts_us)
            else:
                self.count_late(record.ts_us, "found no partner, and none that comes later can reach it")

    def _padded(self, side: Side, key: Row | None, value: Row, ts_us: int) -> Change:
        return self._change(key, value, None, ts_us) if side is Side.LEFT else self._change(key, None, value, ts_us)

    def _change(self, key: Row | None, left: Row | None, right: Row | None, ts_us: int) -> Change:
        return Change(key, evaluate(self._joiner, {"key": key, "left": left, "right": right}), None, ts_us)
