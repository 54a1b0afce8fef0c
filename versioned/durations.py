"""Durations, instants and time resolution, as integers.

Inside the library an instant is an ``int`` of microseconds since 1970-01-01 UTC, and a duration an
``int`` of microseconds. Names carry the unit: ``grace_us``, ``size_ms``.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Final

from versioned.errors import ConfigurationError

#: What a caller may pass as a duration: a timedelta, or text such as ``"10 minutes"``.
Duration = timedelta | str

#: Instants lie in the years 1 to 9999, as microseconds since 1970: other readers of the tables support no others.
FIRST_INSTANT_US: Final = -62_135_596_800_000_000
LAST_INSTANT_US: Final = 253_402_300_799_999_999
#: Ten million days: longer than any two instants are apart, and short enough that several of them plus an instant fit
#: 64 bits. A longer duration means the same, and becomes this one.
LONGEST_US: Final = 10_000_000 * 86_400_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND: Final = timedelta(microseconds=1)
_UNIT_US: Final = {
    "microsecond": 1, "us": 1,
    "millisecond": 1_000, "ms": 1_000,
    "second": 1_000_000, "s": 1_000_000,
    "minute": 60_000_000, "min": 60_000_000,
    "hour": 3_600_000_000, "h": 3_600_000_000,
    "day": 86_400_000_000, "d": 86_400_000_000,
    "week": 604_800_000_000,
}  # fmt: skip
_PART: Final = re.compile(r"([+-]?\d+)\s*([a-z]+)")
#: The longest timedelta has 20 digits of microseconds; Python itself refuses to parse numbers of thousands of digits.
_MOST_DIGITS: Final = 25


#: The units in which a duration is written, largest first.
_WORDS_US: Final = (
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)


def capped_us(duration_us: int) -> int:
    """A duration, capped so that it does not overflow when added to an instant; it still means the same.

    >>> capped_us(7), capped_us(10**30) == LONGEST_US
    (7, True)
    """
    return min(duration_us, LONGEST_US)


class Resolution(Enum):
    """The time resolution of a table. The value is the number of microseconds in one unit."""

    MICROSECOND = 1
    MILLISECOND = 1_000


def check_resolution(given: object) -> None:
    """Refuse what is not a :class:`Resolution`, such as its name as text.

    Raises:
        ConfigurationError: it is not.
    """
    if not isinstance(given, Resolution):
        known = " or ".join(map(str, Resolution))
        raise ConfigurationError(f"time_resolution must be {known}; got {given!r}.")


def duration_us(value: Duration) -> int:
    """Microseconds in a duration, at most :data:`LONGEST_US` either way; negative ones are returned as they are.

    Args:
        value: A ``timedelta``, or a Spark interval text: ``"10 minutes"``, ``"1 day 2 hours"``,
            with or without the word ``interval``; short units ``us ms s min h d`` as well.

    Raises:
        ConfigurationError: it is not a duration, or is longer than a ``timedelta`` can be.

    >>> duration_us("1 minute 30 seconds")
    90000000
    """
    return max(-LONGEST_US, capped_us(_exact_us(value)))


def in_words(value: timedelta | int) -> str:
    """A duration, or its microseconds, as people write it: in whole units, the largest first.

    :func:`duration_us` reads the same duration back, except from "0", which has no unit.

    >>> in_words(timedelta(hours=26)), in_words(-5_400_000_000), in_words(0)
    ('1 day 2 hours', '-1 hour -30 minutes', '0')
    """
    value_us = _in_us(value)
    sign, rest, words = "-" if value_us < 0 else "", abs(value_us), []
    for unit_us, unit in _WORDS_US:
        count, rest = divmod(rest, unit_us)
        if count:
            words.append(f"{sign}{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(words) or "0"


def span_us(option: str, value: Duration) -> int:
    """Like :func:`duration_us`, for an option that must not be negative.

    Raises:
        ConfigurationError: as for :func:`duration_us`, or it is negative.

    >>> span_us("max_future_skew", "1 ms")
    1000
    """
    found_us = duration_us(value)
    check_not_negative(option, found_us)
    return found_us


def optional_span_us(option: str, value: Duration | None) -> int | None:
    """Like :func:`span_us`; None stays None.

    >>> optional_span_us("max_future_skew", None)
    """
    return None if value is None else span_us(option, value)


def check_not_negative(what: str, value: timedelta | int | None) -> None:
    """Refuse a negative duration, or negative microseconds; None is allowed.

    Raises:
        ConfigurationError: it is negative; ``what`` is its name in the message.

    >>> check_not_negative("Grace", -1_000)
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: Grace must not be negative; got -1 millisecond. Give a longer one.
    """
    if value is not None and _in_us(value) < 0:
        raise ConfigurationError(f"{what} must not be negative; got {in_words(value)}. Give a longer one.")


def check_grace(grace: timedelta | int, history_retention: timedelta | int) -> None:
    """Refuse a grace that would accept records older than the history.

    Args:
        grace: How late a record may be, as a duration or its microseconds.
        history_retention: How far back the history goes, likewise.

    Raises:
        ConfigurationError: the grace is longer, or one of the two is negative.

    >>> check_grace(timedelta(hours=2), 3_600_000_000)
    Traceback (most recent call last):
    versioned.errors.ConfigurationError: grace (2 hours) must not be larger than history_retention (1 hour): a record \
older than the history has no place in it. Shorten grace or keep history longer.
    """
    check_not_negative("history_retention", history_retention)
    check_not_negative("grace", grace)
    if _in_us(grace) > _in_us(history_retention):
        raise ConfigurationError(
            f"grace ({in_words(grace)}) must not be larger than history_retention ({in_words(history_retention)}): a "
            "record older than the history has no place in it. Shorten grace or keep history longer."
        )


def _in_us(value: timedelta | int) -> int:
    return value // _MICROSECOND if isinstance(value, timedelta) else value


def _exact_us(value: Duration) -> int:
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if not isinstance(value, str):
        raise ConfigurationError(_not_a_duration(value))
    text = value.strip().lower().removeprefix("interval").strip()
    parts = _PART.findall(text)
    first, *between = _PART.split(text)[:: _PART.groups + 1]
    if not between or first or between.pop() or any(gap.strip() not in ("", ",") for gap in between):
        raise ConfigurationError(_not_a_duration(value))
    if any(len(number) > _MOST_DIGITS for number, _ in parts):
        raise ConfigurationError(_too_long(value))
    total_us = sum(int(number) * _unit_us(unit, value) for number, unit in parts)
    if not timedelta.min // _MICROSECOND <= total_us <= timedelta.max // _MICROSECOND:
        raise ConfigurationError(_too_long(value))
    return total_us


def duration(value: Duration) -> timedelta:
    """The duration as a ``timedelta``, within the same bounds.

    Raises:
        ConfigurationError: as for :func:`duration_us`.

    >>> duration("2 hours")
    datetime.timedelta(seconds=7200)
    """
    return timedelta(microseconds=duration_us(value))


def instant_us(value: datetime) -> int:
    """Microseconds since the epoch; a datetime without a zone is taken as UTC.

    Raises:
        ConfigurationError: it is not a datetime.
    """
    # pandas' NaT is a datetime that does not equal itself; the result would not even be an int.
    if not isinstance(value, datetime) or value != value:
        raise ConfigurationError(f"{value!r} is no instant. Give a datetime, as in datetime(2026, 1, 31).")
    aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    return (aware - _EPOCH) // _MICROSECOND


def instant(value_us: int) -> datetime:
    """The UTC datetime of an instant in microseconds."""
    return _EPOCH + timedelta(microseconds=value_us)


def instant_literal(value_us: int) -> str:
    """An instant as SQL: a literal, or an expression for years that Python does not support.

    >>> instant_literal(-1)
    "TIMESTAMP_LTZ '1969-12-31 23:59:59.999999+00:00'"
    >>> instant_literal(10**18)
    'timestamp_micros(1000000000000000000)'
    """
    try:
        return f"TIMESTAMP_LTZ '{instant(value_us).isoformat(sep=' ', timespec='microseconds')}'"
    except OverflowError:
        return f"timestamp_micros({int(value_us)})"


def check_order(what: str, start: datetime | None, end: datetime | None) -> None:
    """Refuse a time range that ends before it starts; None = no bound.

    Raises:
        ConfigurationError: it does; ``what`` is its name in the message.
    """
    if start is not None and end is not None and instant_us(start) > instant_us(end):
        raise ConfigurationError(f"{what}: start {start} is after end {end}. Swap them.")


def _unit_us(unit: str, value: str) -> int:
    single = unit.removesuffix("s")
    # The short units that end in "s" have no plural: "ss" is a typo.
    known = _UNIT_US.get(unit) or (None if single.endswith("s") else _UNIT_US.get(single))
    if known is None:
        raise ConfigurationError(_not_a_duration(value))
    return known


def _not_a_duration(value: object) -> str:
    said = f'"{value}"' if isinstance(value, str) else repr(value)
    return (
        f'{said} is not a duration. Write a number and a unit, such as "10 minutes" or "1 day 2 hours". Units: us, ms, '
        "s, min, h, d, or in words up to weeks; whole numbers only."
    )


def _too_long(value: str) -> str:
    return f'"{value:.60}" is longer than a duration can be: at most {timedelta.max.days:,} days. Write a shorter one.'
