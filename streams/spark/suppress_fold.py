"""The buffers of a suppression, in a Spark worker: the driver's own rules on the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streams.fields import WINDOW_END, WINDOW_START
from streams.rows import Row
from streams.spark.flow import KEY, LATEST, OLD, PLACE, SCOPE, US, VALUE
from streams.spark.kernel import PlainRow, Told
from streams.suppression import stamped
from streams.user_functions import size_function
from suppress.buffer_rules import BufferedRow, BufferRule, Emission, SuppressBuffer, Update
from suppress.column_buffer import Observed
from suppress.scoped_buffers import ScopedBuffers
from suppress.sizes import SizeOf
from suppress.suppress_rules import tie_order
from suppress.window_rules import Window
from suppress.windows import Windows
from versioned.durations import instant, instant_us
from versioned.errors import BufferFullError

#: The fields of a buffered row beside its key.
PRIOR, BUFFER_US, FIRST_US, ARRIVED_US, SIZE = "_prior", "_buffer_us", "_first_us", "_arrived_us", "_size"
#: Names of counts: sums, and the least alarm (the wall-clock time at which a row is due).
EMITTED, SUPPRESSED, RECORDS, BYTES, ALARM, FULL = "emitted", "suppressed", "records", "bytes", "alarm", "full: "
#: Prefix of a scope: a count with its stream time in microseconds, from buffers of final results.
TIME_OF: Final = "stream time of "
#: Name of a count: how often the buffer was measured: after each record, and in each scope that a tick or a drain
#: has let rows out of, as on the test driver (R70, R73).
SAMPLES: Final = "samples"
#: Fields of an event that a change of a window itself does not show: the ts of its record, and stream time then.
RECORD_US, STREAM_US = "_record_us", "_stream_us"
#: The first part of the place of rows that leave at the start of the batch, before any record; its negative, of drained
#: rows. The node's position and the scope follow: if scopes are merged later, each one's rows stay together.
FIRST_PLACE: Final = -(2**62)


@dataclass(frozen=True)
class SuppressFold:
    """Feeds a batch to the buffer of one scope, or to those of all scopes.

    Events are changes of a table; states are its buffered rows. A group is a scope, unless rows have their scope as a
    field: then it is all scopes, as is necessary if a key comes from several. Events of final results then also have
    the ts of their record and stream time.

    At the start of the batch, rows that are already due by the wall clock leave. Then the records apply. With
    ``drains``, all remaining rows leave at the end. Nodes tick one after the other: changes from the tick of an earlier
    node come before this one's tick.

    Args:
        rule: The suppression's rule.
        size_of: What a bound in bytes counts.
        windows: The windows in the table's keys, which determine the order of ties; None if it has none.
        clock_us: The batch clock.
        stream_times: Stream time per scope before the batch.
        drains: Whether the buffer is emptied.
        position: The node's position in the plan: in this order nodes tick, and are emptied.
    """

    rule: BufferRule
    size_of: SizeOf
    windows: Windows | None
    clock_us: int
    stream_times: Mapping[int, int]
    drains: bool = False
    position: int = 0

    def __call__(self, group: PlainRow, states: Iterator[PlainRow], events: Iterator[PlainRow]) -> Iterable[Told]:
        buffers = ScopedBuffers(self._buffer, self.windows)
        for state in states:
            buffers.of(_scope(group, state)).hold(self._buffered(state))
        told = _Counts()
        told.look_at(buffers)
        tick, is_ticked = [FIRST_PLACE, self.position], self.rule.clock_wait_us is None
        try:
            for event in events:
                if not is_ticked and event[PLACE] > tick:
                    yield from self._ticked(buffers, told)
                    is_ticked = True
                emissions = self._put(buffers, _scope(group, event), event, told)
                yield from self._emitted(emissions, _scope(group, event), event[PLACE], told)
                told.observe(buffers)
        except BufferFullError as full:
            yield ("count", (f"{FULL}{full}", 1))
            return
        if not is_ticked:
            yield from self._ticked(buffers, told)
        if self.drains:
            yield from self._of_each(SuppressBuffer.drain, buffers, -FIRST_PLACE, told)
        for scope, buffer in buffers:
            yield from (("state", self._stored(row, scope)) for row in buffer.rows())
        yield from (("count", counted) for counted in count_rows(told.emitted, told))
        yield from (("count", (ALARM, alarm_us)) for alarm_us in self._alarms_us(buffers))
        if self.rule.final:
            times = ((scope, buffer.stream_time_us) for scope, buffer in buffers)
            yield from (("count", (f"{TIME_OF}{scope}", us)) for scope, us in times if us is not None)

    def _buffer(self, scope: int) -> SuppressBuffer:
        before = self.stream_times.get(scope)
        return SuppressBuffer.restore(self.rule, before, size_function(self.size_of), self.clock_us)

    def _put(self, buffers: ScopedBuffers, scope: int, event: PlainRow, told: _Counts) -> Iterator[Emission]:
        update = self._update(event)
        holder = buffers.holder(scope, update, _or_own(event, RECORD_US))
        told.suppressed += holder.get(update.key) is not None
        return buffers.put(scope, update, holder, arrived_us=_or_own(event, STREAM_US), now_us=self.clock_us)

    def _ticked(self, buffers: ScopedBuffers, told: _Counts) -> Iterator[Told]:
        return self._of_each(lambda buffer: buffer.tick(self.clock_us), buffers, FIRST_PLACE, told)

    def _of_each(
        self, leaving: Callable[[SuppressBuffer], Iterable[Emission]], buffers: ScopedBuffers, first: int, told: _Counts
    ) -> Iterator[Told]:
        """What a tick or a drain lets out of the buffer of each scope; ``first`` begins its places."""
        for scope, buffer in buffers:
            held = buffer.records
            yield from self._emitted(leaving(buffer), scope, [first, self.position, scope], told)
            if buffer.records < held:
                told.observe(buffers)

    def _update(self, event: PlainRow) -> Update:
        key, plain, window = self._split(event[KEY])
        order = tie_order(plain, window)
        return Update(key, order, _row(event[VALUE]), _row(event[OLD]), event[US], window)

    def _buffered(self, state: PlainRow) -> BufferedRow:
        key, plain, window = self._split(state[KEY])
        order = tie_order(plain, window)
        value, old, prior = (_row(state[name]) for name in (VALUE, OLD, PRIOR))
        instants = (state[name] for name in (US, BUFFER_US, FIRST_US, ARRIVED_US))
        return BufferedRow(key, order, value, old, prior, *instants)

    def _split(self, key: PlainRow) -> tuple[Row, list[Any], Window | None]:
        """The key in the form of the rules, its own parts, and its window."""
        if self.windows is None:  # A plain key may have a field with the name of a window's start.
            return Row(key), list(key.values()), None
        plain = {name: part for name, part in key.items() if name not in (WINDOW_START, WINDOW_END)}
        window = Window(instant_us(key[WINDOW_START]), instant_us(key[WINDOW_END]))
        return Row({**plain, WINDOW_START: window.start_us, WINDOW_END: window.end_us}), list(plain.values()), window

    def _joined(self, key: Any) -> PlainRow:
        if self.windows is None:
            return dict(key)
        return {name: instant(part) if name in (WINDOW_START, WINDOW_END) else part for name, part in key.items()}

    def _stored(self, row: BufferedRow, scope: int) -> PlainRow:
        return {
            KEY: self._joined(row.key),
            VALUE: row.value,
            OLD: row.old,
            PRIOR: row.prior,
            US: row.ts_us,
            BUFFER_US: row.buffer_us,
            FIRST_US: row.first_us,
            ARRIVED_US: row.arrived_us,
            SIZE: row.size,
            SCOPE: scope,
        }

    def _emitted(self, emissions: Iterable[Emission], scope: int, place: list[int], told: _Counts) -> Iterator[Told]:
        for ordinal, emission in enumerate(emissions):
            told.emitted += 1
            row = emission.row
            yield (
                "out",
                {
                    KEY: self._joined(row.key),
                    VALUE: stamped(self.rule, row.value, emission.cause),
                    OLD: None if self.rule.final else row.prior,
                    LATEST: True,
                    US: row.ts_us,
                    SCOPE: scope,
                    PLACE: [*place, ordinal],
                },
            )

    def _alarms_us(self, buffers: ScopedBuffers) -> Iterator[int]:
        """For each scope, the wall-clock time at which its next row is due, if the rule heeds the wall clock."""
        wait_us = self.rule.clock_wait_us
        if wait_us is not None:
            firsts = (buffer.first_arrived_us() for _, buffer in buffers)
            yield from (first_us + wait_us for first_us in firsts if first_us is not None)


class _Counts(Observed):
    """Counts what the buffer did, and the current, largest and total sizes whenever it was measured."""

    emitted = 0

    def look_at(self, buffers: ScopedBuffers) -> None:
        self.records, self.bytes = buffers.records, buffers.bytes
        self.most_records = max(self.most_records, self.records)
        self.most_bytes = max(self.most_bytes, self.bytes)

    def observe(self, buffers: ScopedBuffers) -> None:
        self.look_at(buffers)
        self.samples += 1
        self.sum_records += self.records
        self.sum_bytes += self.bytes


def count_rows(emitted: int, seen: Observed) -> Iterator[tuple[str, int]]:
    """A fold's counts of a buffer, by name."""
    yield from ((EMITTED, emitted), (SUPPRESSED, seen.suppressed), (SAMPLES, seen.samples))
    for name, now, most, total in (
        (RECORDS, seen.records, seen.most_records, seen.sum_records),
        (BYTES, seen.bytes, seen.most_bytes, seen.sum_bytes),
    ):
        yield from ((name, now), (f"{name}_max", most), (f"{name}_sum", total))


def _row(value: PlainRow | None) -> Row | None:
    return None if value is None else Row(value)


def _or_own(event: PlainRow, name: str) -> int:
    """An optional instant of an event; if it is missing, the event's own ts."""
    us: int = event[name] if name in event else event[US]
    return us


def _scope(group: PlainRow, row: PlainRow) -> int:
    """The scope of a row: its own field, or that of its group."""
    scope: int = row[SCOPE] if SCOPE in row else group[SCOPE]
    return scope
