"""What is wrong in a declared plan is told with its path and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from jobs.job_plan import plan_of
from jobs.plan import build
from jobs.plan_settings import steps_of
from jobs.settings import parse
from versioned.errors import ConfigurationError, TopologyError

_SOURCES = """
s: {op: stream, value: [delay, origin]}
s2: {op: stream, value: b}
t: {op: table, value: c}
v: {op: table, value: e, store: {kind: versioned, history_retention: 7 days}}
gt: {op: global_table, value: h}
w: {op: count, from: s, windowed_by: {kind: tumbling, size: 1 hour}}
"""


def _build(text: str) -> Any:
    return build(steps_of(yaml.safe_load(_SOURCES + text)))


_FOLD = "{op: aggregate, from: s, initializer: 'plan_functions:zero', adder: 'plan_functions:add'"
_WRONG = [
    # Keys and values, found before anything is built
    ("x: {op: strem}", ['plan.x.op: "strem"', '"stream"', "Allowed here: stream, table"]),
    ("x: {from: s}", ["plan.x.op: is missing", "Allowed here: stream, table"]),
    ("x: {op: filter, where: value.delay > 1}", ["plan.x.from: is missing"]),
    ("x: {op: stream, keys: k}", ["plan.x.keys: unknown key", '"key"', "timestamp"]),
    ("x: {op: stream, from: s}", ["plan.x.from: unknown key", "topic"]),
    ("x: {op: table, store: {kind: versionned}}", ["plan.x.store.kind", '"versioned"', "key_value"]),
    ("x: {op: table, store: {kind: versioned}}", ["plan.x.store.history_retention: is missing"]),
    ("x: {op: table, store: {kind: versioned, history: 1 day}}", ["plan.x.store.history", '"history_retention"']),
    ("x: {op: table, reorder: a while}", ["plan.x.reorder", "a while", "10 minutes"]),
    ("x: {op: count, from: s, windowed_by: {kind: tumbling, sise: 1 hour}}", ["plan.x.windowed_by.sise", '"size"']),
    ("x: {op: suppress, from: w, until: closed}", ["plan.x.until", "window_closes, time_limit"]),
    ("x: {op: suppress, from: w}", ["plan.x.until: is missing", "window_closes"]),
    ("x: {op: suppress, from: w, until: window_closes, wait: 5 s}", ["plan.x.wait: unknown key"]),
    ("x: {op: suppress, from: w, until: window_closes, buffer: {max_record: 5}}", ["plan.x.buffer.max_record:"]),
    ("x: {op: suppress, from: t, until: time_limit, wait: 1 s, buffer: {max_records: 5}}", ["plan.x.buffer: a bound"]),
    ("x: {op: suppress, from: t, until: time_limit, wait: 1 s, buffer: {max_bytes: big, when_full: spill}}",
     ["plan.x.buffer.max_bytes: a size is a number of bytes"]),
    ("x: {op: suppress, from: t, until: time_limit, wait: 1 s, buffer: {max_records: -5, when_full: spill}}",
     ["plan.x.buffer.max_records", "greater than or equal to 0"]),
    ("x: {op: filter, from: s, where: value.delay >}", ["plan.x.where", "value.delay >", "not an expression"]),
    ("x: {op: map_values, from: s, value: {a: 1, b: totl(value.delay)}}", ["plan.x.value.b", "totl", "coalesce"]),
    ("x: {op: transform_values, from: s, function: 'os:system', returns: string}", ["plan.x.function", "os:system"]),
    ("x: {op: transform_values, from: s, function: nothing, returns: string}",
     ["plan.x.function: should be module:function"]),
    ("'x y': {op: stream}", ["plan.x y: should be a name of 1 to 200 letters"]),
    ("x: 3", ["plan.x: a mapping should be here"]),
    ("x: {op: map_values, from: s, value: [delay]}", ["plan.x.value", "a list is no constant here"]),
    (
        "x: {op: map_values, from: s, value: {i: {x: value.a}}}",
        ["plan.x.value.i", "a dict is no constant here", "as struct(x=value.a)"],
    ),
    ("x: {op: map_values, from: s, value: {}}", ["plan.x.value", "at least 1 item"]),
    ("x: {op: select_key, from: s, key: []}", ["plan.x.key", "at least 1 item"]),
    ("x: {op: select_key, from: s, key: [1]}", ["plan.x.key.0: text should be here"]),
    # What the steps read
    ("x: {op: filter, from: ss, where: true}", ['plan.x.from: there is no step "ss"', '"s"', "Allowed here: s, s2"]),
    ("x: {op: join, from: s, with: tt}", ['plan.x.with: there is no step "tt"']),
    ("x: {op: filter, from: x, where: true}", ["plan.x.from", "itself", "x <- x"]),
    ("x: {op: to_stream, from: y}\ny: {op: to_table, from: x}", ["plan.y.from", "x <- y <- x"]),
    ("x: {op: to_latest, from: s}\ny: {op: filter, from: x, where: true}", ["plan.y.from", "sink"]),
    ("x: {op: to_table, from: t}", ["plan.x.from", "t is a table", "to_stream"]),
    ("x: {op: to_stream, from: s}", ["plan.x.from", "s is a stream", "to_table"]),
    ("x: {op: select_key, from: t, key: c}", ["plan.x.from", "to_stream"]),
    ("x: {op: suppress, from: s, until: window_closes}", ["plan.x.from", "s is a stream"]),
    ("x: {op: filter, from: gt, where: true}", ["plan.x.from", "gt is a global table"]),
    ("x: {op: count, from: gt}", ["plan.x.from", "global table"]),
    # Fields
    ("x: {op: filter, from: s, where: value.dealy > 1}", ["plan.x.where", '"delay"', "It has: delay, origin"]),
    ("x: {op: filter, from: s, where: key.k > 1}", ["plan.x.where", 'key has no field "k"', "It has: key"]),
    ("x: {op: select_key, from: s, key: [origin, dest]}", ["plan.x.key.dest", '"dest"', "delay, origin"]),
    ("x: {op: sum, from: s, value: delya}", ["plan.x.value", '"delay"']),
    ("x: {op: join, from: s, with: t, value: {n: right.delay}}", ["plan.x.value.n", "right", "It has: c"]),
    ("x: {op: filter, from: w, where: value.n < 3}", ["plan.x.where", "It has: count"]),
    ("x: {op: filter, from: s, where: value.key == 'a'}", ["plan.x.where", "It has: delay, origin", "key.key"]),
    ("x: {op: select_key, from: s, key: [origin, key]}",
     ["plan.x.key.key: is of the key", "Write a mapping: {key: key.key}"]),
    # Conditions that are none
    ("x: {op: filter, from: s, where: }", ["plan.x.where: None is neither true nor false", "value.delay > 15"]),
    ("x: {op: filter, from: s, where: None}", ["plan.x.where: None is neither"]),
    ("x: {op: filter_not, from: s, where: 1}", ["plan.x.where: 1 is neither"]),
    ("x: {op: filter, from: s, where: value.delay + 1}", ["plan.x.where: value.delay + 1 is neither"]),
    # Options that do not go with what is read
    ("x: {op: filter, from: s, where: true, store: {kind: key_value}}", ["plan.x.store", "s is a stream"]),
    ("x: {op: join, from: s, with: t, within: {difference: 1 s}}", ["plan.x.within", "a stream with a table", "grace"]),
    ("x: {op: join, from: s, with: t, on_expired: drop}", ["plan.x.on_expired", "t keeps no versions", "versioned"]),
    ("x: {op: join, from: s, with: t, retention: -1 s}", ["plan.x.retention: retention must not be negative"]),
    ("x: {op: join, from: s, with: t, grace: 1 s, correction_retention: -1 s}", ["plan.x.correction_retention: corr"]),
    ("x: {op: join, from: s, with: t, grace: -1 s, retention: 1 s}", ["plan.x.grace: Join grace must not be"]),
    ("x: {op: join, from: s, with: s2, within: {difference: 1 s, before: 1 s, after: 2 s}}",
     ["plan.x.within: difference has no effect", "leave one of the three out"]),
    ("x: {op: join, from: s, with: gt, grace: 1 s, key: origin}", ["plan.x.grace", "global table", "Allowed: key"]),
    ("x: {op: join, from: s, with: gt}", ["plan.x.key: is missing"]),
    ("x: {op: join, from: s, with: s2}", ["plan.x.within: is missing"]),
    ("x: {op: join, from: s, with: s2, within: {before: 1 s}}", ["plan.x.within", "difference"]),
    ("x: {op: join, from: t, with: v, on_expired: drop}", ["plan.x.on_expired", "foreign_key, store, history"]),
    ("x: {op: join, from: t, with: s}", ["plan.x.with", "s cannot be joined to t", "a table with a table"]),
    ("x: {op: outer_join, from: s, with: t}", ["plan.x.op", "join, left_join"]),
    ("x: {op: outer_join, from: t, with: v, foreign_key: c}", ["plan.x.foreign_key", "outer_join"]),
    ("x: {op: table, store: {kind: window, retention: 2 days}}", ["plan.x.store.kind: window", "windowed_by"]),
    ("x: {op: global_table, store: {kind: window}}", ["plan.x.store.kind: window"]),
    ("x: {op: filter, from: w, where: true, store: {kind: window}}", ["plan.x.store.kind: window", "key_value"]),
    ("x: {op: count, from: s, store: {kind: window}}", ["plan.x.store.kind: window"]),
    ("x: {op: to_table, from: s, store: {kind: window}}", ["plan.x.store.kind: window"]),
    ("x: {op: join, from: t, with: v, store: {kind: window}}", ["plan.x.store.kind: window"]),
    ("x: {op: sum, from: s}", ["plan.x.value: is missing", "sum of what"]),
    (
        "x: {op: sum, from: t, group_by: {c: value.c}, group_value: value.c}",
        ["plan.x.value: is missing", "group_value only makes the row that it is of"],
    ),
    ("x: {op: count, from: t}", ["plan.x.group_by: is missing"]),
    ("x: {op: count, from: t, group_by: c, windowed_by: {kind: session, gap: 1 h}}", ["plan.x.windowed_by"]),
    ("x: {op: count, from: s, group_value: delay}", ["plan.x.group_value", "tables"]),
    ("x: {op: reduce, from: t, group_by: c, adder: 'plan_functions:larger'}", ["plan.x.subtractor: is missing"]),
    ("x: {op: reduce, from: s, adder: 'plan_functions:add', subtractor: 'plan_functions:add'}", ["plan.x.subtractor"]),
    (f"x: {_FOLD}}}", ["plan.x.result: is missing"]),
    (f"x: {_FOLD}, result: number}}", ['plan.x: result: there is no type "number"; did you mean "numeric"']),
    (f"x: {_FOLD}, result: 'map<string, int>'}}", ['plan.x: result: "map<string, int>" is a map alone']),
    (f"x: {_FOLD}, result: n bigint}}\ny: {{op: filter, from: x, where: value.nn > 3}}",
     ["plan.y.where", '"nn"', '"n"']),
    ("x: {op: transform_values, from: s, function: 'plan_functions:larger', returns: x2 bigint}\n"
     "y: {op: filter, from: x, where: value.x22 > 3}", ["plan.y.where", '"x22"', '"x2"']),
    ("x: {op: reduce, from: s, adder: 'plan_functions:no_such'}", ["plan.x.adder", "no_such"]),
    ("x: {op: reduce, from: s, adder: 'plan_functions:NOT_CALLABLE'}", ["plan.x.adder", "no function but int"]),
    # Values that the DSL refuses
    ("x: {op: table, store: {kind: versioned, history_retention: 1 day, grace: 2 days}}", ["plan.x.store", "grace"]),
    ("x: {op: count, from: s, windowed_by: {kind: tumbling, size: 0 s}}", ["plan.x.windowed_by", "larger than zero"]),
    ("x: {op: suppress, from: t, until: time_limit, wait: 1 s, timer: last}", ["plan.x", "max_age"]),
    ("x: {op: suppress, from: w, until: window_closes, buffer: {max_records: 5, when_full: emit_early}}",
     ["plan.x.buffer.when_full: final results never leave early", "R51"]),
    ("j: {op: join, from: s, with: t}\nx: {op: corrections, from: j}",
     ["plan.x.from: j is no join", "correction_retention: 1 day"]),
    ("x: {op: corrections, from: s}", ["plan.x.from: s is no join of a stream with a table"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), _WRONG, ids=[text[:80] for text, _ in _WRONG])
def test_a_fault_is_told_with_its_path_and_what_is_allowed(text: str, told: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _build(text)
    assert [part for part in told if part not in str(refused.value)] == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("x: {op: suppress, from: v, until: time_limit, wait: 1 s}", "R165"),
        ("x: {op: suppress, from: t, until: window_closes}", "R51"),
        ("x: {op: join, from: s, with: t, grace: 1 minute}", "R145"),
        ("x: {op: join, from: s, with: v, too_late: side_table}", "R145"),
        ("x: {op: global_table, store: {kind: versioned, history_retention: 1 day}}", "R170"),
        ("x: {op: to_latest, from: s}\ny: {op: table, store: {kind: key_value, name: x}}", "unique-names"),
    ],
)
def test_a_plan_that_can_never_work_is_refused_by_the_rules_of_the_dsl(text: str, rule: str) -> None:
    with pytest.raises(TopologyError) as refused:
        _build(text)
    assert refused.value.rule == rule


def test_faults_of_all_steps_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)plan\.x\.where.*plan\.y\.fromm"):
        _build("x: {op: filter, from: s, where: 1 +}\ny: {op: to_latest, fromm: s}")


_SETTINGS: dict[str, Any] = {"application": "a", "root": "r", "sources": {"s": {"format": "rate"}}}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"plan": {}}, "plan: Dictionary should have at least 1 item"),
        ({"plan": {"s": {"op": "stream"}}, "plan_settings": {"grace": "1 s"}}, "plan_settings: they are for"),
        ({"plan": 3}, "plan: a mapping of steps, or module:function, should be here, and this is a number$"),
        ({"plan": {"x": 3}}, "plan.x: a mapping should be here, and this is a number$"),
        ({"plan": {"x": {"from": "s"}}}, "plan.x.op: is missing. Allowed here: stream"),
        ({"plan": None}, "plan: a mapping of steps, or module:function, should be here, and this is nothing$"),
        ({"plan": {"s": {"op": "stream"}}, "root": True}, "root: text .* this is true or false; write it in quotes$"),
        ({"plan": {"s": {"op": "stream"}}, "sources": ["s"]}, "sources: a mapping should be here, and this is a list$"),
    ],
)
def test_the_settings_around_a_plan_are_checked_with_it(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse(_SETTINGS | said)


def test_an_empty_topic_is_not_the_name_of_the_step() -> None:
    with pytest.raises(ConfigurationError, match=r'^plan\.s\.topic: "" has no source\. Add sources'):
        plan_of(parse(_SETTINGS | {"plan": {"s": {"op": "stream", "topic": ""}}}))


def test_a_field_that_a_table_would_hold_twice_is_refused_before_anything_runs() -> None:
    said = {"s": {"op": "table", "key": "user", "value": ["user", "n"], "store": {"kind": "key_value"}}}
    with pytest.raises(TopologyError, match=r"\['user'\] twice"):
        plan_of(parse(_SETTINGS | {"plan": said}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "v: {op: table, store: {kind: versioned, history_retention: 1 day}}\n"
            "x: {op: suppress, from: v, until: time_limit, wait: 1 s}",
            "In settings Materialized.key_value is `store: {kind: key_value}`. [R165]",
        ),
        (
            "t: {op: table, key: k, value: n}\nx: {op: suppress, from: t, until: window_closes}",
            "In settings Suppressed.until_time_limit is `until: time_limit`. [R51]",
        ),
        (
            "v: {op: table, store: {kind: versioned, history_retention: 1 day}}\n"
            "x: {op: to_latest, from: v}\ny: {op: filter, from: v, where: true, store: {kind: key_value, name: v}}",
            "is `name` of a `store`; Suppressed.with_name is the name of the step. [unique-names]",
        ),
    ],
)
def test_what_is_refused_in_words_of_python_is_told_in_those_of_settings_too(text: str, told: str) -> None:
    plan = yaml.safe_load(text)
    sources = {name: {"format": "rate"} for name, step in plan.items() if step["op"] in ("stream", "table")}
    with pytest.raises(TopologyError) as refused:
        plan_of(parse(_SETTINGS | {"plan": plan, "sources": sources}))
    assert str(refused.value).endswith(told)


def test_a_plan_that_a_function_builds_is_refused_in_the_words_of_python_alone() -> None:
    with pytest.raises(TopologyError) as refused:
        plan_of(parse(_SETTINGS | {"plan": "plan_functions:suppressed"}))
    assert "Suppressed.until_time_limit" in str(refused.value)
    assert "In settings" not in str(refused.value)
