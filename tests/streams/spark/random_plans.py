"""Random plans of a few operators over two topics, and random records for them: the same on both engines."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from both_engines import Input
from fault_plans import minus, plus

from streams.functions import coalesce, concat, length, starts_with, substring, upper
from streams.kstream import KStream
from streams.ktable import KTable
from streams.nodes import SOURCES, Joined, Materialized, StreamSource, Topology
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, Windows
from versioned.durations import Resolution

_SOURCE = {"key": "k", "value": "v", "deleted": "dead"}
_TOPICS = ("a", "c")
_RETENTION = timedelta(milliseconds=200)
_KINDS = ("history", "history", "store", "store", "ordered_store", "ordered_history")
_Parent = TypeVar("_Parent", KStream, KTable)
_Grow = Callable[[], "KStream | KTable | None"]


def random_records(seed: int, count: int, *, by_key: bool = False, topics: Sequence[str] = _TOPICS) -> list[Input]:
    """Records of the topics, in one partition or in two by their keys: some late, some very late, some tombstones."""
    chance = random.Random(seed)
    records = []
    for number in range(count):
        late = chance.choice((0, 0, 0, 15, 40, 300))
        value = None if chance.random() < 0.15 else chance.choice("abc") + chance.choice(("", "q", "zz"))
        topic, key = chance.choice(topics), chance.choice("abcxyz")
        # Keys are told to partitions alike in all topics, as in Kafka.
        records.append(Input(topic, key, value, max(0, number * 10 - late), int(by_key and key in "xyz")))
    return records


def in_order_of_arrival(topology: Topology, records: Sequence[Input], ends: Sequence[int]) -> list[Input]:
    """The records of each batch as ``order="arrival"`` takes them; their numbers so far are their sequence.

    Args:
        topology: Of which each source has a topic of its own.
        records: In the order in which they come.
        ends: Of the batches.
    """
    sources = {node.topic: (node, place) for place, node in enumerate(topology) if isinstance(node, SOURCES)}
    newest: dict[tuple[str, int], int] = {}
    ordered: list[Input] = []
    for first, end in zip([0, *ends], ends, strict=False):
        placed = []
        for number, record in enumerate(records[first:end], first):
            scope = (record.topic, record.partition)
            newest[scope] = max(record.ms, newest.get(scope, record.ms))
            node, position = sources[record.topic]
            place = (newest[scope], isinstance(node, StreamSource), position, number)
            placed.append((place, replace(record, sequence=number)))
        ordered += [record for _, record in sorted(placed)]
    return ordered


def random_topology(seeds: list[int], *, apart: bool = False) -> Topology:
    """Several random plans side by side, with operators of their own over the same sources.

    With ``apart`` each source has a topic of its own.
    """
    builder = StreamsBuilder()
    sources = _Sources(builder, apart)
    for seed in seeds:
        _Plan(sources, seed).grow()
    return builder.build()


class _Sources:
    """Streams and tables of both topics, each made when first asked for: a table costs Spark a second a batch."""

    def __init__(self, builder: StreamsBuilder, apart: bool) -> None:
        self._builder = builder
        self._apart = apart
        self._streams: dict[str, KStream] = {}
        self._tables: dict[tuple[str, str], KTable] = {}

    def stream(self, topic: str) -> KStream:
        if topic not in self._streams:
            self._streams[topic] = self._builder.stream(self._topic(topic, "stream"), name=f"{topic}_stream", **_SOURCE)
        return self._streams[topic]

    def table(self, topic: str, kind: str) -> KTable:
        name = f"{topic}_{kind}"
        stored = Materialized.versioned(_RETENTION, name=name) if "history" in kind else Materialized.key_value(name)
        reorder = timedelta(milliseconds=40) if "ordered" in kind else None
        if (topic, kind) not in self._tables:
            made = self._builder.table(
                self._topic(topic, kind), stored, name=f"{name}_table", reorder=reorder, **_SOURCE
            )
            self._tables[topic, kind] = made
        return self._tables[topic, kind]

    def _topic(self, topic: str, kind: str) -> str:
        return f"{topic}_{kind}_topic" if self._apart else topic


class _Plan:
    def __init__(self, sources: _Sources, seed: int) -> None:
        self._sources = sources
        self._seed = seed
        self._chance = random.Random(seed)
        self._names = 0
        self._streams: list[KStream] = []
        self._tables: list[KTable] = []
        self._windowed: list[KTable] = []
        self._taken: list[KStream | KTable] = []

    def grow(self) -> None:
        """Sources, then two to five operators; a sink for each whose result no other takes."""
        for topic in _TOPICS:
            self._streams.append(self._sources.stream(topic))
            self._tables.append(self._sources.table(topic, self._chance.choice(_KINDS)))
        made = [self._add() for _ in range(self._chance.randint(2, 5))]
        for result in made:
            if result is not None and result not in self._taken:
                result.to_changelog(self._name("out"))

    def _add(self) -> KStream | KTable | None:
        of_streams: list[_Grow] = [
            self._stateless,
            self._rekey,
            self._to_table,
            self._stream_table,
            self._stream_stream,
        ]
        of_tables: list[_Grow] = [
            self._view,
            self._view,
            self._join,
            self._join,
            self._foreign,
            self._aggregate,
            self._limit,
        ]
        choices = [*of_streams, *of_tables, self._windows, self._final]
        made = self._chance.choice(choices)()
        if isinstance(made, KStream):
            self._streams.append(made)
        return made

    def _pick(self, parents: list[_Parent]) -> _Parent:
        picked = self._chance.choice(parents)
        self._taken.append(picked)
        return picked

    def _stateless(self) -> KStream:
        stream = self._pick(self._streams)
        if self._chance.random() < 0.5:
            return stream.filter(lambda value: value.v > "b", name=self._name("filter"))
        return stream.map_values(lambda value: {"v": upper(value.v)}, name=self._name("map"))

    def _rekey(self) -> KStream:
        stream = self._pick(self._streams)
        return stream.select_key(lambda value: {"k": substring(value.v, 1, 1)}, name=self._name("rekey"))

    def _to_table(self) -> KTable:
        stream = self._pick(self._streams)
        reorder = timedelta(milliseconds=40) if self._chance.random() < 0.3 else None
        return self._known(stream.to_table(self._stored(always=True), reorder=reorder, name=self._name("to_table")))

    def _stream_table(self) -> KStream:
        table, is_left = self._pick(self._tables), self._chance.random() < 0.5
        waits = table.is_versioned and self._chance.random() < 0.5
        # A record without a key ends a left join with grace, as in Kafka: those of sources have one.
        stream = self._pick(self._streams[: len(_TOPICS)] if waits and is_left else self._streams)
        joined = Joined.with_grace_period(timedelta(milliseconds=30)) if waits else Joined()
        join = stream.left_join if is_left else stream.join
        return join(table, _pair, joined=joined, name=self._name("stream_table"))

    def _stream_stream(self) -> KStream:
        left, right = (self._pick(self._streams) for _ in range(2))
        windows = JoinWindows(*(self._chance.choice((0, 10_000, 30_000)) for _ in range(3)))
        join = self._chance.choice((left.join, left.left_join, left.outer_join))
        return join(right, _pair, windows=windows, name=self._name("stream_stream"))

    def _view(self) -> KTable:
        table, stored = self._pick(self._tables), self._stored()
        if self._chance.random() < 0.5:
            made = table.filter(lambda value: value.v > "b", materialized=stored, name=self._name("table_filter"))
        else:
            mapper = lambda value: {"v": concat("m", value.v)}  # noqa: E731
            made = table.map_values(mapper, materialized=stored, name=self._name("table_map"))
        return self._known(made)

    def _join(self) -> KTable:
        left, right = (self._pick(self._tables) for _ in range(2))
        join = self._chance.choice((left.join, left.left_join, left.outer_join))
        if left.is_versioned and right.is_versioned and self._chance.random() < 0.5:
            stored = Materialized.versioned(_RETENTION, name=self._name("history"))
            return self._known(join(right, _pair, materialized=stored, history="complete", name=self._name("complete")))
        return self._known(join(right, _pair, materialized=self._plain(), name=self._name("join")))

    def _foreign(self) -> KTable:
        left, right = (self._pick(self._tables) for _ in range(2))
        join = self._chance.choice((left.join, left.left_join))
        foreign = lambda value: substring(value.v, 1, 1)  # noqa: E731
        return self._known(join(right, _pair, foreign_key=foreign, name=self._name("foreign")))

    def _aggregate(self) -> KTable:
        table = self._pick(self._tables)
        grouped = table.group_by(lambda value: substring(value.v, 1, 1))
        name, kind = self._name("aggregate"), self._chance.choice(("count", "sum", "avg", "min", "reduce"))
        if kind == "count":
            return grouped.count(name=name)
        if kind == "reduce":
            return grouped.reduce(plus, minus, name=name)
        if kind == "min":
            return grouped.min(lambda value: value.v, name=name)
        measure = lambda value: length(value.v)  # noqa: E731
        return grouped.sum(measure, name=name) if kind == "sum" else grouped.avg(measure, name=name)

    def _limit(self) -> KTable | None:
        tables = [table for table in self._tables if not table.is_versioned]
        if not tables:
            return None
        table, wait = self._pick(tables), timedelta(milliseconds=self._chance.choice((0, 30, 100)))
        buffer = self._chance.choice(
            (
                BufferConfig.unbounded(),
                BufferConfig.max_records(2),
                BufferConfig.max_records(2).spill_to_disk_when_full(),
            )
        )
        return table.suppress(Suppressed.until_time_limit(wait, buffer, **self._timer()), name=self._name("limit"))

    def _timer(self) -> dict[str, Any]:
        timer = self._chance.choice(("first", "first", "record", "last"))
        return {"timer": timer, **({"max_age": timedelta(milliseconds=150)} if timer == "last" else {})}

    def _windows(self) -> KTable:
        stream = self._pick(self._streams)
        size, grace = timedelta(milliseconds=40), timedelta(milliseconds=self._chance.choice((0, 20, 60)))
        kinds: tuple[Windows, ...] = (
            TimeWindows.of_size_and_grace(size, grace),
            TimeWindows.of_size_and_grace(size, grace).advance_by(timedelta(milliseconds=20)),
            SessionWindows.of_inactivity_gap_and_grace(timedelta(milliseconds=25), grace),
            SlidingWindows.of_time_difference_and_grace(size, grace),
        )
        windows = self._chance.choice(kinds)
        grouped, merger = stream.group_by_key().windowed_by(windows), _merge if windows is kinds[2] else None
        stored = Materialized(time_resolution=Resolution.MILLISECOND)
        if self._chance.random() < 0.5:
            made = grouped.count(materialized=stored, name=self._name("windows"))
        else:
            made = grouped.aggregate(
                lambda: {"t": ""}, _append, schema="t string", merger=merger, materialized=stored,
                name=self._name("windows"),
            )  # fmt: skip
        self._windowed.append(made)
        return made

    def _final(self) -> KTable | None:
        if not self._windowed:
            return None
        table = self._pick(self._windowed)
        if self._chance.random() < 0.3:
            options = {"clock": self._chance.choice(("record", "window_start")), **self._timer()}
            limit = Suppressed.until_time_limit(timedelta(milliseconds=30), BufferConfig.max_records(3), **options)
            return table.suppress(limit, name=self._name("window_limit"))
        if self._chance.random() < 0.5:
            table = table.filter(lambda key, value: starts_with(key.k, "a"), name=self._name("window_filter"))
        return table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()), name=self._name("final"))

    def _known(self, table: KTable) -> KTable:
        self._tables.append(table)
        return table

    def _stored(self, *, always: bool = False) -> Materialized | None:
        roll = self._chance.random()
        if roll < 0.4:
            return Materialized.versioned(_RETENTION, name=self._name("history"))
        return Materialized.key_value(self._name("store")) if always or roll < 0.6 else None

    def _plain(self) -> Materialized | None:
        return Materialized.key_value(self._name("store")) if self._chance.random() < 0.3 else None

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"p{self._seed}_{self._names}_{kind}"


def _pair(left: Any, right: Any) -> Any:
    return {"v": concat(coalesce(left.v, "-"), coalesce(right.v, "-"))}


def _append(key: Any, value: Any, total: Any) -> Any:
    return {"t": total.t + ("-" if value is None or value.v is None else value.v)}


def _merge(key: Any, left: Any, right: Any) -> Any:
    return {"t": left.t + right.t}
