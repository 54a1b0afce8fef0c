"""Bags of values whose smallest and largest are known: the state of ``min`` and ``max`` of tables."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from streams.driver.aggregators import in_order
from streams.rows import frozen


class _Entry(NamedTuple):
    """A value as it came first, for a zero has two signs and a decimal many scales; its number, and its turn."""

    value: Any
    number: int
    turn: int


class Bag:
    """Values with how often each is there; each NaN is the same one, and structs are rows.

    A change gives another bag and leaves this one as it was, for its result may be refused. Yet nothing is copied: the
    bag that was changed or asked last has the values, and each of the others knows by which of them it differs from the
    next one on the way there.

    Example:
        >>> one = Bag([(2, 1), (1, 1)])
        >>> none = one.changed(1, -1)
        >>> one.least(), none.least(), none.items()
        (1, 2, [(2, 1)])
    """

    def __init__(self, values: Iterable[tuple[Any, int]] = ()) -> None:
        self._values: _Values | None = _Values({frozen(value): number for value, number in values})
        self._differs: tuple[Bag, Any, _Entry | None] | None = None

    def changed(self, value: Any, sign: int) -> Bag:
        """The bag with a value added (sign 1) or taken away (sign -1); taking one that is not there changes nothing."""
        values, value = self._at_hand(), frozen(value)
        known = values.get(value)
        if known is None and sign < 0:
            return self
        entry = values.first(value) if known is None else known._replace(number=known.number + sign)
        values.put(value, entry if entry.number > 0 else None)
        after = Bag.__new__(Bag)
        after._values, after._differs = values, None
        self._values, self._differs = None, (after, value, known)
        return after

    def items(self) -> list[tuple[Any, int]]:
        """Each value with its number, in the order in which they came."""
        return self._at_hand().items()

    def least(self) -> Any:
        """The least value; none of an empty bag."""
        return self._at_hand().least()

    def greatest(self) -> Any:
        """The greatest value; none of an empty bag."""
        return self._at_hand().greatest()

    def _at_hand(self) -> _Values:
        """The values as they are in this bag: what others made of them is undone, and told to be so there."""
        way, bag = [], self
        while bag._differs is not None:
            way.append(bag)
            bag = bag._differs[0]
        values = bag._values
        assert values is not None
        for bag in reversed(way):
            assert bag._differs is not None
            other, value, entry = bag._differs
            other._values, other._differs = None, (bag, value, values.get(value))
            values.put(value, entry)
            bag._values, bag._differs = values, None
        return values


class _Values:
    """Values in order beside their entries, changed in place."""

    def __init__(self, numbers: dict[Any, int]) -> None:
        self._turns = len(numbers)
        self._entries = {value: _Entry(value, numbers[value], turn) for turn, value in enumerate(numbers)}
        self._ordered = sorted(numbers, key=in_order)
        self._orders = list(map(in_order, self._ordered))

    def get(self, value: Any) -> _Entry | None:
        return self._entries.get(value)

    def first(self, value: Any) -> _Entry:
        """The entry of a value that is new here."""
        self._turns += 1
        return _Entry(value, 1, self._turns)

    def put(self, value: Any, entry: _Entry | None) -> None:
        """Have a value's entry be this one; none if it is gone."""
        if value not in self._entries and entry is not None:
            order = in_order(value)
            place = bisect_right(self._orders, order)
            self._orders.insert(place, order)
            self._ordered.insert(place, entry.value)
        if entry is not None:
            self._entries[value] = entry
            return
        place = self._ordered.index(value, bisect_left(self._orders, in_order(value)))
        del self._entries[value], self._ordered[place], self._orders[place]

    def items(self) -> list[tuple[Any, int]]:
        entries = sorted(self._entries.values(), key=attrgetter("turn"))
        return [(entry.value, entry.number) for entry in entries]

    def least(self) -> Any:
        return self._ordered[0] if self._ordered else None

    def greatest(self) -> Any:
        # Of equal ones the first, as ``max`` has it.
        return self._ordered[bisect_left(self._orders, self._orders[-1])] if self._ordered else None
