"""Bags of values whose smallest and largest are known: the state of ``min`` and ``max`` of tables."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from streams.driver.aggregators import in_order
from streams.rows import frozen


class _Entry(NamedTuple):
    """A value, how often the bag has it (``number``), and when it first came (``turn``).

    Equal values can look different, as zeros of either sign or decimals of different scales do: the first one is kept.
    """

    value: Any
    number: int
    turn: int


class Bag:
    """Values, each with the number of times it is there; all NaNs are the same value, and structs are rows.

    :meth:`changed` returns another bag and leaves this one as it was, since a store may refuse the new result. Nothing
    is copied: only the bag that was made or read last holds the values, and every other bag knows the one value in
    which it differs from the next bag on the way there.

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
        """A bag with the value added (sign 1) or removed (sign -1); removing one that is not there changes nothing."""
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
        """Each value with the number of times it is there, in order of arrival."""
        return self._at_hand().items()

    def least(self) -> Any:
        """The least value; ``None`` if the bag is empty."""
        return self._at_hand().least()

    def greatest(self) -> Any:
        """The greatest value; ``None`` if the bag is empty."""
        return self._at_hand().greatest()

    def _at_hand(self) -> _Values:
        """Bring the values into this bag: undo the changes of the bags that lead there, and note them in those bags."""
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
    """The values of a bag in order, with their entries; changed in place."""

    def __init__(self, numbers: dict[Any, int]) -> None:
        self._turns = len(numbers)
        self._entries = {value: _Entry(value, numbers[value], turn) for turn, value in enumerate(numbers)}
        self._ordered = sorted(numbers, key=in_order)
        self._orders = list(map(in_order, self._ordered))

    def get(self, value: Any) -> _Entry | None:
        return self._entries.get(value)

    def first(self, value: Any) -> _Entry:
        """A new entry, for a value that is not there yet."""
        self._turns += 1
        return _Entry(value, 1, self._turns)

    def put(self, value: Any, entry: _Entry | None) -> None:
        """Set the entry of a value; ``None`` removes the value."""
        if entry is None:
            place = self._ordered.index(value, bisect_left(self._orders, in_order(value)))
            del self._entries[value], self._ordered[place], self._orders[place]
            return
        if value not in self._entries:
            order = in_order(value)
            place = bisect_right(self._orders, order)
            self._orders.insert(place, order)
            self._ordered.insert(place, entry.value)
        self._entries[value] = entry

    def items(self) -> list[tuple[Any, int]]:
        entries = sorted(self._entries.values(), key=attrgetter("turn"))
        return [(entry.value, entry.number) for entry in entries]

    def least(self) -> Any:
        return self._ordered[0] if self._ordered else None

    def greatest(self) -> Any:
        # Of equal values the first one, as Python's ``max`` returns it.
        return self._ordered[bisect_left(self._orders, self._orders[-1])] if self._ordered else None
