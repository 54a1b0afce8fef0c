"""Joins of a stream with a global table, which every record sees as a whole and regardless of time (R170)."""

from __future__ import annotations

from collections.abc import Iterator

from streams.driver.keys import computed_key
from streams.driver.processor import Change, Context, Found, Processor
from streams.driver.stream_table_join import LOOK_UPS
from streams.expressions import evaluate
from streams.nodes import StreamGlobalTableJoin
from streams.reasons import NO_MATCH, NULL_KEY, NULL_VALUE


class StreamGlobalTableJoinProcessor(Processor):
    """Looks up each record in a global table, by a key computed from it (Kafka: ``KStreamGlobalKTableJoin``).

    The result keeps the stream's key. A computed key that is null finds nothing; an inner join rejects the record.
    """

    def __init__(self, node: StreamGlobalTableJoin, context: Context) -> None:
        super().__init__(node, context)
        self._joiner = node.joiner
        self._key_mapper = node.key_mapper
        self._is_inner = node.kind == "inner"
        self._table = node.parents[1].name

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if parent == 1:
            return
        if change.new is None:
            self.skip(change, NULL_VALUE)
            return
        key = computed_key(self._key_mapper, change.key, change.new)
        if key is None and self._is_inner:
            self.skip(change, NULL_KEY)
            return
        found = Found(None, NO_MATCH)
        if key is not None:
            table = self.context.processor(self._table)
            found = table.find(table.own_key(key), change.ts_us)
        self.metrics.count(LOOK_UPS[found.reason])
        if found.reason is None or not self._is_inner:
            bindings = {"key": change.key, "left": change.new, "right": found.value}
            yield Change(change.key, evaluate(self._joiner, bindings), None, change.ts_us, reason=found.reason)
