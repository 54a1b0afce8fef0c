"""How an aggregate of a stream is computed over plain rows: its state, adding a record, merging sessions, the result.

A state of ``None`` means that there is no aggregate. ``sum``, ``avg``, ``min`` and ``max`` ignore null values, as in
SQL; ``count`` counts records, or the non-null results of its expression if it has one.

User functions may change their arguments in place and return them, as in Kafka Streams, where each call gets freshly
deserialized objects. Here a state is also the old value of a change or the base of another window, and one value goes
to several windows. So user functions get their own copies (:func:`streams.rows.own`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from streams.arithmetic import addend, no_durations, summed
from streams.ddl import names_fields
from streams.declared import Fit, by_names
from streams.expressions import evaluate
from streams.nodes import Aggregation
from streams.rows import Row, own
from versioned.errors import RecordError


class Aggregator:
    """One :class:`Aggregation`, ready to run.

    Args:
        aggregation: What is computed.
        exact_means: Add up the values of a mean in their own type instead of as doubles.
        fit: Turns what user code returns into a state that can be stored; by default it only matches the names of the
            declared fields.
    """

    def __init__(self, aggregation: Aggregation, *, exact_means: bool = False, fit: Fit | None = None) -> None:
        self._spec = aggregation
        self._exact_means = exact_means
        self._kept = kept_by(aggregation, fit)

    def initial(self) -> Any:
        """The state before any record (Kafka: ``Initializer``)."""
        kind = self._spec.kind
        if kind == "count":
            return 0
        return None if self._spec.initializer is None else plain(self._spec.initializer())

    def add(self, state: Any, key: Row, value: Row | None) -> Any:
        """The state after one more record (Kafka: ``Aggregator``, ``Reducer``)."""
        adder = self._spec.adder
        if adder is None:
            return self._add_built_in(state, key, value)
        if self._spec.kind == "aggregate":
            return self._kept(adder(own(key), own(value), own(state)))
        return self._kept(value if state is None else adder(own(state), own(value)))

    def merge(self, key: Row, left: Any, right: Any) -> Any:
        """The state of two sessions that merge (Kafka: ``Merger``)."""
        if self._spec.merger is not None:
            return self._kept(self._spec.merger(own(key), own(left), own(right)))
        if left is None or right is None:
            return right if left is None else left
        if self._spec.adder is not None:
            return self._kept(self._spec.adder(own(left), own(right)))
        return self._merge_built_in(left, right)

    def result(self, state: Any) -> Row | None:
        """The result row of a state; ``None`` is a tombstone."""
        kind = self._spec.kind
        if kind in ("reduce", "aggregate"):
            return as_row(state, self._spec.output)
        if kind == "avg":
            return Row({self._spec.output: None if state is None else float(state[0]) / state[1]})
        return Row({self._spec.output: state})

    def _add_built_in(self, state: Any, key: Row, value: Row | None) -> Any:
        if self._spec.value is None:
            return state + 1
        operand = evaluate(self._spec.value, {"key": key, "value": value})
        if operand is None:
            return state
        if self._spec.kind == "count":
            return state + 1
        part = operand
        if self._spec.kind == "sum":
            part = addend("sum", operand)
        elif self._spec.kind in ("min", "max"):
            check_order(self._spec.kind, operand)
        else:
            number = addend("avg", operand)
            # A mean is a double, even of decimals.
            part = (number if self._exact_means else float(number), 1)
        return part if state is None else self._merge_built_in(state, part)

    def _merge_built_in(self, left: Any, right: Any) -> Any:
        kind = self._spec.kind
        if kind == "avg":
            return (summed(left[0], right[0]), left[1] + right[1])
        if kind in ("min", "max"):
            return min(left, right, key=in_order) if kind == "min" else max(left, right, key=in_order)
        return summed(left, right)


def kept_by(aggregation: Aggregation, fit: Fit | None = None) -> Fit:
    """A function that turns what user code returns into a state; it refuses a single value if fields are declared.

    Args:
        aggregation: What is computed.
        fit: As in :class:`Aggregator`.

    >>> kept_by(Aggregation("aggregate", schema="total bigint, n bigint"))({"total": 7})
    Row(total=7, n=None)
    >>> kept_by(Aggregation("aggregate", schema="bigint"))(7)
    7
    >>> kept_by(Aggregation("aggregate", schema="total bigint"))(7)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    versioned.errors.RecordError: its function gave one value, and its schema names fields. Give a mapping, ...
    """
    is_row = aggregation.schema is not None and names_fields(aggregation.schema)
    fit = by_names(aggregation.schema) if fit is None else fit

    def kept(given: Any) -> Any:
        state = plain(given)
        if is_row and state is not None and not isinstance(state, Row):
            raise RecordError(
                'its function gave one value, and its schema names fields. Give a mapping, such as {"total": ...}; or '
                'write the type alone and name the result by output: schema="bigint", output="total".'
            )
        return fit(state)

    return kept


def in_order(value: Any) -> Any:
    """The sort key of a value: as in Spark, NaN equals itself and is the largest number.

    Rows and lists are ordered by the first part in which they differ, where null is the least.

    >>> nan = float("nan")
    >>> min(nan, 1.0, key=in_order), max(1.0, nan, 2.0, key=in_order)
    (1.0, nan)
    >>> min(Row({"n": nan, "v": "b"}), Row({"n": float("nan"), "v": None}), key=in_order)
    Row(n=nan, v=None)
    """
    if isinstance(value, (Mapping, list, tuple)):
        value = tuple(map(in_order, value.values() if isinstance(value, Mapping) else value))
    is_nan = value != value
    return (value is not None, is_nan, None if is_nan else value)


def check_order(aggregate: str, value: Any) -> None:
    """Refuse a value that Spark has no ``min`` or ``max`` for: a map, anything that contains one, or a duration.

    Raises:
        RecordError: the value is one of these.

    >>> check_order("max", Row(stops=[1, 2], place=Row(x=1)))
    """
    if type(value) is dict:
        raise RecordError(
            f"{value!r}: {aggregate} takes no maps, which have no order. Take one of its values, such as "
            'value.tags["size"]. Where it is a struct, give a Row.'
        )
    if isinstance(value, timedelta):
        raise RecordError(f"{value}: {no_durations(aggregate)}")
    if isinstance(value, (Row, list, tuple)):
        for part in value.values() if isinstance(value, Row) else value:
            check_order(aggregate, part)


def as_row(value: Any, output: str) -> Row | None:
    """What user code returned, as a row: a mapping with its fields, any other value as the only field ``output``."""
    returned = plain(value)
    return returned if returned is None or isinstance(returned, Row) else Row({output: returned})


def plain(value: Any) -> Any:
    """What user code returned: a mapping as a row, anything else as it is."""
    # Mappings become rows so that fields are read alike everywhere; user code gets anything else back as it was.
    return value if isinstance(value, Row) or not isinstance(value, Mapping) else Row(value)
