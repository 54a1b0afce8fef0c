"""Windows and their grace, as values (Kafka Streams: ``TimeWindows``, ``SessionWindows``, ...; KIP-328).

Durations are passed as ``timedelta`` or text and stored in microseconds. ``grace`` is how late a record may be and
still change a window: a window closes for good once stream time reaches its end plus grace (R4, R10).
Time windows are ``[start, end)``; the ends of sliding and session windows are inclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from versioned.durations import (
    FIRST_INSTANT_US,
    LAST_INSTANT_US,
    Duration,
    check_not_negative,
    duration_us,
    in_words,
)
from versioned.errors import ConfigurationError
from versioned.given import check_kind, given_instant_us

_W = TypeVar("_W", bound="_Graceful")


@dataclass(frozen=True)
class _Graceful:
    @property
    def grace_period_ms(self) -> int:
        """The grace in whole milliseconds (Kafka: ``gracePeriodMs()``, R12)."""
        return self.grace_us // 1_000  # type: ignore[attr-defined,no-any-return]

    def grace(self: _W, grace: Duration) -> _W:
        """The same windows with this grace (R6, R7, R8). Unlimited windows never close, whatever the grace."""
        # Each of the five kinds has the field; this class itself has no instances.
        return replace(self, **{"grace_us": duration_us(grace)})


@dataclass(frozen=True)
class TimeWindows(_Graceful):
    """Windows of a fixed size, tumbling (``advance`` = size) or hopping (Kafka: ``TimeWindows``).

    Raises:
        ConfigurationError: a size that is not positive, a negative grace, or an advance that is not positive or exceeds
            the size.

    >>> TimeWindows.of("1 hour").advance_by("10 minutes").grace("5 minutes").grace_period_ms
    300000
    """

    size_us: int
    advance_us: int
    grace_us: int = 0

    def __post_init__(self) -> None:
        _is_whole("Window size", self.size_us, "TimeWindows.of(size)")
        if self.size_us < 1:
            raise ConfigurationError(f"Window size must be larger than zero; got {in_words(self.size_us)}.")
        _not_negative("Grace", self.grace_us, "grace(...)")
        _is_whole("Advance", self.advance_us, "advance_by(...)")
        if not 0 < self.advance_us <= self.size_us:
            raise ConfigurationError(
                f"Advance must be positive and at most the window size; got advance {in_words(self.advance_us)} and "
                f"size {in_words(self.size_us)}."
            )

    @classmethod
    def of(cls, size: Duration) -> TimeWindows:
        """Tumbling windows without grace; add :meth:`grace`."""
        return cls(duration_us(size), duration_us(size))

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> TimeWindows:
        """Tumbling windows that close at their end (Kafka: ``ofSizeWithNoGrace``)."""
        return cls.of(size)

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> TimeWindows:
        """Tumbling windows with a grace (Kafka: ``ofSizeAndGrace``)."""
        return cls.of(size).grace(grace)

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Return hopping windows: a new one starts every ``advance``."""
        return replace(self, advance_us=duration_us(advance))


@dataclass(frozen=True)
class SlidingWindows(_Graceful):
    """Windows ``[t - difference, t]`` around records (Kafka: ``SlidingWindows``, KIP-450).

    Raises:
        ConfigurationError: the difference or the grace is negative.
    """

    difference_us: int
    grace_us: int = 0

    def __post_init__(self) -> None:
        _not_negative("Time difference", self.difference_us, "SlidingWindows.of(difference)")
        _not_negative("Grace", self.grace_us, "grace(...)")

    @classmethod
    def of(cls, difference: Duration) -> SlidingWindows:
        """Sliding windows without grace; add :meth:`grace`."""
        return cls(duration_us(difference))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> SlidingWindows:
        """Sliding windows without grace (Kafka: ``ofTimeDifferenceWithNoGrace``)."""
        return cls.of(difference)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> SlidingWindows:
        """Sliding windows with a grace (Kafka: ``ofTimeDifferenceAndGrace``)."""
        return cls.of(difference).grace(grace)


@dataclass(frozen=True)
class SessionWindows(_Graceful):
    """Sessions of records that are at most ``gap`` apart, inclusive (Kafka: ``SessionWindows``).

    Raises:
        ConfigurationError: the gap or the grace is negative.
    """

    gap_us: int
    grace_us: int = 0

    def __post_init__(self) -> None:
        _not_negative("Session gap", self.gap_us, "SessionWindows.of(gap)")
        _not_negative("Grace", self.grace_us, "grace(...)")

    @classmethod
    def of(cls, gap: Duration) -> SessionWindows:
        """Sessions without grace; add :meth:`grace`."""
        return cls(duration_us(gap))

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, gap: Duration) -> SessionWindows:
        """Sessions without grace (Kafka: ``ofInactivityGapWithNoGrace``)."""
        return cls.of(gap)

    @classmethod
    def of_inactivity_gap_and_grace(cls, gap: Duration, grace: Duration) -> SessionWindows:
        """Sessions with a grace (Kafka: ``ofInactivityGapAndGrace``)."""
        return cls.of(gap).grace(grace)


@dataclass(frozen=True)
class UnlimitedWindows(_Graceful):
    """One window that begins at ``start`` and never closes; a grace is accepted but has no effect (R9)."""

    start_us: int = 0
    grace_us: int = 0

    def __post_init__(self) -> None:
        _is_whole("Start", self.start_us, "start_on(...)")
        if not FIRST_INSTANT_US <= self.start_us <= LAST_INSTANT_US:
            raise ConfigurationError(
                f"Start must be microseconds since 1970, of the years 1 to 9999; got {self.start_us}. Give "
                "start_on(...) a datetime."
            )
        _not_negative("Grace", self.grace_us, "grace(...)")

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """The window that starts at the epoch."""
        return cls()

    def start_on(self, start: datetime | int) -> UnlimitedWindows:
        """The window that starts at this instant: a datetime (UTC if it has no zone), or microseconds since the epoch.

        Kafka: ``startOn``.

        >>> UnlimitedWindows.of().start_on(datetime(1970, 1, 2)).start_us
        86400000000
        """
        return replace(self, start_us=given_instant_us("start_on", start))


@dataclass(frozen=True)
class JoinWindows(_Graceful):
    """How far apart two stream records may be to join: right ts in ``[left - before, left + after]``.

    Raises:
        ConfigurationError: the sum of before and after is negative, or the grace is.
    """

    before_us: int
    after_us: int
    grace_us: int = 0

    def __post_init__(self) -> None:
        _is_whole("before", self.before_us, "JoinWindows.of(difference)")
        _is_whole("after", self.after_us, "JoinWindows.of(difference)")
        if self.before_us + self.after_us < 0:
            raise ConfigurationError(
                f"before + after must not be negative; got before {in_words(self.before_us)} and after "
                f"{in_words(self.after_us)}."
            )
        _not_negative("Grace", self.grace_us, "grace(...)")

    @classmethod
    def of(cls, difference: Duration) -> JoinWindows:
        """At most ``difference`` apart, in either direction, without grace."""
        return cls(duration_us(difference), duration_us(difference))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> JoinWindows:
        """Like :meth:`of` (Kafka: ``ofTimeDifferenceWithNoGrace``)."""
        return cls.of(difference)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> JoinWindows:
        """Like :meth:`of`, with a grace (Kafka: ``ofTimeDifferenceAndGrace``)."""
        return cls.of(difference).grace(grace)

    def before(self, before: Duration) -> JoinWindows:
        """The right record may be at most this long before the left one; may be negative."""
        return replace(self, before_us=duration_us(before))

    def after(self, after: Duration) -> JoinWindows:
        """The right record may be at most this long after the left one; may be negative."""
        return replace(self, after_us=duration_us(after))


Windows = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows


def _not_negative(what: str, value_us: int, instead: str) -> None:
    _is_whole(what, value_us, instead)
    check_not_negative(what, value_us)


def _is_whole(what: str, value_us: int, instead: str) -> None:
    check_kind(what, value_us, int, f"a whole number of microseconds here ({instead} takes durations)")
