"""Aggregates of a table: subtract the old value, add the new one (R163, R164)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streams.arithmetic import addend, summed
from streams.declared import Fit
from streams.driver.aggregators import as_row, check_order, kept_by, plain
from streams.driver.bags import Bag
from streams.driver.group_aggregate import GroupAggregateProcessor
from streams.driver.keys import computed_key
from streams.driver.processor import Change, Context
from streams.driver.window_state import Slot
from streams.expressions import evaluate
from streams.nodes import Aggregation, TableAggregate
from streams.reasons import NULL_KEY
from streams.rows import Row, own, thawed


@dataclass(frozen=True)
class _Part:
    """What one row contributes to an aggregate: its group, and the value that is aggregated there."""

    group: Row
    value: Row


class TableAggregator:
    """An aggregation that can also remove a value.

    The state of ``min`` and ``max`` is the bag of all values, so that the next one is known when the extreme leaves.

    Args:
        aggregation: What is computed.
        fit: As in :class:`~streams.driver.aggregators.Aggregator`.
    """

    def __init__(self, aggregation: Aggregation, *, fit: Fit | None = None) -> None:
        self._spec = aggregation
        self._kept = kept_by(aggregation, fit)

    def initial(self) -> Any:
        """The state of a group without values."""
        kind = self._spec.kind
        if kind == "aggregate" and self._spec.initializer is not None:
            return plain(self._spec.initializer())
        return {"count": 0, "sum": (0, 0), "avg": (0, 0), "min": Bag(), "max": Bag()}.get(kind)

    def change(self, state: Any, key: Row, value: Row, sign: int) -> Any:
        """The state with a value added (sign 1) or removed (sign -1)."""
        kind = self._spec.kind
        if kind in ("reduce", "aggregate"):
            # User functions get their own copies, as those of stream aggregates: see ``streams.driver.aggregators``.
            function = self._spec.adder if sign > 0 else self._spec.subtractor
            if kind == "reduce":
                return self._kept(value if state is None or function is None else function(own(state), own(value)))
            if state is None and sign > 0:
                # The subtractor returned null: the adder starts over, as in Kafka.
                state = self.initial()
            return state if function is None else self._kept(function(own(key), own(value), own(state)))
        # Without an expression every row counts, whatever is in it.
        operand = 1 if self._spec.value is None else evaluate(self._spec.value, {"key": key, "value": value})
        if operand is None:
            return state
        if kind == "count":
            return state + sign
        if kind == "sum" or kind == "avg":
            return (summed(state[0], addend(kind, operand), sign), state[1] + sign)
        check_order(kind, operand)
        return state.changed(operand, sign)

    def result(self, state: Any) -> Row | None:
        """The result row of a state."""
        kind = self._spec.kind
        if kind in ("reduce", "aggregate"):
            return as_row(state, self._spec.output)
        if kind in ("sum", "avg"):
            total, count = state
            value = None if count == 0 else total if kind == "sum" else float(total) / count
        elif kind in ("min", "max"):
            value = thawed(state.least() if kind == "min" else state.greatest())
        else:
            value = state
        return Row({self._spec.output: value})


class TableAggregateProcessor(GroupAggregateProcessor):
    """The running aggregate of each group of a table (Kafka: ``KGroupedTable``).

    If a row's group changes, the old group's result comes first. An out-of-order record of a versioned table is
    accepted but ignored. The result's timestamp never goes back (R168).
    """

    def __init__(self, node: TableAggregate, context: Context) -> None:
        self._aggregator = TableAggregator(node.aggregation)
        super().__init__(node, context, self._aggregator.result)
        self._group_value = node.group_value

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if change.key is None:
            self.skip(change, NULL_KEY)
            return
        if not change.is_latest:
            self.metrics.count("ignored")
            return
        old, new = self._part(change.key, change.old), self._part(change.key, change.new)
        if old is not None and new is not None and old.group == new.group:
            yield from self._changed(old.group, [(old, -1), (new, 1)], change.ts_us)
            return
        if old is not None:
            yield from self._changed(old.group, [(old, -1)], change.ts_us)
        if new is not None:
            yield from self._changed(new.group, [(new, 1)], change.ts_us)

    def _part(self, key: Row, value: Row | None) -> _Part | None:
        if value is None:
            return None
        bindings = {"key": key, "value": value}
        group = key if self._group_key is None else computed_key(self._group_key, key, value)
        mapped = value if self._group_value is None else as_row(evaluate(self._group_value, bindings), "value")
        return None if group is None or mapped is None else _Part(group, mapped)

    def _changed(self, group: Row, parts: list[tuple[_Part, int]], ts_us: int) -> Iterator[Change]:
        before = self._slots.get(group)
        state = self._aggregator.initial() if before is None else before.state
        if before is None:
            # Nothing can be removed from a group without an aggregate: its store refused it, or user code made it null.
            parts = [(part, sign) for part, sign in parts if sign > 0]
        for part, sign in parts:
            state = self._aggregator.change(state, group, part.value, sign)
        after = Slot(state, ts_us if before is None else max(before.ts_us, ts_us))
        new = self._aggregator.result(state) if before is not None or parts else None
        yield from self._told(group, before, after, new)
