"""What a suppression waits for (KIP-328 ``Suppressed``; KIP-539 for wall-clock time)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from suppress.buffer_config import EagerBufferConfig, StrictBufferConfig
from suppress.sizes import SizeOf, sizer
from versioned.choices import check_choice
from versioned.durations import Duration, check_not_negative, duration_us, in_words
from versioned.errors import ArgumentError, ConfigurationError, TopologyError
from versioned.given import check_flag, check_kind, check_name

Timer = Literal["first", "record", "last"]
Clock = Literal["record", "window_start"]
AnyBuffer = StrictBufferConfig | EagerBufferConfig
_S = TypeVar("_S", bound="Suppressed")


@dataclass(frozen=True)
class Suppressed:
    """What a suppression waits for. Build it with ``until_window_closes``, ``until_time_limit`` or
    ``until_wall_clock_time_limit``.

    Raises:
        ArgumentError: the class itself is called.
    """

    def __post_init__(self) -> None:
        # Only this class itself gets here: each of the three kinds overrides this with its own checks.
        raise ArgumentError(
            "Suppressed() says not what to wait for. Use Suppressed.until_window_closes(...), until_time_limit(...) or "
            "until_wall_clock_time_limit(...)."
        )

    def with_name(self: _S, name: str) -> _S:
        """Name the node and its state, so that they stay the same when other nodes are added or removed (R57, R58)."""
        # Each of the three kinds has the field; this class itself has no instances.
        return replace(self, **{"name": name})

    @staticmethod
    def until_window_closes(
        buffer: StrictBufferConfig,
        *,
        size_of: SizeOf = "record",
        close_idle: bool = False,
        retention: Duration | None = None,
    ) -> UntilWindowCloses:
        """One final result per key and window, once no record can change it any more (R51, R52).

        Args:
            buffer: A strict buffer; an eager one would emit results that are not final.
            size_of: What a byte bound counts.
            close_idle: Let ``suppressed.record.retention.ms`` close a window that long after its first record, whatever
                arrives meanwhile. If neither that nor ``retention`` is set, it has no effect, and a warning is logged.
            retention: That limit for this node. Both engines refuse zero.

        Raises:
            TopologyError: the buffer is eager.
            ConfigurationError: the buffer is not a buffer configuration, or the retention is not a duration or is
                negative.

        >>> from suppress.buffer_config import BufferConfig
        >>> Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("finals").name
        'finals'
        """
        return UntilWindowCloses(buffer, close_idle=close_idle, retention_us=_optional_us(retention), size_of=size_of)

    @staticmethod
    def until_time_limit(
        wait: Duration,
        buffer: AnyBuffer,
        *,
        timer: Timer = "first",
        max_age: Duration | None = None,
        clock: Clock = "record",
        size_of: SizeOf = "record",
        retention: Duration | None = None,
    ) -> UntilTimeLimit:
        """At most one update per key every ``wait`` of event time (R55, R56).

        Args:
            wait: How long the first buffered update waits; zero lets everything through (R60).
            buffer: Strict or eager.
            timer: ``first``: emitted at most ``wait`` after the first buffered update; ``record``: the timer follows
                the latest update's timestamp; ``last``: each update restarts the timer, for at most ``max_age``.
            max_age: Required with ``timer="last"``, refused otherwise.
            clock: For windowed tables: count from the record's time or from the start of the window.
            size_of: What a byte bound counts.
            retention: ``suppressed.record.retention.ms`` for this node.

        Raises:
            ConfigurationError: not a buffer, a negative duration, an unknown word for an option, or a ``max_age`` that
                is given without ``timer="last"``, missing with it, or shorter than ``wait``.
        """
        return UntilTimeLimit(
            duration_us(wait), buffer, timer, _optional_us(max_age), clock, size_of, None, _optional_us(retention)
        )

    @staticmethod
    def until_wall_clock_time_limit(
        wait: Duration, buffer: AnyBuffer, *, size_of: SizeOf = "record", retention: Duration | None = None
    ) -> UntilWallClockTimeLimit:
        """At most one update per key every ``wait`` of wall-clock time, counted from its arrival (KIP-539, R112).

        Raises:
            ConfigurationError: not a buffer, or a negative duration.
        """
        return UntilWallClockTimeLimit(duration_us(wait), buffer, size_of, None, _optional_us(retention))


@dataclass(frozen=True)
class UntilWindowCloses(Suppressed):
    """Wait until the window closes: final results only."""

    buffer: StrictBufferConfig
    name: str | None = None
    close_idle: bool = False
    retention_us: int | None = None
    size_of: SizeOf = "record"

    def __post_init__(self) -> None:
        _check_buffer(self.buffer)
        if not isinstance(self.buffer, StrictBufferConfig):
            raise TopologyError(
                "R51", "suppress", "final results need a strict buffer; add .shut_down_when_full() or "
                ".spill_to_disk_when_full(), or use BufferConfig.unbounded()."
            )  # fmt: skip
        check_name("with_name", self.name)
        check_flag("close_idle", self.close_idle)
        check_not_negative("retention", self.retention_us)
        sizer(self.size_of)


@dataclass(frozen=True)
class UntilTimeLimit(Suppressed):
    """Wait for a time limit in event time: a rate limit."""

    wait_us: int
    buffer: AnyBuffer
    timer: Timer = "first"
    max_age_us: int | None = None
    clock: Clock = "record"
    size_of: SizeOf = "record"
    name: str | None = None
    retention_us: int | None = None

    def __post_init__(self) -> None:
        _check_buffer(self.buffer)
        check_name("with_name", self.name)
        check_not_negative("wait", self.wait_us)
        check_not_negative("retention", self.retention_us)
        sizer(self.size_of)
        check_not_negative("max_age", self.max_age_us)
        check_choice("timer", self.timer, Timer)
        check_choice("clock", self.clock, Clock)
        if (self.timer == "last") != (self.max_age_us is not None):
            max_age = "no max_age" if self.max_age_us is None else f"max_age {in_words(self.max_age_us)}"
            raise ConfigurationError(
                f'max_age and timer="last" go together; got timer="{self.timer}" and {max_age}. '
                "Without max_age a busy key would be suppressed for ever (R106)."
            )
        if self.max_age_us is not None and self.max_age_us < self.wait_us:
            raise ConfigurationError(
                f"max_age must be at least wait; got max_age {in_words(self.max_age_us)} and wait "
                f"{in_words(self.wait_us)}. A row leaves no sooner than wait after its first update, so it would not "
                "be kept (R106): lengthen max_age or shorten wait."
            )


@dataclass(frozen=True)
class UntilWallClockTimeLimit(Suppressed):
    """Wait for a time limit in wall-clock time: a rate limit."""

    wait_us: int
    buffer: AnyBuffer
    size_of: SizeOf = "record"
    name: str | None = None
    retention_us: int | None = None

    def __post_init__(self) -> None:
        _check_buffer(self.buffer)
        check_name("with_name", self.name)
        check_not_negative("wait", self.wait_us)
        check_not_negative("retention", self.retention_us)
        sizer(self.size_of)


#: What the factories return, and what a node may have.
AnySuppressed = UntilWindowCloses | UntilTimeLimit | UntilWallClockTimeLimit


def _check_buffer(given: object) -> None:
    wanted = "what BufferConfig gives, such as BufferConfig.unbounded() or BufferConfig.max_records(1_000)"
    check_kind("buffer", given, (StrictBufferConfig, EagerBufferConfig), wanted)


def _optional_us(value: Duration | None) -> int | None:
    return None if value is None else duration_us(value)
