"""A declared plan is the same plan as the one written with the DSL."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import plan_functions as functions
import pytest
import yaml

from jobs import quickstart_plan
from jobs.config_schema import json_schema_of
from jobs.job_plan import plan_of
from jobs.layers import Layers
from jobs.plan import build
from jobs.plan_settings import steps_of
from jobs.settings import parse
from jobs.shown import annotated, shown
from streams import nodes
from streams.functions import concat, upper, when
from streams.nodes import Joined, Materialized, Node, Topology
from streams.topology import StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from versioned.durations import Resolution, instant_us
from versioned.errors import ConfigurationError

_PROJECT = Path(__file__).parents[2]

_SOURCES = """
s: {op: stream, value: [a, g]}
s2: {op: stream, value: b}
t: {op: table, value: [c, g], store: {kind: key_value}}
t2: {op: table, value: d, store: {kind: key_value}}
v: {op: table, value: e, store: {kind: versioned, history_retention: 7 days}}
v2: {op: table, value: f, store: {kind: versioned, history_retention: 7 days}}
gt: {op: global_table, value: h}
w: {op: count, from: s, windowed_by: {kind: tumbling, size: 1 hour}}
"""


class _Sources:
    """The same sources, by the DSL."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        versioned = Materialized.versioned("7 days")
        self.s = self.builder.stream("s", value=("a", "g"), name="s")
        self.s2 = self.builder.stream("s2", value="b", name="s2")
        self.t = self.builder.table("t", Materialized.key_value(), value=("c", "g"), name="t")
        self.t2 = self.builder.table("t2", Materialized.key_value(), value="d", name="t2")
        self.v = self.builder.table("v", versioned, value="e", name="v")
        self.v2 = self.builder.table("v2", versioned, value="f", name="v2")
        self.gt = self.builder.global_table("gt", value="h", name="gt")
        self.w = self.s.group_by_key().windowed_by(TimeWindows.of("1 hour")).count(name="w")


def _all_of(node: Node) -> dict[str, Any]:
    """Everything a node is made of; expressions and functions by their text."""
    options = {field.name: repr(getattr(node, field.name)) for field in fields(node) if field.name != "parents"}
    return options | {"class": type(node).__name__, "parents": [parent.name for parent in node.parents]}


def _all_nodes(topology: Topology) -> list[dict[str, Any]]:
    return [_all_of(node) for node in topology]


_HOUR = TimeWindows.of("1 hour")
_UNBOUNDED = BufferConfig.unbounded()

# What is written below the sources, and the same by the DSL.
_SAME: list[tuple[str, Callable[[_Sources], Any]]] = [
    (
        "x: {op: stream, topic: q, key: [k, l], timestamp: at, deleted: gone}",
        lambda d: d.builder.stream("q", key=("k", "l"), timestamp="at", deleted="gone", name="x"),
    ),
    (
        "x: {op: table, topic: q, key: k, timestamp: at, deleted: gone, reorder: 5 minutes}",
        lambda d: d.builder.table("q", key="k", timestamp="at", deleted="gone", reorder="5 minutes", name="x"),
    ),
    (
        """x:
             op: table
             store: {kind: versioned, history_retention: 7 days, name: kept, grace: 1 day, segment_interval: 1 hour,
                     time_scope: key, time_resolution: millisecond, late_policy: side_table, system_history: true}""",
        lambda d: d.builder.table(
            "x",
            Materialized.versioned(
                "7 days", name="kept", grace="1 day", segment_interval="1 hour", time_scope="key",
                time_resolution=Resolution.MILLISECOND, late_policy="side_table", system_history=True,
            ),
            name="x",
        ),
    ),
    (
        "x: {op: global_table, topic: q, key: k, timestamp: at, value: v, deleted: gone, "
        "store: {kind: key_value, name: st}}",
        lambda d: d.builder.global_table(
            "q", Materialized.key_value("st"), key="k", timestamp="at", value="v", deleted="gone", name="x"
        ),
    ),
    ("x: {op: filter, from: s, where: value.a > 15}", lambda d: d.s.filter(lambda v: v.a > 15, name="x")),
    (
        "x: {op: filter_not, from: s, where: key.key == 'k' and value.a > 1}",
        lambda d: d.s.filter_not(lambda k, v: (k.key == "k") & (v.a > 1), name="x"),
    ),
    (
        "x: {op: filter, from: t, where: value.c > 1, store: {kind: key_value, name: kept}}",
        lambda d: d.t.filter(lambda v: v.c > 1, materialized=Materialized.key_value("kept"), name="x"),
    ),
    ("x: {op: filter_not, from: v, where: value.e > 1}", lambda d: d.v.filter_not(lambda v: v.e > 1, name="x")),
    ("x: {op: map_values, from: s, value: a}", lambda d: d.s.map_values("a", name="x")),
    ("x: {op: map_values, from: s, value: value.a + 1}", lambda d: d.s.map_values(lambda v: v.a + 1, name="x")),
    (
        """x: {op: map_values, from: s, value: {big: upper(value.g), one: 1, size: "'L' if value.a > 9 else 'S'"}}""",
        lambda d: d.s.map_values(
            lambda v: {"big": upper(v.g), "one": 1, "size": when(v.a > 9, "L").otherwise("S")}, name="x"
        ),
    ),
    (
        "x: {op: map_values, from: t, value: {z: value.c}, store: {kind: versioned, history_retention: 1 day}}",
        lambda d: d.t.map_values(lambda v: {"z": v.c}, materialized=Materialized.versioned("1 day"), name="x"),
    ),
    (
        "x: {op: transform_values, from: s, function: 'plan_functions:label', returns: string}",
        lambda d: d.s.transform_values(functions.label, "string", name="x"),
    ),
    (
        "x: {op: transform_values, from: t, function: 'plan_functions:label', returns: 'l string, n int'}",
        lambda d: d.t.transform_values(functions.label, "l string, n int", name="x"),
    ),
    ("x: {op: select_key, from: s, key: g}", lambda d: d.s.select_key("g", name="x")),
    ("x: {op: select_key, from: s, key: [g, a]}", lambda d: d.s.select_key(("g", "a"), name="x")),
    ("x: {op: select_key, from: s, key: upper(value.g)}", lambda d: d.s.select_key(lambda v: upper(v.g), name="x")),
    ("x: {op: select_key, from: s, key: {k: value.g}}", lambda d: d.s.select_key(lambda v: {"k": v.g}, name="x")),
    (
        "x: {op: to_table, from: s, reorder: 1 minute, store: {kind: versioned, history_retention: 1 day}}",
        lambda d: d.s.to_table(Materialized.versioned("1 day"), reorder="1 minute", name="x"),
    ),
    ("x: {op: to_stream, from: t}", lambda d: d.t.to_stream(name="x")),
    ("x: {op: join, from: s, with: t2}", lambda d: d.s.join(d.t2, name="x")),
    (
        "x: {op: left_join, from: s, with: t, value: {a: left.a, gs: 'concat(left.g, right.g, key.key)'}}",
        lambda d: d.s.left_join(
            d.t, lambda k, le, r: {"a": le.a, "gs": concat(le.g, r.g, k.key)}, name="x"
        ),
    ),
    (
        """x: {op: left_join, from: s, with: v, grace: 10 minutes, retention: 1 day, on_expired: side_table,
               too_late: side_table, correction_retention: 2 hours}""",
        lambda d: d.s.left_join(
            d.v,
            joined=Joined.with_grace_period("10 minutes").with_retention("1 day").with_on_expired("side_table")
            .with_too_late("side_table").with_corrections("2 hours"),
            name="x",
        ),
    ),
    (
        "y: {op: join, from: s, with: v, correction_retention: 1 hour}\nx: {op: corrections, from: y}",
        lambda d: d.s.join(d.v, joined=Joined().with_corrections("1 hour"), name="y").corrections(name="x"),
    ),
    ("x: {op: join, from: s, with: gt, key: g}", lambda d: d.s.join(d.gt, key="g", name="x")),
    ("x: {op: left_join, from: s, with: gt, key: value.a}", lambda d: d.s.left_join(d.gt, key="a", name="x")),
    (
        "x: {op: join, from: s, with: s2, within: {difference: 5 minutes, grace: 1 hour}}",
        lambda d: d.s.join(d.s2, windows=JoinWindows.of("5 minutes").grace("1 hour"), name="x"),
    ),
    (
        "x: {op: left_join, from: s, with: s2, within: {before: -1 minute, after: 5 minutes}}",
        lambda d: d.s.left_join(d.s2, windows=JoinWindows.of("5 minutes").before("-1 minute"), name="x"),
    ),
    (
        "x: {op: left_join, from: s, with: s2, within: {before: -90 minutes, after: 2 hours}}",
        lambda d: d.s.left_join(d.s2, windows=JoinWindows.of("2 hours").before("-90 minutes"), name="x"),
    ),
    (
        "x: {op: join, from: s, with: v, correction_retention: 99999999 days}",
        lambda d: d.s.join(d.v, joined=Joined().with_corrections(timedelta.max), name="x"),
    ),
    (
        "x: {op: outer_join, from: s, with: s2, within: {difference: 5 minutes, after: 1 minute}}",
        lambda d: d.s.outer_join(d.s2, windows=JoinWindows.of("5 minutes").after("1 minute"), name="x"),
    ),
    (
        "x: {op: join, from: v, with: v2, history: complete, store: {kind: versioned, history_retention: 1 day}}",
        lambda d: d.v.join(d.v2, history="complete", materialized=Materialized.versioned("1 day"), name="x"),
    ),
    ("x: {op: left_join, from: t, with: t2}", lambda d: d.t.left_join(d.t2, name="x")),
    (
        "x: {op: outer_join, from: t, with: t2, value: left.c + right.d}",
        lambda d: d.t.outer_join(d.t2, lambda left, right: left.c + right.d, name="x"),
    ),
    ("x: {op: join, from: t, with: t2, foreign_key: g}", lambda d: d.t.join(d.t2, foreign_key="g", name="x")),
    (
        "x: {op: left_join, from: t, with: t2, foreign_key: {key: value.g}, store: {kind: key_value}}",
        lambda d: d.t.left_join(
            d.t2, foreign_key=lambda v: {"key": v.g}, materialized=Materialized.key_value(), name="x"
        ),
    ),
    ("x: {op: count, from: s}", lambda d: d.s.group_by_key().count(name="x")),
    (
        "x: {op: count, from: s, group_by: g, value: a, output: n, store: {kind: key_value, name: kept}}",
        lambda d: d.s.group_by("g").count("a", output="n", materialized=Materialized.key_value("kept"), name="x"),
    ),
    ("x: {op: sum, from: s, value: value.a * 2}", lambda d: d.s.group_by_key().sum(lambda v: v.a * 2, name="x")),
    ("x: {op: avg, from: s, group_by: [g, a], value: a}", lambda d: d.s.group_by(("g", "a")).avg("a", name="x")),
    (
        "x: {op: min, from: s, value: a, windowed_by: {kind: tumbling, size: 1 hour, grace: 5 min}}",
        lambda d: d.s.group_by_key().windowed_by(_HOUR.grace("5 min")).min("a", name="x"),
    ),
    (
        "x: {op: max, from: s, value: a, windowed_by: {kind: hopping, size: 1 hour, advance: 5 minutes}}",
        lambda d: d.s.group_by_key().windowed_by(_HOUR.advance_by("5 minutes")).max("a", name="x"),
    ),
    (
        """x: {op: count, from: s,
               windowed_by: {kind: sliding, difference: 1 min, grace: 2 min, late_policy: side_table}}""",
        lambda d: d.s.group_by_key()
        .windowed_by(SlidingWindows.of_time_difference_and_grace("1 min", "2 min"), late_policy="side_table")
        .count(name="x"),
    ),
    (
        """x: {op: count, from: s, windowed_by: {kind: session, gap: 30 minutes},
               store: {kind: window, retention: 2 days}}""",
        lambda d: d.s.group_by_key()
        .windowed_by(SessionWindows.of("30 minutes"))
        .count(materialized=Materialized.key_value().with_retention("2 days"), name="x"),
    ),
    (
        """x: {op: count, from: s, windowed_by: {kind: unlimited, start: "2013-01-01T00:00:00Z"},
               store: {kind: window, name: kept}}""",
        lambda d: d.s.group_by_key()
        .windowed_by(UnlimitedWindows.of().start_on(instant_us(datetime(2013, 1, 1, tzinfo=timezone.utc))))
        .count(materialized=Materialized.key_value("kept").with_retention(None), name="x"),
    ),
    (
        "x: {op: count, from: s, windowed_by: {kind: unlimited, start: 2013-01-01}}",
        lambda d: d.s.group_by_key()
        .windowed_by(UnlimitedWindows.of().start_on(instant_us(datetime(2013, 1, 1, tzinfo=timezone.utc))))
        .count(name="x"),
    ),
    (
        "x: {op: left_join, from: s, with: v, on_expired: null}",
        lambda d: d.s.left_join(d.v, joined=Joined().with_on_expired("null"), name="x"),
    ),
    (
        """x: {op: count, from: s, windowed_by: {kind: session, gap: 1 hour}, store: {kind: window, retention: 2 days,
               segment_interval: 1 hour, time_scope: store, time_resolution: millisecond}}""",
        lambda d: d.s.group_by_key()
        .windowed_by(SessionWindows.of("1 hour"))
        .count(
            materialized=Materialized(segment_interval=timedelta(hours=1)).with_retention("2 days")
            .with_time_scope("store").with_time_resolution(Resolution.MILLISECOND),
            name="x",
        ),
    ),
    (
        "x: {op: table, store: {kind: key_value, time_scope: store}}",
        lambda d: d.builder.table("x", Materialized.key_value().with_time_scope("store"), name="x"),
    ),
    (
        """x: {op: suppress, from: t, until: wall_clock_time_limit, wait: 5 s, size_of: "plan_functions:weight",
               buffer: {max_bytes: 100, when_full: emit_early}}""",
        lambda d: d.t.suppress(
            Suppressed.until_wall_clock_time_limit(
                "5 s", BufferConfig.max_bytes(100).emit_early_when_full(), size_of=functions.weight
            ),
            name="x",
        ),
    ),
    (
        "x: {op: count, from: s, windowed_by: {kind: unlimited}}",
        lambda d: d.s.group_by_key().windowed_by(UnlimitedWindows.of()).count(name="x"),
    ),
    ("x: {op: sum, from: t, group_by: g, value: c}", lambda d: d.t.group_by("g").sum("c", name="x")),
    (
        "x: {op: sum, from: t, group_by: g, group_value: {n: value.c}, value: n}",
        lambda d: d.t.group_by("g", lambda v: {"n": v.c}).sum("n", name="x"),
    ),
    (
        "x: {op: reduce, from: s, adder: 'plan_functions:larger', result: 'a int, g string'}",
        lambda d: d.s.group_by_key().reduce(functions.larger, schema="a int, g string", name="x"),
    ),
    (
        "x: {op: reduce, from: t, group_by: g, adder: 'plan_functions:larger', subtractor: 'plan_functions:larger'}",
        lambda d: d.t.group_by("g").reduce(functions.larger, functions.larger, name="x"),
    ),
    (
        """x: {op: aggregate, from: s, initializer: 'plan_functions:zero', adder: 'plan_functions:add', result: bigint,
               merger: 'plan_functions:merge', output: total, windowed_by: {kind: session, gap: 1 hour}}""",
        lambda d: d.s.group_by_key()
        .windowed_by(SessionWindows.of("1 hour"))
        .aggregate(
            functions.zero, functions.add, merger=functions.merge, schema="bigint", output="total", name="x"
        ),
    ),
    (
        """x: {op: aggregate, from: t, group_by: g, initializer: 'plan_functions:zero', adder: 'plan_functions:add',
               subtractor: 'plan_functions:subtract', result: bigint}""",
        lambda d: d.t.group_by("g").aggregate(
            functions.zero, functions.add, functions.subtract, schema="bigint", name="x"
        ),
    ),
    (
        "x: {op: suppress, from: w, until: window_closes}",
        lambda d: d.w.suppress(Suppressed.until_window_closes(_UNBOUNDED), name="x"),
    ),
    (
        """x: {op: suppress, from: w, until: window_closes, close_idle: true, retention: 1 day, size_of: value,
               buffer: {max_bytes: 1 MiB, when_full: shut_down}}""",
        lambda d: d.w.suppress(
            Suppressed.until_window_closes(
                BufferConfig.max_bytes(2**20).shut_down_when_full(), size_of="value", close_idle=True, retention="1 d"
            ),
            name="x",
        ),
    ),
    (
        "x: {op: suppress, from: t, until: time_limit, wait: 5 s, buffer: {max_records: 9, when_full: emit_early}}",
        lambda d: d.t.suppress(
            Suppressed.until_time_limit("5 s", BufferConfig.max_records(9).emit_early_when_full()), name="x"
        ),
    ),
    (
        """x: {op: suppress, from: w, until: time_limit, wait: 5 s, timer: last, max_age: 1 minute, retention: 1 hour,
               clock: window_start, size_of: value, buffer: {max_records: 9, max_bytes: 100, when_full: spill}}""",
        lambda d: d.w.suppress(
            Suppressed.until_time_limit(
                "5 s", BufferConfig.max_records(9).with_max_bytes(100).spill_to_disk_when_full(), timer="last",
                max_age="1 minute", clock="window_start", size_of="value", retention="1 hour",
            ),
            name="x",
        ),
    ),
    (
        "x: {op: suppress, from: t, until: wall_clock_time_limit, wait: 5 s, size_of: value, retention: 1 hour}",
        lambda d: d.t.suppress(
            Suppressed.until_wall_clock_time_limit("5 s", _UNBOUNDED, size_of="value", retention="1 hour"), name="x"
        ),
    ),
    ("x: {op: to_changelog, from: s}", lambda d: d.s.to_changelog("x")),
    ("x: {op: to_changelog, from: t, emit: net}", lambda d: d.t.to_changelog("x", emit="net")),
    ("x: {op: to_latest, from: s}", lambda d: d.s.to_latest("x")),
    ("x: {op: to_latest, from: t}", lambda d: d.t.to_latest("x")),
]  # fmt: skip


def _declared(text: str) -> Topology:
    return build(steps_of(yaml.safe_load(_SOURCES + text)))


@pytest.mark.parametrize(("text", "by_dsl"), _SAME, ids=[" ".join(text.split())[:80] for text, _ in _SAME])
def test_a_declared_step_is_the_node_that_the_dsl_makes(text: str, by_dsl: Callable[[_Sources], Any]) -> None:
    sources = _Sources()
    by_dsl(sources)
    assert _all_nodes(_declared(text)) == _all_nodes(sources.builder.build())


@pytest.fixture(scope="module")
def schema() -> Any:
    """What an editor checks a file of settings by."""
    return jsonschema.Draft202012Validator(json_schema_of("job"))


@pytest.mark.parametrize("text", [text for text, _ in _SAME], ids=[" ".join(text.split())[:80] for text, _ in _SAME])
def test_an_editor_takes_a_step_as_it_can_be_written(text: str, schema: Any) -> None:
    source = {"format": "json", "path": "input", "schema": "k STRING"}
    said = {"application": "a", "root": "r", "sources": {"s": source}, "plan": yaml.safe_load(_SOURCES + text)}
    # A day is a text to an editor.
    schema.validate(json.loads(json.dumps(said, default=str)))


@pytest.mark.parametrize("text", [text for text, _ in _SAME], ids=[" ".join(text.split())[:80] for text, _ in _SAME])
def test_a_plan_that_is_shown_with_its_defaults_is_the_same_plan(text: str) -> None:
    printed = annotated(shown(steps_of(yaml.safe_load(_SOURCES + text))), Layers.of({}))
    assert _all_nodes(build(steps_of(yaml.safe_load(printed)))) == _all_nodes(_declared(text))


def test_every_kind_of_node_can_be_declared() -> None:
    kinds = {kind for kind in vars(nodes).values() if isinstance(kind, type) and issubclass(kind, Node)}
    declared = {type(node) for text, _ in _SAME for node in _declared(text)}
    assert {kind for kind in kinds if not kind.__name__.startswith("_")} - {Node} == declared


def test_every_method_of_the_dsl_has_its_operation() -> None:
    from streams.grouped import KGroupedStream, KGroupedTable
    from streams.kstream import KStream
    from streams.ktable import KTable

    methods = {
        name
        for kind in (KStream, KTable, KGroupedStream, KGroupedTable, StreamsBuilder)
        for name in dir(kind)
        if not name.startswith("_")
    }
    # Groups and windows are options of the aggregates; the others ask or end.
    not_steps = {"group_by", "group_by_key", "windowed_by", "build", "is_versioned"}
    said = {step["op"] for text, _ in _SAME for step in yaml.safe_load(_SOURCES + text).values()}
    assert methods - not_steps == said


_QUICKSTART = """
weather: {op: table, key: origin, timestamp: observed, value: [temp, wind_speed, visib], store: &history
  {kind: versioned, history_retention: 3 days, late_policy: side_table}}
aircraft: {op: table, topic: flights, key: tailnum, timestamp: departure, value: [origin, dest], store: *history}
planes: {op: table, key: tailnum, timestamp: registered, value: [manufacturer, model], store: {kind: key_value}}
flights: {op: stream, key: origin, timestamp: departure, value: [dest, tailnum, carrier, flight, delay]}
flights_at_departure: {op: left_join, from: flights, with: weather}
flights_with_weather: {op: to_changelog, from: flights_at_departure}
departures_by_hour:
  op: count
  from: flights
  windowed_by: {kind: tumbling, size: 1 hour, grace: 6 hours, late_policy: side_table}
final_departures: {op: suppress, from: departures_by_hour, until: window_closes}
departures: {op: to_changelog, from: final_departures}
aircraft_per_airport: {op: count, from: aircraft, group_by: {airport: value.dest}, output: aircraft}
aircraft_moves: {op: to_changelog, from: aircraft_per_airport}
flights_by_number: {op: select_key, from: flights, key: [carrier, flight]}
delays: {op: map_values, from: flights_by_number, value: {tailnum: value.tailnum, delay: value.delay}}
last_departures: {op: to_table, from: delays, store: {kind: key_value}}
delay_and_model:
  op: left_join
  from: last_departures
  with: planes
  foreign_key: tailnum
  value: {tailnum: left.tailnum, delay: left.delay, manufacturer: right.manufacturer, model: right.model}
delays_with_model: {op: to_changelog, from: delay_and_model}
"""


def test_the_quickstarts_plan_can_be_declared() -> None:
    declared = build(steps_of(yaml.safe_load(_QUICKSTART)))
    by_dsl = quickstart_plan.build(grace=timedelta(hours=6), history_retention=timedelta(days=3))
    assert declared.describe() == by_dsl.describe()


def test_the_quickstarts_settings_run_with_the_declared_plan_as_well() -> None:
    said = yaml.safe_load((_PROJECT / "conf" / "quickstart.yaml").read_text(encoding="utf-8"))
    of_function = plan_of(parse(said))
    del said["plan_settings"]
    declared = plan_of(parse(said | {"plan": yaml.safe_load(_QUICKSTART)}))
    assert _all_nodes(declared) == _all_nodes(of_function)


def test_steps_may_stand_in_any_order() -> None:
    steps = yaml.safe_load(_QUICKSTART)
    backwards = build(steps_of(dict(reversed(steps.items()))))
    forwards = build(steps_of(steps))
    assert sorted(map(str, _all_nodes(backwards))) == sorted(map(str, _all_nodes(forwards)))


_USERS: dict[str, Any] = {"application": "a", "root": "r", "sources": {"s": {"format": "rate"}}}


def test_a_plan_may_be_in_a_module_of_the_users_own() -> None:
    settings = parse(_USERS | {"plan": "plan_functions:topology", "plan_settings": {"size": "2 hours"}})
    assert "tumbling windows of 2 hours" in plan_of(settings).describe()


def test_a_function_that_gives_no_topology_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="plan: plan_functions:no_topology gives int, not a topology"):
        plan_of(parse(_USERS | {"plan": "plan_functions:no_topology"}))
