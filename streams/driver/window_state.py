"""The windows of one aggregate, by key, and how a record changes them. The caller handles time, keys and output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from streams.driver.aggregators import Aggregator
from streams.driver.ordered_windows import OrderedWindows
from streams.rows import Row
from suppress.window_rules import Window, assign, first_taken_us, is_closed, merge_session, slide, slide_reach_us
from suppress.windows import SessionWindows, SlidingWindows, Windows


@dataclass(frozen=True)
class Slot:
    """One window of one key: its aggregate and the timestamp of its result."""

    state: Any
    ts_us: int


@dataclass(frozen=True)
class WindowResult:
    """A window that changed. ``after`` is ``None`` when it ceased to exist; ``ts_us`` is the result's timestamp."""

    window: Window
    before: Slot | None
    after: Slot | None
    ts_us: int


@dataclass(frozen=True)
class Outcome:
    """What became of a record: its results in order, and how many closed windows refused it."""

    results: tuple[WindowResult, ...]
    expired: int

    @property
    def is_late(self) -> bool:
        """Whether all windows that the record belongs to are closed."""
        return self.expired > 0 and not self.results


class WindowState:
    """Aggregates per key and window.

    Args:
        windows: The kind of windows and their sizes.
        aggregator: What is computed.
        unit_us: One tick of the time resolution.
        retention_us: How long a window can still be read after stream time has passed its end.
    """

    def __init__(self, windows: Windows, aggregator: Aggregator, unit_us: int, retention_us: int) -> None:
        self.windows = windows
        self._aggregator = aggregator
        self._unit_us = unit_us
        self._retention_us = retention_us
        self._first_us = first_taken_us(windows)
        self._slots: dict[Row, OrderedWindows[Slot]] = {}
        self._closed_idle: dict[Row, OrderedWindows[None]] = {}

    def add(self, key: Row, value: Row | None, ts_us: int, stream_time_us: int) -> Outcome:
        """Add one record, at the stream time after this record."""
        if isinstance(self.windows, SessionWindows):
            return self._add_to_session(self.windows, key, value, ts_us, stream_time_us)
        if ts_us < self._first_us:
            return Outcome((), expired=0)
        if self._is_wholly_late(ts_us, stream_time_us):
            return Outcome((), expired=1)
        touched = list(self._touched(key, ts_us))
        opened = [step for step in touched if not self._is_closed(key, step[0], stream_time_us)]
        results = []
        # All bases were read before anything of this record is stored, so storing in between does not change them.
        for window, base, adds in opened:
            results.append(self._changed(key, window, base, value if adds else _NOTHING, ts_us))
            self._store(key, results[-1])
        return Outcome(tuple(results), len(touched) - len(opened))

    def restore(self, key: Row, window: Window, slot: Slot) -> None:
        """Put back a window as :meth:`items` returned it, to go on from there."""
        self._slots.setdefault(key, OrderedWindows()).put(window, slot)

    def get(self, key: Row, window: Window) -> Slot | None:
        """The slot of a window; ``None`` if it is not stored."""
        return self._slots.get(key, _NO_WINDOWS).get(window)

    def items(self) -> Iterator[tuple[Row, Window, Slot]]:
        """Every stored window: keys in order of their first record, windows by start."""
        for key, slots in self._slots.items():
            for window, slot in slots.items():
                yield key, window, slot

    def close_idle(self, key: Row, window: Window) -> None:
        """Close a window by the wall clock: from now on a record that would join it is late (R117)."""
        self._closed_idle.setdefault(key, OrderedWindows()).put(window, None)

    def purge(self, stream_time_us: int) -> None:
        """Forget windows, and marks of windows closed by the wall clock, that ended before stream time - retention."""
        horizon_us = stream_time_us - self._retention_us
        _forget_ended(self._slots, horizon_us)
        _forget_ended(self._closed_idle, horizon_us)

    def _touched(self, key: Row, ts_us: int) -> Iterator[tuple[Window, Slot | None, bool]]:
        slots = self._slots.get(key, _NO_WINDOWS)
        if isinstance(self.windows, SlidingWindows):
            near = slots.starting(*slide_reach_us(self.windows, ts_us, self._unit_us))
            latest_us = {window: slots[window].ts_us for window in near}
            for step in slide(self.windows, latest_us, ts_us, self._unit_us):
                yield step.window, None if step.base is None else slots[step.base], step.adds
        elif not isinstance(self.windows, SessionWindows):
            for window in assign(self.windows, ts_us):
                yield window, slots.get(window), True

    def _changed(self, key: Row, window: Window, base: Slot | None, value: Any, ts_us: int) -> WindowResult:
        state = self._aggregator.initial() if base is None else base.state
        latest_us = ts_us if base is None else base.ts_us
        if value is not _NOTHING:
            state = self._aggregator.add(state, key, value)
            latest_us = max(latest_us, ts_us)
        return WindowResult(window, self.get(key, window), self._slot(state, latest_us), latest_us)

    def _add_to_session(
        self, windows: SessionWindows, key: Row, value: Row | None, ts_us: int, stream_time_us: int
    ) -> Outcome:
        slots = self._slots.get(key, _NO_WINDOWS)
        idle = self._closed_idle.get(key, _NO_WINDOWS)
        reach_us = (ts_us - windows.gap_us, ts_us + windows.gap_us)
        near, joins_idle = slots.touching(*reach_us), False
        if idle:
            closed = merge_session(windows, idle.touching(*reach_us), ts_us, stream_time_us, self._unit_us)
            near, joins_idle = [session for session in near if session not in idle], bool(closed.merged)
        merge = merge_session(windows, near, ts_us, stream_time_us, self._unit_us)
        if joins_idle or is_closed(windows, merge.window, stream_time_us, self._unit_us):
            return Outcome((), expired=1)
        state = self._aggregator.initial()
        for session in merge.merged:
            state = self._aggregator.merge(key, state, slots[session].state)
        state = self._aggregator.add(state, key, value)
        results = [WindowResult(session, slots[session], None, session.end_us) for session in merge.retracted]
        for result in results:
            self._store(key, result)
        end_us = merge.window.end_us
        results.append(WindowResult(merge.window, self.get(key, merge.window), self._slot(state, end_us), end_us))
        self._store(key, results[-1])
        return Outcome(tuple(results), expired=0)

    def _slot(self, state: Any, ts_us: int) -> Slot | None:
        # User code that returns null deletes the window.
        return None if self._aggregator.result(state) is None else Slot(state, ts_us)

    def _is_wholly_late(self, ts_us: int, stream_time_us: int) -> bool:
        # If the latest window of a sliding record is closed, all are, and they count as a single expired window.
        windows = self.windows
        if not isinstance(windows, SlidingWindows):
            return False
        return is_closed(windows, Window(ts_us, ts_us + windows.difference_us), stream_time_us, self._unit_us)

    def _is_closed(self, key: Row, window: Window, stream_time_us: int) -> bool:
        by_stream_time = is_closed(self.windows, window, stream_time_us, self._unit_us)
        return by_stream_time or window in self._closed_idle.get(key, _NO_WINDOWS)

    def _store(self, key: Row, result: WindowResult) -> None:
        if result.after is not None:
            self._slots.setdefault(key, OrderedWindows()).put(result.window, result.after)
        elif key in self._slots:
            self._slots[key].remove(result.window)


_NOTHING: Any = object()
#: The windows of a key without any; nothing is ever put here.
_NO_WINDOWS: Final[OrderedWindows[Any]] = OrderedWindows()


def _forget_ended(by_key: dict[Row, OrderedWindows[Any]], before_us: int) -> None:
    for key, windows in list(by_key.items()):
        windows.forget_ended(before_us)
        if not windows:
            del by_key[key]
