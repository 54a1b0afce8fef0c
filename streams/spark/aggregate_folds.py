"""User-written aggregates, and ``min`` and ``max`` of tables, folded group by group: the rules are the driver's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from streams.driver.aggregators import Aggregator
from streams.driver.table_aggregate import TableAggregator, counted
from streams.nodes import Aggregation
from streams.rows import Row
from streams.spark.aggregate_types import BAG, HORIZON_US, REFUSED, USER_CODE
from streams.spark.flow import KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE
from streams.spark.kernel import PlainRow, Told


@dataclass(frozen=True)
class StateCodec:
    """How a group's aggregate is kept in a row, and read back.

    Args:
        aggregation: What is computed.
        is_scalar: Whether user code aggregates to a single value.
    """

    aggregation: Aggregation
    is_scalar: bool = False

    def state(self, row: PlainRow) -> Any:
        """The aggregate out of its row: the result's fields, and the bag where there is one."""
        if self.aggregation.kind in ("min", "max") and BAG in row:
            return counted({entry["value"]: entry["n"] for entry in row[BAG] or ()})
        value = row[VALUE]
        if self.aggregation.kind in USER_CODE and not self.is_scalar:
            return None if value is None else Row(value)
        return None if value is None else value[self.aggregation.output]

    def kept(self, state: Any) -> PlainRow:
        """What is kept beside the result."""
        if isinstance(state, Counter):
            return {BAG: [{"value": value, "n": n} for value, n in state.items()]}
        return {}


@dataclass(frozen=True)
class KeyGrace:
    """The grace of a versioned store in which each key has a stream time of its own; both in microseconds."""

    grace_us: int
    resolution_us: int

    def horizon(self, newest_us: int) -> int:
        """The first instant that is not refused behind a result at ``newest_us``.

        >>> KeyGrace(grace_us=20, resolution_us=1).horizon(200), KeyGrace(grace_us=15, resolution_us=10).horizon(209)
        (180, 190)
        """
        oldest = newest_us // self.resolution_us * self.resolution_us - self.grace_us
        return -(-oldest // self.resolution_us) * self.resolution_us


class _Horizon:
    """Before which instant the versioned store refuses results of one group: at each event, and behind its own."""

    def __init__(self, grace: KeyGrace | None) -> None:
        self._grace = grace
        self._own_us: int | None = None

    def refuses(self, event: PlainRow, us: int) -> bool:
        """Whether a result at an event is refused."""
        return any(horizon is not None and us < horizon for horizon in (event[HORIZON_US], self._own_us))

    def move(self, us: int) -> None:
        """A result was taken."""
        if self._grace is not None:
            self._own_us = self._grace.horizon(us)


@dataclass(frozen=True)
class AddingFold:
    """Unwindowed aggregates of a stream: each record is added (Kafka: ``KStreamAggregate``).

    Events have ``_value``, ``_us``, ``_scope``, ``_place``; states ``_value``, ``_us``. It tells the group's changes.
    """

    codec: StateCodec
    key_grace: KeyGrace | None = None

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        aggregator, key = Aggregator(self.codec.aggregation), Row(group[KEY])
        known = next(states, None)
        state = None if known is None else self.codec.state(known)
        us = None if known is None else known[US]
        horizon = _Horizon(self.key_grace)
        for event in events:
            before = None if us is None else aggregator.result(state)
            added = aggregator.add(aggregator.initial() if us is None else state, key, _row(event[VALUE]))
            at = event[US] if us is None else max(us, event[US])
            after = aggregator.result(added)
            told = _change(group, event, before, after, at, is_refused=horizon.refuses(event, at))
            yield ("out", told)
            if not told[REFUSED]:
                horizon.move(at)
                state, us = added, None if after is None else at


@dataclass(frozen=True)
class ReplacingFold:
    """Aggregates of a table: the old value is taken away, the new one added (Kafka: ``KTableAggregate``).

    Events have ``_minus`` and ``_plus`` (values of the group, or null), ``_us``, ``_scope``, ``_place``.
    """

    node: str
    codec: StateCodec
    key_grace: KeyGrace | None = None

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        aggregator, key = TableAggregator(self.node, self.codec.aggregation), Row(group[KEY])
        known = next(states, None)
        state = None if known is None else self.codec.state(known)
        us = None if known is None else known[US]
        horizon = _Horizon(self.key_grace)
        for event in events:
            before = None if us is None else aggregator.result(state)
            changed = aggregator.initial() if us is None else state
            # Nothing can be taken from a group that has no aggregate: its store refused it, or user code made it null.
            minus, plus = None if us is None else event["_minus"], event["_plus"]
            for value, sign in ((minus, -1), (plus, 1)):
                if value is not None:
                    changed = aggregator.change(changed, key, Row(value), sign)
            at = event[US] if us is None else max(us, event[US])
            after = None if us is None and plus is None else aggregator.result(changed)
            told = _change(group, event, before, after, at, is_refused=horizon.refuses(event, at))
            yield ("out", {**told, **self.codec.kept(changed)})
            if not told[REFUSED]:
                horizon.move(at)
                state, us = changed, None if after is None else at


def _change(
    group: PlainRow, event: PlainRow, before: Row | None, after: Row | None, us: int, *, is_refused: bool
) -> PlainRow:
    return {
        KEY: group[KEY],
        VALUE: after,
        OLD: before,
        LATEST: True,
        US: us,
        SCOPE: event[SCOPE],
        PLACE: event[PLACE],
        # A result that the versioned store refuses leaves the aggregate as it is.
        REFUSED: is_refused,
    }


def _row(value: PlainRow | None) -> Row | None:
    return None if value is None else Row(value)
