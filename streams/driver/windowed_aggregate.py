"""Windowed aggregates of a stream, record by record: tumbling, hopping, unlimited, session and sliding windows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from streams.driver.aggregators import Aggregator
from streams.driver.processor import Change, Processor
from streams.driver.stream_times import StreamTimes
from streams.nodes import Materialized, WindowedAggregate
from streams.rows import Row
from suppress.window_rules import Window, assign, is_closed, lateness_us, merge_session, slide
from suppress.windows import SessionWindows, SlidingWindows, Windows
from versioned.durations import duration_us

_LOG: Final = logging.getLogger(__name__)
_DAY_US: Final = 86_400_000_000


@dataclass(frozen=True)
class Slot:
    """One window of one key: its aggregate and the timestamp of its result."""

    state: Any
    ts_us: int


@dataclass(frozen=True)
class _Result:
    """A window that changed: its slot before and after; ``after`` is ``None`` when it ceased to exist."""

    window: Window
    before: Slot | None
    after: Slot | None
    ts_us: int


class WindowedAggregateProcessor(Processor):
    """The aggregate per (key, window) of one node (Kafka: ``KStreamWindowAggregate`` and its siblings).

    A record is *late* if every window it belongs to is closed: dropped, or handed to the side table, and logged at
    DEBUG (R23). Every closed window is counted apart as *expired*.
    """

    def __init__(self, node: WindowedAggregate, context: Context) -> None:
        super().__init__(node, context)
        if node.windows is None:
            raise TypeError(f"{node.name} has no windows")
        self.windows: Windows = node.windows
        self._late_policy = node.late_policy
        self._group_key = node.group_key
        self._aggregator = Aggregator(node.aggregation)
        stored = node.materialized or Materialized()
        self._unit_us = stored.time_resolution.value
        self._retention_us = max(_DAY_US, duration_us(stored.retention)) if stored.retention else _DAY_US
        self._times = StreamTimes(stored.time_scope)
        self._slots: dict[Row, dict[Window, Slot]] = {}
        self._closed_idle: dict[Row, set[Window]] = {}
        self._purged_at_us: int | None = None

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        """One record: the changed windows as changes of (key, window)."""
