"""Corrections of stream-table joins, record by record: results that a late table change altered."""

from __future__ import annotations

from collections.abc import Iterator

from streams.driver.keys import key_parts
from streams.driver.processor import Change, Context, Processor
from streams.driver.stream_table_join import Answer, StreamTableJoinProcessor
from streams.driver.stream_times import StreamTimes
from streams.nodes import CorrectionFeed, StreamTableJoin
from streams.reasons import EXPIRED
from streams.rows import Row, one_nan
from streams.stream_time_scopes import follows_partitions
from versioned.durations import duration_us


class CorrectionFeedProcessor(Processor):
    """Looks up remembered answers again when the table changes at or before their time, and emits what has changed.

    A table change reaches no answer that is older than the stream time of its own partition by more than the retention.
    """

    def __init__(self, node: CorrectionFeed, context: Context) -> None:
        super().__init__(node, context)
        join, table = node.parents
        assert isinstance(join, StreamTableJoin)
        assert join.joined.correction_retention is not None
        self._join, self._table = join.name, table.name
        self._retention_us = duration_us(join.joined.correction_retention)
        self._times = StreamTimes()
        self._follows_partitions = all(map(follows_partitions, join.parents))

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        """Process a change of the table (parent 1); the join itself remembers its output (parent 0)."""
        if parent == 0:
            return
        assert change.key is not None  # Tables have no rows without a key.
        now_us = self._times.advance(self.context.partition, change.key, change.ts_us)
        join = self.context.processor(self._join)
        assert isinstance(join, StreamTableJoinProcessor)
        join.answers = [answer for answer in join.answers if not self._is_too_old(answer)]
        reached_us = max(change.ts_us, now_us - self._retention_us)
        for answer in join.answers:
            if key_parts(answer.key) == key_parts(change.key) and answer.ts_us >= reached_us:
                yield from self._corrected(join, answer, change)

    def _is_too_old(self, answer: Answer) -> bool:
        """Whether no table change can reach the answer any more."""
        partition = answer.place[0]
        if self._follows_partitions and self._times.get(partition, None) is None:
            return False
        # A partition that lags behind can still correct answers that the others passed long ago.
        slowest_us = self._times.slowest()
        return slowest_us is not None and answer.ts_us < slowest_us - self._retention_us

    def _corrected(self, join: StreamTableJoinProcessor, answer: Answer, change: Change) -> Iterator[Change]:
        table = self.context.processor(self._table)
        found = table.find(table.own_key(answer.key), answer.ts_us)
        if found.reason == EXPIRED:
            return
        result = join.result_of(answer.key, answer.value, answer.ts_us, found)
        new = None if result is None else result.new
        if one_nan(new) == one_nan(answer.result):
            return
        answer.revision += 1
        scope, seq = answer.place
        told = Row(
            original_scope=scope,
            original_seq=seq,
            revision=answer.revision,
            old=answer.result,
            new=new,
            cause=change.ts_us,
        )
        answer.result = new
        yield Change(answer.key, told, None, answer.ts_us)
