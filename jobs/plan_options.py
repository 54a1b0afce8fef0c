"""Options of declared steps as the DSL's values: stores, windows, suppressions."""

from __future__ import annotations

from typing import Any, cast

from jobs.named_function import named_function
from jobs.option_settings import (
    AnyStore,
    AnyWindows,
    Buffer,
    Hopping,
    KeyValueStore,
    Session,
    Sliding,
    Tumbling,
    WindowStore,
    Within,
)
from jobs.plan_settings import SuppressStep, WallClockStep, WindowClosesStep
from jobs.plan_words import refused_at
from jobs.strict import PlacedError, at
from streams.options import Materialized
from suppress.buffer_config import BufferConfig, EagerBufferConfig, StrictBufferConfig
from suppress.sizes import SizeOf
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.durations import Resolution, instant_us


def store_of(store: AnyStore | None, *, windowed: bool = False) -> Materialized | None:
    """How a step's table is stored; ``windowed`` says whether the step makes windows.

    Raises:
        ConfigurationError: a duration is not allowed, or a window store is given for a step without windows.
    """
    if store is None:
        return None
    if isinstance(store, WindowStore) and not windowed:
        raise PlacedError("store.kind", "window is for aggregates with windowed_by. Allowed here: versioned, key_value")
    with at("store"):
        if isinstance(store, KeyValueStore):
            return Materialized.key_value(store.name).with_time_scope(store.time_scope)
        if isinstance(store, WindowStore):
            return _window_store(store)
        return Materialized.versioned(
            store.history_retention,
            name=store.name,
            grace=store.grace,
            segment_interval=store.segment_interval,
            time_scope=store.time_scope,
            time_resolution=Resolution[store.time_resolution.upper()],
            late_policy=store.late_policy,
            system_history=store.system_history,
        )


def _window_store(store: WindowStore) -> Materialized:
    resolution = Resolution[store.time_resolution.upper()]
    kept = Materialized(store.name, segment_interval=store.segment_interval).with_retention(store.retention)
    return kept.with_time_scope(store.time_scope).with_time_resolution(resolution)


def windows_of(said: AnyWindows) -> Windows:
    """The windows of an aggregate.

    Raises:
        ConfigurationError: a duration is not allowed.
    """
    with at("windowed_by"):
        windows = _windows(said)
        return windows if said.grace is None else windows.grace(said.grace)


def _windows(said: Any) -> Windows:
    if isinstance(said, Tumbling):
        return TimeWindows.of(said.size)
    if isinstance(said, Hopping):
        return TimeWindows.of(said.size).advance_by(said.advance)
    if isinstance(said, Sliding):
        return SlidingWindows.of_time_difference_with_no_grace(said.difference)
    if isinstance(said, Session):
        return SessionWindows.of(said.gap)
    unlimited = UnlimitedWindows.of()
    return unlimited if said.start is None else unlimited.start_on(instant_us(said.start))


def join_windows_of(said: Within) -> JoinWindows:
    """How far apart two records of a join may be.

    Raises:
        ConfigurationError: before and after together are negative, or the grace is.
    """
    with at("within"):
        # The settings ensure that the difference, or before and after, are given; the latter two win over it.
        windows = JoinWindows.of(said.difference or "0 seconds")
        if said.after is not None and said.before is not None:
            windows = JoinWindows.of(max(said.before, said.after)).before(said.before).after(said.after)
        elif said.before is not None:
            windows = windows.before(said.before)
        elif said.after is not None:
            windows = windows.after(said.after)
        return windows if said.grace is None else windows.grace(said.grace)


def suppressed_of(step: SuppressStep) -> Suppressed:
    """What a suppression step waits for, in the form of the DSL.

    Raises:
        ConfigurationError: a duration is not allowed, or options do not go together.
    """
    buffer = buffer_of(step.buffer)
    if isinstance(step, WindowClosesStep):
        size_of = _size_of(step.size_of)
        why = "final results never leave early. Write shut_down or spill, or leave buffer out [R51]"
        with refused_at("buffer.when_full", "R51", why):
            return Suppressed.until_window_closes(
                cast(StrictBufferConfig, buffer), size_of=size_of, close_idle=step.close_idle, retention=step.retention
            )
    if isinstance(step, WallClockStep):
        size_of = _size_of(step.size_of)
        return Suppressed.until_wall_clock_time_limit(step.wait, buffer, size_of=size_of, retention=step.retention)
    return Suppressed.until_time_limit(
        step.wait,
        buffer,
        timer=step.timer,
        max_age=step.max_age,
        clock=step.clock,
        size_of=_size_of(step.size_of),
        retention=step.retention,
    )


def _size_of(said: str) -> SizeOf:
    named: dict[str, SizeOf] = {"record": "record", "value": "value"}
    if said in named:
        return named[said]
    with at("size_of"):
        return named_function(said)


def buffer_of(said: Buffer) -> StrictBufferConfig | EagerBufferConfig:
    """The bounds of a suppression's buffer, in the form of the DSL.

    >>> buffer_of(Buffer(max_records=100, when_full="spill"))
    StrictBufferConfig(max_records=100, max_bytes=None, when_full='spill')
    """
    if said.when_full is None:
        return BufferConfig.unbounded()
    if said.when_full == "emit_early":
        return EagerBufferConfig(said.max_records, said.max_bytes)
    return StrictBufferConfig(said.max_records, said.max_bytes, said.when_full)
