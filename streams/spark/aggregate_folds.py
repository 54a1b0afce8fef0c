"""User-written aggregates, and ``min`` and ``max`` of tables, folded group by group with the driver's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pyspark.sql.types import DataType

from streams.driver.aggregators import Aggregator
from streams.driver.bags import Bag
from streams.driver.table_aggregate import TableAggregator
from streams.nodes import Aggregation
from streams.rows import Row
from streams.spark.aggregate_types import ASIDE, BAG, HORIZON_US, USER_CODE
from streams.spark.flow import KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE
from streams.spark.kernel import PlainRow, Told
from streams.spark.plain_store import LAST_US
from streams.spark.returned import returned

#: At most this many results that a store refuses are kept waiting behind the last one that it takes (see _BagOnce).
_MOST_WAITING: Final = 4_096


@dataclass(frozen=True)
class StateCodec:
    """Converts a group's aggregate to the columns of its row, and back.

    Args:
        aggregation: The aggregation.
        is_scalar: Whether user code aggregates to a single value.
        returns: The type of what user code returns; None = the value is taken as it is.
    """

    aggregation: Aggregation
    is_scalar: bool = False
    returns: DataType | None = None

    @cached_property
    def fit(self) -> Callable[[Any], Any]:
        """The function that turns a result of user code into one that can be stored; made once for all groups."""
        return returned(self.returns)

    def state(self, row: PlainRow) -> Any:
        """The aggregate read from its row: the result's fields, or the bag where there is one."""
        if self.aggregation.kind in ("min", "max") and BAG in row:
            return Bag((entry["value"], entry["n"]) for entry in row[BAG] or ())
        value = row[VALUE]
        if self.aggregation.kind in USER_CODE and not self.is_scalar:
            return None if value is None else Row(value)
        return None if value is None else value[self.aggregation.output]

    def kept(self, state: Any) -> PlainRow:
        """The columns stored beside the result."""
        if isinstance(state, Bag):
            return {BAG: [{"value": value, "n": n} for value, n in state.items()]}
        return {}


class _BagOnce:
    """Attaches the bag only to the last result that goes into the state: no other one is stored, and bags are large."""

    def __init__(self, codec: StateCodec) -> None:
        self._codec = codec
        self._state: Any = None
        self._waiting: list[PlainRow] = []

    def passes(self, told: PlainRow, state: Any) -> Iterator[PlainRow]:
        """The rows that can be passed on now that a result is here; without a bag, the result itself.

        A result that goes into the state releases all rows before it, and waits.
        """
        if not isinstance(state, Bag):
            yield told
        elif told[ASIDE]:
            # To keep the rows in order, it waits with the one before it.
            self._waiting.append(told)
            if not self._waiting[0][ASIDE] and len(self._waiting) <= _MOST_WAITING:
                return
            yield from self.rest()
        else:
            yield from self._waiting
            self._waiting, self._state = [told], state

    def rest(self) -> Iterator[PlainRow]:
        """The waiting rows, when no result follows, or too many wait."""
        for told in self._waiting:
            yield told if told[ASIDE] else {**told, **self._codec.kept(self._state)}
        self._waiting = []


class _Latest:
    """Decides which results of a group its aggregate goes on from: all, unless a versioned store has newer versions.

    Args:
        unit_us: The store's time resolution in microseconds; None without a versioned store.
    """

    def __init__(self, unit_us: int | None) -> None:
        self._unit_us = unit_us
        self._newest_us: int | None = None

    def takes(self, event: PlainRow, us: int) -> bool:
        """Whether the store takes an event's result as its latest: not if it refuses it, or has a newer tombstone."""
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

    Events have ``_value``, ``_us``, ``_scope``, ``_place``, and for a versioned store ``_horizon_us`` and ``_last_us``;
    states have ``_value``, ``_us``. It yields the group's changes.
    """

    codec: StateCodec
    unit_us: int | None = None

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        aggregator, key = Aggregator(self.codec.aggregation, fit=self.codec.fit), Row(group[KEY])
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

    Events have ``_minus`` and ``_plus`` (values of the group, or null), ``_us``, ``_scope``, ``_place``, and for a
    versioned store ``_horizon_us`` and ``_last_us``. Only the last result that the store takes carries the bag of
    ``min`` and ``max``.
    """

    codec: StateCodec
    unit_us: int | None = None

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        aggregator = TableAggregator(self.codec.aggregation, fit=self.codec.fit)
        key = Row(group[KEY])
        known = next(states, None)
        state = None if known is None else self.codec.state(known)
        us = None if known is None else known[US]
        latest, once = _Latest(self.unit_us), _BagOnce(self.codec)
        for event in events:
            before = None if us is None else aggregator.result(state)
            changed = aggregator.initial() if us is None else state
            # A group without an aggregate has nothing to take away: its store refused it, or user code made it null.
            minus, plus = None if us is None else event["_minus"], event["_plus"]
            for value, sign in ((minus, -1), (plus, 1)):
                if value is not None:
                    changed = aggregator.change(changed, key, Row(value), sign)
            at = event[US] if us is None else max(us, event[US])
            after = None if us is None and plus is None else aggregator.result(changed)
            told = _change(group, event, before, after, at, is_aside=not latest.takes(event, at))
            yield from (("out", row) for row in once.passes(told, changed))
            if not told[ASIDE]:
                state, us = changed, None if after is None else at
        yield from (("out", row) for row in once.rest())


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
