"""The DSL: which node each operation makes, how it is named, and what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streams import nodes
from streams.expressions import Expr
from streams.functions import merge
from streams.nodes import Joined, Materialized, Node
from streams.rows import Row
from streams.testing import TopologyTestDriver
from streams.topology import KStream, KTable, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed, UntilTimeLimit
from suppress.windows import JoinWindows, TimeWindows
from versioned.durations import Resolution
from versioned.errors import ArgumentError, ConfigurationError, TopologyError

_LIMIT = Suppressed.until_time_limit("5 s", BufferConfig.unbounded())
_FINAL = Suppressed.until_window_closes(BufferConfig.unbounded())
_HOURS = TimeWindows.of("1 hour")
_LEFT = Expr("ref", "left")


class _Tables:
    """Sources of each kind in one builder."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.stream = self.builder.stream("s", value=("a", "g"))
        self.other_stream = self.builder.stream("s2", value=("b",))
        self.unknown = self.builder.table("u", Materialized.key_value())
        self.table = self.builder.table("t", Materialized.key_value(), value=("c", "g"))
        self.other = self.builder.table("t2", Materialized.key_value(), value=("d",))
        self.versioned = self.builder.table("t4", Materialized.versioned("1 day"), value=("d",))
        self.hourly = self.builder.table("t3", key=("key", "windowStart", "windowEnd"), value=("d",))
        self.globally = self.builder.global_table("gt", value=("e",))


Make = Callable[[_Tables], KStream | KTable]

_STREAM_OPERATIONS: list[tuple[type[Node], Make]] = [
    (nodes.StreamFilter, lambda x: x.stream.filter(lambda value: value.a > 1)),
    (nodes.StreamFilter, lambda x: x.stream.filter_not(lambda key, value: value.a > key.key)),
    (nodes.StreamMapValues, lambda x: x.stream.map_values(lambda value: value.a)),
    (nodes.StreamMapValues, lambda x: x.stream.map_values("a")),
    (nodes.StreamMapValues, lambda x: x.stream.transform_values(lambda key, value: value.a, "bigint")),
    (nodes.SelectKey, lambda x: x.stream.select_key("g")),
    (nodes.SelectKey, lambda x: x.stream.select_key(lambda value: {"g": value.g, "a": value.a})),
    (nodes.ToStream, lambda x: x.table.to_stream()),
    (nodes.StreamTableJoin, lambda x: x.stream.join(x.other)),
    (nodes.StreamTableJoin, lambda x: x.stream.left_join(x.versioned, joined=Joined().with_on_expired("drop"))),
    (nodes.StreamGlobalTableJoin, lambda x: x.stream.join(x.globally, key="g")),
    (nodes.StreamGlobalTableJoin, lambda x: x.stream.left_join(x.globally, key=lambda key, value: value.g)),
    (nodes.StreamStreamJoin, lambda x: x.stream.join(x.other_stream, windows=JoinWindows.of("5 s"))),
    (nodes.StreamStreamJoin, lambda x: x.stream.left_join(x.other_stream, windows=JoinWindows.of("5 s"))),
    (nodes.StreamStreamJoin, lambda x: x.stream.outer_join(x.other_stream, windows=JoinWindows.of("5 s"))),
]
_TABLE_OPERATIONS: list[tuple[type[Node], Make]] = [
    (nodes.TableFilter, lambda x: x.table.filter(lambda value: value.c > 1)),
    (nodes.TableFilter, lambda x: x.table.filter_not(lambda value: value.c > 1)),
    (nodes.TableMapValues, lambda x: x.table.map_values(lambda value: {"z": value.c})),
    (nodes.TableMapValues, lambda x: x.table.transform_values(lambda key, value: value.c, "bigint")),
    (nodes.ToTable, lambda x: x.stream.to_table()),
    (nodes.TableTableJoin, lambda x: x.table.join(x.other)),
    (nodes.TableTableJoin, lambda x: x.table.left_join(x.other, lambda left, right: left.c)),
    (nodes.TableTableJoin, lambda x: x.table.outer_join(x.other, lambda key, left, right: key.key)),
    (nodes.ForeignKeyJoin, lambda x: x.table.join(x.other, foreign_key="g")),
    (nodes.ForeignKeyJoin, lambda x: x.table.left_join(x.other, foreign_key=lambda value: value.g)),
    (nodes.Suppress, lambda x: x.table.suppress(_LIMIT)),
    (nodes.StreamAggregate, lambda x: x.stream.group_by_key().count()),
    (nodes.StreamAggregate, lambda x: x.stream.group_by("g").sum("a")),
    (nodes.StreamAggregate, lambda x: x.stream.group_by("g").reduce(lambda total, value: value)),
    (nodes.WindowedAggregate, lambda x: x.stream.group_by("g").windowed_by(_HOURS).avg("a")),
    (nodes.WindowedAggregate, lambda x: x.stream.group_by("g").windowed_by(_HOURS).min(lambda value: value.a)),
    (nodes.TableAggregate, lambda x: x.table.group_by("g").count()),
    (nodes.TableAggregate, lambda x: x.table.group_by("g", "c").max("c")),
    (nodes.TableAggregate, lambda x: x.table.group_by("g").reduce(lambda a, v: a, lambda a, v: a)),
    (nodes.TableAggregate, lambda x: x.table.group_by("g").aggregate(int, lambda k, v, a: a, lambda k, v, a: a)),
]


@pytest.mark.parametrize(("kind", "make"), _STREAM_OPERATIONS + _TABLE_OPERATIONS)
def test_each_operation_adds_one_node_of_its_kind(kind: type[Node], make: Make) -> None:
    tables = _Tables()
    made = make(tables)
    assert type(tables.builder.build().nodes[-1]) is kind
    assert made.node is tables.builder.build().nodes[-1]


@pytest.mark.parametrize(("kind", "make"), _STREAM_OPERATIONS)
def test_stream_operations_give_streams(kind: type[Node], make: Make) -> None:
    assert isinstance(make(_Tables()), KStream)


@pytest.mark.rule("R24")
@pytest.mark.parametrize(("kind", "make"), _TABLE_OPERATIONS)
def test_table_operations_give_tables(kind: type[Node], make: Make) -> None:
    assert isinstance(make(_Tables()), KTable)


@pytest.mark.parametrize(
    ("expected", "make"),
    [
        ("n", lambda x: x.stream.filter(lambda value: value.a > 1, name="n")),
        ("n", lambda x: x.table.filter(lambda v: v.c > 1, name="n", materialized=Materialized.key_value("store"))),
        ("store", lambda x: x.table.filter(lambda v: v.c > 1, materialized=Materialized.key_value("store"))),
        ("store", lambda x: x.builder.global_table("gt2", Materialized.key_value("store"))),
        ("gt2", lambda x: x.builder.global_table("gt2")),
        ("n", lambda x: x.stream.join(x.other, joined=Joined(name="n"))),
        ("n", lambda x: x.table.suppress(_LIMIT.with_name("n"))),
        ("n", lambda x: x.stream.group_by("g").count(name="n")),
        ("table-join-1", lambda x: x.table.join(x.other)),
        ("windowed-count-1", lambda x: x.stream.group_by("g").windowed_by(_HOURS).count()),
    ],
)
@pytest.mark.rule("R57")
def test_a_node_is_named_by_its_name_its_store_or_its_kind_and_number(expected: str, make: Make) -> None:
    assert make(_Tables()).node.name == expected


def _counts(with_suppression: bool) -> list[str]:
    builder = StreamsBuilder()
    counts = builder.stream("s").group_by_key().count()
    if with_suppression:
        counts = counts.suppress(_LIMIT.with_name("calm"))
    counts.filter(lambda value: value.count > 3).to_changelog("out")
    return [node.name for node in builder.build()]


@pytest.mark.rule("R58")
def test_inserting_a_suppression_renames_no_other_node() -> None:
    assert set(_counts(with_suppression=True)) - set(_counts(with_suppression=False)) == {"calm"}


@pytest.mark.rule("R26")
def test_suppress_takes_no_store() -> None:
    with pytest.raises(ArgumentError, match="takes what a Suppressed factory gives"):
        _Tables().table.suppress(Materialized.key_value())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="materialized"):
        _Tables().table.suppress(_LIMIT, materialized=Materialized.key_value())  # type: ignore[call-arg]


@pytest.mark.rule("R26")
def test_no_parameter_of_suppress_is_a_store() -> None:
    assert "Materialized" in str(inspect.signature(KTable.filter))
    assert "Materialized" not in str(inspect.signature(KTable.suppress))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda x: x.stream.join(x.other, windows=JoinWindows.of("1 s")), "with t2, a table, takes joined=.* windows="),
        (lambda x: x.stream.join(x.other, grace="1 h"), r"takes joined=Joined.with_grace_period\(...\).*got grace=."),
        (lambda x: x.stream.join(x.globally), "with gt, a global table, takes key=.* key= is missing"),
        (lambda x: x.stream.join(x.other_stream), "with stream-s2, a stream, takes windows=.* windows= is missing"),
    ],
)
def test_options_of_another_kind_of_join_are_refused(make: Callable[[Any], object], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        make(_Tables())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda x: x.table.join(x.stream), "t: a table joins a table; got stream-s, a stream. Make it one with to_tab"),
        (lambda x: x.table.left_join(x.globally), "t: a table joins a table; got gt, a global table. Only streams"),
        (lambda x: x.table.outer_join(x.stream), "t: a table joins a table; got stream-s, a stream"),
        (lambda x: x.table.join(None), "t: a table joins a table; got None"),
        (lambda x: x.stream.join("t"), 'stream-s: a stream joins a table, a global table or a stream; got "t"'),
        (lambda x: x.stream.left_join(None), "stream-s: a stream joins .* got None"),
        (
            lambda x: x.stream.outer_join(x.table, windows=JoinWindows.of("5 s")),
            "outer join with a stream only; got t,",
        ),
        (lambda x: x.stream.join(x.other, Joined.with_grace_period("1 s")), "is no joiner. Give it with joined="),
        (lambda x: x.stream.join(x.other_stream, JoinWindows.of("1 s"), windows=JoinWindows.of("1 s")), "windows="),
        (lambda x: x.stream.to_changelog(None), "None: a name is a text"),
        (lambda x: x.stream.filter(lambda value: value.a > 1, name=5), "5: a name is a text"),
    ],
)
def test_what_does_not_join_or_has_no_name_is_refused_with_both_sides(make: Callable[[Any], object], told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make(_Tables())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda x: x.builder.table("t4", "versioned"), 'materialized takes what Materialized gives.*got "versioned"'),
        (lambda x: x.builder.table("t4", Materialized), "got the class Materialized"),
        (lambda x: x.builder.table("t4", Materialized.versioned), "got the function versioned, which was not called"),
        (lambda x: x.stream.group_by_key().count(materialized="store"), 'materialized takes .* got "store"'),
        (lambda x: x.builder.table(5), "topic takes a text; got 5"),
        (lambda x: x.builder.stream("in", key=None), "key takes one name or several.*got None"),
        (lambda x: x.builder.stream("in", key=()), "key takes at least one name"),
        (lambda x: x.stream.select_key(()), "key takes at least one name"),
        (lambda x: x.stream.group_by(("a", "a")), "key has .'a', 'a'., which are one column"),
        (lambda x: x.stream.group_by("g").sum(None), "sum takes a field or a function of the row; got None"),
        (lambda x: x.stream.group_by("g").count(output=5), "output takes a text; got 5"),
        (lambda x: x.stream.group_by("g").aggregate(int, max, output=5), "output takes a text; got 5"),
        (lambda x: x.table.group_by("g").aggregate(int, max, max, output=None), "output takes a text; got None"),
        (lambda x: x.stream.map_values(str), "str does not tell which arguments it takes. Write lambda key, v"),
        (lambda x: x.builder.stream("in", key=("a", "A")), "key has .'A', 'a'., which are one column"),
        (lambda x: x.builder.stream("in", key=("a", 5)), "key takes .* got 5"),
        (lambda x: x.builder.stream("in", value={"a": "bigint"}), "value takes .* got {'a': 'bigint'}"),
        (lambda x: x.builder.stream("in", timestamp=None), "timestamp takes the name of a column; got None"),
        (lambda x: x.stream.join(x.other, joined="1 hour"), 'joined takes what Joined gives.*got "1 hour"'),
        (lambda x: x.stream.group_by_key().windowed_by("1 hour"), 'windowed_by takes windows, .* got "1 hour"'),
        (lambda x: x.stream.group_by_key().windowed_by(timedelta(hours=1)), "got 1:00:00"),
        (lambda x: x.stream.group_by_key().windowed_by(JoinWindows.of("1 s")), "JoinWindows are for joins"),
        (lambda x: x.stream.group_by_key().windowed_by(TimeWindows), "got the class TimeWindows"),
        (lambda x: x.stream.group_by_key().windowed_by(TimeWindows.of), "got the function of, which was not called"),
        (lambda x: x.stream.filter("a > 1"), '"a > 1" is no function. Give one of the row, such as lambda key, value'),
    ],
)
def test_an_argument_of_another_kind_is_refused_where_it_is_given(make: Callable[[Any], object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make(_Tables())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: Materialized(history_retention="1 day"),
            r"timedelta here \(Materialized.versioned\(history_retention\)",
        ),
        (lambda: Materialized(segment_interval=5), "segment_interval takes a timedelta"),
        (lambda: Materialized.key_value("s").with_name(5), "name takes a text; got 5"),
        (lambda: Joined(grace="1 hour"), r"Join grace takes a timedelta here \(Joined.with_grace_period.* got .1 hour"),
        (lambda: Joined().with_name(5), "name takes a text; got 5"),
    ],
)
def test_stores_and_joins_take_values_of_their_kind(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()


def _sunk(tables: _Tables, sunk: KStream | KTable) -> Node:
    sunk.to_changelog("out")
    return tables.builder.build().node("out")


_WALL = Suppressed.until_wall_clock_time_limit("5 s", BufferConfig.unbounded())
_HISTORY = Materialized.versioned("1 day")
#: Of what the proposals leave open or give two readings of: the mode that is taken if none is given.
_DEFAULTS: list[tuple[Callable[[_Tables], Any], str, object]] = [
    # A record beyond grace, which is the history if not given, is dropped and counted.
    (lambda x: _HISTORY, "grace", None),
    (lambda x: _HISTORY, "late_policy", "drop"),
    (lambda x: _HISTORY, "time_scope", "partition"),
    (lambda x: _HISTORY, "time_resolution", Resolution.MICROSECOND),
    (lambda x: _HISTORY, "system_history", False),
    (lambda x: x.stream.group_by_key().windowed_by(_HOURS).count().node, "late_policy", "drop"),
    # A table has no versions and is not reordered.
    (lambda x: Materialized(), "history_retention", None),
    (lambda x: x.table.node, "reorder", None),
    (lambda x: x.stream.to_table().node, "reorder", None),
    # A join looks up at once, and what it said stands.
    (lambda x: x.stream.join(x.other).node.joined, "grace", None),
    (lambda x: x.stream.join(x.other).node.joined, "on_expired", "null"),
    (lambda x: x.stream.join(x.other).node.joined, "too_late", "join"),
    (lambda x: x.stream.join(x.other).node.joined, "correction_retention", None),
    (lambda x: x.table.join(x.other).node, "history", "latest"),
    (lambda x: x.table.left_join(x.other).node, "history", "latest"),
    (lambda x: x.table.outer_join(x.other).node, "history", "latest"),
    # A suppression counts from the first buffered update, by record time; no wall clock closes a window.
    (lambda x: _LIMIT, "timer", "first"),
    (lambda x: _LIMIT, "clock", "record"),
    (lambda x: _LIMIT, "size_of", "record"),
    (lambda x: _LIMIT, "retention_us", None),
    (lambda x: _FINAL, "size_of", "record"),
    (lambda x: _FINAL, "close_idle", False),
    (lambda x: _FINAL, "retention_us", None),
    (lambda x: _WALL, "size_of", "record"),
    (lambda x: _WALL, "retention_us", None),
    # A sink gets every change.
    (lambda x: _sunk(x, x.table), "emit", "every"),
    (lambda x: _sunk(x, x.stream), "emit", "every"),
    # Nodes and limits made by hand say the same.
    (lambda x: nodes.ChangelogSink("out", ()), "emit", "every"),
    (lambda x: nodes.TableTableJoin("j", (), "inner", _LEFT), "history", "latest"),
    (lambda x: nodes.StreamTableJoin("j", (), "inner", _LEFT), "joined", Joined(on_expired="null", too_late="join")),
    (lambda x: nodes.WindowedAggregate("w", (), _HOURS), "late_policy", "drop"),
    (lambda x: UntilTimeLimit(5, _LIMIT.buffer), "timer", "first"),
    (lambda x: UntilTimeLimit(5, _LIMIT.buffer), "clock", "record"),
    (lambda x: UntilTimeLimit(5, _LIMIT.buffer), "size_of", "record"),
]


@pytest.mark.rule("R171")
@pytest.mark.parametrize(("make", "field", "default"), _DEFAULTS)
def test_a_mode_that_is_not_given_is_the_documented_default(
    make: Callable[[_Tables], Any], field: str, default: object
) -> None:
    assert getattr(make(_Tables()), field) == default


def _counted(tables: _Tables, suppressed: Suppressed) -> KTable:
    return tables.stream.group_by_key().windowed_by(_HOURS).count().suppress(suppressed)


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (lambda x: x.stream.join(x.other), ["a", "g", "d"]),
        (lambda x: x.table.outer_join(x.other), ["c", "g", "d"]),
        (lambda x: x.stream.map_values("a").join(x.other), ["a", "d"]),
        (lambda x: x.table.group_by("g").count().join(x.other), ["count", "d"]),
        (lambda x: x.table.join(x.other).filter(lambda v: v.d > 1).left_join(x.stream.group_by_key().sum("a")), None),
        (lambda x: _counted(x, _LIMIT).join(x.hourly), ["count", "d"]),
        (lambda x: _counted(x, _FINAL).join(x.hourly), ["count", "d"]),
        (lambda x: _counted(x, replace(_FINAL, retention_us=5)).join(x.hourly), ["count", "closed_by", "d"]),
    ],
)
def test_without_a_joiner_the_result_has_all_fields_of_both(make: Any, fields: list[str] | None) -> None:
    joiner = make(_Tables()).node.joiner
    names = fields or ["c", "g", "d", "sum"]
    assert repr(joiner).startswith("{" + names[0])
    assert [part.split(":")[0] for part in repr(joiner)[1:-1].split(", ")] == names


@pytest.mark.rule("R117")
def test_whether_a_window_tells_who_closed_it_is_not_known_where_only_the_application_decides_it() -> None:
    tables = _Tables()
    may_close = _counted(tables, replace(_FINAL, close_idle=True))
    joined: Any = may_close.join(tables.hourly).node
    assert repr(joined.joiner) == "merge(left, {d: right.d})"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda x: x.stream.join(x.unknown), "merge({a: left.a, g: left.g}, right)"),
        (lambda x: x.unknown.outer_join(x.other), "merge(left, {d: right.d})"),
        (lambda x: x.unknown.join(x.unknown, merge), "merge(left, right)"),
        (lambda x: x.unknown.join(x.other, merge), "merge(left, {d: right.d})"),
        (
            lambda x: x.stream.join(x.other, lambda left, right: merge(right, left)),
            "{d: right.d, a: left.a, g: left.g}",
        ),
        (
            lambda x: x.unknown.join(x.other, lambda left, right: {"all": merge(left, right)}),
            "{all: merge(left, right)}",
        ),
    ],
)
def test_fields_that_the_plan_tells_are_written_out_so_that_a_missing_side_has_them(make: Any, told: str) -> None:
    assert repr(make(_Tables()).node.joiner) == told


def test_without_a_joiner_two_fields_of_one_name_are_refused() -> None:
    tables = _Tables()
    with pytest.raises(TopologyError, match=r"stream-s and t both have \['g'\]"):
        tables.stream.join(tables.table)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("g", "{g: value.g}"),
        (("g", "a"), "{g: value.g, a: value.a}"),
        (lambda value: value.a + 1, "{key: value.a + 1}"),
        (lambda value: {"x": value.a}, "{x: value.a}"),
        (lambda key, value: key, "key"),
    ],
)
def test_a_key_is_a_row_named_after_its_field_or_key(key: Any, told: str) -> None:
    node: Any = _Tables().stream.select_key(key).node
    assert repr(node.mapper) == told


def test_durations_are_text_or_timedelta() -> None:
    tables = _Tables()
    held: Any = tables.stream.to_table(reorder="5 minutes").node
    same: Any = tables.stream.to_table(reorder=timedelta(minutes=5)).node
    assert held.reorder == same.reorder


def test_late_records_go_to_the_side_if_the_windows_or_the_store_say_so() -> None:
    grouped = _Tables().stream.group_by("g")
    said: Any = grouped.windowed_by(_HOURS, late_policy="side_table").count(name="x").node
    stored: Any = grouped.windowed_by(_HOURS).count(materialized=Materialized(late_policy="side_table")).node
    assert (said.late_policy, stored.late_policy) == ("side_table", "side_table")


@pytest.mark.parametrize(
    ("emit", "kind"), [("every", nodes.ChangelogSink), ("net", nodes.ChangelogSink), (None, nodes.TableSink)]
)
def test_tables_end_in_a_changelog_or_in_their_latest_state(emit: Any, kind: type[Node]) -> None:
    tables = _Tables()
    if emit is None:
        tables.table.to_latest("out")
    else:
        tables.table.to_changelog("out", emit=emit)
    assert isinstance(tables.builder.build().node("out"), kind)


@pytest.mark.parametrize("made", ["table", "global_table"])
def test_the_table_of_a_topic_is_found_by_its_name_and_by_that_of_its_store(made: str) -> None:
    builder = StreamsBuilder()
    getattr(builder, made)("topic", Materialized.key_value("held"), name="named")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("topic", "k", "v", 0)
    assert [driver.stores[name].get("k") for name in ("named", "held")] == [(Row(value="v"), 0)] * 2


def test_a_topology_of_the_dsl_runs_in_the_driver() -> None:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key="user", value=("page",))
    clicks.filter(lambda value: value.page != "home").group_by("page").count().to_changelog("views")
    driver = TopologyTestDriver(builder.build())
    for ts, page in enumerate(["home", "buy", "buy", None]):
        driver.pipe_input("clicks", "u", {"page": page}, ts)
    told = [(record.key, record.value) for record in driver.read_output("views")]
    assert told == [(Row(page="buy"), Row(count=1)), (Row(page="buy"), Row(count=2))]


def test_a_node_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nobody"):
        StreamsBuilder().build().node("nobody")
