"""What follows from a node's ancestors: versions, history, the windows of keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from plan_tables import other_table

from streams.functions import python_function
from streams.nodes import Materialized, StreamSource, TableAggregate, WindowedAggregate
from streams.options import FOREVER
from streams.plan_facts import (
    history_retention_of,
    is_versioned,
    least_retention_us,
    taken_of_rows,
    window_retention_us,
    windowed_ancestor,
)
from streams.topology import KTable, StreamsBuilder
from streams.user_functions import failing_by_name
from suppress.buffer_config import BufferConfig
from suppress.suppressed import Suppressed
from suppress.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

_WEEK = Materialized.versioned("7 days")
_KV = Materialized.key_value()
_LIMIT = Suppressed.until_time_limit("5 s", BufferConfig.unbounded())

Plan = Callable[[KTable], KTable]


def _same(value: Any) -> Any:
    return value


def _versioned() -> KTable:
    return StreamsBuilder().table("t", _WEEK)


_KEPT: list[tuple[str, Plan]] = [
    ("itself", lambda t: t),
    ("filter", lambda t: t.filter(lambda value: value.v > 1)),
    ("filter_not", lambda t: t.filter_not(lambda value: value.v > 1)),
    ("map_values", lambda t: t.map_values(_same)),
    ("transform_values", lambda t: t.transform_values(lambda key, value: value.v, "bigint")),
    ("several views", lambda t: t.filter(_same).map_values(_same).filter(_same)),
]
_LOST: list[tuple[str, Plan]] = [
    ("filter stored unversioned", lambda t: t.filter(lambda value: value.v > 1, materialized=_KV)),
    ("view of one stored unversioned", lambda t: t.map_values(_same, materialized=_KV).filter(_same)),
    ("to stream and back", lambda t: t.to_stream().to_table()),
    ("aggregate", lambda t: t.group_by("v").count()),
    ("aggregate of its changes", lambda t: t.to_stream().group_by_key().count()),
    ("windows of its changes", lambda t: t.to_stream().group_by_key().windowed_by(TimeWindows.of("1 hour")).count()),
    ("primary-key join", lambda t: t.join(other_table(t))),
    ("left join", lambda t: t.left_join(other_table(t))),
    ("outer join", lambda t: t.outer_join(other_table(t))),
    ("foreign-key join", lambda t: t.join(other_table(t), foreign_key="v")),
    ("join of mixed sides", lambda t: t.join(other_table(t, materialized=_KV))),
    ("join of mixed sides, the other way", lambda t: other_table(t, materialized=_KV).join(t)),
]
_REGAINED: list[tuple[str, Plan]] = [
    ("to_table", lambda t: t.to_stream().to_table(_WEEK)),
    ("aggregate", lambda t: t.group_by("v").count(materialized=_WEEK)),
    ("primary-key join", lambda t: t.join(other_table(t), materialized=_WEEK)),
    ("foreign-key join", lambda t: t.join(other_table(t), foreign_key="v", materialized=_WEEK)),
    ("filter of an unversioned one", lambda t: t.map_values(_same, materialized=_KV).filter(_same, materialized=_WEEK)),
    ("view of a regained one", lambda t: t.to_stream().to_table(_WEEK).filter(lambda value: value.v > 1)),
]


def _ids(plans: list[tuple[str, Plan]]) -> list[str]:
    return [name for name, _ in plans]


@pytest.mark.rule("R128", "R136")
@pytest.mark.parametrize(("name", "plan"), _KEPT, ids=_ids(_KEPT))
def test_a_view_of_a_versioned_table_is_versioned(name: str, plan: Plan) -> None:
    assert plan(_versioned()).is_versioned


@pytest.mark.rule("R129", "R130", "R131", "R132", "R133")
@pytest.mark.parametrize(("name", "plan"), _LOST, ids=_ids(_LOST))
def test_a_stateful_step_or_an_unversioned_store_ends_it(name: str, plan: Plan) -> None:
    assert not plan(_versioned()).is_versioned


@pytest.mark.rule("R134", "R136")
@pytest.mark.parametrize(("name", "plan"), _REGAINED, ids=_ids(_REGAINED))
def test_a_versioned_store_makes_a_table_versioned_again(name: str, plan: Plan) -> None:
    assert plan(_versioned()).is_versioned


@pytest.mark.rule("R135")
@pytest.mark.parametrize("materialized", [None, _KV, Materialized.key_value("named")])
def test_a_table_is_unversioned_by_default(materialized: Materialized | None) -> None:
    assert not StreamsBuilder().table("t", materialized).is_versioned


@pytest.mark.rule("R137")
def test_what_follows_changes_nothing() -> None:
    table = _versioned()
    view = table.filter(lambda value: value.v > 1)
    before = view.is_versioned
    view.map_values(_same, materialized=_KV).group_by("v").count()
    assert view.is_versioned is before


@pytest.mark.rule("R145")
def test_the_history_of_a_view_is_that_of_the_table_below() -> None:
    assert history_retention_of(_versioned().filter(_same).map_values(_same).node) == timedelta(days=7)


def _windowed() -> KTable:
    return StreamsBuilder().stream("s").group_by_key().windowed_by(TimeWindows.of("1 hour")).count(name="hourly")


@pytest.mark.parametrize(
    "plan",
    [_same, lambda t: t.filter(_same), lambda t: t.map_values(_same), lambda t: t.suppress(_LIMIT).filter(_same)],
)
def test_views_and_suppressions_keep_the_windows_of_the_keys(plan: Plan) -> None:
    source = windowed_ancestor(plan(_windowed()).node)
    assert source is not None
    assert source.name == "hourly"


@pytest.mark.parametrize(
    "plan",
    [
        lambda t: t.group_by("count").count(),
        lambda t: t.join(t.map_values(_same), _same),
        lambda t: t.to_stream().to_table(),
    ],
)
def test_other_operations_lose_the_windows(plan: Plan) -> None:
    assert windowed_ancestor(plan(_windowed()).node) is None


@pytest.mark.rule("R14")
@pytest.mark.parametrize(
    ("windows", "least_us"),
    [
        (TimeWindows(5, 5, 2), 7),
        (TimeWindows(5, 1, 2), 7),
        (SessionWindows(5, 2), 7),
        (SlidingWindows(5, 2), 12),
        (UnlimitedWindows(), None),
    ],
)
def test_windows_must_be_kept_for_their_size_and_grace(windows: Windows, least_us: int | None) -> None:
    assert least_retention_us(windows) == least_us


@pytest.mark.rule("R20")
@pytest.mark.parametrize(
    ("windows", "retention", "kept"),
    [
        (TimeWindows.of("1 hour"), None, timedelta(days=1)),
        (TimeWindows.of("1 hour").grace("2 days"), None, timedelta(days=2, hours=1)),
        (UnlimitedWindows(), None, timedelta(days=1)),
        (TimeWindows.of("1 hour"), timedelta(hours=3), timedelta(hours=3)),
        pytest.param(TimeWindows.of("1 hour"), FOREVER, FOREVER, marks=pytest.mark.rule("R21")),
    ],
    ids=["a day by default", "while it can change", "unlimited", "as stated", "for ever"],
)
def test_a_window_is_kept_for_the_stated_time_or_a_day(
    windows: Windows, retention: timedelta | None, kept: timedelta
) -> None:
    grouped = StreamsBuilder().stream("s").group_by_key()
    node = grouped.windowed_by(windows).count(materialized=Materialized(retention=retention)).node
    assert isinstance(node, WindowedAggregate)
    assert window_retention_us(node) == kept // timedelta(microseconds=1)


@pytest.mark.rule("R128")
def test_streams_are_never_versioned() -> None:
    assert not is_versioned(StreamSource("s", topic="s"))


def _taken(plan: Plan) -> str:
    node = plan(StreamsBuilder().table("t", _KV)).node
    assert isinstance(node, TableAggregate)
    return taken_of_rows(node)


def _sum(table: KTable, times: int = 1) -> KTable:
    return table.group_by(lambda value: value.g).sum(lambda value: value.v * times)


def _above(table: KTable, least: int, materialized: Materialized | None = None) -> KTable:
    return table.filter(lambda value: value.v > least, materialized=materialized)


def _doubled(value: Any) -> Any:
    return value


_TAKEN: list[tuple[str, Plan, Plan, bool]] = [
    ("the same plan", _sum, _sum, True),
    ("another expression", _sum, lambda t: _sum(t, 10), False),
    ("another group", _sum, lambda t: t.group_by(lambda value: value.h).sum(lambda value: value.v * 1), False),
    ("a filter before it", _sum, lambda t: _sum(_above(t, 0)), False),
    ("another filter", lambda t: _sum(_above(t, 6)), lambda t: _sum(_above(t, 0)), False),
    ("a mapper", _sum, lambda t: _sum(t.map_values(lambda value: {"g": value.g, "v": value.v})), False),
    ("behind a store", lambda t: _sum(_above(t, 6, _KV)), lambda t: _sum(_above(t, 0, _KV)), True),
    ("behind a join", lambda t: _sum(_above(t, 6).join(t)), lambda t: _sum(_above(t, 0).join(t)), True),
]


@pytest.mark.parametrize(("former", "now", "is_same"), [case[1:] for case in _TAKEN], ids=[case[0] for case in _TAKEN])
def test_what_an_aggregate_takes_of_a_row_is_its_expressions_and_the_views_before_it(
    former: Plan, now: Plan, is_same: bool
) -> None:
    assert (_taken(former) == _taken(now)) is is_same


def _through(function: Callable[..., Any], *, is_wrapped: bool = False) -> str:
    total = python_function(function, "LONG")
    table = StreamsBuilder().table("t", _KV)
    node = table.group_by(lambda key: key).sum(lambda value: total(value.v), output="n").node
    assert isinstance(node, TableAggregate)
    return taken_of_rows(failing_by_name(node, lambda _: _same) if is_wrapped else node)


def test_a_function_of_python_is_told_by_its_name_and_neither_by_its_address_nor_by_what_calls_it() -> None:
    def _same(value: Any) -> Any:  # another one of that name
        return None

    before = _through(globals()["_same"])
    assert [_through(_same), _through(_same, is_wrapped=True)] == [before, before]
    assert _through(_doubled) != before


def test_tables_that_tell_what_an_aggregate_took_are_gone_on_from_by_later_versions_of_the_library() -> None:
    told = _taken(lambda table: _sum(_above(table.map_values(lambda value: {"g": value.g, "v": value.v}), 1), 2))
    assert told == "7abfe35ca62d58eb447541ea777e45de496d13df7433f3dc359ba4d3a9f65fa4"
