"""Operators without state: sources, filters, mappers, key changes, changelog sinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from streams.driver.keys import as_key
from streams.driver.processor import Change, Context, Processor
from streams.driver.stream_times import StreamTimes
from streams.expressions import evaluate
from streams.nodes import ChangelogSink, SelectKey, StreamFilter, StreamMapValues, StreamSource
from streams.rows import Row


class ChangelogSinkProcessor(Processor):
    """Changelog sinks: every change; of the net ones none that is out of order: latest values stay."""

    def __init__(self, node: ChangelogSink, context: Context) -> None:
        super().__init__(node, context)
        self._is_net = node.emit == "net"

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if self._is_net and not change.is_latest:
            self.metrics.count("ignored")
            return
        yield change


class StreamSourceProcessor(Processor):
    """Sources of streams: records as they come; how late they are is measured by partition."""

    def __init__(self, node: StreamSource, context: Context) -> None:
        super().__init__(node, context)
        self._times = StreamTimes()

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        self.observe(self._times, change.key, change.ts_us)
        yield change


class StreamFilterProcessor(Processor):
    """Records for which the predicate is true; null is not true, as in SQL."""

    def __init__(self, node: StreamFilter, context: Context) -> None:
        super().__init__(node, context)
        self._predicate = node.predicate

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if evaluate(self._predicate, {"key": change.key, "value": change.new}) is True:
            yield change


class StreamMapValuesProcessor(Processor):
    """Records with new values; the mapper sees null values too."""

    def __init__(self, node: StreamMapValues, context: Context) -> None:
        super().__init__(node, context)
        self._mapper = node.mapper

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        value = evaluate(self._mapper, {"key": change.key, "value": change.new})
        yield replace(change, new=value if value is None or isinstance(value, Row) else Row(value=value))


class SelectKeyProcessor(Processor):
    """Records under a new key, also if it or a part of it is null."""

    def __init__(self, node: SelectKey, context: Context) -> None:
        super().__init__(node, context)
        self._mapper = node.mapper

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        yield replace(change, key=as_key(evaluate(self._mapper, {"key": change.key, "value": change.new})))


class ToStreamProcessor(Processor):
    """A table's changes as a stream of its new values."""

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        # A stream knows no versions: whoever keeps its last record of a key goes by arrival.
        yield replace(change, old=None, is_latest=True)
