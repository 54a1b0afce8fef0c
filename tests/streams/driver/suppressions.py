"""Suppressions on the test driver, and what comes out of them."""

from __future__ import annotations

from typing import Any

from streams.nodes import Materialized
from streams.testing import OutputRecord, TopologyTestDriver
from streams.topology import StreamsBuilder
from suppress.suppressed import Suppressed
from suppress.windows import TimeWindows, Windows

HOURLY = TimeWindows.of("1 hour").grace("10 minutes")
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US


def finals(
    suppressed: Suppressed, windows: Windows = HOURLY, alert_below: int | None = None, **options: Any
) -> TopologyTestDriver:
    """Counts per key and window, every one to ``raw``, suppressed to ``out``."""
    builder = StreamsBuilder()
    counts = builder.stream("events").group_by_key().windowed_by(windows).count(name="counts")
    counts.to_changelog("raw")
    table = counts.suppress(suppressed, name="finals")
    if alert_below is not None:
        table = table.filter(lambda value: value["count"] < alert_below)
    table.to_changelog("out")
    return TopologyTestDriver(builder.build(), **options)


def limited(suppressed: Suppressed, **options: Any) -> TopologyTestDriver:
    """A table, suppressed."""
    builder = StreamsBuilder()
    builder.table("in", Materialized(name="in")).suppress(suppressed, name="limit").to_changelog("out")
    return TopologyTestDriver(builder.build(), **options)


def shown(records: list[OutputRecord]) -> list[tuple[Any, Any, int]]:
    """Key, value and ts, with the first field of each."""
    return [
        (record.key and record.key.key, record.value and next(iter(record.value.values())), record.ts_us)
        for record in records
    ]


def piped(running: TopologyTestDriver, topic: str, *records: tuple[Any, Any, int]) -> list[tuple[Any, Any, int]]:
    for key, value, ts in records:
        running.pipe_input(topic, key, value, ts)
    return shown(running.read_output("out"))
