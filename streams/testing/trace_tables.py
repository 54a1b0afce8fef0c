"""Traces of versioned stores, table joins, filters and aggregates, as topologies built with the DSL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from streams.driver.driver import TopologyTestDriver
from streams.driver.stream_table_join import StreamTableJoinProcessor, Waiting
from streams.driver.suppress import SuppressProcessor
from streams.functions import coalesce, concat, starts_with, substring_after, substring_before, upper, when
from streams.kstream import KStream
from streams.ktable import KTable
from streams.nodes import Joined, Materialized
from streams.rows import Row
from streams.testing.trace_run import Actual, Params, Planner, Scenario, TracePlan, on_driver
from streams.testing.trace_windows import (
    REPARTITION_TOPIC_LENGTH,
    RESPONSE_TOPIC_LENGTH,
    KafkaSize,
    ms,
    predicate,
    suppressed_of,
)
from streams.topology import StreamsBuilder

#: Kafka's bytes of a record that waits for a join: key prefix, time and sequence; then timestamp, offset, partition.
_WAITING_BYTES: Final = 1 + 8 + 4 + 8 + 8 + 4
#: The lengths of the names of internal topics, by the operation behind which Kafka's rows come from such a topic.
_TOPIC_LENGTHS: Final = {"group_reduce": REPARTITION_TOPIC_LENGTH, "fk_join": RESPONSE_TOPIC_LENGTH}


def stored(spec: Params | None, name: str | None = None) -> Materialized | None:
    """The store of a ``table`` or ``materialize`` specification; ``None`` for a table without one."""
    if spec is None or spec.get("materialized") is False:
        return None
    if not spec.get("versioned") and spec.get("kind") != "versioned":
        return Materialized.key_value(name)
    interval = spec.get("segment_interval_ms")
    segments = None if interval is None else ms(interval)
    return Materialized.versioned(ms(spec["history_retention_ms"]), name=name, segment_interval=segments)


def table(builder: StreamsBuilder, topic: str, spec: Params) -> KTable:
    """A source table of a scenario."""
    return builder.table(topic, stored(spec, f"{topic}-store"), value="v", name=topic)


def stream(builder: StreamsBuilder) -> KStream:
    """The stream of a scenario."""
    return builder.stream("stream", value="v")


def joined(left: Any, right: Any) -> Any:
    """The joiner of every trace: ``(left,right)`` with the text ``null`` for a missing side."""
    return {"v": concat("(", coalesce(left.v, "null"), ",", coalesce(right.v, "null"), ")")}


def unary(source: KTable, spec: Params, name: str) -> KTable:
    """``filter``, ``filterNot`` or ``mapValues`` as a scenario describes it."""
    materialized = stored(spec.get("materialize"), f"{name}-store")
    if spec["operation"] == "mapValues":
        return source.map_values(
            lambda value: when(starts_with(value.v, "x"), None).otherwise({"v": upper(value.v)}),
            materialized=materialized,
            name=name,
        )
    operation = source.filter if spec["operation"] == "filter" else source.filter_not
    return operation(predicate(spec["predicate"]), materialized=materialized, name=name)


def stream_table_join(params: Params) -> TracePlan:
    """The plan of ``stream_table_join``."""
    builder = StreamsBuilder()
    options = Joined() if "grace_ms" not in params else Joined.with_grace_period(ms(params["grace_ms"]))
    source, right = stream(builder), table(builder, "table", params["table"])
    join = source.join if params["type"] == "inner" else source.left_join
    join(right, joined, joined=options, name="join").to_changelog("out")
    return TracePlan(builder.build(), {"out": "out"}, probe=waiting if "grace_ms" in params else None)


def waiting(driver: TopologyTestDriver) -> tuple[int, int]:
    """Records that wait in the node ``join``, and their bytes by Kafka's formula."""
    processor = driver.processor("join")
    if not isinstance(processor, StreamTableJoinProcessor):
        return (0, 0)
    return processor.held()[0], processor.held_bytes(_kafka_bytes)


def _kafka_bytes(record: Waiting) -> int:
    key, value, *_ = record
    return _WAITING_BYTES + len(key.key.encode()) + len("stream") + len(value.v.encode())


def table_table_join(params: Params) -> TracePlan:
    """The plan of ``table_table_join``."""
    builder = StreamsBuilder()
    left, right = (table(builder, side, params[side]) for side in ("left", "right"))
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[params["type"]]
    materialized = stored(params.get("materialize"), "result")
    return of_table(builder, join(right, joined, materialized=materialized, name="join"))


def fk_join(params: Params) -> TracePlan:
    """The plan of ``fk_join``."""
    builder = StreamsBuilder()
    left, right = (table(builder, side, params[side]) for side in ("left", "right"))
    join = left.join if params["type"] == "inner" else left.left_join
    materialized = stored(params.get("materialize"), "result")
    return of_table(builder, join(right, joined, foreign_key=before_bar, materialized=materialized, name="join"))


def before_bar(value: Any) -> Any:
    """The text before the bar; null without one."""
    return substring_before(value.v, "|")


def of_table(builder: StreamsBuilder, result: KTable) -> TracePlan:
    """A plan whose result is one table."""
    result.to_changelog("out")
    return TracePlan(builder.build(), {"out": "out"}, result.is_versioned)


def table_filter(params: Params) -> TracePlan:
    """The plan of ``table_filter``, with what follows the filter."""
    builder = StreamsBuilder()
    result = unary(table(builder, "table", params["table"]), params, "filter")
    result.to_changelog("out")
    sinks = ["out"]
    if params["downstream"] == "stream_join":
        stream(builder).left_join(result, joined).to_changelog("join")
        sinks.append("join")
    elif params["downstream"] == "table_join":
        other = table(builder, "other", params["other"])
        result.outer_join(other, joined).to_changelog("join")
        sinks.append("join")
    elif params["downstream"] == "group_count":
        result.group_by(lambda value: value.v).count().to_changelog("count")
        sinks.append("count")
    return TracePlan(builder.build(), {sink: sink for sink in sinks}, result.is_versioned)


def table_aggregate(params: Params) -> TracePlan:
    """The plan of ``table_aggregate``: groups by the text before the bar, aggregates what is behind it."""
    builder = StreamsBuilder()
    source = table(builder, "table", params["table"])
    if "pre" in params:
        source = unary(source, params["pre"], "pre")
    return of_table(builder, aggregated(source, params["agg"]))


def aggregated(source: KTable, kind: str) -> KTable:
    """The aggregate of a scenario."""
    grouped = source.group_by(before_bar, lambda value: {"v": substring_after(value.v, "|")})
    if kind == "count":
        return grouped.count()
    if kind == "reduce_sum":
        return grouped.reduce(_number(lambda total, part: total + part), _number(lambda total, part: total - part))
    if kind == "reduce_trace":
        return grouped.reduce(_text("{0}+{1}"), _text("{0}-{1}"))
    if kind == "aggregate_sum":
        plus, minus = _number(lambda total, part: total + part), _number(lambda total, part: total - part)
        start = {"v": "0"}
    else:
        plus, minus = _text("{0}+{1}"), _text("{0}-{1}")
        start = {"v": ""}
    return grouped.aggregate(
        lambda: start,
        lambda key, value, total: plus(total, value),
        lambda key, value, total: minus(total, value),
        schema="v STRING",
    )


def _number(combine: Callable[[int, int], int]) -> Callable[[Row, Row], dict[str, str]]:
    return lambda total, part: {"v": str(combine(int(total.v), int(part.v)))}


def _text(form: str) -> Callable[[Row, Row], dict[str, str]]:
    return lambda total, part: {"v": form.format(total.v, part.v)}


def propagation(params: Params) -> TracePlan:
    """The plan of ``propagation``: a chain of operations on a table, and a stream joined to the result."""
    builder = StreamsBuilder()
    result = table(builder, "table", params["table"])
    other = table(builder, "other", params["other"]) if "other" in params else None
    own, others = topic_lengths(params["chain"])
    size = KafkaSize(own, others=others)
    for number, step in enumerate(params["chain"]):
        result = chained(result, step, other, f"step{number}", size)
    # No two nodes may have one name, so the sink of the table cannot be called like its source.
    result.to_changelog("table-out")
    stream(builder).left_join(result, joined).to_changelog("join")
    suppresses = any(step["operation"] == "suppress" for step in params["chain"])
    sinks = {"table-out": "table", "join": "join"}
    probe = suppressed if suppresses else None
    return TracePlan(builder.build(), sinks, result.is_versioned, probe, before=size.step.note)


def topic_lengths(chain: Sequence[Params]) -> tuple[int, Mapping[str, int]]:
    """The lengths of the names of topics that rows of a chain come from: for the table, and by topic for the others.

    Rows that Kafka sends through an internal topic on the way come from that topic.
    """
    own, others = len("table"), {"other": len("other")}
    for step in chain:
        if step["operation"] in _TOPIC_LENGTHS:
            own = others["other"] = _TOPIC_LENGTHS[step["operation"]]
        elif step["operation"] == "join":
            others["other"] = len("other")
        elif step["operation"] == "suppress":
            break
    return own, others


def chained(source: KTable, spec: Params, other: KTable | None, name: str, size: KafkaSize) -> KTable:
    """One more operation of a chain."""
    operation, materialized = spec["operation"], stored(spec.get("materialize"), f"{name}-store")
    if operation == "to_stream_to_table":
        return source.to_stream().to_table(materialized, name=name)
    if operation == "group_reduce":
        grouped = source.group_by(lambda key, value: key)
        return grouped.reduce(lambda total, part: part, lambda total, part: total, materialized=materialized, name=name)
    if operation == "suppress":
        return source.suppress(suppressed_of(spec, size), name="sup")
    if other is not None and operation == "fk_join":
        return source.left_join(other, joined, foreign_key=lambda value: value.v, materialized=materialized, name=name)
    if other is not None and operation == "join":
        join = {"inner": source.join, "left": source.left_join, "outer": source.outer_join}[spec["type"]]
        return join(other, joined, materialized=materialized, name=name)
    return unary(source, spec, name)


def suppressed(driver: TopologyTestDriver) -> tuple[int, int]:
    """Records and bytes in the buffer of the node ``sup``."""
    processor = driver.processor("sup")
    return processor.buffered if isinstance(processor, SuppressProcessor) else (0, 0)


#: What each operation's ``params`` stand for.
PLANNERS: Final[Mapping[str, Planner]] = {
    "stream_table_join": stream_table_join,
    "table_table_join": table_table_join,
    "fk_join": fk_join,
    "table_filter": table_filter,
    "table_aggregate": table_aggregate,
    "propagation": propagation,
}
RUNNERS: Final[Mapping[str, Callable[[Scenario], Actual]]] = {name: on_driver(plan) for name, plan in PLANNERS.items()}
