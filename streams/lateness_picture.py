"""How late records arrived, as a picture, with the grace that this suggests. Pure.

Each class of lateness is about a quarter wider than the one before, so columns of equal width are a logarithmic scale
of time. The number of records is drawn logarithmically too: a grace is about the one record in a million, which must be
visible.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Final

from streams.lateness import BOUNDS_US, DURATION_UNITS, Histogram, SuggestedGrace, suggested_grace
from versioned.drawing import Picture, headline, quantity
from versioned.durations import in_words
from versioned.svg import RULE, SOFT_INK, compact, line, rect, text

_WIDTH: Final = 1000
_LEFT: Final = 84
_RIGHT: Final = 24
_TOP: Final = 96
_PLOT: Final = 220
_BOTTOM: Final = 56
_WITHIN: Final = ("#8ab4f8", "#3367d6")
_BEYOND: Final = ("#f6aea9", "#c5221f")
_WIDEST: Final = 76
_APART: Final = 84
_TITLE: Final = "Lateness of records"
_SECOND_US: Final = 1_000_000
#: From this number of units on, the next smaller unit is left out.
_MANY: Final = 100


@dataclass(frozen=True)
class _Classes:
    """The columns of the histogram: bounds, numbers, and positions."""

    bounds_us: tuple[int, ...]
    records: tuple[int, ...]
    grace_us: int

    @property
    def column(self) -> float:
        """Width of a class in pixels."""
        return min((_WIDTH - _LEFT - _RIGHT) / max(len(self.bounds_us), 1), _WIDEST)

    @property
    def top_power(self) -> int:
        """The power of ten at the upper end of the scale."""
        return max(1, math.ceil(math.log10(max(self.records, default=1))))

    def right_of(self, place: int) -> float:
        """The right edge of a class."""
        return _LEFT + (place + 1) * self.column

    def y(self, records: int) -> float:
        """The vertical position of a number; the scale begins half a decade below 1, to show even a single record."""
        return _TOP + _PLOT * (self.top_power - math.log10(records)) / (self.top_power + 0.5)


def lateness_histogram(histogram: Histogram, share: float = 0.999, title: str = _TITLE) -> Picture:
    """Draw how late records came, and mark the least grace within which ``share`` of them came.

    Args:
        histogram: Records by upper bound of their lateness in microseconds, as ``lateness_classes`` returns them.
        share: Above 0, at most 1.
        title: The heading.

    Returns:
        The picture, whose table has every class with the share within it; an empty histogram gives one that says so.

    Raises:
        ConfigurationError: the share is out of range.

    Example:
        >>> picture = lateness_histogram({0: 9_000, 250_000_000: 995, 86_400_000_000: 5})
        >>> "99.9 % of records within 4 min 10 s" in picture.to_svg()
        True
    """
    counted = {bound_us: records for bound_us, records in sorted(histogram.items()) if records > 0}
    # Check the share even if the histogram is empty.
    suggested = suggested_grace(counted or {0: 1}, share)
    if not counted:
        return Picture(title, _WIDTH, 96, headline(title, ["no records"]))
    bounds_us = _bounds(tuple(counted))
    grace_us = suggested.grace // timedelta(microseconds=1)
    classes = _Classes(bounds_us, tuple(counted.get(us, 0) for us in bounds_us), grace_us)
    said = [quantity(suggested.records, "record"), "both scales logarithmic"]
    parts = [*headline(title, said), *_scale(classes), *_columns(classes), *_mark(classes, suggested)]
    columns = ("at most so late", "records", "share within")
    return Picture(title, _WIDTH, _TOP + _PLOT + _BOTTOM, tuple(parts), columns=columns, rows=_table(counted))


def _bounds(counted: Sequence[int]) -> tuple[int, ...]:
    """The bounds to draw: on time, then every class from the least late to the latest, with empty ones in between."""
    late = [us for us in counted if us > 0]
    between = {us for us in BOUNDS_US if late and late[0] <= us <= late[-1]}
    return (0, *sorted(between | set(late)))


def _scale(classes: _Classes) -> Iterator[str]:
    yield text(_LEFT - 10, _TOP - 16, "records", size=11, fill=SOFT_INK, text_anchor="end")
    for power in range(classes.top_power + 1):
        y = classes.y(10**power)
        yield line((_LEFT, y), (_WIDTH - _RIGHT, y), RULE, class_="grid")
        yield text(_LEFT - 10, y + 4, compact(10**power), size=11, fill=SOFT_INK, text_anchor="end")
    floor = _TOP + _PLOT
    yield line((_LEFT, floor), (_WIDTH - _RIGHT, floor), SOFT_INK)
    every = math.ceil(_APART / classes.column)
    for place in range(0, len(classes.bounds_us), every):
        # A class is named by its upper bound, which is where it ends.
        x = classes.right_of(place)
        yield line((x, floor), (x, floor + 5), SOFT_INK)
        yield text(x, floor + 20, _short(classes.bounds_us[place]), size=11, fill=SOFT_INK, text_anchor="middle")
    yield text(_LEFT, floor + 42, "at most so late", size=11, fill=SOFT_INK)


def _columns(classes: _Classes) -> Iterator[str]:
    within = 0
    for place, (bound_us, records) in enumerate(zip(classes.bounds_us, classes.records, strict=True)):
        within += records
        if not records:
            continue
        fill, edge = _WITHIN if bound_us <= classes.grace_us else _BEYOND
        y, left = classes.y(records), classes.right_of(place) - classes.column
        said = f"{_late(bound_us)}: {records:,} records\n{_percent(within, sum(classes.records))} within"
        yield rect(left + 1, y, classes.column - 2, _TOP + _PLOT - y, fill, said, class_="class", stroke=edge)


def _mark(classes: _Classes, suggested: SuggestedGrace) -> Iterator[str]:
    x = classes.right_of(classes.bounds_us.index(classes.grace_us))
    beyond = sum(n for us, n in zip(classes.bounds_us, classes.records, strict=True) if us > classes.grace_us)
    words = f"suggested grace{'' if classes.grace_us else ' 0'}: {suggested.text}, {beyond:,} later"
    yield line((x, _TOP - 12), (x, _TOP + _PLOT), "#137333", class_="grace", stroke_width="2")
    is_left = x < _WIDTH / 2
    anchor = "start" if is_left else "end"
    yield text(x + (6 if is_left else -6), _TOP - 4, words, size=12, fill="#137333", text_anchor=anchor)


def _table(counted: Histogram) -> tuple[tuple[str, ...], ...]:
    rows, within, total = [], 0, sum(counted.values())
    for bound_us, records in counted.items():
        within += records
        rows.append((_late(bound_us), f"{records:,}", _percent(within, total)))
    return tuple(rows)


def _late(bound_us: int) -> str:
    return "on time" if bound_us == 0 else in_words(bound_us)


def _short(bound_us: int) -> str:
    """A duration in one or two units for the scale, where exact durations would be too long.

    >>> _short(160_000_000), _short(5_000_000_000), _short(6_300)
    ('2 min 40 s', '1 h 23 min', '6.3 ms')
    """
    if not bound_us:
        return "on time"
    place = next(
        (place for place, (size_us, _) in enumerate(DURATION_UNITS) if bound_us >= size_us), len(DURATION_UNITS) - 1
    )
    size_us, unit = DURATION_UNITS[place]
    if size_us <= _SECOND_US:
        return f"{bound_us / size_us:.3g} {unit}"
    whole, rest_us = divmod(bound_us, size_us)
    smaller_us, smaller = DURATION_UNITS[place + 1]
    part = rest_us // smaller_us
    return f"{whole:,} {unit} {part} {smaller}" if part and whole < _MANY else f"{whole:,} {unit}"


def _percent(part: int, total: int) -> str:
    """A share in percent, rounded down so that only all records are 100 %."""
    return f"{math.floor(Fraction(part, total) * 1_000_000) / 10_000:g} %"
