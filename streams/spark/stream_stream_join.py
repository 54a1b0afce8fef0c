"""Stream-stream joins within a time window on Spark: inner, left, outer.

State: the join buffer, a Delta table of the records of both sides that can still meet another one, or whose result as
unmatched is still pending. When an unmatched record is final depends on the records before it, so each stream-time
scope is folded by the test driver's own rule (``streams.driver.join_buffer``). The joiner itself runs set-wise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from streams.driver.join_buffer import Held, JoinBuffer, Marks, Side
from streams.driver.keys import whole_key
from streams.driver.stream_stream_join import PADDED_SIDES
from streams.nodes import StreamStreamJoin
from streams.reasons import NULL_KEY, NULL_VALUE
from streams.rows import Row
from streams.spark.columns import joined
from streams.spark.flow import KEY, PLACE, SCOPE, US, VALUE, Flow, NodeReport, has_null_key, struct_fields
from streams.spark.kernel import COUNT, OUT, STATE, WHAT, PlainRow, Told, fold_groups, told_counts, told_rows
from streams.spark.key_types import check_outer_keys, key_as
from streams.spark.operator import Batch, Operator
from suppress.windows import JoinWindows
from versioned import spark_functions as F
from versioned.commit import ReplaceWhere
from versioned.identifiers import TableRef, quote
from versioned.reading import read_table

_LEFT, _RIGHT, _SIDE, _IS_HELD = "_left", "_right", "_side", "_is_held"
_ARRIVAL, _MATCHED, _PADDED = "_arrival", "_matched", "_padded"
#: Marks per scope, kept in the ledger: stream time under the node's own name, the others under names derived from it.
_LOOK: Final = "look"
_NEWEST: Final = {Side.LEFT: "left", Side.RIGHT: "right"}
_TIME: Final = "time"


@dataclass(frozen=True)
class JoinFold:
    """Feeds the join buffer of one scope.

    Events and states have ``_key _side _left _right _us``; states also have their flags and arrival. Events that are
    not to be held (``_is_held`` is false: they lack a key or a value) only advance stream time.
    """

    windows: JoinWindows
    padded_sides: frozenset[Side]
    marks: Mapping[int, Marks]

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        scope: int = group[SCOPE]
        marks = self.marks.get(scope, Marks())
        buffer = JoinBuffer.restore(self.windows, [_held(state) for state in states], self.padded_sides, marks)
        late = 0
        for event in events:
            side, ordinal = Side(event[_SIDE]), 0
            buffer.advance(event[US])
            if not event[_IS_HELD]:
                continue
            key, value = Row(event[KEY]), event[_LEFT] or event[_RIGHT]
            for record, partner in buffer.take(side, key, value, event[US], self.padded_sides):
                if partner is None and not record.padded:
                    late += 1
                    continue
                yield _result(event, scope, ordinal, record, partner)
                ordinal += 1
        for held in buffer.records():
            # A right key that does not fit the left type is null here, and meets no record in later batches either.
            if whole_key(held.key) is not None:
                yield ("state", _stored(held, scope))
        yield ("count", ("late", late))
        yield from _marks(buffer.marks(), scope)


class StreamStreamJoinOperator(Operator[StreamStreamJoin]):
    """Joins records of two streams with the same key and near timestamps (Kafka: ``KStreamKStreamJoin``)."""

    def __init__(self, node: StreamStreamJoin) -> None:
        super().__init__(node)
        self._windows = node.windows
        self._padded_sides = PADDED_SIDES[node.kind]
        self._told: DataFrame | None = None
        self._events: DataFrame | None = None
        self._is_ready = False

    def tables(self, root: TableRef) -> list[TableRef]:
        return [root.child(self.node.name)]

    def apply(self, batch: Batch, inputs: list[Flow]) -> Flow:
        self._told = None
        sides = (Side.LEFT, Side.RIGHT)
        frames = [flow.frame for flow in inputs]
        self._events = self._keyed(frames)
        self._make_ready(batch)
        if all(flow.is_empty for flow in inputs):
            return Flow(self._joined(self._nothing()), {})
        for side, flow in zip(sides, inputs, strict=True):
            if not flow.is_empty:
                self._reject(batch, flow.frame, side)
        self._told = batch.cut(self._fold(batch))
        results = [self._joined(told_rows(self._told, "out", OUT))]
        results += [
            self._joined(self._without_key(frame, side, frames))
            for side, frame in zip(sides, frames, strict=True)
            if side in self._padded_sides
        ]
        together = results[0]
        for more in results[1:]:
            together = together.unionByName(more)
        return Flow(together)

    def report(self, batch: Batch) -> NodeReport:
        if self._told is None:
            return NodeReport()
        counts = {row[WHAT]: row[COUNT] for row in told_counts(self._told).collect()}
        marks = {what: us for what, us in counts.items() if "@" in what}
        named: dict[str, dict[int, int]] = {}
        for what, us in marks.items():
            name, scope = what.split("@")
            named.setdefault(name, {})[int(scope)] = us
        times = {**batch.times_of(self.node.name), **named.pop(_TIME, {})}
        told = {name: {**self._marks_of(batch, name), **named.get(name, {})} for name in (_LOOK, *_NEWEST.values())}
        # A scope that was folded in this batch ("seen") without reporting this mark has none any more.
        seen, look = named.get("seen", {}), named.get(_LOOK, {})
        told[_LOOK] = {scope: us for scope, us in told[_LOOK].items() if scope in look or scope not in seen}
        plain = {what: n for what, n in counts.items() if "@" not in what}
        return NodeReport(plain, times, marks={f"{self.node.name}/{name}": by for name, by in told.items()})

    def measured(self) -> DataFrame | None:
        """The records of both sides, which share one stream time."""
        return None if self._told is None else self._events

    def write(self, batch: Batch) -> None:
        if self._told is not None:
            batch.commit(self.tables(batch.root)[0], self._replace, self.node.name, "main")

    def _keyed(self, frames: list[DataFrame]) -> DataFrame:
        """The records of both sides as events; only those with a key and a value are held."""
        left, right = frames
        if self.node.kind == "outer":
            check_outer_keys(self.node.name, left.schema[KEY].dataType, right.schema[KEY].dataType)
        kinds = {_LEFT: left.schema[VALUE].dataType, _RIGHT: right.schema[VALUE].dataType}
        parts = []
        for side, frame, own in ((Side.LEFT, left, _LEFT), (Side.RIGHT, right, _RIGHT)):
            values = {name: F.lit(None).cast(kind) for name, kind in kinds.items()} | {own: F.col(VALUE)}
            flags = {_SIDE: F.lit(int(side)), _IS_HELD: F.col(VALUE).isNotNull() & ~has_null_key(frame)}
            rows = frame.withColumns({**values, KEY: key_as(frame, left.schema[KEY].dataType), **flags})
            parts.append(rows.select(KEY, _SIDE, _LEFT, _RIGHT, US, SCOPE, PLACE, _IS_HELD))
        return parts[0].unionByName(parts[1])

    def _without_key(self, frame: DataFrame, side: Side, frames: list[DataFrame]) -> DataFrame:
        """Records without a key, of a side that is padded: they are padded at once, and not held."""
        kinds = {_LEFT: frames[0].schema[VALUE].dataType, _RIGHT: frames[1].schema[VALUE].dataType}
        own = _LEFT if side is Side.LEFT else _RIGHT
        values = {name: F.lit(None).cast(kind) for name, kind in kinds.items()} | {own: F.col(VALUE)}
        lost = frame.where(F.col(VALUE).isNotNull() & has_null_key(frame))
        # If only some fields of the key are null, the others are kept.
        return lost.withColumns({**values, KEY: key_as(frame, frames[0].schema[KEY].dataType)}).select(
            KEY, _LEFT, _RIGHT, US, SCOPE, PLACE
        )

    def _reject(self, batch: Batch, frame: DataFrame, side: Side) -> None:
        reason = F.when(F.col(VALUE).isNull(), NULL_VALUE)
        if side not in self._padded_sides:
            reason = reason.when(has_null_key(frame), NULL_KEY)
        batch.reject(self.node.name, frame.where(reason.isNotNull()), reason)

    def _nothing(self) -> DataFrame:
        assert self._events is not None
        return self._events.limit(0).select(KEY, _LEFT, _RIGHT, US, SCOPE, PLACE)

    def _fold(self, batch: Batch) -> DataFrame:
        assert self._events is not None
        stored = self._stored(batch)
        fold = JoinFold(self._windows, self._padded_sides, self._marks_before(batch))
        return fold_groups(self._events, stored, [SCOPE], fold, self._nothing().schema, stored.schema)

    def _marks_of(self, batch: Batch, name: str) -> Mapping[int, int]:
        return batch.times_of(f"{self.node.name}/{name}")

    def _marks_before(self, batch: Batch) -> dict[int, Marks]:
        look = self._marks_of(batch, _LOOK)
        newest = {side: self._marks_of(batch, name) for side, name in _NEWEST.items()}
        return {
            scope: Marks(us, look.get(scope), {side: by[scope] for side, by in newest.items() if scope in by})
            for scope, us in batch.times_of(self.node.name).items()
        }

    def _joined(self, found: DataFrame) -> DataFrame:
        names = {"left": struct_fields(found, _LEFT), "right": struct_fields(found, _RIGHT)}
        bindings = {"left": F.col(_LEFT), "right": F.col(_RIGHT), "key": F.col(KEY)}
        value = joined(self.node, bindings, names | {"key": struct_fields(found, KEY)})
        return found.select(KEY, value.alias(VALUE), US, SCOPE, PLACE)

    def _stored(self, batch: Batch) -> DataFrame:
        assert self._events is not None
        keys = F.struct(*(quote(name) for name in struct_fields(self._events, KEY)))
        return read_table(batch.session, self.tables(batch.root)[0]).select(
            keys.alias(KEY),
            F.when(F.col("side") == "left", int(Side.LEFT)).otherwise(int(Side.RIGHT)).alias(_SIDE),
            F.col("left").alias(_LEFT),
            F.col("right").alias(_RIGHT),
            F.unix_micros("ts").alias(US),
            F.col("matched").alias(_MATCHED),
            F.col("padded").alias(_PADDED),
            _ARRIVAL,
            SCOPE,
        )

    def _replace(self) -> ReplaceWhere:
        assert self._told is not None
        return ReplaceWhere(self._as_rows(told_rows(self._told, "state", STATE)), "true")

    def _as_rows(self, state: DataFrame) -> DataFrame:
        return state.select(
            f"{KEY}.*",
            F.when(F.col(_SIDE) == int(Side.LEFT), "left").otherwise("right").alias("side"),
            F.col(_LEFT).alias("left"),
            F.col(_RIGHT).alias("right"),
            F.timestamp_micros(US).alias("ts"),
            F.col(_MATCHED).alias("matched"),
            F.col(_PADDED).alias("padded"),
            F.col(_ARRIVAL).cast("long").alias(_ARRIVAL),
            SCOPE,
        )

    def _make_ready(self, batch: Batch) -> None:
        assert self._events is not None
        target = self.tables(batch.root)[0]
        if not self._is_ready:
            flags = {_MATCHED: F.lit(False), _PADDED: F.lit(False), _ARRIVAL: F.lit(0)}
            batch.create_or_check(target, self.node.name, self._as_rows(self._events.limit(0).withColumns(flags)))
        self._is_ready = True


def _result(event: PlainRow, scope: int, ordinal: int, record: Held, partner: Held | None) -> Told:
    values = {_LEFT if record.side is Side.LEFT else _RIGHT: record.value}
    if partner is not None:
        values[_LEFT if partner.side is Side.LEFT else _RIGHT] = partner.value
    us = record.ts_us if partner is None else max(record.ts_us, partner.ts_us)
    return ("out", {KEY: record.key, **values, US: us, SCOPE: scope, PLACE: [*event[PLACE], ordinal]})


def _held(state: PlainRow) -> Held:
    side = Side(state[_SIDE])
    value = state[_LEFT] if side is Side.LEFT else state[_RIGHT]
    return Held(state[US], state[_ARRIVAL], Row(state[KEY]), value, side, state[_MATCHED], state[_PADDED])


def _stored(held: Held, scope: int) -> PlainRow:
    return {
        KEY: held.key,
        _SIDE: int(held.side),
        _LEFT if held.side is Side.LEFT else _RIGHT: held.value,
        US: held.ts_us,
        _MATCHED: held.matched,
        _PADDED: held.padded,
        _ARRIVAL: held.arrival,
        SCOPE: scope,
    }


def _marks(marks: Marks, scope: int) -> Iterator[Told]:
    instants = {_TIME: marks.stream_time_us, _LOOK: marks.look_from_us, "seen": 1}
    instants |= {_NEWEST[side]: us for side, us in marks.latest_us.items()}
    for name, us in instants.items():
        if us is not None:
            yield ("count", (f"{name}@{scope}", us))
