"""Which plans are refused, with rule and node."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from plan_tables import beside, other_table

from streams.expressions import Expr
from streams.grouped import KGroupedStream
from streams.nodes import (
    Aggregation,
    ForeignKeyJoin,
    GlobalTableSource,
    Joined,
    Materialized,
    StreamFilter,
    StreamGlobalTableJoin,
    StreamSource,
    StreamStreamJoin,
    StreamTableJoin,
    Suppress,
    TableFilter,
    TableSource,
    TableTableJoin,
    WindowedAggregate,
)
from streams.options import FOREVER
from streams.plan_checks import check_node, check_plan
from streams.plan_facts import windowed_ancestor
from streams.testing.trace_errors import build_case
from streams.topology import KGroupedTable, KStream, KTable, StreamsBuilder
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed, UntilTimeLimit
from suppress.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from versioned.durations import Resolution
from versioned.errors import ConfigurationError, TopologyError

_WEEK = Materialized.versioned("7 days")
_KV = Materialized.key_value()
_LIMIT = Suppressed.until_time_limit("5 s", BufferConfig.unbounded())
_FINAL = Suppressed.until_window_closes(BufferConfig.unbounded())
_HOURS = TimeWindows.of("1 hour").grace("10 minutes")
_WITHIN = JoinWindows.of("1 hour")
_LEFT = Expr("ref", "left")

Plan = Callable[[KTable], KTable]


def _same(value: Any) -> Any:
    return value


def _versioned() -> KTable:
    return StreamsBuilder().table("t", _WEEK)


def _any(given: object) -> Any:
    """What a type checker would refuse."""
    return given


def _joined(**options: Any) -> KTable:
    table = _versioned()
    return table.join(other_table(table), **options)


def _windowed_by(late_policy: str) -> object:
    return StreamsBuilder().stream("s").group_by_key().windowed_by(_HOURS, late_policy=_any(late_policy))


def _windowed(windows: Windows = _HOURS, materialized: Materialized | None = None) -> KTable:
    grouped = StreamsBuilder().stream("s").group_by_key()
    return grouped.windowed_by(windows).count(materialized=materialized, name="hourly")


def _by_windows(grouped: KGroupedStream) -> KTable:
    return grouped.windowed_by(TimeWindows.of("1 day")).count(name="twice")


@pytest.mark.parametrize(
    "grouped",
    [
        lambda stream: stream.group_by(lambda key, value: {"key": key.key}),
        lambda stream: stream.group_by(lambda key, value: {"hour": key.windowStart}),
        lambda stream: stream.select_key(lambda key, value: {"key": key.key}).group_by_key(),
        lambda stream: stream.group_by("count"),
    ],
)
def test_results_of_windows_are_put_into_windows_again_under_a_plain_key(
    grouped: Callable[[KStream], KGroupedStream],
) -> None:
    stream = _windowed().to_stream()
    assert windowed_ancestor(_by_windows(grouped(stream)).node) is not None


def test_whoever_puts_windows_into_windows_is_told_the_plain_key() -> None:
    with pytest.raises(TopologyError, match=r'windowStart and windowEnd already.* \{"key": key\.key\}'):
        _by_windows(_windowed().to_stream().group_by_key())


def _grace_join(table: KTable, grace: str) -> KStream:
    return beside(table).stream("s").join(table, joined=Joined.with_grace_period(grace, name="j"))


def _joined_with(joined: Joined) -> KStream:
    builder = StreamsBuilder()
    return builder.stream("s").join(builder.table("t", _WEEK), joined=joined)


#: What a function is that was forgotten.
_NOTHING: Any = None


def _expiring_join(on_expired: Any) -> KStream:
    builder = StreamsBuilder()
    joined = Joined(name="j").with_on_expired(on_expired)
    return builder.stream("s").join(builder.table("t", _KV), joined=joined)


def _stored_so(materialized: Materialized) -> KTable:
    return StreamsBuilder().table("t", materialized, name="t")


def _grouped_stream() -> KGroupedStream:
    return StreamsBuilder().stream("s").group_by_key()


def _grouped_table() -> KGroupedTable:
    return StreamsBuilder().table("t", _KV, value="v").group_by("v")


def _stored(windows: Windows, retention: timedelta) -> KTable:
    return _windowed(windows, Materialized().with_retention(retention))


_HOUR_AND_MORE = timedelta(hours=1, minutes=10)
_TICK = timedelta(microseconds=1)

_REFUSED: list[tuple[str, str, Callable[[], object]]] = [
    ("R139", "j", lambda: _expiring_join("drop")),
    ("R139", "j", lambda: _expiring_join("side_table")),
    ("versions", "t", lambda: _stored_so(_KV.with_late_policy("side_table"))),
    ("versions", "t", lambda: _stored_so(_KV.with_time_resolution(Resolution.MILLISECOND))),
    ("versions", "t", lambda: _stored_so(Materialized("kept", system_history=True))),
    ("versions", "hourly", lambda: _windowed(materialized=Materialized("kept", system_history=True))),
    ("functions", "f", lambda: _grouped_stream().reduce(_NOTHING, name="f")),
    ("functions", "f", lambda: _grouped_stream().windowed_by(_HOURS).reduce(_NOTHING, name="f")),
    ("functions", "f", lambda: _grouped_stream().aggregate(int, _NOTHING, name="f")),
    ("functions", "f", lambda: _grouped_stream().aggregate(_NOTHING, lambda key, value, total: total, name="f")),
    ("functions", "f", lambda: _grouped_table().reduce(_NOTHING, lambda total, value: total, name="f")),
    ("R163", "a", lambda: _grouped_table().reduce(lambda total, value: total, _NOTHING, name="a")),
    ("R163", "a", lambda: _grouped_table().aggregate(int, lambda key, value, total: total, _NOTHING, name="a")),
    ("R165", "s", lambda: _versioned().suppress(_LIMIT, name="s")),
    ("R165", "s", lambda: _versioned().filter(_same, materialized=_WEEK).suppress(_LIMIT, name="s")),
    ("R166", "s", lambda: _versioned().filter(_same).suppress(_LIMIT, name="s")),
    ("R166", "s", lambda: _versioned().filter(_same).map_values(_same).suppress(_LIMIT, name="s")),
    ("R165", "s", lambda: _complete_join(_versioned(), _WEEK).suppress(_LIMIT, name="s")),
    ("R165", "s", lambda: _complete_join(_versioned(), _WEEK, _KV).suppress(_LIMIT, name="s")),
    ("R165", "s", lambda: _complete_join(_versioned(), _WEEK, _WEEK).suppress(_LIMIT, name="s")),
    ("R166", "s", lambda: _complete_join(_versioned(), _WEEK).filter(_same).suppress(_LIMIT, name="s")),
    (
        "R166",
        "s",
        lambda: _complete_join(_versioned(), _WEEK).filter(_same, materialized=_KV).suppress(_LIMIT, name="s"),
    ),
    ("R170", "g", lambda: StreamsBuilder().global_table("g", _WEEK)),
    ("R51", "s", lambda: StreamsBuilder().table("t", _KV).suppress(_FINAL, name="s")),
    ("R51", "s", lambda: _windowed().group_by("count").count().suppress(_FINAL, name="s")),
    ("R54", "f", lambda: _windowed().suppress(_LIMIT, name="s").filter(_same).suppress(_FINAL, name="f")),
    ("R54", "f", lambda: _by_key_time().suppress(_FINAL, name="f")),
    ("R54", "f", lambda: _by_key_time().filter(_same).map_values(_same).suppress(_FINAL, name="f")),
    ("R9", "s", lambda: _windowed(UnlimitedWindows.of()).suppress(_FINAL, name="s")),
    ("R9", "s", lambda: _windowed(UnlimitedWindows.of().grace("1 s")).filter(_same).suppress(_FINAL, name="s")),
    ("R145", "j", lambda: _grace_join(StreamsBuilder().table("t", _KV), "1 s")),
    ("R145", "j", lambda: _grace_join(StreamsBuilder().table("t"), "0 s")),
    ("R145", "j", lambda: _grace_join(_versioned().filter(_same, materialized=_KV), "1 s")),
    ("R145", "j", lambda: _grace_join(_versioned().filter(_same), "8 days")),
    ("R145", "j", lambda: _joined_with(Joined(name="j", too_late="side_table"))),
    ("condition", "f", lambda: StreamsBuilder().stream("s").filter(lambda value: value.a + 1, name="f")),
    ("condition", "f", lambda: StreamsBuilder().table("t").filter_not(lambda value: None, name="f")),
    ("R14", "hourly", lambda: _stored(_HOURS, _HOUR_AND_MORE - _TICK)),
    ("R14", "hourly", lambda: _stored(SessionWindows.of("1 hour").grace("10 min"), _HOUR_AND_MORE - _TICK)),
    ("R14", "hourly", lambda: _stored(SlidingWindows(3_600_000_000), timedelta(hours=2) - _TICK)),
    ("window-store", "hourly", lambda: _windowed(materialized=_WEEK)),
    ("R150", "j", lambda: _complete_join(_versioned(), _KV)),
    ("R150", "j", lambda: _joined(history="complete", foreign_key="v", name="j")),
    ("unique-names", "sup", lambda: build_case("suppress_duplicate_names")),
    ("legal-names", "in/flights", lambda: StreamsBuilder().table("in/flights")),
    ("legal-names", "(empty)", lambda: StreamsBuilder().table("")),
    ("legal-names", "(empty)", lambda: StreamsBuilder().stream("s", name="")),
    ("legal-names", "(empty)", lambda: StreamsBuilder().table("t", name="")),
    ("legal-names", "(empty)", lambda: StreamsBuilder().global_table("t", name="")),
    *(
        ("legal-names", "t", lambda name=name: StreamsBuilder().table("t", Materialized(name=name), name="t"))
        for name in ("o/x", "../t", "/tmp/t", ".", "..", "", "a b", "straße", "x" * 201)
    ),
    *(("legal-names", "j", lambda name=name: _join_called(name)) for name in ("", "../t")),
    ("legal-names", "..", lambda: StreamsBuilder().table("..")),
    ("nested-windows", "twice", lambda: _by_windows(_windowed().to_stream().group_by_key())),
    (
        "nested-windows",
        "twice",
        lambda: _by_windows(_windowed().filter(_same).to_stream().group_by_key()),
    ),
    ("nested-windows", "twice", lambda: _by_windows(_windowed().to_stream().group_by(lambda key, value: key))),
    (
        "nested-windows",
        "twice",
        lambda: _by_windows(StreamsBuilder().stream("s", key=("k", "windowend")).group_by_key()),
    ),
    ("R169", "t", lambda: StreamsBuilder().table("t", reorder="-1 s")),
    ("one-builder", "j", lambda: _versioned().join(_versioned(), name="j")),
    ("session-merger", "a", lambda: _sessions().aggregate(int, lambda key, value, total: total, name="a")),
    ("session-merger", "a", lambda: _merging(StreamsBuilder().stream("s").group_by_key())),
    (
        "session-merger",
        "a",
        lambda: _merging(StreamsBuilder().stream("s").group_by_key().windowed_by(TimeWindows.of("1 s"))),
    ),
]


def _join_called(name: str) -> KStream:
    builder = StreamsBuilder()
    return builder.stream("s").join(builder.table("t"), name="j", joined=Joined.with_name(name))


def _by_key_time() -> KTable:
    return _windowed(materialized=Materialized(time_scope="key"))


def _complete_join(table: KTable, other: Materialized, stored: Materialized | None = None) -> KTable:
    right = table.filter(_same, materialized=other)
    return table.join(right, history="complete", materialized=stored, name="j")


def _merging(grouped: Any) -> KTable:
    fold = lambda key, value, total: total  # noqa: E731
    made: KTable = grouped.aggregate(int, fold, merger=fold, name="a")
    return made


def _sessions() -> Any:
    return StreamsBuilder().stream("s").group_by_key().windowed_by(SessionWindows.of("1 s"))


@pytest.mark.rule("R9", "R14", "R51", "R54", "R145", "R150", "R163", "R165", "R166", "R169", "R170")
@pytest.mark.parametrize(("rule", "node", "make"), _REFUSED)
def test_a_plan_that_can_never_work_is_refused_with_its_rule_and_node(
    rule: str, node: str, make: Callable[[], object]
) -> None:
    with pytest.raises(TopologyError) as caught:
        make()
    assert (caught.value.rule, caught.value.node) == (rule, node)


@pytest.mark.rule("R51")
def test_final_results_of_joined_windows_are_refused_with_the_names_of_the_sides() -> None:
    stream = StreamsBuilder().stream("s").group_by_key().windowed_by(_HOURS)
    left, right = (stream.count(output=side, name=side) for side in ("left", "right"))
    with pytest.raises(TopologyError, match="those of left and right joined"):
        left.join(right).filter(_same).suppress(_FINAL)


@pytest.mark.rule("R14", "R20", "R21")
@pytest.mark.parametrize(
    "make",
    [
        lambda: _stored(_HOURS, _HOUR_AND_MORE),
        lambda: _stored(SessionWindows.of("1 hour").grace("10 min"), _HOUR_AND_MORE),
        lambda: _stored(SlidingWindows(3_600_000_000), timedelta(hours=2)),
        lambda: _stored(UnlimitedWindows.of(), timedelta(0)),
        lambda: _stored(_HOURS, FOREVER),
        lambda: _windowed(TimeWindows.of("30 days")),
    ],
)
def test_a_retention_of_just_the_size_and_grace_is_accepted(make: Callable[[], object]) -> None:
    assert make() is not None


@pytest.mark.rule("R14")
@pytest.mark.parametrize(
    ("windows", "told"),
    [
        (_HOURS, "size 1 hour + grace 10 minutes"),
        (SessionWindows.of("1 hour").grace("10 minutes"), "gap 1 hour + grace 10 minutes"),
        (
            SlidingWindows.of_time_difference_and_grace("1 hour", "10 minutes"),
            "twice the difference 1 hour + grace 10 minutes",
        ),
    ],
)
def test_the_refused_retention_is_named_beside_size_and_grace(windows: Windows, told: str) -> None:
    with pytest.raises(TopologyError, match=rf"a retention of 59 minutes is shorter than {re.escape(told)}: "):
        _stored(windows, timedelta(minutes=59))


@pytest.mark.rule("R54")
def test_final_results_of_windows_with_a_stream_time_per_key_are_refused_with_what_to_do_instead() -> None:
    with pytest.raises(TopologyError, match=r'time_scope="partition" or "store", or Suppressed\.until_time_limit'):
        _by_key_time().suppress(_FINAL)


@pytest.mark.parametrize("scope", ["partition", "store", "key"])
def test_a_time_limit_works_behind_windows_of_any_stream_time(scope: Any) -> None:
    assert _windowed(materialized=Materialized(time_scope=scope)).suppress(_LIMIT, name="s").node.name == "s"


@pytest.mark.rule("R145")
def test_a_join_grace_as_long_as_the_history_is_accepted() -> None:
    assert _grace_join(_versioned(), "7 days").node.name == "j"


@pytest.mark.rule("R170")
def test_the_refused_global_table_says_why() -> None:
    with pytest.raises(TopologyError, match="not synchronised in time"):
        StreamsBuilder().global_table("g", _WEEK)


@pytest.mark.rule("R18")
@pytest.mark.parametrize("store", [_KV, _WEEK], ids=["key-value", "versioned"])
def test_retention_of_any_other_store_than_one_of_windows_is_ignored_with_a_note(
    store: Materialized, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="streams.plan_checks"):
        StreamsBuilder().table("t", store.with_retention("1 hour"))
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "ignored" in caplog.text


@pytest.mark.rule("R157")
@pytest.mark.parametrize(
    ("other", "stored", "warnings"), [(_KV, _WEEK, ["WARNING"]), (_WEEK, _WEEK, []), (_KV, _KV, []), (_KV, None, [])]
)
@pytest.mark.parametrize("foreign_key", [None, "v"])
def test_a_join_of_mixed_sides_that_is_stored_with_versions_warns(
    other: Materialized,
    stored: Materialized | None,
    warnings: list[str],
    foreign_key: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = _versioned()
    with caplog.at_level(logging.WARNING, logger="streams.plan_checks"):
        table.join(other_table(table, materialized=other), foreign_key=foreign_key, materialized=stored)
    assert [record.levelname for record in caplog.records] == warnings


@pytest.mark.rule("R147")
@pytest.mark.parametrize(
    ("join", "warnings"),
    [
        (lambda table, other: table.join(table), 1),
        (lambda table, other: table.join(table.filter(lambda value: value.v > 1)), 1),
        (lambda table, other: table.map_values(lambda value: {"v": value.v}).left_join(table), 1),
        (lambda table, other: table.join(table.filter(lambda value: value.v > 1, materialized=_KV)), 1),
        (lambda table, other: table.join(table, history="complete", materialized=_WEEK), 0),
        (lambda table, other: table.join(table, foreign_key="v"), 0),
        (lambda table, other: table.join(other), 0),
    ],
    ids=["itself", "its filter", "its mapper", "stored", "complete", "foreign key", "another"],
)
def test_a_join_that_has_one_table_on_both_sides_warns(
    join: Callable[[KTable, KTable], KTable], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    table = _versioned()
    other = other_table(table, materialized=_WEEK)
    with caplog.at_level(logging.WARNING, logger="streams.plan_checks"):
        join(table, other)
    assert ["on both sides" in record.message for record in caplog.records] == [True] * warnings


def test_a_plan_is_warned_of_once_however_often_it_is_built(caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    table = builder.table("t", _KV)
    with caplog.at_level(logging.INFO, logger="streams.plan_checks"):
        table.join(table.filter(_same), materialized=_KV.with_retention("1 hour"), name="j")
        builder.build()
        builder.build()
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


@pytest.mark.rule("R19")
@pytest.mark.parametrize(
    ("store", "days"),
    [(Materialized.window_store("w", "2 days"), 2), (Materialized("w", retention=timedelta(days=2)), 3)],
    ids=["a ready store keeps its own", "any other follows"],
)
def test_the_retention_given_to_a_store_is_that_of_its_windows_unless_it_is_ready(
    store: Materialized, days: int
) -> None:
    node: Any = _windowed(materialized=store.with_retention("3 days")).node
    assert node.materialized.retention == timedelta(days=days)


@pytest.mark.rule("R19")
def test_the_retention_that_a_ready_store_does_not_follow_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        Materialized.window_store("hourly", "2 days").with_retention("3 days")
    told = [(record.levelname, record.message) for record in caplog.records]
    assert told == [("INFO", "hourly: retention 3 days is ignored; the store keeps its own, 2 days, 0:00:00")]


@pytest.mark.rule("R16")
@pytest.mark.parametrize(
    ("made", "retention"),
    [
        (Materialized(retention=timedelta(days=2)), timedelta(days=2)),
        (Materialized().with_retention("2 days"), timedelta(days=2)),
        (Joined(retention=timedelta(days=2)), timedelta(days=2)),
        (Joined().with_retention("2 days"), timedelta(days=2)),
        pytest.param(Materialized().with_retention(None), FOREVER, marks=pytest.mark.rule("R21")),
        pytest.param(Materialized.window_store("w", None), FOREVER, marks=pytest.mark.rule("R21")),
    ],
)
def test_retention_is_set_on_the_store_or_the_join_and_that_of_a_store_may_be_for_ever(
    made: Materialized | Joined, retention: timedelta
) -> None:
    assert made.retention == retention


@pytest.mark.rule("R186")
@pytest.mark.parametrize(
    "make",
    [
        lambda: Materialized.versioned("-1 ms"),
        lambda: Materialized.versioned("1 day", grace="-1 ms"),
        lambda: Materialized.versioned("1 day", grace="2 days"),
        lambda: Materialized(grace=timedelta(0)),
        lambda: Materialized().with_retention("-1 ms"),
        lambda: Joined.with_grace_period("-1 ms"),
        lambda: Joined().with_retention("-1 ms"),
        lambda: Joined().with_corrections("-1 ms"),
    ],
)
def test_a_store_or_join_with_impossible_durations_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.rule("R186")
@pytest.mark.parametrize(
    ("interval", "told"),
    [("0 ms", "0"), ("-1 ms", "-1 millisecond"), (timedelta(microseconds=999), "999 microseconds")],
)
def test_a_segment_interval_below_a_millisecond_is_refused_with_its_length(interval: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"segment_interval .* got {told}\b"):
        Materialized.versioned("1 day", segment_interval=interval)


@pytest.mark.parametrize(
    ("told", "make"),
    [
        ('time_scope must be partition, store or key; got "keys"', lambda: Materialized(time_scope=_any("keys"))),
        ('time_scope must be .* got "keys"', lambda: Materialized.versioned("1 day", time_scope=_any("keys"))),
        ('time_scope must be .* got "topic"', lambda: _WEEK.with_time_scope(_any("topic"))),
        ("time_resolution must be .* got 'ms'", lambda: _WEEK.with_time_resolution(_any("ms"))),
        (
            'late_policy must be drop or side_table; got "side-table"',
            lambda: _WEEK.with_late_policy(_any("side-table")),
        ),
        (
            'on_expired must be null, drop or side_table; got "side-table"',
            lambda: Joined(on_expired=_any("side-table")),
        ),
        ("on_expired must be .* got None", lambda: Joined().with_on_expired(_any(None))),
        ('too_late must be join or side_table; got "xx"', lambda: Joined().with_too_late(_any("xx"))),
        ('history must be latest or complete; got "Complete"', lambda: _joined(history="Complete")),
        ('history must be .* got "Complete"', lambda: _joined(history="Complete", foreign_key="v")),
        ('history must be .* got "all"', lambda: TableTableJoin("j", (), "inner", _LEFT, history=_any("all"))),
        ('late_policy must be .* got "keep"', lambda: _windowed_by("keep")),
        ('late_policy must be .* got "keep"', lambda: WindowedAggregate("w", (), _HOURS, late_policy=_any("keep"))),
        ('emit must be every or net; got "all"', lambda: _versioned().to_changelog("c", emit=_any("all"))),
        ('emit must be .* got "all"', lambda: StreamsBuilder().stream("s").to_changelog("c", emit=_any("all"))),
        ('kind must be inner, left or outer; got "full"', lambda: StreamTableJoin("j", (), _any("full"), _LEFT)),
        ('kind must be .* got "full"', lambda: StreamGlobalTableJoin("j", (), _any("full"), _LEFT, _LEFT)),
        ('kind must be .* got "full"', lambda: StreamStreamJoin("j", (), _any("full"), _WITHIN, _LEFT)),
        ('kind must be .* got "full"', lambda: TableTableJoin("j", (), _any("full"), _LEFT)),
        ('kind must be .* got "full"', lambda: ForeignKeyJoin("j", (), _any("full"), _LEFT, _LEFT)),
        ('kind must be count, .* or aggregate; got "mean"', lambda: Aggregation(_any("mean"))),
    ],
)
def test_a_word_that_an_option_does_not_take_is_refused_where_it_is_given(
    told: str, make: Callable[[], object]
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()


@pytest.mark.rule("R186")
@pytest.mark.parametrize("grace", ["0 s", "1 day"])
def test_a_grace_from_zero_to_the_history_is_accepted(grace: str) -> None:
    assert Materialized.versioned("1 day", grace=grace).is_versioned


_STREAM = StreamSource("s", topic="s")
_TABLE = TableSource("t", topic="t")


@pytest.mark.parametrize(
    ("rule", "node"),
    [
        ("join-kind", StreamTableJoin("j", (_STREAM, _TABLE), "outer", _LEFT)),
        ("join-kind", ForeignKeyJoin("j", (_TABLE, _TABLE), "outer", Expr("ref", "value"), _LEFT)),
        ("global-table", StreamGlobalTableJoin("j", (_STREAM, _TABLE), "inner", Expr("ref", "key"), _LEFT)),
        pytest.param("R170", GlobalTableSource("g", topic="g", materialized=_WEEK), marks=pytest.mark.rule("R170")),
        ("corrections", StreamTableJoin("j", (_STREAM, _TABLE), "inner", _LEFT, Joined().with_corrections("1 s"))),
        ("R30", Suppress("s", (_TABLE,), UntilTimeLimit(1, BufferConfig.unbounded(), clock="window_start"))),
    ],
)
def test_plans_made_by_hand_are_checked_as_well(rule: str, node: Any) -> None:
    with pytest.raises(TopologyError) as caught:
        check_node(node)
    assert caught.value.rule == rule


def test_a_parent_must_come_before_its_children() -> None:
    with pytest.raises(TopologyError, match="not part of this plan"):
        check_plan([StreamFilter("f", (_STREAM,), Expr("lit", True)), _STREAM])


def test_a_store_may_not_have_the_name_of_another_node() -> None:
    first = TableSource("t", topic="t", materialized=Materialized.key_value("shared"))
    with pytest.raises(TopologyError, match='the name "shared" is already that of the TableSource t'):
        check_plan([first, TableFilter("shared", (first,), Expr("lit", True))])
