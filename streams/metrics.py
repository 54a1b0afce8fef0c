"""The metrics of KIP-328 (R61-R78), with their exact names, levels, groups and tags, one set per node.

Late, expired, skipped and suppressed are four different counts. A *late* record belongs only to closed windows.
*Expired* counts single windows that refused a record, which may be in several and so need not be late. A *skipped*
record is invalid. A *suppressed* one was replaced in a buffer by a newer one before anyone saw it.

Lateness and overtime are in milliseconds, sizes in bytes, rates per second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from streams.nodes import Node, WindowedAggregate
from suppress.windows import SessionWindows

Level = Literal["INFO", "DEBUG"]
MetricKind = Literal["node", "state", "buffer"]

_US_PER_MS: Final = 1_000
_US_PER_S: Final = 1_000_000
#: The tag ``task-id``: either engine runs a plan as one task.
_TASK: Final = "0_0"


@dataclass(frozen=True)
class MetricName:
    """A metric's name and its fixed properties; ``kind`` determines its group and tags."""

    name: str
    level: Level
    kind: MetricKind
    source: str


def _counter(metric: str, level: Level, kind: MetricKind, source: str) -> tuple[MetricName, MetricName]:
    return (
        MetricName(f"{metric}-rate", level, kind, f"rate:{source}"),
        MetricName(f"{metric}-total", level, kind, f"total:{source}"),
    )


def _gauge(metric: str, level: Level, kind: MetricKind, source: str, parts: tuple[str, ...]) -> tuple[MetricName, ...]:
    return tuple(MetricName(f"{metric}-{part}", level, kind, f"{part}:{source}") for part in parts)


#: Every metric of KIP-328.
KIP_328: Final = (
    *_gauge("record-lateness", "DEBUG", "node", "lateness", ("avg", "max")),
    *_counter("late-record-drop", "INFO", "node", "late"),
    *_counter("expired-window-record-drop", "INFO", "state", "expired"),
    *_gauge("suppression-buffer-size", "DEBUG", "buffer", "size", ("current", "avg", "max")),
    *_gauge("suppression-buffer-count", "DEBUG", "buffer", "count", ("current", "avg", "max")),
    *_counter("suppression-emit", "DEBUG", "node", "emitted"),
    *_gauge("intermediate-result-suppression-overtime", "INFO", "node", "overtime", ("min", "avg")),
)

#: Metrics that KIP-328 presupposes, and this library's own.
OTHERS: Final = (
    *_counter("skipped-records", "INFO", "node", "skipped"),
    *_counter("dropped-records", "INFO", "node", "dropped"),
    *_counter("ignored-records", "DEBUG", "node", "ignored"),
    *_counter("suppressed-records", "DEBUG", "node", "suppressed"),
)

CATALOGUE: Final = (*KIP_328, *OTHERS)


#: The counters of nodes in the test driver: those of the catalogue, and some that have no metric.
COUNTERS: Final = frozenset(
    {"input", "accepted", "match", "no_match", "tombstone", "expired_lookup"}
    | {metric.source.partition(":")[2] for metric in CATALOGUE if metric.source.startswith("total:")}
)


@dataclass(frozen=True)
class MetricValue:
    """One reading; ``value`` is ``None`` while there is nothing to measure."""

    name: str
    level: Level
    group: str
    tags: Mapping[str, str]
    value: float | None


def window_store_type(node: Node) -> str | None:
    """The type of a node's window store in its metrics, ``window`` or ``session``; None if it has no such store."""
    if not isinstance(node, WindowedAggregate):
        return None
    return "session" if isinstance(node.windows, SessionWindows) else "window"


class _Gauge:
    """The current, least, largest and mean value of a series."""

    def __init__(self) -> None:
        self._sum = 0
        self._samples = 0
        self.parts: dict[str, float | None] = {"current": None, "min": None, "max": None, "avg": None}

    def sample(self, value: int) -> None:
        self._sum += value
        self._samples += 1
        least, largest = self.parts["min"], self.parts["max"]
        self.parts = {
            "current": value,
            "min": value if least is None else min(least, value),
            "max": value if largest is None else max(largest, value),
            "avg": self._sum / self._samples,
        }


class NodeMetrics:
    """Counters and gauges of one node (R61: reported per node, no roll-ups).

    Counters are any names; those of the catalogue (``late``, ``expired``, ``skipped``, ``dropped``, ``ignored``,
    ``suppressed``, ``emitted``) are reported under their metric's name.

    Args:
        node: The node's name, tag ``processor-node-id``.
        store: Name of its state table or buffer; the node's name if not given.
        store_type: ``window`` or ``session``: part of a state metric's group and tag. None = no window store, and so no
            state metrics.
        client_id: The application.

    Example:
        >>> metrics = NodeMetrics("hourly")
        >>> metrics.count("late")
        >>> [m.value for m in metrics.report() if m.name == "late-record-drop-total"]
        [1.0]
    """

    def __init__(
        self, node: str, store: str | None = None, store_type: str | None = None, client_id: str = "driver"
    ) -> None:
        self.node = node
        self.store = store or node
        self.store_type = store_type
        self.client_id = client_id
        self.wait_us: int | None = None
        self.counters: Counter[str] = Counter()
        self._gauges: dict[str, _Gauge] = {"lateness": _Gauge(), "size": _Gauge(), "count": _Gauge()}
        self._reported: Counter[str] = Counter()
        self._reported_at_us: int | None = None

    def resume(
        self, counters: Mapping[str, int], reported_at_us: int | None, gauges: Mapping[str, Mapping[str, float | None]]
    ) -> None:
        """Continue from counts and gauges that were kept elsewhere, as of the last report.

        Args:
            counters: Counts so far.
            reported_at_us: The wall clock of the last report; None = there was none.
            gauges: ``lateness`` (microseconds), ``size`` and ``count``: their current, min, max and avg.
        """
        self.counters = Counter(counters)
        self._reported, self._reported_at_us = Counter(counters), reported_at_us
        for name, parts in gauges.items():
            self._gauges[name].parts.update(parts)

    def count(self, counter: str, n: int = 1) -> None:
        """Add ``n`` to a counter."""
        if n:
            self.counters[counter] += n

    def observe_lateness(self, lateness_us: int) -> None:
        """Sample how far behind stream time a record reached the node; called for every valid record (R63)."""
        self._gauges["lateness"].sample(lateness_us)

    def observe_buffer(self, size: int, records: int) -> None:
        """Sample the buffer's bytes and rows, after a record, or a tick or drain by which rows left."""
        self._gauges["size"].sample(size)
        self._gauges["count"].sample(records)

    def report(self, now_us: int | None = None) -> tuple[MetricValue, ...]:
        """Every metric of the catalogue that the node has.

        Args:
            now_us: The wall clock in microseconds: rates are counts since the previous report with a clock, per
                second since then. Without it, or without time passed, rates are ``None``.
        """
        seconds = None
        if now_us is not None and self._reported_at_us is not None and now_us > self._reported_at_us:
            seconds = (now_us - self._reported_at_us) / _US_PER_S
        own = (metric for metric in CATALOGUE if metric.kind != "state" or self.store_type is not None)
        values = tuple(self._value(metric, seconds) for metric in own)
        if now_us is not None and now_us != self._reported_at_us:
            self._reported_at_us = now_us
            self._reported = Counter(self.counters)
        return values

    def _value(self, metric: MetricName, seconds: float | None) -> MetricValue:
        part, source = metric.source.split(":")
        if part == "total":
            value: float | None = float(self.counters[source])
        elif part == "rate":
            value = None if seconds is None else (self.counters[source] - self._reported[source]) / seconds
        else:
            value = self._gauge_value(source, part)
        return MetricValue(metric.name, metric.level, self._group(metric), self._tags(metric), value)

    def _gauge_value(self, source: str, part: str) -> float | None:
        if source in ("size", "count"):
            return self._gauges[source].parts[part]
        lateness = self._gauges["lateness"].parts["max" if part == "min" else part]
        if lateness is None or (source == "overtime" and self.wait_us is None):
            return None
        if source == "overtime" and self.wait_us is not None:
            # KIP-328's own formula: how much longer the wait is than the lateness observed.
            return (self.wait_us - lateness) / _US_PER_MS
        return lateness / _US_PER_MS

    def _group(self, metric: MetricName) -> str:
        if metric.kind == "state":
            return f"stream-{self.store_type}-state-metrics"
        return "stream-buffer-metrics" if metric.kind == "buffer" else "stream-processor-node-metrics"

    def _tags(self, metric: MetricName) -> dict[str, str]:
        tags = {"client-id": self.client_id, "task-id": _TASK}
        if metric.kind == "state":
            return {**tags, f"{self.store_type}-state-id": self.store}
        if metric.kind == "buffer":
            return {**tags, "buffer-id": self.store}
        return {**tags, "processor-node-id": self.node}
