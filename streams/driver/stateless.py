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
    """Passes on every change; with ``emit="net"`` none that is out of order, since the latest value stays as it is."""

    def __init__(self, node: ChangelogSink, context: Context) -> None:
        super().__init__(node, context)
        self._is_net = node.emit == "net"

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if self._is_net and not change.is_latest:
            self.metrics.count("ignored")
            return
        yield change


class StreamSourceProcessor(Processor):
    """Passes on the records of a stream as they come, and measures their lateness per partition."""

    def __init__(self, node: StreamSource, context: Context) -> None:
        super().__init__(node, context)
        self._times = StreamTimes()

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        self.observe(self._times, change.key, change.ts_us)
        yield change


class StreamFilterProcessor(Processor):
    """Passes on the records for which the predicate is true; null is not true, as in SQL."""

    def __init__(self, node: StreamFilter, context: Context) -> None:
        super().__init__(node, context)
        self._predicate = node.predicate

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        if evaluate(self._predicate, {"key": change.key, "value": change.new}) is True:
            yield change


class StreamMapValuesProcessor(Processor):
    """Gives records new values; the mapper sees null values too."""

    def __init__(self, node: StreamMapValues, context: Context) -> None:
        super().__init__(node, context)
        self._mapper = node.mapper

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        value = evaluate(self._mapper, {"key": change.key, "value": change.new})
        yield replace(change, new=value if value is None or isinstance(value, Row) else Row(value=value))


class SelectKeyProcessor(Processor):
    """Gives records a new key, even if it or a part of it is null."""

    def __init__(self, node: SelectKey, context: Context) -> None:
        super().__init__(node, context)
        self._mapper = node.mapper

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        yield replace(change, key=as_key(evaluate(self._mapper, {"key": change.key, "value": change.new})))


class ToStreamProcessor(Processor):
    """Turns a table's changes into a stream of its new values."""

    def process(self, change: Change, parent: int = 0) -> Iterator[Change]:
        # A stream has no versions: what keeps the last record of each key goes by arrival.
        yield replace(change, old=None, is_latest=True)
