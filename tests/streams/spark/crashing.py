"""Ends of the process that tests stand in for, at a named point of ``versioned.faults``."""

from __future__ import annotations

from collections.abc import Callable


class Crash(Exception):
    """Stands for the end of the process."""


def crash() -> None:
    """The process ends here."""
    raise Crash


def crash_at(point: str, time_reached: int = 1) -> Callable[[str], None]:
    """End the process when a point is reached for the ``time_reached``-th time, and at every time from then on."""
    left = [time_reached]

    def action(name: str) -> None:
        if name == point:
            left[0] -= 1
            if left[0] <= 0:
                raise Crash(point)

    return action


def then(point: str, act: Callable[[], object], skip: int = 0) -> Callable[[str], None]:
    """Do something else once, when a point is reached for the ``skip + 1``-th time."""
    left: list[Callable[[], object]] = [act, *(lambda: None for _ in range(skip))]

    def action(name: str) -> None:
        if name == point and left:
            left.pop()()

    return action
