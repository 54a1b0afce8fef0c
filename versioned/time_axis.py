"""Instants on the axis of a picture: their positions, and round instants for the ticks. Pure.

Everything is in UTC and in the years 1 to 9999, which is what Python's calendar supports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US, instant, instant_us
from versioned.errors import RecordError

_MS: Final = 1_000
_S: Final = 1_000_000
_MIN, _H, _DAY = 60 * _S, 3_600 * _S, 86_400 * _S
_STEPS_US: Final = (
    *(number * 10**power for power in range(6) for number in (1, 2, 5)),
    *(number * _S for number in (1, 2, 5, 10, 15, 30)),
    *(number * _MIN for number in (1, 2, 5, 10, 15, 30)),
    *(number * _H for number in (1, 2, 3, 6, 12)),
    *(number * _DAY for number in (1, 2, 7, 14)),
)
_STEPS_MONTHS: Final = (1, 3, 6, *(12 * number * 10**power for power in range(4) for number in (1, 2, 5)))
_MONTH_US: Final = 28 * _DAY
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: 3 January 2000 was a Monday: weeks are counted from there.
_MONDAY_US: Final = instant_us(datetime(2000, 1, 3))


@dataclass(frozen=True)
class Tick:
    """A round instant and its label: the instant, and the day or year it is in if that differs from the tick before."""

    at_us: int
    text: str
    within: str = ""


@dataclass(frozen=True)
class TimeAxis:
    """Instants from ``start_us`` to ``end_us``, drawn from ``left`` to ``right`` pixels.

    Example:
        >>> TimeAxis(0, 100, left=50, right=250).x(25)
        100.0
    """

    start_us: int
    end_us: int
    left: float
    right: float

    def x(self, at_us: int) -> float:
        """The pixel position of an instant; one outside the axis lies on the nearer edge."""
        inside = min(max(at_us, self.start_us), self.end_us)
        return self.left + (self.right - self.left) * (inside - self.start_us) / max(self.end_us - self.start_us, 1)

    def ticks(self, apart: float = 90) -> tuple[Tick, ...]:
        """Round instants, at least ``apart`` pixels from each other; if the axis is a single instant, that one."""
        if self.end_us <= self.start_us:
            return (Tick(self.start_us, *_clock_words(self.start_us, _finest(self.start_us))),)
        wanted_us = (self.end_us - self.start_us) * apart / (self.right - self.left)
        step_us = next((step for step in _STEPS_US if step >= wanted_us), None)
        if step_us is not None:
            origin_us = _MONDAY_US if step_us >= 7 * _DAY else 0
            first_us = -((origin_us - self.start_us) // step_us) * step_us + origin_us
            return _told([(us, *_clock_words(us, step_us)) for us in range(first_us, self.end_us + 1, step_us)])
        months = next((step for step in _STEPS_MONTHS if step * _MONTH_US >= wanted_us), _STEPS_MONTHS[-1])
        return _told([(us, *_calendar_words(us, months)) for us in self._months(months)])

    def _months(self, step: int) -> Iterator[int]:
        first, last = instant(self.start_us), instant(self.end_us)
        # There is no year 0, so a tick that would lie there is left out.
        for month in range(max(first.year * 12 // step, 1) * step, last.year * 12 + last.month, step):
            at_us = instant_us(datetime(month // 12, month % 12 + 1, 1))
            if self.start_us <= at_us <= self.end_us:
                yield at_us


def is_null(value: Any) -> bool:
    """Whether a value is what tables and pandas have for null.

    Example:
        >>> is_null(None), is_null(float("nan")), is_null(0)
        (True, True, False)
    """
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA, whose comparisons are neither true nor false
        return True


def given_us(value: Any, name: str) -> int | None:
    """An instant of a row in microseconds; None for what tables and pandas have for null.

    Args:
        value: A datetime (without zone: UTC), whole microseconds since 1970, or null.
        name: The column, for the error.

    Raises:
        RecordError: it is neither, or not of the years 1 to 9999.

    Example:
        >>> given_us(datetime(1970, 1, 1, 0, 0, 1), "validFrom"), given_us(float("nan"), "validTo")
        (1000000, None)
    """
    if is_null(value):
        return None
    if isinstance(value, datetime):
        return instant_us(value)
    if isinstance(value, int) and not isinstance(value, bool) and FIRST_INSTANT_US <= value <= LAST_INSTANT_US:
        return value
    raise RecordError(
        f"{name} is {value!r}. Pictures take datetimes, or whole microseconds since 1970, of the years 1 to 9999."
    )


def instant_text(at_us: int) -> str:
    """The exact text of an instant.

    Example:
        >>> instant_text(1), instant_text(86_400_000_000)
        ('1970-01-01 00:00:00.000001 UTC', '1970-01-02 00:00:00 UTC')
    """
    return f"{instant(at_us).replace(tzinfo=None).isoformat(sep=' ')} UTC"


def _clock_words(at_us: int, step_us: int) -> tuple[str, str]:
    at = instant(at_us)
    day = f"{at.day} {_MONTHS[at.month - 1]}"
    if step_us >= _DAY:
        return day, f"{at.year:04}"
    if step_us >= _MIN:
        return f"{at:%H:%M}", f"{day} {at.year:04}"
    digits = 0 if step_us >= _S else 3 if step_us >= _MS else 6
    fraction = f".{at.microsecond:06}"[: digits + 1] if digits else ""
    return f"{at:%H:%M:%S}{fraction}", f"{day} {at.year:04}"


def _finest(at_us: int) -> int:
    """The longest unit of which an instant is a whole multiple."""
    return next((unit_us for unit_us in (_DAY, _MIN, _S, _MS) if at_us % unit_us == 0), 1)


def _calendar_words(at_us: int, months: int) -> tuple[str, str]:
    at = instant(at_us)
    return (f"{at.year:04}", "") if months >= 12 else (_MONTHS[at.month - 1], f"{at.year:04}")


def _told(words: list[tuple[int, str, str]]) -> tuple[Tick, ...]:
    """Make ticks from labels, keeping the second line only where it changes."""
    first = [Tick(*words[0])] if words else []
    return (*first, *(Tick(us, said, now if now != was else "") for (_, _, was), (us, said, now) in pairwise(words)))
