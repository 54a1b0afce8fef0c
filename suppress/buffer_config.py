"""How large a suppression buffer may grow, and what happens when it is full (KIP-328, ``BufferConfig``).

There are two kinds, each with its own type: a *strict* buffer never emits early (R39), an *eager* one emits the oldest
row when it is full (R40). Final results accept only strict buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from versioned.choices import check_choice
from versioned.errors import ConfigurationError
from versioned.given import check_kind

WhenStrictIsFull = Literal["shut_down", "spill"]
_B = TypeVar("_B", bound="_Bounds")


@dataclass(frozen=True)
class _Bounds:
    max_records: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_records", "max_bytes"):
            bound = getattr(self, name)
            if bound is not None and _bound(name, bound) < 0:
                raise ConfigurationError(f"{name} must not be negative; got {bound}. Leave it out for no bound.")

    def with_max_records(self: _B, max_records: int) -> _B:
        """The same buffer, with a maximum number of keys (R42)."""
        return replace(self, max_records=_bound("max_records", max_records))

    def with_max_bytes(self: _B, max_bytes: int) -> _B:
        """The same buffer, with a maximum number of bytes (R44)."""
        return replace(self, max_bytes=_bound("max_bytes", max_bytes))

    def with_no_bound(self) -> StrictBufferConfig:
        """Strict, without bounds (Kafka: ``withNoBound``, R46)."""
        return StrictBufferConfig()

    def shut_down_when_full(self) -> StrictBufferConfig:
        """Strict: if the buffer is full, the batch fails before any write (Kafka: ``shutDownWhenFull``, R47)."""
        return StrictBufferConfig(self.max_records, self.max_bytes, "shut_down")

    def spill_to_disk_when_full(self) -> StrictBufferConfig:
        """Strict: what exceeds the bound is kept on disk only (Kafka: ``spillToDiskWhenFull``, R48)."""
        return StrictBufferConfig(self.max_records, self.max_bytes, "spill")

    def emit_early_when_full(self) -> EagerBufferConfig:
        """Eager: if the buffer is full, the oldest row leaves early (Kafka: ``emitEarlyWhenFull``, R49)."""
        return EagerBufferConfig(self.max_records, self.max_bytes)


@dataclass(frozen=True)
class StrictBufferConfig(_Bounds):
    """A buffer whose time limit always holds: no row ever leaves early (R39).

    Without a size bound it is never full. With a bound that is set later, it shuts down when full, as in Kafka.
    """

    when_full: WhenStrictIsFull = "shut_down"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("when_full", self.when_full, WhenStrictIsFull)


@dataclass(frozen=True)
class EagerBufferConfig(_Bounds):
    """A buffer whose size bound always holds; how many updates it saves is not guaranteed (R40)."""


class BufferConfig:
    """Factories for buffer configurations (Kafka: ``Suppressed.BufferConfig``).

    >>> BufferConfig.max_records(1000).shut_down_when_full().when_full
    'shut_down'
    """

    @staticmethod
    def max_records(max_records: int) -> EagerBufferConfig:
        """Return an eager buffer of at most this many keys (R41)."""
        return EagerBufferConfig(max_records=_bound("max_records", max_records))

    @staticmethod
    def max_bytes(max_bytes: int) -> EagerBufferConfig:
        """Return an eager buffer of at most this many bytes (R43)."""
        return EagerBufferConfig(max_bytes=_bound("max_bytes", max_bytes))

    @staticmethod
    def unbounded() -> StrictBufferConfig:
        """Return a strict buffer, as large as needed, which never emits early (R45)."""
        return StrictBufferConfig()


def _bound(name: str, given: int) -> int:
    what = "bytes, such as 5_000_000" if name == "max_bytes" else "records, such as 1_000"
    check_kind(name, given, int, f"a whole number of {what}; BufferConfig.unbounded() has no bound")
    return given
