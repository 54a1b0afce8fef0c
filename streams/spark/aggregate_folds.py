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
from streams.spark.aggregate_types import ASIDE, BAG, HORIZON_US, USER_CODE
from streams.spark.flow import KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE
from streams.spark.kernel import PlainRow, Told
from streams.spark.plain_store import LAST_US


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
            return counted((entry["value"], entry["n"]) for entry in row[BAG] or ())
        value = row[VALUE]
        if self.aggregation.kind in USER_CODE and not self.is_scalar:
            return None if value is None else Row(value)
        return None if value is None else value[self.aggregation.output]

    def kept(self, state: Any) -> PlainRow:
        """What is kept beside the result."""
        if isinstance(state, Counter):
            return {BAG: [{"value": value, "n": n} for value, n in state.items()]}
        return {}


class _Latest:
    """Which results of a group its aggregate goes on from: all, but for what a versioned store has behind them.

    Args:
        unit_us: In which steps the store tells instants; None if there is none, or one without versions.
    """

    def __init__(self, unit_us: int | None) -> None:
        self._unit_us = unit_us
        self._newest_us: int | None = None

    def takes(self, event: PlainRow, us: int) -> bool:
        """Whether a result at an event is the store's latest: not if it is refused, or older than a tombstone."""
        if self._unit_us is None:
            return True
        at = us // self._unit_us * self._unit_us
        behind = (event[HORIZON_US], event[LAST_US], self._newest_us)
        if any(other is not None and at < other for other in behind):
            return False
        self._newest_us = at
        return True


@dataclass(frozen=True)
class AddingFold:
    """Unwindowed aggregates of a stream: each record is added (Kafka: ``KStreamAggregate``).

    Events have ``_value``, ``_us``, ``_scope``, ``_place``, and of a versioned store ``_horizon_us`` and ``_last_us``;
    states ``_value``, ``_us``. It tells the group's changes.
    """

    codec: StateCodec
    unit_us: int | None = None

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        aggregator, key = Aggregator(self.codec.aggregation), Row(group[KEY])
        known = next(states, None)
        state = None if known is None else self.codec.state(known)
        us = None if known is None else known[US]
        latest = _Latest(self.unit_us)
        for event in events:
            before = None if us is None else aggregator.result(state)
            added = aggregator.add(aggregator.initial() if us is None else state, key, _row(event[VALUE]))
            at = event[US] if us is None else max(us, event[US])
            after = aggregator.result(added)
            told = _change(group, event, before, after, at, is_aside=not latest.takes(event, at))
            yield ("out", told)
            if not told[ASIDE]:
                state, us = added, None if after is None else at


@dataclass(frozen=True)
class ReplacingFold:
    """Aggregates of a table: the old value is taken away, the new one added (Kafka: ``KTableAggregate``).

    Events have ``_minus`` and ``_plus`` (values of the group, or null), ``_us``, ``_scope``, ``_place``, and of a
    versioned store ``_horizon_us`` and ``_last_us``.
    """

    node: str
    codec: StateCodec
    unit_us: int | None = None

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        aggregator, key = TableAggregator(self.node, self.codec.aggregation), Row(group[KEY])
        known = next(states, None)
        state = None if known is None else self.codec.state(known)
        us = None if known is None else known[US]
        latest = _Latest(self.unit_us)
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
            told = _change(group, event, before, after, at, is_aside=not latest.takes(event, at))
            yield ("out", {**told, **self.codec.kept(changed)})
            if not told[ASIDE]:
                state, us = changed, None if after is None else at


def _change(
    group: PlainRow, event: PlainRow, before: Row | None, after: Row | None, us: int, *, is_aside: bool
) -> PlainRow:
    return {
        KEY: group[KEY],
        VALUE: after,
        OLD: before,
        LATEST: True,
        US: us,
        SCOPE: event[SCOPE],
        PLACE: event[PLACE],
        ASIDE: is_aside,
    }


def _row(value: PlainRow | None) -> Row | None:
    return None if value is None else Row(value)
