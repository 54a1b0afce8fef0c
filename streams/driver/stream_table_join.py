"""Stream-table joins, record by record: each record with the version valid at its time (R138-R145)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from streams.driver.hold_buffer import HoldBuffer
from streams.driver.keys import whole_key
from streams.driver.processor import Change, Context, Found, Processor
from streams.driver.stream_times import StreamTimes
from streams.expressions import evaluate
from streams.nodes import OnExpired, StreamTableJoin, drops_expired
from streams.reasons import EXPIRED, NO_MATCH, NULL_KEY, NULL_VALUE, TOMBSTONE, TOO_LATE
from streams.rows import Row
from suppress.sizes import logical_size
from versioned.durations import duration_us
from versioned.errors import RecordError

_LOG: Final = logging.getLogger(__name__)
_INSTANT_BYTES: Final = 8

#: The counter of a lookup, by its reason. An expired lookup is not an expired window, which has its own metric.
LOOK_UPS: Final = {None: "match", NO_MATCH: "no_match", TOMBSTONE: "tombstone", EXPIRED: "expired_lookup"}

#: What to do about expired lookups, by the join's ``on_expired``.
EXPIRED_ADVICE: Final[Mapping[OnExpired, str]] = {
    "null": "keep history longer, or choose on_expired",
    "drop": "keep history longer",
    "side_table": "see the rejects, or keep history longer",
}

#: A waiting stream record: key, value (neither of them null), timestamp and offset.
Waiting = tuple[Row, Row, int, int]


@dataclass
class Answer:
    """The join's result for a record, kept for a correction feed; ``place`` is the record's partition and offset."""

    place: tuple[int, int]
    key: Row
    value: Row
    ts_us: int
    result: Row | None
    revision: int = 0


class StreamTableJoinProcessor(Processor):
    """Looks each stream record up in a table (Kafka: ``KStreamKTableJoin``; KIP-914, and KIP-923 for grace).

    In a versioned table it finds the version valid at the record's ts, in any other table the latest value. A result
    without a match carries the reason. With grace, a record waits until stream time in its scope has passed it by the
    grace; a record that is already later than that is joined at once, or rejected if the policy says so.
    """

    def __init__(self, node: StreamTableJoin, context: Context) -> None:
        super().__init__(node, context)
        self._joiner = node.joiner
        self._is_inner = node.kind == "inner"
        self._joined = node.joined
        self._table = node.parents[1].name
        self._buffers: dict[int, HoldBuffer[Waiting]] = {}
        self._times = StreamTimes()
        self._corrects = node.joined.correction_retention is not None
        self.answers: list[Answer] = []

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        """Process a stream record; table changes (parent 1) have no results, they only affect what later records find.

        Raises:
            RecordError: a left join with grace got a null key, which has no place in the buffer.
        """
        if parent == 1:
            return
        self.observe(self._times, change.key, change.ts_us)
        if change.new is None:
            self.skip(change, NULL_VALUE)
        elif (key := whole_key(change.key)) is None:
            yield from self._without_key(change, change.new)
        elif self._joined.grace is None:
            yield from self._answer(key, change.new, change.ts_us)
        else:
            yield from self._wait(change, key, change.new, duration_us(self._joined.grace))

    def held(self) -> tuple[int, int]:
        """The number of waiting records, and their bytes: keys, values and timestamps by logical size."""
        return (
            sum(len(buffer) for buffer in self._buffers.values()),
            sum(buffer.size(_bytes) for buffer in self._buffers.values()),
        )

    def held_bytes(self, size_of: Callable[[Waiting], int]) -> int:
        """The bytes of the waiting records by another measure of a ``(key, value, ts, offset)``."""
        return sum(buffer.size(size_of) for buffer in self._buffers.values())

    def _without_key(self, change: Change, value: Row) -> Iterator[Change]:
        if self._is_inner:
            self.skip(change, NULL_KEY)
            return
        if self._joined.grace is not None:
            raise RecordError(
                f"{self.node.name}: a record at {change.ts_us} us has no key, and a left join with grace "
                f"({self._joined.grace}) orders what waits by key. Filter records without a key before the join."
            )
        self.metrics.count("no_match")
        yield self._result(change.key, value, change.ts_us, Found(None, NO_MATCH))

    def _wait(self, change: Change, key: Row, value: Row, grace_us: int) -> Iterator[Change]:
        buffer = self._buffers.setdefault(self.context.partition, HoldBuffer(grace_us))
        if not buffer.is_too_late(change.ts_us):
            waiting = (key, value, change.ts_us, self.context.offset)
            yield from self._answer_each(buffer.hold(change.ts_us, key.values(), waiting))
        elif self._joined.too_late == "join":
            yield from self._answer(key, value, change.ts_us)
        else:
            self.count_late(change.ts_us, "came after those of its time had been joined, and was put aside")
            self.metrics.count("dropped")
            self.context.reject(self.node, change, TOO_LATE)

    def _answer_each(self, released: list[Waiting]) -> Iterator[Change]:
        """Join released records, each at its own offset instead of that of the record that released it."""
        for key, value, ts_us, offset in released:
            with self.context.at(offset=offset):
                yield from self._answer(key, value, ts_us)

    def _answer(self, key: Row, value: Row, ts_us: int) -> Iterator[Change]:
        table = self.context.processor(self._table)
        found = table.find(table.own_key(key), ts_us)
        self.metrics.count(LOOK_UPS[found.reason])
        if found.reason == EXPIRED:
            self._expired(key, value, ts_us)
        result = self.result_of(key, value, ts_us, found)
        if self._corrects and not (found.reason == EXPIRED and self._joined.forgets_expired):
            place = (self.context.partition, self.context.offset)
            self.answers.append(Answer(place, key, value, ts_us, None if result is None else result.new))
        if result is not None:
            yield result

    def result_of(self, key: Row, value: Row, ts_us: int, found: Found) -> Change | None:
        """The join's result for a record and what the lookup found; ``None`` if there is no result."""
        gives_nothing = self._is_inner or (found.reason == EXPIRED and self._joined.on_expired != "null")
        return self._result(key, value, ts_us, found) if found.reason is None or not gives_nothing else None

    def _result(self, key: Row | None, value: Row, ts_us: int, found: Found) -> Change:
        joined = evaluate(self._joiner, {"key": key, "left": value, "right": found.value})
        return Change(key, joined, None, ts_us, reason=found.reason)

    def _expired(self, key: Row, value: Row, ts_us: int) -> None:
        _LOG.warning(
            "%s: a look-up at %d us is older than the history of %s and found nothing; %s.",
            self.node.name,
            ts_us,
            self._table,
            EXPIRED_ADVICE[self._joined.on_expired],
        )
        self.metrics.count("dropped", int(drops_expired(self.node)))
        if self._joined.on_expired == "side_table":
            self.context.reject(self.node, Change(key, value, None, ts_us), EXPIRED)


def _bytes(waiting: Waiting) -> int:
    return logical_size(waiting[0]) + logical_size(waiting[1]) + _INSTANT_BYTES
