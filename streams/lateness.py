"""How late records arrive: a histogram with fixed bounds, and the grace that it suggests. Pure.

The bounds are the preferred numbers R10 (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8 and their decimal multiples) from a
millisecond on, each about a quarter above the one before. Since they are fixed, histograms of batches, nodes or days
can be added up. A histogram maps a bound to the number of records that were at most that late, and later than the bound
below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Final

from versioned.errors import ConfigurationError

_R10: Final = (100, 125, 160, 200, 250, 315, 400, 500, 630, 800)
_DECADES: Final = 15
#: Upper bounds in microseconds: the first is for records that are not late at all, the last for any lateness possible.
BOUNDS_US: Final[tuple[int, ...]] = (0, *(10 * number * 10**decade for decade in range(_DECADES) for number in _R10))
#: Units of durations in microseconds, the largest first, and how they are written.
DURATION_UNITS: Final = (
    (86_400_000_000, "d"),
    (3_600_000_000, "h"),
    (60_000_000, "min"),
    (1_000_000, "s"),
    (1_000, "ms"),
    (1, "us"),
)

Histogram = Mapping[int, int]


@dataclass(frozen=True)
class SuggestedGrace:
    """A grace within which at least ``share`` of the ``records`` seen came; ``text`` says so in words."""

    grace: timedelta
    share: float
    records: int
    text: str


def added(histograms: Iterable[Histogram]) -> dict[int, int]:
    """The sum of several histograms.

    Example:
        >>> added([{0: 3, 1000: 1}, {1000: 2}])
        {0: 3, 1000: 3}
    """
    total: dict[int, int] = {}
    for histogram in histograms:
        for bound_us, records in histogram.items():
            total[bound_us] = total.get(bound_us, 0) + records
    return dict(sorted(total.items()))


def suggested_grace(histogram: Histogram, share: float = 0.999) -> SuggestedGrace:
    """The least bound within which at least ``share`` of the records came.

    Args:
        histogram: Records by upper bound of their lateness, in microseconds.
        share: Above 0, at most 1.

    Raises:
        ConfigurationError: the share is out of range, or the histogram is empty.

    Example:
        >>> suggested_grace({0: 9_000, 250_000_000: 995, 86_400_000_000: 5}).text
        '99.9 % of records within 4 min 10 s'
    """
    if not 0 < share <= 1:
        raise ConfigurationError(f"share is {share}. It is a part of all records: above 0, at most 1.")
    records = sum(histogram.values())
    if records <= 0:
        raise ConfigurationError("The histogram holds no record. Run a batch with metrics_level=debug first.")
    # As a fraction: in floating point 0.07 of 100 records would be more than 7.
    wanted, so_far, bound_us = Fraction(str(share)) * records, 0, 0
    for bound_us, number in sorted(histogram.items()):  # noqa: B007 - the bound at which it stops is the answer
        so_far += number
        if so_far >= wanted:
            break
    within = "on time" if bound_us == 0 else f"within {_as_text(bound_us)}"
    return SuggestedGrace(
        timedelta(microseconds=bound_us), share, records, f"{_percent(share)} % of records {within}"
    )  # fmt: skip


def _percent(share: float) -> str:
    percent = float(Fraction(str(share)) * 100)
    return f"{percent:.10g}"


def _as_text(duration_us: int) -> str:
    parts = []
    for size_us, unit in DURATION_UNITS:
        number, duration_us = divmod(duration_us, size_us)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts)
