"""The complete join of two histories: every result that ever held, kept correct by late records (KIP-914; R150).

At any instant the result is the join of what is valid on both sides. A result starts wherever a version of either side
starts and there is something to join. It ends with a start without a value, a tombstone; two tombstones never follow
each other. A late record changes only what lies between its own start and the next start on its side.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from versioned.timeline import Timeline

Side = Literal["left", "right"]
SIDES: Final[tuple[Side, Side]] = ("left", "right")
Kind = Literal["inner", "left", "outer"]
Op = Literal["insert", "update", "retract"]

#: Joins two values, either of which may be null.
Pair = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Cause:
    """The record that changed results: the side it came from, and its timestamp; as text ``left@17``."""

    side: Side
    ts_us: int

    def __str__(self) -> str:
        return f"{self.side}@{self.ts_us}"


@dataclass(frozen=True)
class ResultChange:
    """What a record did to one start of the result.

    ``op`` says whether the start is new, has another value, or vanished; ``old`` and ``new`` are the results valid
    there before and after. A result that merely ends earlier or later is no change of its own.

    At most one change of a record ``is_latest``: that of the newest start, whether it is there before or after. Its
    ``old`` is the latest result before and its ``new`` the one after. So whoever follows the latest result subtracts
    ``old`` and adds ``new`` of these changes only. A record without such a change leaves the latest result as it is.
    """

    key: Hashable
    valid_from_us: int
    op: Op
    old: Any
    new: Any
    cause: Cause
    is_latest: bool


class HistoryJoin:
    """The histories of both sides by key, and their join.

    Args:
        kind: ``inner``, ``left`` or ``outer``: which sides must have a value.
        pair: ``(key, left, right)`` to the result.

    Example:
        >>> join = HistoryJoin("inner", lambda key, left, right: left + right)
        >>> _ = join.put("left", "k", "a", 0), join.put("right", "k", "b", 2)
        >>> [(change.new, change.valid_from_us, change.op) for change in join.put("left", "k", "A", 1)]
        [('Ab', 2, 'update')]
    """

    def __init__(self, kind: Kind, pair: Pair) -> None:
        self._kind: Final = kind
        self._pair = pair
        self._lines: dict[Hashable, dict[Side, Timeline]] = {}

    def put(self, side: Side, key: Hashable, value: Any, ts_us: int) -> list[ResultChange]:
        """Add a version of one side (``None`` is a tombstone) and return what changed, in order of time."""
        lines = self._lines.setdefault(key, {"left": Timeline(), "right": Timeline()})
        to_us = lines[side].next_start(ts_us)
        before = self._starts(key, ts_us, to_us)
        touched = {*before, ts_us, *lines["left"].starts(ts_us, to_us), *lines["right"].starts(ts_us, to_us)}
        old = {start: self.value_at(key, start) for start in touched}
        lines[side].put(ts_us, value)
        after = self._starts(key, ts_us, to_us)
        # A start that vanishes counts too: the result that began there may have been the latest.
        newest_us = max((*before, *after, *self._starts(key, ts_us, None)[-1:]), default=ts_us)
        changes = []
        for start in sorted({*before, *after}):
            new = self.value_at(key, start)
            op = _op(start in before, start in after)
            if op != "update" or not are_same(old[start], new):
                cause = Cause(side, ts_us)
                changes.append(ResultChange(key, start, op, old[start], new, cause, start == newest_us))
        return changes

    def value_at(self, key: Hashable, at_us: int) -> Any:
        """The result valid at an instant, or null."""
        lines = self._lines.get(key)
        if lines is None:
            return None
        left, right = lines["left"].value_at(at_us), lines["right"].value_at(at_us)
        return None if lacks(self._kind, left, right) else self._pair(key, left, right)

    def history(self, key: Hashable) -> list[tuple[int, Any]]:
        """Every start of the result with its value, oldest first; null where a result ends."""
        lines = self._lines.get(key)
        first = [] if lines is None else [line.times[0] for line in lines.values() if line.times]
        return [(start, self.value_at(key, start)) for start in self._starts(key, min(first), None)] if first else []

    def _starts(self, key: Hashable, from_us: int, to_us: int | None) -> list[int]:
        lines = self._lines[key]
        starts = []
        was_null = self.value_at(key, from_us - 1) is None
        for start in sorted({*lines["left"].starts(from_us, to_us), *lines["right"].starts(from_us, to_us)}):
            is_null = self.value_at(key, start) is None
            if not (is_null and was_null):
                starts.append(start)
            was_null = is_null
        return starts


def lacks(kind: Kind, left: Any, right: Any) -> bool:
    """Whether a join has no result for two values, either of which may be null.

    >>> [lacks(kind, None, "right") for kind in ("inner", "left", "outer")]
    [True, True, False]
    """
    return {"inner": left is None or right is None, "left": left is None, "outer": left is right is None}[kind]


def needs_other(kind: Kind, side: int) -> bool:
    """Whether a change of one side (0 = left, 1 = right) gives no result without a value on the other side.

    >>> [needs_other(kind, 1) for kind in ("inner", "left", "outer")]
    [True, True, False]
    """
    return kind == "inner" or (kind == "left" and side == 1)


def are_same(left: Any, right: Any) -> bool:
    """Whether two results are equal, with each NaN equal to any other.

    >>> nan = float("nan")
    >>> are_same({"share": nan}, {"share": float("nan")}), are_same([nan, 1], [nan, 2])
    (True, False)
    """
    if left == right:
        return True
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(are_same(part, right[name]) for name, part in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(are_same, left, right))
    return bool(left != left and right != right)


def _op(was: bool, is_there: bool) -> Op:
    if was and is_there:
        return "update"
    return "insert" if is_there else "retract"
