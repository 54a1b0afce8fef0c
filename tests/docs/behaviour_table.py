"""The table of docs/reference/behaviour.md: what each operator of the test driver does with each kind of record.

Every operator is primed in the same way: key ``k`` has records at 60 and 100 seconds, stream time is 200 seconds, grace
(or retention) is 150 seconds. Then one more record comes, and what follows from it is put into words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from streams import (
    BufferConfig,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from streams.driver.stream_table_join import StreamTableJoinProcessor
from streams.driver.suppress import SuppressProcessor
from streams.testing import OutputRecord, TopologyTestDriver

_SECOND_US: Final = 1_000_000
_GRACE: Final = "150 seconds"
#: Column -> key, value and time (seconds) of the record that comes.
CASES: Final[dict[str, tuple[str | None, int | None, int | None]]] = {
    "out of order": ("k", 7, 90),
    "late": ("k", 7, 10),
    "null key": (None, 7, 150),
    "null value": ("k", None, 150),
}
#: The same for all operators, so no column of its own.
NULL_TIME: Final = ("k", 7, None)
_VERSIONED: Final = Materialized.versioned(_GRACE)
_PLAIN: Final = Materialized.key_value()


@dataclass(frozen=True)
class Operator:
    """A row of the table: how the operator is made; the record comes on the topic ``in``."""

    name: str
    made: Callable[[StreamsBuilder], KStream | KTable]
    latest: bool = False

    def driver(self) -> TopologyTestDriver:
        """A primed driver of the operator, with a sink after it."""
        builder = StreamsBuilder()
        made = self.made(builder)
        (made.to_latest if self.latest else made.to_changelog)("out")
        topology = builder.build()
        driver = TopologyTestDriver(topology)
        topics = sorted({str(node.topic) for node in topology if hasattr(node, "topic")}, reverse=True)
        if "table" in topics:
            driver.pipe_input("table", "k", 5, 5 * _SECOND_US)
        for second in (60, 100):
            for topic in topics:
                driver.pipe_input(topic, "k", second, second * _SECOND_US)
        for topic in topics:
            driver.pipe_input(topic, "z", 0, 200 * _SECOND_US)
        driver.read_output("out")
        return driver


def _stream(builder: StreamsBuilder) -> KStream:
    return builder.stream("in", key="id", value="x", name="stream")


def _table(store: Materialized | None) -> Callable[[StreamsBuilder], KTable]:
    return lambda builder: builder.table("in", store, key="id", value="x", name="table")


def _joined_to_table(
    kind: str, store: Materialized, joined: Joined | None = None
) -> Callable[[StreamsBuilder], KStream]:
    def made(builder: StreamsBuilder) -> KStream:
        table = builder.table("table", store, key="id", value="y", name="table")
        join = getattr(_stream(builder), kind)
        result: KStream = join(table, joined=joined or Joined(), name="join")
        return result

    return made


def _joined_to_global(kind: str) -> Callable[[StreamsBuilder], KStream]:
    def made(builder: StreamsBuilder) -> KStream:
        everywhere = builder.global_table("table", key="id", value="y")
        result: KStream = getattr(_stream(builder), kind)(everywhere, key=lambda key, value: key.id, name="join")
        return result

    return made


def _joined_to_stream(kind: str) -> Callable[[StreamsBuilder], KStream]:
    def made(builder: StreamsBuilder) -> KStream:
        other = builder.stream("other", key="id", value="y", name="other")
        windows = JoinWindows.of_time_difference_and_grace("10 seconds", _GRACE)
        result: KStream = getattr(_stream(builder), kind)(other, windows=windows, name="join")
        return result

    return made


def _joined_tables(kind: str, store: Materialized, **options: Any) -> Callable[[StreamsBuilder], KTable]:
    def made(builder: StreamsBuilder) -> KTable:
        right = builder.table("other", store, key="id", value="y", name="other")
        result: KTable = getattr(_table(store)(builder), kind)(right, name="join", **options)
        return result

    return made


def _foreign(kind: str, store: Materialized) -> Callable[[StreamsBuilder], KTable]:
    return _joined_tables(kind, store, foreign_key=lambda key, value: key.id)


def _windowed(windows: Any) -> Callable[[StreamsBuilder], KTable]:
    return lambda builder: _stream(builder).group_by_key().windowed_by(windows).count(name="windowed")


_HOURLY: Final = TimeWindows.of("10 seconds").grace(_GRACE)

#: The rows of the table.
OPERATORS: Final = (
    Operator("`stream`", _stream),
    Operator("`filter` of a stream", lambda b: _stream(b).filter(lambda value: value.x >= 0)),
    Operator("`map_values` of a stream", lambda b: _stream(b).map_values(lambda value: {"x": value.x})),
    Operator("`select_key`", lambda b: _stream(b).select_key("x")),
    Operator("`table`, versioned", _table(_VERSIONED)),
    Operator("`table`, key-value store", _table(_PLAIN)),
    Operator("`to_table`, versioned", lambda b: _stream(b).to_table(_VERSIONED, name="table")),
    Operator("`filter` of a versioned table", lambda b: _table(_VERSIONED)(b).filter(lambda value: value.x >= 0)),
    Operator("`filter` of a stored plain table", lambda b: _table(_PLAIN)(b).filter(lambda value: value.x >= 0)),
    Operator("stream-table `join`, versioned", _joined_to_table("join", _VERSIONED)),
    Operator("stream-table `left_join`, versioned", _joined_to_table("left_join", _VERSIONED)),
    Operator(
        "stream-table `join` with grace",
        _joined_to_table("join", Materialized.versioned("1 hour"), Joined.with_grace_period(_GRACE)),
    ),
    Operator("stream-table `join`, key-value store", _joined_to_table("join", _PLAIN)),
    Operator("global-table `join`", _joined_to_global("join")),
    Operator("global-table `left_join`", _joined_to_global("left_join")),
    Operator("stream-stream `join`", _joined_to_stream("join")),
    Operator("stream-stream `left_join`, left record", _joined_to_stream("left_join")),
    Operator("table-table `join`, versioned", _joined_tables("join", _VERSIONED)),
    Operator("table-table `join`, key-value stores", _joined_tables("join", _PLAIN)),
    Operator("table-table `left_join`, versioned", _joined_tables("left_join", _VERSIONED)),
    Operator("foreign-key `join`, versioned", _foreign("join", _VERSIONED)),
    Operator("foreign-key `join`, key-value stores", _foreign("join", _PLAIN)),
    Operator("`count` of a stream", lambda b: _stream(b).group_by_key().count(name="count")),
    Operator("`count`, tumbling windows", _windowed(_HOURLY)),
    Operator("`count`, session windows", _windowed(SessionWindows.of("10 seconds").grace(_GRACE))),
    Operator("`count`, sliding windows", _windowed(SlidingWindows.of_time_difference_and_grace("10 seconds", _GRACE))),
    Operator(
        "`count` of a versioned table",
        lambda b: _table(_VERSIONED)(b).group_by(lambda key, value: {"all": 1}).count(name="count"),
    ),
    Operator(
        "`count` of a plain table",
        lambda b: _table(_PLAIN)(b).group_by(lambda key, value: {"all": 1}).count(name="count"),
    ),
    Operator(
        "`suppress`, until window closes",
        lambda b: _windowed(_HOURLY)(b).suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name="held"),
    ),
    Operator(
        "`suppress`, until time limit",
        lambda b: _table(_PLAIN)(b).suppress(
            Suppressed.until_time_limit(_GRACE, BufferConfig.unbounded()), name="held"
        ),
    ),
    Operator("`to_changelog`", _stream),
    Operator("`to_latest`", _stream, latest=True),
)


def happens(operator: Operator, record: tuple[str | None, int | None, int | None]) -> str:
    """What follows from a record, in words: output, rejects, counters."""
    driver = operator.driver()
    before = _counted(driver)
    key, value, second = record
    held = _held(driver)
    driver.pipe_input("in", key, value, None if second is None else second * _SECOND_US)
    said = [_output(told) for told in driver.read_output("out")]
    said += [f"rejected `{reject.reason}`" for reject in driver.rejects]
    after = _counted(driver)
    said += [f"counted `{name}`" for name in before if after[name] > before[name]]
    if not said and (_held(driver) != held or driver.total("suppressed") > 0):
        said.append("held")
    return ", ".join(said) or "nothing"


def table() -> str:
    """The whole table, in Markdown."""
    lines = [f"| operator | {' | '.join(CASES)} |", "|---|" + "---|" * len(CASES)]
    lines += [
        f"| {operator.name} | {' | '.join(happens(operator, record) for record in CASES.values())} |"
        for operator in OPERATORS
    ]
    return "\n".join(lines)


def _output(record: OutputRecord) -> str:
    if record.value is None:
        return "tombstone"
    if record.reason is not None:
        return f"padded `{record.reason}`"
    if record.value.get("y", 0) is None:
        return "padded"
    return "result" if record.is_latest else "result, not latest"


def _counted(driver: TopologyTestDriver) -> dict[str, int]:
    return {name: driver.total(name) for name in ("late", "ignored", "expired_lookup")}


def _held(driver: TopologyTestDriver) -> int:
    total = 0
    for name in ("join", "held"):
        with contextlib.suppress(KeyError):
            processor: Any = driver.processor(name)
            total += processor.buffered[0] if isinstance(processor, SuppressProcessor) else 0
            total += processor.held()[0] if isinstance(processor, StreamTableJoinProcessor) else 0
    return total
