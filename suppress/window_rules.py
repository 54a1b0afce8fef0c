"""The rules of windows, pure: which windows a record belongs to, when they close, how sessions merge and slide.

Instants and durations are integers of microseconds. ``unit_us`` is one tick of the window's time resolution
(1 microsecond, or 1000 for milliseconds): the smallest step by which one timestamp can follow another.

As in Kafka Streams, no hopping or sliding window holds records from both sides of the epoch: a record at or after it
belongs to none that starts before it, and the windows of earlier records hold only records before the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.durations import FIRST_INSTANT_US, LAST_INSTANT_US

#: 9999-12-31 23:59:59.999999 UTC, the last instant that tables hold: the end of a window that never ends.
FOREVER_US: Final = LAST_INSTANT_US
#: Stream time before any record has come: below every instant, and 64 bits hold it plus or minus any wait.
NEVER_US: Final = -(2**62)


@dataclass(frozen=True, order=True)
class Window:
    """An interval of event time, in microseconds.

    ``end_us`` is exclusive for time windows and unlimited ones, inclusive for sliding and session windows.
    """

    start_us: int
    end_us: int


def assign(windows: TimeWindows | UnlimitedWindows, ts_us: int) -> tuple[Window, ...]:
    """The windows that a record at ``ts_us`` belongs to, in order of start; empty before an unlimited window's start.

    Kafka: ``TimeWindows.windowsFor``, ``UnlimitedWindows.windowsFor``.

    Example:
        >>> assign(TimeWindows(size_us=10, advance_us=4, grace_us=0), 7)
        (Window(start_us=0, end_us=10), Window(start_us=4, end_us=14))
        >>> assign(TimeWindows(size_us=10, advance_us=10, grace_us=0), -1)
        (Window(start_us=-10, end_us=0),)
    """
    if isinstance(windows, UnlimitedWindows):
        return (Window(windows.start_us, FOREVER_US),) if ts_us >= windows.start_us else ()
    advance_us = windows.advance_us
    first_us = (ts_us - windows.size_us) // advance_us * advance_us + advance_us
    if ts_us >= 0:
        first_us = max(0, first_us)
    return tuple(Window(start, start + windows.size_us) for start in range(first_us, ts_us + 1, advance_us))


def first_taken_us(windows: Windows) -> int:
    """The first instant whose records windows take: no window may start before the first instant that tables hold.

    Example:
        >>> first_taken_us(UnlimitedWindows(start_us=5))
        5
        >>> first_taken_us(SlidingWindows(difference_us=10, grace_us=0)) - FIRST_INSTANT_US
        10
    """
    if isinstance(windows, UnlimitedWindows):
        return windows.start_us
    if isinstance(windows, TimeWindows):
        # The start of the first window that may exist; from the instant returned on, no earlier window holds a record.
        first_start_us = -(-FIRST_INSTANT_US // windows.advance_us) * windows.advance_us
        return min(0, first_start_us - windows.advance_us + windows.size_us)
    return min(0, FIRST_INSTANT_US + windows.difference_us) if isinstance(windows, SlidingWindows) else FIRST_INSTANT_US


def last_taken_us(windows: Windows, unit_us: int = 1) -> int:
    """The last instant whose records windows take: no window may end after the last instant that tables hold.

    This leaves room for a sliding window that begins one tick after each record, whether it is made or not.

    Example:
        >>> LAST_INSTANT_US - last_taken_us(SlidingWindows(difference_us=10, grace_us=0))
        11
        >>> last_taken_us(SessionWindows(gap_us=5, grace_us=0)) == LAST_INSTANT_US
        True
    """
    if isinstance(windows, TimeWindows):
        # The start of the last window that may exist; up to the instant returned, no later window holds a record.
        last_start_us = (LAST_INSTANT_US - windows.size_us) // windows.advance_us * windows.advance_us
        return last_start_us + windows.advance_us - 1
    if isinstance(windows, SlidingWindows):
        return LAST_INSTANT_US - windows.difference_us - unit_us
    return LAST_INSTANT_US


def close_wait_us(windows: Windows, unit_us: int) -> int | None:
    """How long after a window's end it closes; ``None`` for unlimited windows, which never close.

    A window is closed once stream time >= end + this. For sliding and session windows the end is inclusive, so a
    record at exactly end (+ gap) + grace could still join and one unit more is needed.

    Example:
        >>> close_wait_us(SessionWindows(gap_us=5, grace_us=2), unit_us=1)
        8
    """
    if isinstance(windows, UnlimitedWindows):
        return None
    if isinstance(windows, TimeWindows):
        return windows.grace_us
    gap_us = windows.gap_us if isinstance(windows, SessionWindows) else 0
    return gap_us + windows.grace_us + unit_us


def open_for_us(windows: Windows) -> int | None:
    """How long a window takes records, counted from its first instant; ``None`` for unlimited windows.

    Example:
        >>> open_for_us(TimeWindows(size_us=10, advance_us=10, grace_us=3))
        13
        >>> open_for_us(SessionWindows(gap_us=5, grace_us=2))  # of one record
        7
    """
    if isinstance(windows, TimeWindows):
        return windows.size_us + windows.grace_us
    if isinstance(windows, SlidingWindows):
        return windows.difference_us + windows.grace_us
    return close_wait_us(windows, unit_us=0)


def is_closed(windows: Windows, window: Window, stream_time_us: int, unit_us: int = 1) -> bool:
    """Whether the window takes no more records; a record for it is late (R10, R13).

    Example:
        >>> is_closed(TimeWindows(size_us=10, advance_us=10, grace_us=3), Window(0, 10), 13)
        True
    """
    wait_us = close_wait_us(windows, unit_us)
    return wait_us is not None and stream_time_us >= window.end_us + wait_us


def lateness_us(stream_time_us: int, ts_us: int) -> int:
    """How far a record is behind stream time, which it may itself have advanced (R11); never negative.

    Example:
        >>> lateness_us(10, 7), lateness_us(10, 10)
        (3, 0)
    """
    return max(0, stream_time_us - ts_us)


@dataclass(frozen=True)
class SessionMerge:
    """What a record does to the sessions of its key: ``window`` replaces every one of ``merged`` (in order of end)."""

    window: Window
    merged: tuple[Window, ...]

    @property
    def retracted(self) -> tuple[Window, ...]:
        """The sessions whose results are retracted first.

        As in Kafka, this is every merged session, even if the result has the same start and end. Only a session of a
        single instant that is joined by another record of that instant is updated in place.
        """
        return () if self.window.start_us == self.window.end_us else self.merged


def merge_session(
    windows: SessionWindows, sessions: Iterable[Window], ts_us: int, stream_time_us: int, unit_us: int = 1
) -> SessionMerge:
    """The session that a record at ``ts_us`` makes from itself and every open session within the gap.

    The gap is inclusive. A closed session is final and never merged. The result can itself be closed only if nothing
    was merged; then the record is late.

    Example:
        >>> merge_session(SessionWindows(gap_us=5, grace_us=0), [Window(0, 3), Window(12, 14)], 8, 14)
        SessionMerge(window=Window(start_us=8, end_us=14), merged=(Window(start_us=12, end_us=14),))
    """
    near = [
        session
        for session in sessions
        if session.start_us - windows.gap_us <= ts_us <= session.end_us + windows.gap_us
        and not is_closed(windows, session, stream_time_us, unit_us)
    ]
    near.sort(key=lambda session: (session.end_us, session.start_us))
    start_us = min([ts_us, *(session.start_us for session in near)])
    end_us = max([ts_us, *(session.end_us for session in near)])
    return SessionMerge(Window(start_us, end_us), tuple(near))


@dataclass(frozen=True)
class SlidingStep:
    """One window that a record touches: start from a copy of window ``base`` (None: empty), add the record if ``adds``.

    ``base`` means that window's content before the record.
    """

    window: Window
    base: Window | None
    adds: bool


def slide(windows: SlidingWindows, latest_us: Mapping[Window, int], ts_us: int, unit_us: int = 1) -> list[SlidingStep]:
    """The windows that a record at ``ts_us`` changes or creates, in the order of their results (KIP-450).

    Args:
        windows: The definition; both ends of a window are inclusive.
        latest_us: The windows of this key so far, each with the largest timestamp in it; those that do not start within
            the record's reach (:func:`slide_reach_us`) may be left out.
        ts_us: The record's timestamp.
        unit_us: One tick of the time resolution: the window after a record starts one tick later.

    A record creates the window that ends at it (or the first window [0, difference] if it is less than ``difference``
    after the epoch), its right window if a later record is known to be in it, and the right window of its predecessor
    if that holds the record.

    Example:
        >>> [step.window for step in slide(SlidingWindows(difference_us=10, grace_us=0), {Window(10, 20): 20}, 25)]
        [Window(start_us=21, end_us=31), Window(start_us=15, end_us=25)]
    """
    known = _reachable(windows, latest_us, ts_us, unit_us)
    if 0 <= ts_us < windows.difference_us:
        return _slide_early(windows, known, ts_us, unit_us)
    return _slide(windows, known, ts_us, unit_us)


def slide_reach_us(windows: SlidingWindows, ts_us: int, unit_us: int) -> tuple[int, int]:
    """The earliest and the latest start of the windows that :func:`slide` needs for a record.

    Example:
        >>> slide_reach_us(SlidingWindows(difference_us=10, grace_us=0), 25, unit_us=1)
        (5, 26)
    """
    lowest_us = ts_us - 2 * windows.difference_us
    return lowest_us if ts_us < 0 else max(0, lowest_us), ts_us + unit_us


def _reachable(windows: SlidingWindows, latest_us: Mapping[Window, int], ts_us: int, unit_us: int) -> dict[Window, int]:
    lowest_us, highest_us = slide_reach_us(windows, ts_us, unit_us)
    return {w: latest for w, latest in sorted(latest_us.items()) if lowest_us <= w.start_us <= highest_us}


def _slide(windows: SlidingWindows, known: dict[Window, int], ts_us: int, unit_us: int) -> list[SlidingStep]:
    own = Window(ts_us - windows.difference_us, ts_us)
    steps = [SlidingStep(w, w, adds=True) for w in reversed(known) if w.start_us <= ts_us <= w.end_us]
    if known.get(own) == ts_us:
        return steps
    # Each record is the latest one of the window that it made, so the nearest window before ts gives the predecessor.
    # Like Kafka, look no further: once the predecessor's window is deleted, later windows that hold it do not count.
    nearest = max((w for w in known if w.end_us < ts_us), default=None)
    previous_us = known.get(own if nearest is None else nearest)
    steps += _right_of_previous(windows, known, previous_us, ts_us, unit_us)
    if own not in known:
        holds_previous = previous_us is not None and previous_us >= own.start_us
        steps.append(SlidingStep(own, nearest if holds_previous else None, adds=True))
    return steps + _right_of_record(windows, known, ts_us, unit_us)


def _slide_early(windows: SlidingWindows, known: dict[Window, int], ts_us: int, unit_us: int) -> list[SlidingStep]:
    first = Window(0, windows.difference_us)
    steps = [SlidingStep(w, w, adds=True) for w in known if w != first and w.start_us <= ts_us]
    steps += _right_of_record(windows, known, ts_us, unit_us)
    # Records this early all share the first window, so it alone gives the predecessor.
    previous_us = known.get(first)
    if previous_us is not None and previous_us < ts_us:
        steps += _right_of_previous(windows, known, previous_us, ts_us, unit_us)
    return [*steps, SlidingStep(first, first if first in known else None, adds=True)]


def _right_of_previous(
    windows: SlidingWindows, known: dict[Window, int], previous_us: int | None, ts_us: int, unit_us: int
) -> list[SlidingStep]:
    if previous_us is None:
        return []
    right = _right_window(windows, previous_us, unit_us)
    if right in known or right.end_us < ts_us:
        return []
    return [SlidingStep(right, None, adds=True)]


def _right_of_record(windows: SlidingWindows, known: dict[Window, int], ts_us: int, unit_us: int) -> list[SlidingStep]:
    right = _right_window(windows, ts_us, unit_us)
    # The right window is the last one in reach, so without it the nearest one starts no later than the record.
    nearest = max(known, default=None)
    if right in known or nearest is None or known[nearest] <= ts_us:
        return []
    return [SlidingStep(right, nearest, adds=False)]


def _right_window(windows: SlidingWindows, ts_us: int, unit_us: int) -> Window:
    return Window(ts_us + unit_us, ts_us + unit_us + windows.difference_us)
