"""Turns a plan declared in settings into a topology: each step is one call of the DSL.

Steps may stand in any order; each is built after the steps it reads.

>>> from jobs.plan_settings import steps_of
>>> steps = steps_of({
...     "flights": {"op": "stream", "key": "tail", "value": ["origin", "delay"]},
...     "delayed": {"op": "filter", "from": "flights", "where": "value.delay > 15"},
...     "late_flights": {"op": "to_changelog", "from": "delayed"},
... })
>>> print(build(steps).describe().splitlines()[2])
delayed: filter value.delay > 15
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jobs import plan_settings as said
from jobs.named_function import named_function
from jobs.plan_groups import aggregate
from jobs.plan_joins import join
from jobs.plan_options import store_of, suppressed_of
from jobs.plan_rows import condition_of, row_of
from jobs.plan_words import refused_at
from jobs.strict import PlacedError, at, nearest
from streams.kstream import KStream
from streams.ktable import GlobalKTable, KTable
from streams.topology import StreamsBuilder, Topology

#: What a step results in: None if it is a sink.
Handle = KStream | KTable | GlobalKTable | None
_Maker = Callable[[StreamsBuilder, str, Any, list[Any]], Handle]


def build(plan: Mapping[str, Any]) -> Topology:
    """The checked topology of declared steps.

    Args:
        plan: Steps by name, as :func:`jobs.plan_settings.steps_of` reads them.

    Raises:
        ConfigurationError: a step reads an unknown step, or itself, or has options that do not go with what it reads;
            the message names the path.
        TopologyError: the plan can never work; the message names the step.
    """
    steps = _Steps(plan)
    for name in plan:
        steps.make(name, ())
    return steps.builder.build()


class _Steps:
    """Makes each step once, after those it reads."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.builder = StreamsBuilder()
        self._plan = plan
        self._made: dict[str, Handle] = {}

    def make(self, name: str, readers: tuple[str, ...]) -> Handle:
        """Build a step, unless it is built already; ``readers`` are the steps that wait for it."""
        if name not in self._made:
            step = self._plan[name]
            parents = [
                self._parent(name, option, getattr(step, field), (*readers, name))
                for field, option in (("source", "from"), ("other", "with"))
                if hasattr(step, field)
            ]
            with at(f"plan.{name}"):
                self._made[name] = _MAKERS[type(step)](self.builder, name, step, parents)
        return self._made[name]

    def _parent(self, name: str, option: str, wanted: str, readers: tuple[str, ...]) -> Handle:
        path = f"plan.{name}.{option}"
        if wanted not in self._plan:
            raise PlacedError(path, f'there is no step "{wanted}"{nearest(wanted, list(self._plan))}')
        if wanted in readers:
            circle = " <- ".join((*readers[readers.index(wanted) :], wanted))
            raise PlacedError(path, f"a step cannot read what comes from itself: {circle}")
        parent = self.make(wanted, readers)
        if parent is None:
            raise PlacedError(path, f"{wanted} is a sink; nothing comes out of it. Read what it reads.")
        return parent


def _source(builder: StreamsBuilder, name: str, step: said.SourceStep, _parents: list[Any]) -> Handle:
    columns: dict[str, Any] = {
        "key": step.key, "timestamp": step.timestamp, "value": step.value, "deleted": step.deleted, "name": name,
    }  # fmt: skip
    topic = name if step.topic is None else step.topic
    if isinstance(step, said.StreamStep):
        return builder.stream(topic, **columns)
    if isinstance(step, said.GlobalTableStep):
        return builder.global_table(topic, store_of(step.store), **columns)
    return builder.table(topic, store_of(step.store), reorder=step.reorder, **columns)


def _filter(_builder: StreamsBuilder, name: str, step: said.FilterStep, parents: list[Any]) -> Handle:
    parent, options = _stream_or_table(name, step, parents)
    filtered: Handle = getattr(parent, step.op)(condition_of("where", step.where, parent.node), **options)
    return filtered


def _map_values(_builder: StreamsBuilder, name: str, step: said.MapValuesStep, parents: list[Any]) -> Handle:
    parent, options = _stream_or_table(name, step, parents)
    mapped: Handle = parent.map_values(row_of("value", step.value, parent.node), **options)
    return mapped


def _transform(_builder: StreamsBuilder, name: str, step: said.TransformValuesStep, parents: list[Any]) -> Handle:
    parent, options = _stream_or_table(name, step, parents)
    with at("function"):
        function = named_function(step.function)
    transformed: Handle = parent.transform_values(function, step.returns, **options)
    return transformed


def _select_key(_builder: StreamsBuilder, name: str, step: said.SelectKeyStep, parents: list[Any]) -> Handle:
    stream = _stream(parents)
    return stream.select_key(row_of("key", step.key, stream.node), name=name)


def _to_table(_builder: StreamsBuilder, name: str, step: said.ToTableStep, parents: list[Any]) -> Handle:
    return _stream(parents).to_table(store_of(step.store), reorder=step.reorder, name=name)


def _to_stream(_builder: StreamsBuilder, name: str, _step: said.ToStreamStep, parents: list[Any]) -> Handle:
    return _table(parents).to_stream(name=name)


def _corrections(_builder: StreamsBuilder, name: str, _step: said.CorrectionsStep, parents: list[Any]) -> Handle:
    stream = _stream(parents)
    why = (
        f"{stream.node.name} is no join of a stream with a table that has correction_retention. Read such a join, or "
        "give it one, such as correction_retention: 1 day."
    )
    with refused_at("from", "corrections", why):
        return stream.corrections(name=name)


def _join(_builder: StreamsBuilder, name: str, step: said.JoinStep, parents: list[Any]) -> Handle:
    return join(name, step, *parents)


def _aggregate(_builder: StreamsBuilder, name: str, step: Any, parents: list[Any]) -> Handle:
    return aggregate(name, step, _either(parents))


def _suppress(_builder: StreamsBuilder, name: str, step: said.SuppressStep, parents: list[Any]) -> Handle:
    return _table(parents).suppress(suppressed_of(step), name=name)


def _to_changelog(_builder: StreamsBuilder, name: str, step: said.ChangelogStep, parents: list[Any]) -> None:
    _either(parents).to_changelog(name, emit=step.emit)


def _to_latest(_builder: StreamsBuilder, name: str, _step: said.LatestStep, parents: list[Any]) -> None:
    _either(parents).to_latest(name)


def _stream_or_table(name: str, step: Any, parents: list[Any]) -> tuple[Any, dict[str, Any]]:
    """The parent, and the options of an operation that both streams and tables have; only tables take a store."""
    parent = _either(parents)
    if isinstance(parent, KTable):
        return parent, {"materialized": store_of(step.store), "name": name}
    if step.store is not None:
        raise PlacedError("store", f"is for tables, and {parent.node.name} is a stream. Leave it out, or use to_table.")
    return parent, {"name": name}


def _either(parents: list[Any]) -> Any:
    if isinstance(parents[0], GlobalKTable):
        raise PlacedError("from", f"{parents[0].node.name} is a global table, which only joins read (with).")
    return parents[0]


def _stream(parents: list[Any]) -> KStream:
    if not isinstance(parents[0], KStream):
        raise PlacedError("from", f"{parents[0].node.name} is a table, and this reads a stream. Put to_stream between.")
    return parents[0]


def _table(parents: list[Any]) -> KTable:
    if isinstance(parents[0], KStream):
        raise PlacedError("from", f"{parents[0].node.name} is a stream, and this reads a table. Put to_table between.")
    table: KTable = _either(parents)
    return table


_MAKERS: Final[dict[type, _Maker]] = {
    said.StreamStep: _source,
    said.TableStep: _source,
    said.GlobalTableStep: _source,
    said.FilterStep: _filter,
    said.MapValuesStep: _map_values,
    said.TransformValuesStep: _transform,
    said.SelectKeyStep: _select_key,
    said.ToTableStep: _to_table,
    said.ToStreamStep: _to_stream,
    said.CorrectionsStep: _corrections,
    said.JoinStep: _join,
    said.BuiltInStep: _aggregate,
    said.ReduceStep: _aggregate,
    said.AggregateStep: _aggregate,
    said.WindowClosesStep: _suppress,
    said.TimeLimitStep: _suppress,
    said.WallClockStep: _suppress,
    said.ChangelogStep: _to_changelog,
    said.LatestStep: _to_latest,
}
